"""Costs: what mu pays, bounds that are linear in mu and tight at mu's own conditionals, and slopes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dissonance import numerics
from dissonance.costs import BRIER_SCORE, LOG_SCORE, Cost, FlatRows, uphill

COSTS = pytest.mark.parametrize("cost", [LOG_SCORE, BRIER_SCORE], ids=lambda c: c.name)
ROWS = FlatRows.wide([2, 3, 1, 4])
SEEDS = st.integers(0, 2**32 - 1)


def rows_of(rng: np.random.Generator, zeros: float = 0.0) -> np.ndarray:
    """Probabilities, row by row, some of them 0."""
    p = rng.random(10) ** 3 * (rng.random(10) >= zeros)
    p[ROWS.at] += 1e-3
    return p / ROWS.totals(p)


def log(p: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(p)


def expected(m: np.ndarray, price: np.ndarray) -> float:
    """E_mu[price], with 0 inf = 0."""
    return float(np.where(m > 0, m * np.where(m > 0, price, 0.0), 0.0).sum())


@COSTS
@given(SEEDS)
def test_a_price_is_at_most_what_mu_pays_and_equal_at_its_own_conditionals(cost: Cost, seed: int):
    rng = np.random.default_rng(seed)
    m, log_p = rng.random(4)[ROWS.of] * rows_of(rng, 0.3), log(rows_of(rng, 0.0 if cost.forbids else 0.3))
    paid = float(cost.value(m, log_p, ROWS).sum())
    for _ in range(5):
        assert expected(m, cost.price(log(rows_of(rng, 0.3)), log_p, ROWS)) <= paid + 1e-12
    assert expected(m, cost.price(log(ROWS.shares(m)), log_p, ROWS)) == pytest.approx(paid, abs=1e-12)


@COSTS
@given(SEEDS)
def test_nobody_pays_where_mu_agrees_and_nobody_is_paid(cost: Cost, seed: int):
    rng = np.random.default_rng(seed)
    p = rows_of(rng, 0.3)
    assert cost.value(rng.random(4)[ROWS.of] * p, log(p), ROWS).sum() == pytest.approx(0.0, abs=1e-15)
    assert cost.value(rng.random(4)[ROWS.of] * rows_of(rng), log(rows_of(rng)), ROWS).sum() >= 0


@COSTS
@given(SEEDS)
def test_what_mu_pays_grows_with_mu(cost: Cost, seed: int):
    rng = np.random.default_rng(seed)
    m, log_p = rows_of(rng, 0.3), log(rows_of(rng))
    np.testing.assert_allclose(cost.value(3 * m, log_p, ROWS), 3 * cost.value(m, log_p, ROWS), rtol=1e-12, atol=1e-15)
    assert not cost.value(np.zeros(10), log_p, ROWS).any()


@COSTS
@given(SEEDS)
def test_slopes_are_differences(cost: Cost, seed: int):
    rng = np.random.default_rng(seed)
    m, log_p, way = rng.random(4)[ROWS.of] * rows_of(rng, 0.2), log(rows_of(rng)), rng.normal(size=10)
    ahead, behind = (cost.value(m, log_p + h * way, ROWS).sum() for h in (1e-5, -1e-5))
    assert (ahead - behind) / 2e-5 == pytest.approx(float(cost.slope(m, log_p, ROWS) @ way), abs=1e-8)


@COSTS
@given(SEEDS)
def test_free_numbers_give_bets_that_the_mean_price_is_concave_in(cost: Cost, seed: int):
    rng = np.random.default_rng(seed)
    m, log_p = rng.random(4)[ROWS.of] * rows_of(rng), log(rows_of(rng))
    np.testing.assert_allclose(cost.bets(cost.free(log_p), ROWS), log_p, atol=1e-12)
    z, way = (np.maximum(rng.random(10), cost.least) for _ in range(2))

    def mean(z: np.ndarray) -> float:
        return float(m @ cost.price(cost.bets(z, ROWS), log_p, ROWS))

    slope = float(uphill(m, cost.bets(z, ROWS), ROWS) @ way)
    assert (mean(z + 1e-5 * way) - mean(z - 1e-5 * way)) / 2e-5 == pytest.approx(slope, abs=1e-7)
    other = rng.random(10)
    assert mean(0.5 * (z + other)) >= 0.5 * (mean(z) + mean(other)) - 1e-12


def test_divergence_is_that_of_tensors_and_forbids_what_is_impossible():
    rng = np.random.default_rng(0)
    m, p = rng.random((2, 3)), rng.dirichlet([1, 1, 1], 2)
    rows = FlatRows.wide([3, 3])
    tensors = numerics.divergence(torch.from_numpy(m), torch.from_numpy(np.log(p)))
    assert LOG_SCORE.value(m.ravel(), np.log(p).ravel(), rows).sum() == pytest.approx(float(tensors), abs=1e-14)
    p[0] = 0, 0.5, 0.5
    assert LOG_SCORE.value(m.ravel(), log(p.ravel()), rows).sum() == math.inf
    m[0, 0] = 0
    assert LOG_SCORE.value(m.ravel(), log(p.ravel()), rows).sum() < math.inf


def test_the_brier_score_of_two_outcomes_is_the_squared_error():
    q, p = np.array([0.3, 0.7]), np.array([0.6, 0.4])
    assert BRIER_SCORE.value(q, np.log(p), FlatRows.wide(2)).sum() == pytest.approx(0.09)
    won = BRIER_SCORE.price(np.log(q), np.log(p), FlatRows.wide(2))
    assert won == pytest.approx([0.4**2 - 0.7**2, 0.6**2 - 0.3**2])


def test_rows_without_mass_are_uniform_and_there_may_be_none():
    assert FlatRows.wide([2, 3]).shares(np.array([0, 0, 1.0, 2, 1])) == pytest.approx([0.5, 0.5, 0.25, 0.5, 0.25])
    nothing = FlatRows.wide([])
    assert not nothing.totals(np.zeros(0)).size and not nothing.log_softmax(np.zeros(0)).size
