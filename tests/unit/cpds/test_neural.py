"""Networks beside points in another precision."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from dissonance import PDG, Arc, Attention, Euclidean, LinearGaussian, PointMass, Variable, inconsistency
from dissonance.cpds import CPD, Data, Function, NeuralCategorical, NeuralGaussian

inf = math.inf
X, R, Y = Variable("X", Euclidean(2)), Variable("R", Euclidean(1)), Variable("Y", 2)


@pytest.mark.parametrize("points", [torch.float32, torch.float64])
@pytest.mark.parametrize("weights", [torch.float32, torch.float64])
def test_points_and_networks_of_any_precision_go_together(points: torch.dtype, weights: torch.dtype):
    torch.manual_seed(0)
    x, net, logits = torch.randn(2).to(points), nn.Linear(2, 1).to(weights), nn.Linear(2, 2).to(weights)
    pdg = PDG(
        Arc("x", (), X, PointMass(x)),
        Arc("f", X, R, NeuralGaussian(net)),
        Arc("r", (), R, PointMass(torch.tensor([0.3]).to(points))),
        Arc("y", X, Y, NeuralCategorical(logits)),
        Arc("seen", (), Y, [1.0, 0.0]),
    )
    found = inconsistency(pdg, Attention.only({"x": inf, "r": inf, "seen": inf, "f": 1.0, "y": 1.0}))
    with torch.no_grad():
        m, z = float(net.double()(x.double())), logits.double()(x.double())
    expected = 0.5 * (0.3 - m) ** 2 + 0.5 * math.log(2 * math.pi) + float(z.logsumexp(0) - z[0])
    assert found.upper == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("cpd", [Function(nn.Linear(2, 1)), NeuralGaussian(both=nn.Linear(2, 2))])
def test_data_in_double_precision_go_through_networks_in_single(cpd: CPD):
    pdg = PDG(
        Arc("x", (), X, Data(torch.randn(5, 2).double())),
        Arc("f", X, R, cpd),
        Arc("r", X, R, LinearGaussian([[1.0, 0.0]])),
    )
    assert math.isfinite(inconsistency(pdg, {"x": inf, "f": inf, "r": 1.0}).upper)
