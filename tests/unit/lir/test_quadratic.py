"""Full control of points and of other parameters that the inconsistency is quadratic in."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from dissonance import (
    PDG,
    Arc,
    Attention,
    Control,
    Euclidean,
    LinearGaussian,
    PointMass,
    SoftmaxTable,
    Variable,
    inconsistency,
    lir,
)
from dissonance.cpds import NeuralCategorical, NeuralGaussian
from dissonance.distributions import Gaussian

X = Variable("X", Euclidean(2))
Y = Variable("Y", Euclidean(2))
FIRST, SECOND = torch.tensor([[2.0, 0.5], [0.5, 1.0]]).double(), torch.tensor([[0.3, 0.0], [0.0, 4.0]]).double()


def close(found: Tensor, wanted: Tensor, tol: float) -> bool:
    return float((found - wanted).abs().max()) < tol


def pulled() -> PDG:
    """A point that two Gaussians pull at."""
    return PDG(
        Arc("x", (), X, PointMass([5.0, -5.0])),
        Arc("p", (), X, LinearGaussian(None, [1.0, 2.0], FIRST)),
        Arc("q", (), X, LinearGaussian(None, [-1.0, 0.0], SECOND)),
    )


def compromise(p: float, q: float) -> Tensor:
    """The precision-weighted mean."""
    P, Q = p * FIRST.inverse(), q * SECOND.inverse()
    return torch.linalg.solve(P + Q, P @ torch.tensor([1.0, 2.0]).double() + Q @ torch.tensor([-1.0, 0.0]).double())


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.01, 30.0)])
def test_a_point_under_full_control_goes_to_the_precision_weighted_mean_in_one_step(p: float, q: float):
    attention = Attention.only({"x": math.inf, "p": p, "q": q})
    run = lir(pulled(), attention=attention, control=Control({"x": math.inf}), steps=1)
    assert close(run.theta["x.value"], compromise(p, q), 1e-12)
    assert run.trace.rows[0].residual < 1e-12


def test_a_point_without_its_arc_is_the_mean_of_the_gaussian_compromise():
    attention = Attention.only({"p": 1.0, "q": 2.0})
    mu = inconsistency(pulled(), attention).mu
    assert isinstance(mu, Gaussian)
    assert close(torch.as_tensor(mu.mean), compromise(1.0, 2.0), 1e-9)


def test_control_of_one_component_leaves_the_other_where_it_is():
    attention = Attention.only({"x": math.inf, "q": 1.0})
    chi = torch.tensor([math.inf, 0.0]).double()
    run = lir(pulled(), attention=attention, control=Control({"x.value": chi}), steps=1)
    assert run.theta["x.value"].tolist() == pytest.approx([-1.0, -5.0], abs=1e-12)


def test_of_several_minimisers_the_nearest_is_taken():
    pdg = PDG(
        Arc("x", (), X, PointMass([1.0, 1.0])),
        Arc("y", (), Y, PointMass([3.0, 4.0])),
        Arc("p", X, Y, LinearGaussian(torch.zeros(2, 2), [0.0, 0.0], torch.eye(2))),
    )
    attention = Attention.only({"x": math.inf, "y": math.inf, "p": 1.0})
    run = lir(pdg, attention=attention, control=Control({"p.A": math.inf}), steps=1)
    least_norm = torch.tensor([[1.5, 1.5], [2.0, 2.0]]).double()  # A (1, 1)' = (3, 4)'
    assert close(run.theta["p.A"], least_norm, 1e-12)


def test_a_table_that_is_certain_beside_points_still_goes_to_its_argmin():
    label = Variable("L", 3)
    scores = nn.Linear(2, 3).double()
    with torch.no_grad():
        scores.weight.zero_()
        scores.bias.copy_(torch.tensor([0.0, 3.0, 1.0]))
    pdg = PDG(
        Arc("x", (), X, PointMass([0.0, 0.0])),
        Arc("y", (), label, SoftmaxTable([1.0, 0.0, 0.0])),  # its gradient and curvature are 0 here
        Arc("p", X, label, NeuralCategorical(scores)),
    )
    attention = Attention.only({"x": math.inf, "y": math.inf, "p": 1.0})
    run = lir(pdg, attention=attention, control=Control({"y": math.inf}), steps=1)
    assert torch.allclose(run.pdg["y"].cpd.table(), torch.log_softmax(scores.bias, 0).exp(), atol=1e-9)


def test_what_is_not_quadratic_is_descended_to_stationarity():
    class Bent(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sin(3 * x) + x**2

    pdg = PDG(
        Arc("x", (), X, PointMass([0.4, -0.3])),
        Arc("y", (), Y, PointMass([0.5, 0.2])),
        Arc("p", X, Y, NeuralGaussian(Bent())),
    )
    attention = Attention.only({"x": math.inf, "y": math.inf, "p": 1.0})
    run = lir(pdg, attention=attention, control=Control({"x": math.inf}), steps=1)
    x = run.theta["x.value"].requires_grad_()
    off = (torch.tensor([0.5, 0.2]).double() - torch.sin(3 * x) - x**2).square().sum() / 2
    (slope,) = torch.autograd.grad(off, x)
    assert run.after.upper < run.before.upper
    assert float(slope.abs().max()) < 1e-4
    assert run.trace.rows[0].residual == pytest.approx(float(slope.abs().max()), abs=1e-5)
