"""Hard arcs that determine mu: the incompatibility of one distribution, differentiated through it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    Deterministic,
    SoftmaxTable,
    Variable,
    incompatibility,
    inconsistency,
)
from dissonance.distributions import Joint
from reference import dense

inf = math.inf
A, B, C = Variable("A", 2), Variable("B", 3), Variable("C", 2)
RNG = np.random.default_rng(0)
PA, PAB, PABC = RNG.dirichlet(np.ones(2)), RNG.dirichlet(np.ones(3), size=2), RNG.dirichlet(np.ones(2), size=(2, 3))
CA, B0 = RNG.dirichlet(np.ones(2), size=2), RNG.dirichlet(np.ones(3))
JOINT = PA[:, None, None] * PAB[:, :, None] * PABC


def network() -> PDG:
    return PDG(
        Arc("c|ab", (A, B), C, SoftmaxTable(PABC)),
        Arc("b|a", A, B, SoftmaxTable(PAB)),
        Arc("a", (), A, SoftmaxTable(PA)),
        Arc("a|c", C, A, SoftmaxTable(CA)),
        Arc("b", (), B, SoftmaxTable(B0)),
        variables=(A, B, C),
    )


def attention(gamma: float = 0.0, **soft: float) -> Attention:
    hard = {"a": inf, "b|a": inf, "c|ab": inf}
    return Attention.only({**hard, "a|c": 1.3, "b": 0.4, **soft}, {"a": 1.0, "a|c": 0.5, "b|a": 0.3}, gamma)


@pytest.mark.parametrize("gamma", [0.0, 0.7])
@pytest.mark.parametrize("weight", [1.3, 0.0, -2.0])
def test_the_value_is_the_incompatibility_of_the_product(gamma: float, weight: float):
    phi = attention(gamma, **{"a|c": weight})
    result = inconsistency(network(), phi)
    assert result.solver == "pinned" and result.converged
    expected = dense.incompatibility(network(), phi, JOINT, slack=1e-15)
    assert result.lower - 1e-14 <= expected <= result.upper + 1e-14
    np.testing.assert_allclose(result.mu.marginal("A", "B", "C"), JOINT, atol=1e-15)
    assert float(incompatibility(result.mu, network(), phi).detach()) == pytest.approx(result.upper, abs=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.7])
def test_the_exact_solvers_agree_where_it_is_convex(gamma: float):
    pinned = inconsistency(network(), attention(gamma))
    for solver in ("newton", "clique-tree", "joint"):
        other = inconsistency(network(), attention(gamma), solver=solver)
        assert other.converged and max(other.lower, pinned.lower) <= min(other.upper, pinned.upper)


@pytest.mark.parametrize("gamma", [0.0, 0.7])
@pytest.mark.parametrize("arc", ["a", "b|a", "c|ab", "a|c", "b"])
def test_gradients_go_through_the_hard_arcs(gamma: float, arc: str):
    pdg = network()
    phi = attention(gamma, b=-0.6)
    inconsistency(pdg, phi).value.backward()
    gradient = pdg[arc].cpd.logits.grad
    way = torch.from_numpy(np.random.default_rng(1).normal(size=tuple(gradient.shape)))
    step = 1e-5

    def at(sign: int) -> float:
        moved = {f"{arc}.logits": pdg[arc].cpd.logits.detach() + sign * step * way}
        return inconsistency(pdg, phi, theta=moved).upper

    assert (at(1) - at(-1)) / (2 * step) == pytest.approx(float((gradient * way).sum()), abs=1e-8)


def test_a_second_hard_belief_that_holds_costs_nothing_and_one_that_does_not_is_infinite():
    marginal = JOINT.sum((0, 2))
    good = network() + Arc("again", (), B, marginal)
    phi = attention().replace(beta={"again": inf})
    assert inconsistency(good, phi).upper == pytest.approx(inconsistency(network(), attention()).upper, abs=1e-13)
    bad = network() + Arc("again", (), B, B0)
    result = inconsistency(bad, phi)
    assert result.lower == result.upper == inf and result.converged


def test_a_soft_belief_that_rules_out_what_must_be_is_infinite():
    pdg = network() + Arc("never", (), B, [0.0, 0.5, 0.5])
    assert inconsistency(pdg, attention().replace(beta={"never": 0.1})).lower == inf
    assert inconsistency(pdg, attention().replace(beta={"never": -0.1})).upper == -inf
    assert inconsistency(pdg, attention().replace(beta={"never": 0.0})).upper < inf


def test_functions_keep_mu_pinned_however_large_the_scope():
    xor = Deterministic(lambda a, c: (a + c) % 2)
    d = Variable("D", 2)
    pdg = PDG(
        Arc("a", (), A, PA),
        Arc("c", A, C, CA),
        Arc("d", (A, C), d, xor),
        Arc("soft", (d, C), A, np.full((2, 2, 2), 0.5)),
    )
    result = inconsistency(pdg, Attention.only({"a": inf, "c": inf, "d": inf, "soft": -1.0}))
    assert result.solver == "pinned"
    joint = np.zeros((2, 2, 2))
    for a in range(2):
        for c in range(2):
            joint[a, c, (a + c) % 2] = PA[a] * CA[a, c]
    # A is a function of (D, C): its conditional entropy is 0, so KL to a fair coin is log 2
    assert result.upper == pytest.approx(-math.log(2), abs=1e-12)
    assert float(incompatibility(Joint([A, C, d], joint), pdg, Attention.only({"soft": -1.0}))) == pytest.approx(
        result.upper
    )


def test_what_is_not_pinned_is_refused_with_the_reason():
    with pytest.raises(CapabilityError, match=r"no hard arc .* makes 'C'"):
        inconsistency(network(), attention().replace(beta={"c|ab": 1.0}), solver="pinned")
    cycle = PDG(Arc("ab", A, B, PAB), Arc("ba", B, A, np.full((3, 2), 0.5)))
    with pytest.raises(CapabilityError, match="cycle"):
        inconsistency(cycle, Attention.only({"ab": inf, "ba": inf}), solver="pinned")
    free = PDG(Arc("a", (), A, PA), Arc("b", (), B, B0), Arc("ab", A, B, PAB))
    with pytest.raises(CapabilityError, match="depend on each other"):
        inconsistency(free, Attention.only({"a": inf, "b": inf, "ab": 1.0}), solver="pinned")


def test_independence_is_not_assumed_of_hard_marginals():
    """Two fair coins and the belief that they agree: some coupling satisfies all three."""
    pdg = PDG(Arc("a", (), A, [0.5, 0.5]), Arc("c", (), C, [0.5, 0.5]), Arc("same", A, C, [[1.0, 0.0], [0.0, 1.0]]))
    result = inconsistency(pdg, Attention.only({"a": inf, "c": inf, "same": 1.0}))
    assert result.upper == pytest.approx(0, abs=1e-7)
    np.testing.assert_allclose(result.mu.marginal("A", "C"), [[0.5, 0.0], [0.0, 0.5]], atol=1e-6)
