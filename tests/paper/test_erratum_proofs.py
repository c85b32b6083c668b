"""Errata 2, 3, 6, 20 and 22: signs, constants and convexity in the paper's definitions and proofs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from dissonance import PDG, Arc, Attention, Euclidean, LinearGaussian, Variable, incompatibility
from dissonance.distributions import Gaussian, Joint
from dissonance.scores import structural_deficiency

X, Y = Variable("X", 2), Variable("Y", 2)


def test_the_structural_part_alone_is_not_convex():
    """Erratum 2: with two mechanisms for X, SDef = -H(X) + 2 H(X) = H(X), which is concave. The sum is convex."""
    pdg = PDG(Arc("p", (), X, [0.3, 0.7]), Arc("q", (), X, [0.6, 0.4]))
    alpha = {"p": 1.0, "q": 1.0}
    points = [Joint((X,), [t, 1 - t]) for t in (0.1, 0.5, 0.9)]
    deficiency = [float(structural_deficiency(mu, pdg, alpha)) for mu in points]
    assert deficiency == pytest.approx([float(mu.entropy()) for mu in points])
    assert deficiency[1] > 0.5 * (deficiency[0] + deficiency[2]) + 0.3
    attention = Attention.only({"p": 1.0, "q": 1.0}, alpha, 1.0)  # beta = gamma alpha: just convex enough
    ends_and_middle = [float(incompatibility(mu, pdg, attention)) for mu in points]
    assert ends_and_middle[1] <= 0.5 * (ends_and_middle[0] + ends_and_middle[2]) + 1e-12


def surprisal(slope: float, shift: float, precision: float, s: float, t: float) -> float:
    cpd = LinearGaussian([[slope]], [shift], [[1 / precision]])
    point = [torch.tensor([s], dtype=torch.float64)]
    return -cpd.log_prob([torch.tensor([t], dtype=torch.float64)], point).item()


def test_a_linear_gaussian_is_not_convex_in_slope_shift_and_precision():
    """Erratum 3: between (b, 1/sigma^2) = (0, 0.5) and (1, 2) the surprisal of t = 3 rises above the chord."""
    ends = [surprisal(0.0, 0.0, 0.5, 0.0, 3.0), surprisal(0.0, 1.0, 2.0, 0.0, 3.0)]
    assert surprisal(0.0, 0.5, 1.25, 0.0, 3.0) > 0.5 * sum(ends) + 0.6


def test_a_linear_gaussian_is_convex_in_its_parameters_over_sigma():
    """In (A/sigma, b/sigma, 1/sigma) it is -log(1/sigma) + (t/sigma - A s/sigma - b/sigma)^2/2 + log(2 pi)/2."""
    rng = np.random.default_rng(0)

    def at(natural: np.ndarray, s: float, t: float) -> float:
        slope, shift, root = natural
        return surprisal(slope / root, shift / root, root**2, s, t)

    for _ in range(200):
        ends = np.concatenate([rng.normal(size=(2, 2)) * 3, rng.uniform(0.05, 3, size=(2, 1))], 1)
        s, t = rng.normal(size=2) * 3
        assert at(ends.mean(0), s, t) <= 0.5 * (at(ends[0], s, t) + at(ends[1], s, t)) + 1e-9


def test_the_log_of_sigma_enters_with_a_plus_and_the_shift_with_a_minus():
    """Erratum 3: -log p = 1/2 log(2 pi sigma^2) + (t - A s - b)^2 / (2 sigma^2)."""
    slope, shift, sigma, s, t = 0.7, -0.4, 1.6, 2.0, 0.3
    closed = 0.5 * math.log(2 * math.pi * sigma**2) + (t - slope * s - shift) ** 2 / (2 * sigma**2)
    found = surprisal(slope, shift, sigma**-2, s, t)
    assert found == pytest.approx(closed) == pytest.approx(-norm.logpdf(t, slope * s + shift, sigma))


def test_entropy_is_minus_the_expected_log_density():
    """Erratum 6: H = -E log dmu/dlambda, so that a wide Gaussian has much of it: 1/2 log(2 pi e sigma^2)."""
    Z = Variable("Z", Euclidean(1))
    for variance in (0.01, 1.0, 9.0):
        mu = Gaussian((Z,), [1.0], [[variance]])
        assert float(mu.entropy()) == pytest.approx(0.5 * math.log(2 * math.pi * math.e * variance))
        drawn = mu.sample(20000, torch.Generator().manual_seed(0))
        assert -float(mu.log_prob(drawn).mean()) == pytest.approx(float(mu.entropy()), abs=0.03)


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("centred", [True, False])
def test_a_point_in_a_fine_grid_costs_its_density_and_a_log_of_the_cell(dimension: int, centred: bool):
    """Erratum 20: KL = -log p(x) + d log(1/eps) + O(eps^2), and only O(eps) where x is not the centre of its voxel."""

    def error(eps: float) -> float:
        x, start = 0.7, 0.7 - (0.5 if centred else 0.0) * eps
        mass = norm.cdf(start + eps) - norm.cdf(start)
        return abs(-dimension * math.log(mass) - (-dimension * norm.logpdf(x) + dimension * math.log(1 / eps)))

    order = math.log(error(1e-2) / error(1e-3)) / math.log(10)
    assert order == pytest.approx(2.0 if centred else 1.0, abs=0.05)


def test_the_divergence_of_an_arc_is_averaged_over_its_sources():
    """Erratum 22: KL(mu(Y|X) || p(Y|X)) is one number a row; eq. 1 weighs the rows by mu(X)."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        mu = rng.dirichlet(np.ones(4)).reshape(2, 2)
        p = rng.dirichlet(np.ones(2), size=2)
        rows = mu / mu.sum(1, keepdims=True)
        divergences = (rows * np.log(rows / p)).sum(1)
        found = float(incompatibility(Joint((X, Y), mu), PDG(Arc("p", X, Y, p)), Attention.only({"p": 1.0})))
        assert found == pytest.approx(float(mu.sum(1) @ divergences))
        assert found != pytest.approx(float(divergences.sum()))
