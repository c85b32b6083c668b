"""Averages over samples as the inner problem: derivatives are those of the theta they were asked for."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dissonance import PDG, Arc, Attention, Variable
from dissonance.cpds import Data, NeuralCategorical
from dissonance.lir.inner.base import Attentions
from dissonance.lir.inner.one_by_one import OneByOne
from dissonance.lir.parameters import Parameters
from dissonance.solvers import Auto
from dissonance.variables import Euclidean


class Recomputed(nn.Module):
    """Layers that are computed a second time when they are differentiated."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 4, bias=False), nn.Tanh(), nn.Linear(4, 3, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        found = checkpoint(self.layers, x, use_reentrant=False)
        assert isinstance(found, Tensor)
        return found


def test_derivatives_are_those_at_their_own_theta_whatever_was_asked_for_since():
    torch.manual_seed(0)
    x, y = torch.randn(5, 2), torch.tensor([0, 1, 2, 1, 0])
    inputs, labels = Variable("X", Euclidean(2)), Variable("Y", 3)
    pdg = PDG(Arc("d", (), (inputs, labels), Data(x, y)), Arc("p", inputs, labels, NeuralCategorical(Recomputed())))
    parameters = Parameters([pdg])
    inner = OneByOne(parameters, Auto())
    attention = Attentions.of([Attention.only({"d": math.inf, "p": 1.0})], ["d", "p"])
    thetas = [{k: v * scale for k, v in parameters.theta0.items()} for scale in (1.0, -2.0)]
    first, second = (inner.solve(theta, attention) for theta in thetas)
    for solved, theta in ((first, thetas[0]), (second, thetas[1]), (first, thetas[0])):
        weights = [v[0].clone().requires_grad_() for v in theta.values()]
        expected = nn.functional.cross_entropy((x @ weights[0].T).tanh() @ weights[1].T, y)
        assert abs(float(solved.upper) - expected.item()) < 1e-6
        slopes = dict(zip(theta, torch.autograd.grad(expected, weights), strict=True))
        for found in ({key: g[0] for key, g in solved.gradient().items()}, solved.gradients(list(theta))[0]):
            torch.testing.assert_close(found, slopes, atol=1e-6, rtol=0)
