"""Disbelief (beta < 0) in linear-Gaussian arcs, against quadratics and logarithms written out in numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from dissonance import PDG, Arc, Attention, CapabilityError, Euclidean, LinearGaussian, Variable, inconsistency
from dissonance.distributions import Gaussian

inf = math.inf
X, Y = Variable("X", Euclidean(1)), Variable("Y", Euclidean(1))


def normal(name: str, of: Variable, mean: float, variance: float) -> Arc:
    return Arc(name, (), of, LinearGaussian(None, [mean], [[variance]]))


def pooled(weights: list[float], means: list[float], variances: list[float]) -> float:
    """inf_mu sum beta KL(mu || N) of one variable, from the precision and the mean of the product of powers."""
    w, m, v = map(np.array, (weights, means, variances))
    W, Q, g = w.sum(), (w / v).sum(), (w * m / v).sum()
    rest = 0.5 * ((w * m**2 / v).sum() - g**2 / Q) + 0.5 * (w * np.log(2 * np.pi * v)).sum()
    return float(rest - (0.5 * W * math.log(2 * math.pi * W / Q) if W > 0 else 0.0))


@pytest.mark.parametrize(
    ("weights", "means", "variances"),
    [
        ([2.0, -1.0], [0.0, 3.0], [1.0, 2.0]),
        ([1.0, -1.0], [0.0, 3.0], [1.0, 2.0]),
        ([1.0, 0.5, -1.2], [0.0, 1.0, 3.0], [1.0, 0.5, 2.0]),
    ],
)
def test_doubt_that_is_outweighed_has_a_closed_form(weights: list[float], means: list[float], variances: list[float]):
    names = [f"p{i}" for i in range(len(weights))]
    pdg = PDG(*(normal(n, X, m, v) for n, m, v in zip(names, means, variances, strict=True)))
    found = inconsistency(pdg, dict(zip(names, weights, strict=True)))
    assert found.converged
    assert found.lower - 1e-9 <= pooled(weights, means, variances) <= found.upper + 1e-9


def test_the_mean_moves_away_from_what_is_doubted_and_the_gradient_is_the_slope():
    def value(doubted: float) -> tuple[float, float]:
        b = torch.tensor([doubted], dtype=torch.float64, requires_grad=True)
        pdg = PDG(normal("p", X, 0.0, 1.0), Arc("q", (), X, LinearGaussian(None, [0.0], [[2.0]])))
        found = inconsistency(pdg, {"p": 2.0, "q": -1.0}, theta={"q.b": b})
        found.value.backward()
        assert b.grad is not None
        assert isinstance(found.mu, Gaussian)
        assert float(found.mu.mean[0]) == pytest.approx(-doubted / 3)  # (0 - doubted / 2) / (2 - 1/2)
        return found.upper, float(b.grad[0])

    (_, slope), (high, _), (low, _) = value(3.0), value(3.001), value(2.999)
    assert slope == pytest.approx((high - low) / 0.002, abs=1e-6)


@pytest.mark.parametrize(
    "weights", [{"p": 1.0, "q": -2.0}, {"p": 1.0, "q": -3.0}, {"p": 1.0, "q": -0.9}], ids=["wide", "wider", "narrow"]
)
def test_more_doubt_than_belief_has_no_lower_end(weights: dict[str, float]):
    """p = N(0, 1) and q = N(3, 1/2): mu shrinks to a point, or goes to infinity where 1 < 0.9 / (1/2)."""
    pdg = PDG(normal("p", X, 0.0, 1.0), normal("q", X, 3.0, 0.5))
    assert inconsistency(pdg, weights).upper == -inf


def test_doubt_about_a_conditional_beside_a_belief_in_one():
    """By brute force over the means and the covariance of (X, Y)."""
    arcs = [
        normal("x", X, 0.0, 1.0),
        normal("y", Y, 0.5, 1.0),
        Arc("p", X, Y, LinearGaussian([[0.8]], [0.3], [[0.7]])),
        Arc("q", X, Y, LinearGaussian([[-0.2]], [1.0], [[2.0]])),
    ]

    def objective(z: np.ndarray) -> float:
        m, L = z[:2], np.array([[math.exp(z[2]), 0.0], [z[3], math.exp(z[4])]])
        C = L @ L.T
        total = 0.0
        for i, mean in ((0, 0.0), (1, 0.5)):
            total += 0.5 * (C[i, i] + (m[i] - mean) ** 2 - 1 - math.log(C[i, i]))
        left = C[1, 1] - C[0, 1] ** 2 / C[0, 0]
        for a, b, v, beta in ((0.8, 0.3, 0.7, 2.0), (-0.2, 1.0, 2.0, -0.5)):
            r = np.array([-a, 1.0])
            square = (r @ C @ r + (m[1] - a * m[0] - b) ** 2) / v
            total += beta * 0.5 * (square - 1 - math.log(left / v))
        return total

    least = min(minimize(objective, s, method="BFGS").fun for s in np.random.default_rng(0).normal(size=(4, 5)))
    found = inconsistency(PDG(*arcs), {"x": 1.0, "y": 1.0, "p": 2.0, "q": -0.5})
    assert found.converged and found.upper == pytest.approx(least, abs=1e-7)


def test_contradictory_hard_arcs_stay_a_contradiction():
    pdg = PDG(normal("a", X, 0.0, 1.0), normal("b", X, 1.0, 1.0), normal("q", X, 0.0, 1.0))
    assert inconsistency(pdg, {"a": inf, "b": inf, "q": -1.0}).upper == inf


def test_what_is_neither_convex_nor_bottomless_is_refused():
    pdg = PDG(
        normal("x", X, 0.0, 1.0), Arc("p", X, Y, LinearGaussian([[1.0]], [0.0], [[1.0]])), normal("y", Y, 1.0, 1.0)
    )
    with pytest.raises(CapabilityError, match=r"arc 'y' \(-> Y\) has beta < gamma alpha, not outweighed"):
        inconsistency(pdg, {"x": 1.0, "p": 1.0, "y": -0.2})
    found = inconsistency(pdg, Attention.only({"x": inf, "p": inf, "y": -0.2}))  # hard arcs determine mu
    expected = -0.2 * 0.5 * (2 + 1 - 1 - math.log(2))
    assert found.upper == pytest.approx(expected)
