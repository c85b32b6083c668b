"""Two beliefs about one variable: p with weight r and q with weight s.

inconsistency = -(r+s) log sum_x p(x)^(r/(r+s)) q(x)^(s/(r+s)),  mu* = the normalised weighted geometric mean
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissonance import PDG, Arc, Attention, Variable, inconsistency
from dissonance.answer import Solver
from strategies import EXACT

GENERAL = [s for s in EXACT if s not in {"pinned", "sum-product", "given", "pooled"}]


def two(p: np.ndarray, q: np.ndarray) -> PDG:
    x = Variable("X", len(p))
    return PDG(Arc("p", (), x, p), Arc("q", (), x, q))


def geometric_mean(p: np.ndarray, q: np.ndarray, r: float, s: float) -> np.ndarray:
    """p^(r/(r+s)) q^(s/(r+s)), not normalised."""
    return p ** (r / (r + s)) * q ** (s / (r + s))


weights = st.floats(0.01, 100)


@given(st.integers(2, 6), weights, weights, st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_the_closed_form_and_the_geometric_mean(size: int, r: float, s: float, seed: int):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(size, 0.7), size=2)
    mean = geometric_mean(p, q, r, s)
    result = inconsistency(two(p, q), Attention.only({"p": r, "q": s}))
    exact = -(r + s) * math.log(mean.sum())
    slop = 1e-14 * (r + s)  # of the closed form itself
    assert result.converged and result.lower - slop <= exact <= result.upper + slop
    # KL(mu || mu*) (r+s) is the excess of mu: the certificate bounds the distance by Pinsker
    error = math.sqrt(2 * (result.upper - result.lower) / (r + s)) + result.mu_error + 1e-9
    assert np.abs(result.mu.marginal("X").numpy() - mean / mean.sum()).sum() <= 2 * error


@pytest.mark.parametrize("solver", GENERAL, ids=str)
def test_every_solver_finds_it_with_zeros_on_either_side(solver: str | Solver):
    p, q = np.array([0.0, 0.3, 0.5, 0.2]), np.array([0.6, 0.1, 0.3, 0.0])
    result = inconsistency(two(p, q), Attention.only({"p": 0.5, "q": 2.0}), solver=solver)
    mean = geometric_mean(p, q, 0.5, 2.0)
    assert result.lower - 1e-14 <= -2.5 * math.log(mean.sum()) <= result.upper + 1e-14
    np.testing.assert_allclose(result.mu.marginal("X"), mean / mean.sum(), atol=1e-6)
    assert result.mu.probability({"X": 0}) == 0


@pytest.mark.parametrize("solver", GENERAL, ids=str)
def test_one_of_them_hard_leaves_the_kl_divergence(solver: str | Solver):
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.1, 0.3])
    result = inconsistency(two(p, q), Attention.only({"p": math.inf, "q": 2.0}), solver=solver)
    kl = 2.0 * float((p * np.log(p / q)).sum())
    assert result.lower - 1e-14 <= kl <= result.upper + 1e-14
    np.testing.assert_allclose(result.mu.marginal("X"), p, atol=1e-9)


@pytest.mark.parametrize("solver", GENERAL, ids=str)
@pytest.mark.parametrize("beta", [1.0, math.inf])
def test_disjoint_supports_and_two_hard_beliefs_are_infinite(solver: str | Solver, beta: float):
    disjoint = inconsistency(
        two(np.array([1.0, 0.0]), np.array([0.0, 1.0])), Attention.only({"p": beta, "q": 1.0}), solver=solver
    )
    assert disjoint.lower == disjoint.upper == math.inf and disjoint.converged
    clash = inconsistency(
        two(np.array([0.5, 0.5]), np.array([0.4, 0.6])), Attention.only({"p": math.inf, "q": math.inf}), solver=solver
    )
    assert clash.lower == clash.upper == math.inf


def test_many_beliefs_are_their_weighted_geometric_mean_too():
    rng = np.random.default_rng(5)
    beliefs = rng.dirichlet(np.ones(4), size=5)
    beta = rng.uniform(0.2, 2.0, size=5)
    x = Variable("X", 4)
    pdg = PDG(*(Arc(f"p{i}", (), x, p) for i, p in enumerate(beliefs)))
    mean = np.exp((beta / beta.sum()) @ np.log(beliefs))
    result = inconsistency(pdg, Attention.only({f"p{i}": b for i, b in enumerate(beta)}))
    assert result.lower - 1e-14 <= -beta.sum() * math.log(mean.sum()) <= result.upper + 1e-14
    np.testing.assert_allclose(result.mu.marginal("X"), mean / mean.sum(), atol=1e-6)
