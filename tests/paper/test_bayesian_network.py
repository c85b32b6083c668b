"""A Bayesian network is consistent at every gamma, and at gamma = 1 its joint is mu*."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissonance import PDG, Arc, Attention, PointMass, Variable, inconsistency

A, B, C, D = (Variable(n, k) for n, k in zip("ABCD", (2, 3, 2, 2), strict=True))


def network(seed: int) -> tuple[PDG, np.ndarray]:
    """A -> B, A -> C, (B, C) -> D, and its joint."""
    rng = np.random.default_rng(seed)

    def rows(*shape: int) -> np.ndarray:
        return (
            rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]) if len(shape) > 1 else rng.dirichlet(np.ones(shape[0]))
        )

    a, ab, ac, bcd = rows(2), rows(2, 3), rows(2, 2), rows(3, 2, 2)
    pdg = PDG.from_bayesian_network({A: ((), a), B: ((A,), ab), C: ((A,), ac), D: ((B, C), bcd)})
    return pdg, np.einsum("a,ab,ac,bcd->abcd", a, ab, ac, bcd)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.01, 0.3, 1.0]), st.sampled_from([1.0, 2.5, math.inf]))
@settings(max_examples=40)
def test_a_bayesian_network_is_consistent_and_its_joint_is_the_best_mu(seed: int, gamma: float, beta: float):
    pdg, joint = network(seed)
    result = inconsistency(pdg, Attention.uniform(pdg, beta=beta, gamma=gamma))
    assert result.converged and result.lower - 1e-13 <= 0 <= result.upper + 1e-13
    if gamma > 0:
        # OInc >= 0 and SDef >= KL(mu || joint) up to OInc: the excess is at least gamma KL(mu || mu*)
        error = math.sqrt(2 * max(result.upper - result.lower, 1e-14) / gamma)
        assert np.abs(result.mu.marginal(*"ABCD").numpy() - joint).sum() <= 2 * error + 1e-7


@pytest.mark.parametrize("solver", ["auto", "newton", "clique-tree", "joint"])
def test_at_gamma_one_mu_is_the_joint(solver: str):
    pdg, joint = network(7)
    result = inconsistency(pdg, Attention.uniform(pdg, gamma=1.0), solver=solver)
    np.testing.assert_allclose(result.mu.marginal(*"ABCD"), joint, atol=1e-6)
    assert result.mu.entropy() == pytest.approx(-(joint * np.log(joint)).sum(), abs=1e-5)


def test_at_gamma_zero_the_selected_mu_is_the_joint_too():
    """The gamma -> 0+ selection minimises SDef among the consistent mu: the independent mechanisms."""
    pdg, joint = network(3)
    result = inconsistency(pdg)
    np.testing.assert_allclose(result.mu.marginal(*"ABCD"), joint, atol=1e-4)


def test_evidence_against_a_network_costs_its_improbability():
    """With the evidence hard and the network soft at gamma = 1: -log p(evidence), and mu* is the posterior."""
    pdg, joint = network(9)
    seen = pdg + Arc("D=1", (), D, PointMass(1))
    attention = Attention.uniform(seen, gamma=1.0).replace(beta={"D=1": math.inf})
    result = inconsistency(seen, attention)
    assert result.lower - 1e-13 <= -math.log(joint[..., 1].sum()) <= result.upper + 1e-13
    np.testing.assert_allclose(result.mu.marginal(*"ABC"), joint[..., 1] / joint[..., 1].sum(), atol=1e-6)


def test_two_random_tables_on_one_child_are_consistent_iff_their_ranges_overlap():
    """X -> Z <- Y (erratum 25): consistent two times in three, and closed form otherwise."""
    rng = np.random.default_rng(0)
    x, y, z = Variable("X", 2), Variable("Y", 2), Variable("Z", 2)
    consistent = 0
    for _ in range(150):
        p, q = rng.random((2, 2))
        pdg = PDG.from_cpds([(x, z, np.stack([1 - p, p], 1)), (y, z, np.stack([1 - q, q], 1))])
        low, high = (p, q) if p.max() < q.max() else (q, p)
        a, b = low.max(), min(max(low.max(), high.min()), high.max())
        exact = 0.0 if high.min() <= low.max() else -2 * math.log(math.sqrt(a * b) + math.sqrt((1 - a) * (1 - b)))
        result = inconsistency(pdg)
        assert result.lower - 1e-13 <= exact <= result.upper + 1e-13
        consistent += exact == 0
    assert consistent / 150 == pytest.approx(2 / 3, abs=0.08)
