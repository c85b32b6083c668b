"""Soft Gaussian beliefs given what hard arcs make: against integrals by quadrature and against closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.integrate import quad
from torch import nn
from torch.distributions import Independent, Normal

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    Control,
    DissonanceError,
    Euclidean,
    LinearGaussian,
    Variable,
    inconsistency,
    lir,
)
from dissonance.cpds import Data, Distributed, NeuralGaussian, StandardNormal

inf = math.inf
X, Y = Variable("X", Euclidean(1)), Variable("Y", Euclidean(1))
DATA = torch.tensor([[0.0], [1.0], [2.5]], dtype=torch.float64)


def log_normal(t: float, m: float, sd: float) -> float:
    return -0.5 * ((t - m) / sd) ** 2 - math.log(sd) - 0.5 * math.log(2 * math.pi)


@pytest.mark.parametrize(("gamma", "alpha"), [(0.0, {}), (0.7, {"f": 0.3}), (1.0, {"f": 1.0})])
def test_a_pool_is_the_integral_of_the_weighted_densities(gamma: float, alpha: dict[str, float]):
    torch.manual_seed(0)
    h = nn.Linear(1, 1).double()
    pdg = PDG(
        Arc("d", (), X, Data(DATA)),
        Arc("f", X, Y, LinearGaussian([[2.0]], [0.0], [[0.5]])),
        Arc("h", X, Y, NeuralGaussian(h, log_scale=0.3)),
    )
    found = inconsistency(pdg, Attention.only({"d": inf, "f": 2.0, "h": 0.5}, alpha, gamma))
    assert found.solver == "gaussian-pool" and found.converged and found.standard_error == 0
    W = 2.5 + gamma * (1 - sum(alpha.values()))
    total = 0.0
    for x in DATA[:, 0].tolist():
        other = h(torch.tensor([[x]], dtype=torch.float64)).item()

        def density(t: float, x: float = x, other: float = other) -> float:
            return math.exp((2 * log_normal(t, 2 * x, 0.5**0.5) + 0.5 * log_normal(t, other, math.exp(0.3))) / W)

        total -= W * math.log(quad(density, -40, 40, points=[2 * x, other], limit=400)[0])
    assert found.upper == pytest.approx(total / 3, abs=1e-7)


def test_blame_samples_and_derivatives_of_a_square_loss():
    torch.manual_seed(1)
    f, h = nn.Linear(1, 1).double(), nn.Linear(1, 1).double()
    pdg = PDG(Arc("d", (), X, Data(DATA)), Arc("f", X, Y, NeuralGaussian(f)), Arc("h", X, Y, NeuralGaussian(h)))
    attention = Attention.only({"d": inf, "f": 1.0, "h": 1.0})
    found = inconsistency(pdg, attention)
    expected = (f(DATA) - h(DATA)).square().mean() / 4
    assert found.upper == pytest.approx(expected.item())
    slopes = [torch.autograd.grad(v, list(f.parameters())) for v in (found.value, expected)]
    assert all(torch.allclose(a, b) for a, b in zip(*slopes, strict=True))
    rows = {r.name: r for r in found.by_arc()}
    assert rows["f"].contribution + rows["h"].contribution == pytest.approx(found.upper)
    assert rows["f"].saved_if_dropped == pytest.approx(found.upper)
    assert found.mu.values["Y"].shape == (3, 1)  # pyright: ignore
    run = lir(pdg, steps=30, attention=attention, control=Control({"f": 0.5}), flow="step")
    assert run.after.upper < 0.01 * found.upper


def _standard() -> Independent:
    return Independent(Normal(torch.zeros(1, 1, dtype=torch.float64), 1.0), 1)


def test_rows_that_are_drawn_give_a_standard_error():
    """U ~ N(0, 1), two linear beliefs about Y given it: linear-Gaussian but for U's cpd, so that both are known."""
    f, h = LinearGaussian([[2.0]], [0.0], [[1.0]]), LinearGaussian([[1.0]], [1.0], [[1.0]])
    beliefs = Arc("f", X, Y, f), Arc("h", X, Y, h)
    drawn = PDG(Arc("x", (), X, Distributed(_standard)), *beliefs)
    attention = Attention.only({"x": inf, "f": 1.0, "h": 1.0})
    found = inconsistency(drawn, attention)
    assert found.upper == pytest.approx(0.5, abs=4 * found.standard_error)  # E (x - 1)^2 / 4
    assert 0 < found.standard_error < 0.02
    exact = inconsistency(PDG(Arc("x", (), X, LinearGaussian(None, [0.0], [[1.0]])), *beliefs), attention)
    assert exact.upper == pytest.approx(0.5) and exact.solver == "gaussian"


def test_beliefs_with_other_sources_are_refused_in_words():
    pdg = PDG(
        Arc("d", (), X, Data(DATA)),
        Arc("f", X, Y, LinearGaussian([[2.0]], [0.0], [[0.5]])),
        Arc("y", (), Y, StandardNormal()),
    )
    with pytest.raises(CapabilityError, match=r"same sources and the same targets"):
        inconsistency(pdg, Attention.only({"d": inf, "f": 1.0, "y": 1.0}), solver="gaussian-pool")


class Logarithm(nn.Module):
    """No number where x < 0."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x - 1.0)


def test_predictions_that_are_no_numbers_are_an_error_and_no_certificate():
    pdg = PDG(
        Arc("d", (), X, Data(DATA)),
        Arc("f", X, Y, LinearGaussian([[2.0]], [0.0], [[0.5]])),
        Arc("h", X, Y, NeuralGaussian(Logarithm())),
    )
    with pytest.raises(DissonanceError, match="NaN: a mean or a scale of 'f', 'h'"):
        inconsistency(pdg, Attention.only({"d": inf, "f": 1.0, "h": 1.0}), solver="gaussian-pool")
