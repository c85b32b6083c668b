"""Hard arcs that pin some variables, a factor graph given them: mu* = mu(R) p(rest | R), without optimising."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, CapabilityError, SizeError, SoftmaxTable, Variable, inconsistency
from dissonance.problem import prepare
from dissonance.solvers import Given
from reference import dense

inf = math.inf
X, W = Variable("X", 4), Variable("W", 2)
Y, Z = Variable("Y", 3), Variable("Z", 2)
RNG = np.random.default_rng(1)
D, DW = RNG.dirichlet(np.ones(4)), RNG.dirichlet(np.ones(2), size=4)
PZ, PYZ = RNG.dirichlet(np.ones(2)), RNG.dirichlet(np.ones(3), size=2)
PXY, PWZ = RNG.dirichlet(np.ones(4), size=3), RNG.dirichlet(np.ones(2), size=2)


def pdg() -> PDG:
    return PDG(
        Arc("z", (), Z, SoftmaxTable(PZ)),
        Arc("d", (), X, SoftmaxTable(D)),
        Arc("y|z", Z, Y, SoftmaxTable(PYZ)),
        Arc("x|y", Y, X, SoftmaxTable(PXY)),
        Arc("w|x", X, W, SoftmaxTable(DW)),
        Arc("w|z", Z, W, SoftmaxTable(PWZ)),
        Arc("w", (), W, SoftmaxTable([0.3, 0.7])),
    )


def attention(gamma: float = 1.0, **more: float) -> Attention:
    alpha = {"z": 1.0, "y|z": 1.0, "x|y": 1.0, "w|z": 0.5}
    beta = {"d": inf, "w|x": inf, **{n: gamma * a for n, a in alpha.items()}}
    return Attention.only({**beta, **more}, {**alpha, "w|x": 0.3, "w": 0.2}, gamma)


def exact(gamma: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """mu* over X, W, Z, Y and Z(x, w) by enumeration."""
    joint = np.einsum("z,zy,yx,zw->xwzy", PZ, PYZ, PXY, PWZ**0.5)
    evidence = joint.sum((2, 3))
    return joint / evidence[:, :, None, None] * (D[:, None] * DW)[:, :, None, None], evidence


@pytest.mark.parametrize("gamma", [1.0, 0.3])
@pytest.mark.parametrize("weight", [0.0, 1.7, -0.4])
def test_mu_is_the_pinned_marginal_times_the_posterior_given_it(gamma: float, weight: float):
    phi = attention(gamma, w=weight)
    result = inconsistency(pdg(), phi)
    assert result.solver == "given" and result.converged
    mu, evidence = exact(gamma)
    np.testing.assert_allclose(result.mu.marginal("X", "W", "Z", "Y"), mu, atol=1e-14)
    np.testing.assert_allclose(result.answers[0].evidence, np.log(evidence), atol=1e-13)
    order = [v.name for v in pdg().variables]
    soft = phi.replace(beta={"d": 0.0, "w|x": 0.0})
    expected = dense.incompatibility(pdg(), soft, mu.transpose(["XWZY".index(n) for n in order]), slack=1e-15)
    assert result.lower - 1e-13 <= expected <= result.upper + 1e-13


@pytest.mark.parametrize("gamma", [1.0, 0.3])
def test_the_interior_point_agrees(gamma: float):
    direct, newton = (inconsistency(pdg(), attention(gamma, w=1.0), solver=s) for s in ("auto", "newton"))
    assert direct.solver == "given" and max(direct.lower, newton.lower) <= min(direct.upper, newton.upper)


def test_the_gradient_reaches_soft_and_hard_arcs():
    made = pdg()
    inconsistency(made, attention(w=1.0)).value.backward()
    step = 1e-6
    for name in ("z", "x|y", "w|z", "d", "w|x", "w"):
        logits = made[name].cpd.logits
        for i in (0, logits.numel() - 1):
            ends = []
            for sign in (1, -1):
                moved = pdg()
                with torch.no_grad():
                    moved[name].cpd.logits.view(-1)[i] += sign * step
                ends.append(inconsistency(moved, attention(w=1.0)).upper)
            assert float(logits.grad.view(-1)[i]) == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-8)


def test_states_without_mass_cost_nothing_and_stay_empty():
    made = pdg().replace(
        Arc("d", (), X, [0.5, 0.0, 0.5, 0.0]),
        Arc("x|y", Y, X, [[0.6, 0.0, 0.4, 0.0], [0.2, 0.3, 0.5, 0.0], [0, 0, 1, 0]]),
    )
    result = inconsistency(made, attention(w=1.0))
    assert result.solver == "given" and math.isfinite(result.upper)
    np.testing.assert_allclose(result.mu.marginal("X"), [0.5, 0, 0.5, 0], atol=1e-15)
    checked = inconsistency(made, attention(w=1.0), solver="newton")
    assert max(result.lower, checked.lower) <= min(result.upper, checked.upper)


def test_an_impossible_state_is_infinite_and_named():
    made = pdg().replace(Arc("x|y", Y, X, [[0.6, 0.0, 0.4, 0.0], [0.5, 0.0, 0.5, 0.0], [0, 0, 1, 0]]))
    result = inconsistency(made, attention())
    assert result.lower == result.upper == inf
    assert (result.answers[0].evidence == -inf).all(1).tolist() == [False, True, False, True]


def test_a_second_hard_belief_is_a_check():
    agreeing = pdg() + Arc("again", (), W, D @ DW)
    clashing = pdg() + Arc("again", (), W, [0.5, 0.5])
    assert inconsistency(agreeing, attention(again=inf)).solver == "given"
    assert inconsistency(clashing, attention(again=inf)).upper == inf


@pytest.mark.parametrize(
    "phi",
    [
        attention(gamma=0.0, z=1.0, **{"w|z": 1.0}),
        attention(z=2.0, w=1.0),
        Attention.only({"x|y": inf, "z": 1.0, "y|z": 1.0}, {"z": 1.0, "y|z": 1.0}, 1.0),
        Attention.only(
            {"d": inf, "w": inf, "z": 1.0, "w|z": 1.0, "x|y": 1.0, "y|z": 1.0},
            dict.fromkeys(("z", "w|z", "x|y", "y|z"), 1.0),
            1.0,
        ),
    ],
    ids=["gamma = 0", "beta > gamma alpha", "hard arc with a free source", "two hard marginals"],
)
def test_what_it_cannot_take_it_refuses(phi: Attention):
    with pytest.raises(CapabilityError, match="the given solver needs gamma > 0, hard arcs"):
        inconsistency(pdg(), phi, solver="given")
    assert inconsistency(pdg(), phi).solver in {"newton", "sum-product", "concave-convex"}


def test_what_would_not_fit_is_refused_before_anything_is_allocated():
    (component,) = prepare(pdg(), attention()).parts
    assert not Given(budget=100).fits(component)
    with pytest.raises(SizeError, match="the budget is"):
        Given(budget=100).solve(component)
