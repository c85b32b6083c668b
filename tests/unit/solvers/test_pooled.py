"""Weights that differ by many orders of magnitude."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext

import numpy as np
import pytest

from dissonance import PDG, Arc, Attention, CapabilityError, DissonanceError, Variable, inconsistency

X, Y = Variable("X", 2), Variable("Y", 3)
getcontext().prec = 60


def exact(tables: list[list[float]], beta: list[float]) -> Decimal:
    """-B log sum_x prod p^(beta/B), at 60 digits, for rows made to sum to 1."""
    weights, rows = [Decimal(b) for b in beta], [[Decimal(x) / sum(map(Decimal, p)) for x in p] for p in tables]
    total = sum(weights)
    cells = [[row[k] for row in rows] for k in range(len(rows[0]))]
    z = sum(
        (sum((w * p.ln() for w, p in zip(weights, cell, strict=True)), Decimal(0)) / total).exp()
        for cell in cells
        if all(cell)
    )
    return -total * Decimal(z).ln()


TABLES = {
    "plain": ([0.9, 0.1], [0.2, 0.8]),
    "small": ([1e-6, 1 - 1e-6], [1 - 1e-6, 1e-6]),
    "tiny": ([1e-300, 1.0], [1.0, 1e-300]),
    "equal": ([0.3, 0.7], [0.3, 0.7]),
    "zero": ([0.2, 0.3, 0.5], [0.5, 0.5, 0.0]),
}


@pytest.mark.parametrize("ratio", [1e4, 3e4, 1e5, 1e6, 1e7, 1e10, 1e13, 1e17, 1e30])
@pytest.mark.parametrize("name", TABLES)
def test_marginals_with_any_ratio_of_weights_converge_to_the_closed_form(name, ratio):
    p, q = TABLES[name]
    V = X if len(p) == 2 else Y
    for beta in ({"p": ratio, "q": 1.0}, {"p": 1.0, "q": ratio}, {"p": ratio, "q": 0.7 * ratio}):
        result = inconsistency(PDG(Arc("p", (), V, p), Arc("q", (), V, q)), Attention.only(beta))
        wanted = float(exact([p, q], list(beta.values())))
        assert result.converged
        assert result.lower <= wanted + 1e-12 * max(1.0, abs(wanted))
        assert result.upper >= wanted - 1e-12 * max(1.0, abs(wanted))


def test_mu_is_the_pool_and_arcs_may_name_their_targets_in_any_order():
    rng = np.random.default_rng(3)
    a, b = rng.dirichlet(np.ones(6)).reshape(2, 3), rng.dirichlet(np.ones(6)).reshape(3, 2)
    pdg = PDG(Arc("a", (), (X, Y), a), Arc("b", (), (Y, X), b))
    result = inconsistency(pdg, Attention.only({"a": 3e5, "b": 1e5}))
    pool = (a**0.75 * b.T**0.25) / (a**0.75 * b.T**0.25).sum()
    assert result.solver == "pooled" and result.mu_error == 0
    np.testing.assert_allclose(result.mu.marginal("X", "Y").numpy(), pool, rtol=1e-12)


def test_what_contradicts_outright_is_infinite_and_what_it_is_not_for_is_refused():
    pdg = PDG(Arc("p", (), X, [1.0, 0.0]), Arc("q", (), X, [0.0, 1.0]))
    assert inconsistency(pdg, Attention.only({"p": 1e9, "q": 1.0})).lower == math.inf
    with pytest.raises(CapabilityError, match="pooled"):
        inconsistency(PDG(Arc("p", X, Y, np.full((2, 3), 1 / 3))), solver="pooled")


@pytest.mark.parametrize("weights", [{"beta": {"p": 1.7e308}}, {"alpha": {"p": -1e101}}, {"gamma": 1.7e308}])
def test_weights_whose_products_overflow_are_refused(weights):
    with pytest.raises(DissonanceError, match="at most 1e\\+100"):
        Attention.only(**weights)
