"""Gaussian distributions: marginals, conditionals, entropies, densities, samples."""

from __future__ import annotations

import math

import pytest
import torch

from dissonance import CapabilityError, DissonanceError, Euclidean, Variable
from dissonance.distributions import Gaussian

X, P = Variable("X", Euclidean(1)), Variable("P", Euclidean(2))
MEAN = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)
C = torch.tensor([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 1.5]], dtype=torch.float64)
MU = Gaussian([X, P], MEAN, C)


def test_a_marginal_takes_the_blocks_in_the_order_asked_for():
    both = MU.marginal("P", "X")
    assert both.mean.tolist() == [0.0, -1.0, 1.0]
    assert both.covariance.tolist() == C[[1, 2, 0]][:, [1, 2, 0]].tolist()
    assert MU.marginal("X").covariance.tolist() == [[2.0]]


def test_conditional_and_marginal_make_the_joint_density():
    x, p = torch.tensor([[0.3], [2.0]]).double(), torch.tensor([[1.0, 0.5], [-1.0, 0.0]]).double()
    whole = MU.log_prob({"X": x, "P": p})
    assert torch.allclose(whole, torch.distributions.MultivariateNormal(MEAN, C).log_prob(torch.cat([x, p], 1)))
    parts = MU.marginal("P").log_prob({"P": p}) + MU.conditional("X", given="P").log_prob([x], [p])
    assert torch.allclose(whole, parts)


def test_entropies_obey_the_chain_rule():
    assert float(MU.entropy()) == pytest.approx(float(MU.entropy("P") + MU.conditional_entropy(["X"], ["P"])))
    assert float(MU.entropy("X")) == pytest.approx(0.5 * math.log(2 * math.pi * math.e * 2.0))


def test_a_singular_covariance_has_samples_and_no_entropy():
    line = Gaussian([P], [0.0, 1.0], [[1.0, 1.0], [1.0, 1.0]])
    drawn = line.sample(100, torch.Generator().manual_seed(0))["P"]
    assert torch.allclose(drawn[:, 1] - drawn[:, 0], torch.ones(100).double(), atol=1e-6)
    assert line.entropy() == -math.inf


def test_samples_have_the_moments():
    drawn = MU.sample(40000, torch.Generator().manual_seed(0))
    x = torch.cat([drawn["X"], drawn["P"]], 1)
    assert torch.allclose(x.mean(0), MEAN, atol=0.03)
    assert torch.allclose(torch.cov(x.T), C, atol=0.05)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(DissonanceError, match="3 dimensions need"):
        Gaussian([X, P], [0.0], [[1.0]])
    with pytest.raises(DissonanceError, match="no variable named 'Q'"):
        MU.marginal("Q")
    with pytest.raises(CapabilityError, match="log_prob"):
        MU.probability({"X": 1.0})
