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
    PointMass,
    Variable,
    inconsistency,
    lir,
)
from dissonance.cpds import Data, Distributed, Explicit, NeuralGaussian, StandardNormal

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
    assert run.trace.column("local_upper")[0] == pytest.approx(found.upper)
    assert inconsistency(run.pdg, attention).upper < 0.01 * found.upper


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
    with pytest.raises(
        CapabilityError, match=r"arc 'y' \(-> Y\) is given nothing, other beliefs about Y are given more"
    ):
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


def test_a_prior_without_sources_is_a_factor_of_every_row_if_its_entropies_cancel():
    """beta = gamma alpha: against the integral, row by row."""
    gamma, beta = 0.8, {"d": inf, "f": 1.0, "h": 2.0, "prior": 0.4}
    pdg = PDG(
        Arc("d", (), X, Data(DATA)),
        Arc("f", X, Y, LinearGaussian([[2.0]], [0.0], [[0.5]])),
        Arc("h", X, Y, LinearGaussian([[1.0]], [1.0], [[1.5]])),
        Arc("prior", (), Y, LinearGaussian(None, [-1.0], [[2.0]])),
    )
    found = inconsistency(pdg, Attention.only(beta, {"prior": 0.5}, gamma))
    assert found.solver == "gaussian-pool" and found.converged
    W, total = 3.0 + gamma, 0.0
    for x in DATA[:, 0].tolist():

        def density(t: float, x: float = x) -> float:
            score = (
                log_normal(t, 2 * x, 0.5**0.5) + 2 * log_normal(t, x + 1, 1.5**0.5) + 0.4 * log_normal(t, -1, 2**0.5)
            )
            return math.exp(score / W)

        total -= W * math.log(quad(density, -40, 40, points=[2 * x, x + 1, -1.0], limit=400)[0])
    assert found.upper == pytest.approx(total / 3, abs=1e-7)


def test_a_prior_about_the_mixture_of_all_rows_is_refused_and_says_why():
    pdg = PDG(
        Arc("d", (), X, Data(DATA)),
        Arc("f", X, Y, LinearGaussian([[2.0]], [0.0], [[0.5]])),
        Arc("prior", (), Y, LinearGaussian(None, [-1.0], [[2.0]])),
    )
    with pytest.raises(
        CapabilityError, match=r"arc 'prior' \(-> Y\) is given nothing.*no Gaussian.*beta = gamma alpha"
    ):
        inconsistency(pdg, {"d": inf})


def test_a_parameter_that_is_a_variable_with_a_prior_is_a_regularised_square_loss():
    """theta is a point, f given (X, theta) and h given X are pooled, and the prior costs |theta|^2 / 2 s^2."""
    torch.manual_seed(0)
    T, f, h = Variable("theta", Euclidean(2)), nn.Linear(1, 1).double(), nn.Linear(1, 1).double()
    theta = torch.tensor([0.7, -0.4], dtype=torch.float64)
    explicit = Explicit(Arc("f", X, Y, NeuralGaussian(f)).cpd)
    pdg = PDG(
        Arc("d", (), X, Data(DATA)),
        Arc("theta", (), T, PointMass(theta)),
        Arc("prior", (), T, LinearGaussian(None, torch.zeros(2), 4.0)),
        Arc("f", (X, T), Y, explicit),
        Arc("h", X, Y, NeuralGaussian(h)),
    )
    found = inconsistency(pdg, {"d": inf, "theta": inf})
    with torch.no_grad():
        square = (DATA * 0.7 - 0.4 - h(DATA)).square().mean().item() / 4
    constant = math.log(2 * math.pi * 4.0)
    assert found.upper == pytest.approx(square + theta.square().sum().item() / 8 + constant, abs=1e-9)
    found.value.backward()
    (slope,) = [p.grad for n, p in pdg["theta"].cpd.named_parameters() if n == "value"]
    off = (DATA * 0.7 - 0.4 - h(DATA)).detach()
    expected = torch.stack([(off * DATA).mean(), off.mean()]) / 2 + theta / 4
    torch.testing.assert_close(slope, expected)
