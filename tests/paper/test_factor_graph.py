"""A factor graph at alpha = beta = gamma = 1: inconsistency = sum_a log Z_a - log Z, mu* = the Gibbs distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissonance import PDG, Attention, Variable, inconsistency
from dissonance.answer import Solver
from strategies import EXACT

GENERAL = [s for s in EXACT if s not in {"pinned", "given", "pooled"}]


def random_factors(seed: int, zeros: float = 0.0) -> list[tuple[tuple[Variable, ...], np.ndarray]]:
    """A loop of three, a pendant and a lone variable, with factors of very different size."""
    rng = np.random.default_rng(seed)
    a, b, c, d, e = (Variable(n, k) for n, k in zip("ABCDE", (2, 3, 2, 2, 3), strict=True))
    factors = []
    for scope in ((a, b), (c, b), (a, c), (c, d), (a,), (e,)):
        phi = rng.gamma(0.5, size=[v.size for v in scope]) * 10 ** rng.uniform(-3, 3) + 1e-6
        phi[rng.random(phi.shape) < zeros] = 0.0
        phi.reshape(-1)[0] = max(phi.reshape(-1)[0], 1e-3)
        factors.append((scope, phi))
    return factors


def gibbs(factors) -> np.ndarray:
    """prod_a phi_a over A, B, C, D, E, by broadcasting."""
    letters = "ABCDE"
    terms = []
    for scope, phi in factors:
        terms += [phi, [letters.index(v.name) for v in scope]]
    return np.einsum(*terms, list(range(5)))


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3]))
@settings(max_examples=30)
def test_the_inconsistency_is_the_normaliser_and_mu_the_gibbs_distribution(seed: int, zeros: float):
    factors = random_factors(seed, zeros)
    product = gibbs(factors)
    exact = sum(math.log(phi.sum()) for _, phi in factors) - math.log(product.sum())
    pdg = PDG.from_factor_graph(factors)
    result = inconsistency(pdg, Attention.uniform(pdg, gamma=1.0))
    assert result.solver == "sum-product" and result.converged
    assert result.lower - 1e-13 <= exact <= result.upper + 1e-13
    np.testing.assert_allclose(result.mu.marginal(*"ABCDE"), product / product.sum(), atol=1e-13)


@pytest.mark.parametrize("solver", GENERAL, ids=str)
def test_every_solver_finds_it(solver: str | Solver):
    factors = random_factors(11)
    product = gibbs(factors)
    exact = sum(math.log(phi.sum()) for _, phi in factors) - math.log(product.sum())
    pdg = PDG.from_factor_graph(factors)
    result = inconsistency(pdg, Attention.uniform(pdg, gamma=1.0), solver=solver)
    assert result.converged and result.lower - 1e-13 <= exact <= result.upper + 1e-13
    np.testing.assert_allclose(result.mu.marginal(*"ABCDE"), product / product.sum(), atol=1e-5)


def test_an_impossible_product_is_infinite():
    a = Variable("A", 2)
    pdg = PDG.from_factor_graph([((a,), [1.0, 0.0]), ((a,), [0.0, 5.0])])
    result = inconsistency(pdg, Attention.uniform(pdg, gamma=1.0))
    assert result.lower == result.upper == math.inf


def test_tempering_by_gamma():
    """beta = gamma alpha: mu* is proportional to prod phi^(beta/gamma)."""
    factors = random_factors(4)
    pdg = PDG.from_factor_graph(factors)
    alpha = {f"phi{i}": 0.5 + 0.3 * i for i in range(1, 7)}
    gamma = 0.4
    attention = Attention.only({n: gamma * a for n, a in alpha.items()}, alpha, gamma)
    powered = [(s, (phi / phi.sum()) ** a) for (s, phi), a in zip(factors, alpha.values(), strict=True)]
    product = gibbs(powered)
    for solver in ("auto", "newton", "clique-tree"):
        result = inconsistency(pdg, attention, solver=solver)
        assert result.lower - 1e-13 <= -gamma * math.log(product.sum()) <= result.upper + 1e-13
        np.testing.assert_allclose(result.mu.marginal(*"ABCDE"), product / product.sum(), atol=1e-5)
