"""Non-convex attention: a local minimum, attained, and a lower bound on the global one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    DissonanceError,
    SoftmaxTable,
    Variable,
    incompatibility,
    inconsistency,
)
from dissonance.distributions import Joint
from dissonance.solvers import ConcaveConvex
from dissonance.solvers.concave_convex import LocalMinimum, lowest
from strategies import MIXED, Style, random_case

inf = math.inf
X, Y = Variable("X", 2), Variable("Y", 2)


def line(pdg: PDG, attention: Attention, points: int = 1001) -> float:
    """The smallest incompatibility on a fine grid over one binary variable."""
    best = inf
    for t in np.linspace(0, 1, points):
        best = min(best, float(incompatibility(Joint([X], [t, 1 - t]), pdg, attention)))
    return best


@pytest.mark.parametrize(
    "attention",
    [
        Attention.only({"p": 1.0, "q": -2.0}),
        Attention.only({"p": 1.5, "q": -1.6}),
        Attention.only({"p": 0.5, "q": 0.2}, {"p": 1.0, "q": 1.0}, 1.0),
        Attention.only({"p": -1.0, "q": -1.0}, {}, 0.5),
    ],
)
def test_one_variable_by_brute_force(attention: Attention):
    pdg = PDG(Arc("p", (), X, [0.3, 0.7]), Arc("q", (), X, [0.6, 0.4]))
    result = inconsistency(pdg, attention)
    assert result.solver == "concave-convex"
    exact = line(pdg, attention)
    assert exact - 1e-4 <= result.upper <= exact + 1e-6  # the grid is coarse, and above the infimum


def test_of_equally_low_minima_it_is_the_one_with_more_mass_in_the_first_cell():
    """H(X) + log 2 is least at both corners."""
    pdg = PDG(Arc("p", (), X, [0.5, 0.5]))
    for seed in range(5):
        found = inconsistency(pdg, Attention.only({"p": 1.0}, {"p": 3.0}, 1.0), solver=ConcaveConvex(seed=seed))
        assert found.upper == pytest.approx(math.log(2), abs=1e-6)
        assert found.mu.marginal("X").tolist() == pytest.approx([1.0, 0.0], abs=1e-6)


def test_rounding_does_not_choose_among_minima():
    first, second, none = np.array([0.7, 0.3]), np.array([0.3, 0.7]), np.zeros(0)
    for off in (-1e-9, 0.0, 1e-9):
        minima = [LocalMinimum(1.0, second, none), LocalMinimum(1.0 + off, first, none)]
        assert lowest(minima).mu is lowest(minima[::-1]).mu is first
    assert lowest([LocalMinimum(1.0, second, none), LocalMinimum(1.0 + 1e-6, first, none)]).mu is second


def random_attention(seed: int) -> tuple[PDG, Attention]:
    """Some arcs disbelieved, some with beta < gamma alpha."""
    rng = np.random.default_rng(seed)
    case = random_case(seed, Style(hard=0.1, gammas=(0.2, 1.0)), most=2)
    beta = {n: b if b == inf else float(rng.choice([b, -0.3 * b, 0.1 * b])) for n, b in case.attention.beta.items()}
    return case.pdg, case.attention.replace(beta=beta)


def test_the_value_is_attained_and_bracketed():
    used = 0
    for seed in range(12):
        pdg, attention = random_attention(seed)
        result = inconsistency(pdg, attention)
        if "concave-convex" not in result.solver or math.isinf(result.upper):
            continue
        used += 1
        assert -inf < result.lower <= result.upper
        assert result.converged == (result.upper - result.lower <= 1e-6 * max(1.0, abs(result.upper)))
        assert float(result.value) == result.upper
        attained = float(incompatibility(result.mu, pdg, attention))
        assert attained == pytest.approx(result.upper, abs=1e-7 * max(1.0, abs(result.upper)))
        assert ("NOT converged" in repr(result)) != result.converged
    assert used > 5


def test_the_minimum_is_local_and_reached_from_above():
    """No small step from mu towards a random mu goes down by more than the tolerance."""
    rng = np.random.default_rng(0)
    for seed in range(6):
        pdg, attention = random_attention(seed)
        if inf in attention.beta.values():
            continue
        result = inconsistency(pdg, attention)
        if "concave-convex" not in result.solver:
            continue
        names = [v.name for v in pdg.variables]
        mu = result.mu.marginal(*names).numpy()
        for _ in range(20):
            there = rng.dirichlet(np.ones(mu.size)).reshape(mu.shape)
            near = Joint(pdg.variables, 0.9999 * mu + 0.0001 * there)
            assert float(incompatibility(near, pdg, attention)) >= result.upper - 1e-6


def test_on_a_convex_problem_it_agrees_with_the_exact_solvers():
    for seed in range(20):
        case = random_case(seed, MIXED)
        exact = inconsistency(case.pdg, case.attention, solver="newton")
        forced = inconsistency(case.pdg, case.attention, solver="concave-convex")
        assert forced.lower <= exact.upper + 1e-9
        assert forced.upper == pytest.approx(exact.upper, abs=1e-6 * max(1.0, abs(exact.upper)))
        assert forced.upper >= exact.lower - 1e-9


def test_more_starts_never_do_worse():
    for seed in range(4):
        pdg, attention = random_attention(seed)
        one, many = (inconsistency(pdg, attention, solver=ConcaveConvex(starts=n)) for n in (1, 4))
        assert many.upper <= one.upper + 1e-9


def test_the_same_seed_gives_the_same_minimum():
    pdg, attention = random_attention(3)
    one, two = (inconsistency(pdg, attention, solver=ConcaveConvex(seed=5)).upper for _ in range(2))
    assert one == two


@pytest.mark.parametrize("solver", ["auto", "concave-convex"])
@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_disbelief_in_the_impossible_is_minus_infinity(solver: str, gamma: float):
    pdg = PDG(Arc("p", X, Y, [[1.0, 0.0], [0.5, 0.5]]), Arc("q", (), X, [0.5, 0.5]))
    result = inconsistency(pdg, Attention.only({"p": -0.1, "q": 1.0}, {}, gamma), solver=solver)
    assert result.lower == result.upper == float(result.value) == -inf
    with pytest.raises(DissonanceError, match="-inf: a disbelieved arc"):
        _ = result.mu


def test_disbelief_in_what_another_belief_rules_out_is_harmless():
    pdg = PDG(Arc("p", (), X, [1.0, 0.0]), Arc("q", (), X, [1.0, 0.0]))
    result = inconsistency(pdg, Attention.only({"p": -1.0, "q": 1.0}))
    assert result.upper == pytest.approx(0, abs=1e-9)


def test_exact_solvers_refuse_and_say_what_to_do():
    pdg = PDG(Arc("p", (), X, [0.3, 0.7]), Arc("q", (), X, [0.6, 0.4]))
    for solver in ("newton", "clique-tree", "joint"):
        with pytest.raises(CapabilityError, match=r"arc 'q' \(-> X\) has beta < gamma alpha.*concave-convex"):
            inconsistency(pdg, Attention.only({"p": 1.0, "q": -2.0}), solver=solver)


def test_soft_arcs_are_differentiated_at_the_local_minimum():
    """The envelope theorem holds at a smooth local minimum too."""
    pdg = PDG(Arc("p", (), X, SoftmaxTable([0.3, 0.7])), Arc("q", (), X, [0.6, 0.4]), Arc("r", (), X, [0.5, 0.5]))
    attention = Attention.only({"p": 2.0, "q": -1.0, "r": 0.5}, {"p": 2.0}, 0.2)
    result = inconsistency(pdg, attention, solver="concave-convex")
    result.value.backward()
    mu = result.mu.marginal("X").numpy()
    np.testing.assert_allclose(pdg["p"].cpd.logits.grad, 2.0 * (np.array([0.3, 0.7]) - mu), atol=1e-6)


def test_the_gradient_through_a_hard_arc_is_the_slope():
    def pdg(logit: float) -> PDG:
        return PDG(
            Arc("h", (), X, SoftmaxTable(logits=[logit, 0.0])),
            Arc("p", X, Y, [[0.8, 0.2], [0.3, 0.7]]),
            Arc("q", (), Y, [0.25, 0.75]),
        )

    attention = Attention.only({"h": inf, "p": 1.0, "q": 0.3}, {"q": 1.0}, 0.6)
    here = pdg(0.4)
    result = inconsistency(here, attention)
    assert result.solver == "concave-convex"
    result.value.backward()
    (slope,) = [p.grad for p in here["h"].cpd.parameters()]
    assert slope is not None
    high, low = (inconsistency(pdg(0.4 + e), attention).upper for e in (1e-4, -1e-4))
    assert float(slope[0]) == pytest.approx((high - low) / 2e-4, abs=1e-5)


def test_a_local_minimum_of_two_cells_takes_few_steps():
    """Each convex problem starts where the last stopped: before, two cells took 2,000 steps and seconds."""
    X = Variable("X", 2)
    pdg = PDG(Arc("p", (), X, [0.9, 0.1]), Arc("q", (), X, [0.2, 0.8]))
    result = inconsistency(pdg, Attention.only({"p": 0.5, "q": 0.5}, {"p": 1.0, "q": 1.0}, 1.0))
    assert result.upper == pytest.approx(0.857399214, abs=1e-7)
    assert result.stats["steps"] < 600
