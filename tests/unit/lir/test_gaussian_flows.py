"""Flows of linear-Gaussian cpds against closed forms."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.integrate import solve_ivp
from torch import Tensor, nn

from dissonance import (
    PDG,
    Arc,
    Attention,
    Control,
    DissonanceError,
    Euclidean,
    LinearGaussian,
    Record,
    SoftmaxTable,
    Table,
    Variable,
    inconsistency,
    lir,
    load,
)
from dissonance.cpds import CPD
from dissonance.flows import ODE, Descent, FullControl, Natural, Step
from dissonance.lir.flows.fisher import natural_gradient
from dissonance.lir.parameters import Parameters

U, V = Variable("U", Euclidean(1)), Variable("V", Euclidean(1))
M, S2, AIM, AIM2 = 0.5, 1.5, 2.0, 0.6
HARD = Attention.only({"p": 1.0, "q": math.inf})
QUIET = Record()


def normal(m: float, variance: float) -> LinearGaussian:
    return LinearGaussian(None, [m], [[variance]])


def two() -> PDG:
    """A belief about U and, to be taken as hard, another."""
    return PDG(Arc("p", (), U, normal(M, S2)), Arc("q", (), U, normal(AIM, AIM2)))


def moments(pdg: PDG) -> tuple[float, float]:
    cpd = pdg["p"].cpd
    assert isinstance(cpd, LinearGaussian)
    return float(cpd.b.detach()), float(cpd.Sigma.detach())


def test_the_natural_flow_of_a_gaussian_takes_its_moments_exponentially_to_those_of_mu():
    """m(t) = m' + (m - m') e^-t, and the same of E[u^2]."""
    beta, chi = 0.6, 0.7
    attention = Attention.only({"p": beta, "q": math.inf})
    run = lir(two(), steps=3, attention=attention, control=Control({"p": chi}), trace=QUIET)
    left = math.exp(-3 * beta * chi)
    m, variance = moments(run.pdg)
    assert m == pytest.approx(AIM + (M - AIM) * left, abs=1e-9)
    second = AIM2 + AIM**2 + (S2 + M**2 - AIM2 - AIM**2) * left
    assert variance + m**2 == pytest.approx(second, abs=1e-9)


def test_the_natural_flow_of_a_conditional_gaussian_is_the_integral_of_its_equation():
    """dW/dt = W* - W and dSigma/dt = E[(t - W (s, 1))^2] - Sigma, by scipy."""
    ms, vs, a, b, s = 1.5, 2.0, -0.8, 0.3, 0.4  # U ~ N(ms, vs), V = a U + b + N(0, s): hard
    start = (0.9, -1.0, 1.2)
    pdg = PDG(
        Arc("u", (), U, normal(ms, vs)),
        Arc("v", U, V, LinearGaussian([[a]], [b], [[s]])),
        Arc("p", U, V, LinearGaussian([[start[0]]], [start[1]], [[start[2]]])),
    )

    def speed(_: float, y: Any) -> list[float]:
        off = (y[0] - a, y[1] - b)
        wrong = off[0] ** 2 * (vs + ms**2) + 2 * off[0] * off[1] * ms + off[1] ** 2
        return [-off[0], -off[1], s + wrong - y[2]]

    expected = solve_ivp(speed, (0, 1), start, rtol=1e-10, atol=1e-12).y[:, -1]
    attention = Attention.only({"u": math.inf, "v": math.inf, "p": 1.0})
    run = lir(pdg, steps=1, attention=attention, control=Control({"p": 1.0}), trace=QUIET)
    cpd = run.pdg["p"].cpd
    assert isinstance(cpd, LinearGaussian)
    found = [float(x.detach()) for x in (cpd.A, cpd.b, cpd.Sigma)]
    assert found == pytest.approx(expected.tolist(), abs=1e-7)


def test_the_fisher_matrix_is_the_curvature_of_the_divergence():
    """F = d2/dtheta'^2 E_mu(s) KL(p_theta(T|s) || p_theta'(T|s)) at theta' = theta, by autograd."""
    g = torch.Generator().manual_seed(0)
    X, T = Variable("X", Euclidean(2)), Variable("T", Euclidean(2))
    root = torch.randn(2, 2, generator=g, dtype=torch.float64)
    cpd = LinearGaussian(torch.randn(2, 2, generator=g), torch.randn(2, generator=g), root @ root.T + torch.eye(2))
    parameters = Parameters([PDG(Arc("p", X, T, cpd))])
    mean, spread = torch.randn(4, generator=g, dtype=torch.float64), torch.randn(4, 4, generator=g, dtype=torch.float64)
    C = spread @ spread.T
    joint = torch.cat([torch.cat([torch.ones(1), mean])[None], torch.cat([mean[:, None], C], 1)]).double()
    theta = parameters.theta0
    shapes = {k: v.shape for k, v in theta.items()}
    sizes = [s.numel() for s in shapes.values()]

    def unpacked(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = [y.reshape(s[1:]) for y, s in zip(x.split(sizes), shapes.values(), strict=True)]
        L = parts[2].tril(-1) + torch.diag(parts[2].diagonal().exp())
        return parts[0], parts[1], L @ L.T

    at = torch.cat([v.reshape(-1) for v in theta.values()])
    A0, b0, S0 = unpacked(at)

    def divergence(x: Tensor) -> Tensor:
        A, b, S = unpacked(x)
        off = (A - A0) @ C[:2, :2] @ (A - A0).T + torch.outer(*[(A - A0) @ mean[:2] + b - b0] * 2)
        return 0.5 * (torch.trace(torch.linalg.solve(S, S0 + off)) + torch.logdet(S) - torch.logdet(S0) - 2)

    F = torch.autograd.functional.hessian(divergence, at)
    slope = torch.randn(len(at), generator=g, dtype=torch.float64)
    slope[-3] = 0.0  # above the diagonal of scale: no parameter
    given = {k: x.reshape(s) for (k, s), x in zip(shapes.items(), slope.split(sizes), strict=True)}
    for damping in (0.0, 0.3):
        found = natural_gradient(parameters, [0], theta, given, [joint[None]], damping)
        whole = F + damping * torch.eye(len(F), dtype=F.dtype)
        expected = torch.linalg.pinv(whole, hermitian=True) @ slope
        assert torch.allclose(torch.cat([x.reshape(-1) for x in found.values()]), expected, atol=1e-8)


class Location(CPD):
    """N(theta, 1): a linear-Gaussian family of which the engine knows nothing."""

    def __init__(self, m: float) -> None:
        super().__init__()
        self.m = nn.Parameter(torch.tensor([m], dtype=torch.float64))

    def linear_gaussian(self) -> tuple[Tensor, Tensor, Tensor]:
        return torch.zeros(1, 0, dtype=torch.float64), self.m, torch.eye(1, dtype=torch.float64)


def test_other_linear_gaussian_families_take_euler_steps_through_their_fisher_matrix():
    pdg = PDG(Arc("p", (), U, Location(M)), Arc("q", (), U, normal(AIM, AIM2)))
    run = lir(pdg, steps=1, flow=Natural(4), attention=HARD, control=Control({"p": 0.5}), trace=QUIET)
    assert float(run.theta["p.m"]) == pytest.approx(AIM + (M - AIM) * (1 - 0.5 / 4) ** 4, abs=1e-9)


def test_every_part_of_a_pdg_with_finite_and_euclidean_variables_flows_naturally():
    X = Variable("X", 2)
    pdg = two() + PDG(Arc("r", (), X, SoftmaxTable([0.9, 0.1])), Arc("h", (), X, Table([0.3, 0.7])))
    attention = Attention.only({"p": 1.0, "q": math.inf, "r": 1.0, "h": math.inf})
    run = lir(pdg, steps=1, attention=attention, control=Control({"p": 1.0, "r": 1.0}), trace=QUIET)
    assert moments(run.pdg)[0] == pytest.approx(AIM + (M - AIM) / math.e, abs=1e-9)
    assert float(run.pdg["r"].cpd.table()[0].detach()) == pytest.approx(0.3 + 0.6 / math.e, abs=1e-7)


# -- the gradient flow -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flow", [ODE(), ODE("dopri5"), ODE("rk4", steps=6)])
def test_the_gradient_flow_of_one_parameter_is_its_closed_form(flow: Any):
    """db/dt = (m' - b)/Sigma with Sigma fixed; dSigma/dt = 2 (S - Sigma), S = E[(u - b)^2], with b fixed."""
    mean = lir(two(), steps=1, flow=flow, attention=HARD, control=Control({"p.b": 1.0}), trace=QUIET)
    assert moments(mean.pdg) == pytest.approx((AIM + (M - AIM) * math.exp(-1 / S2), S2), abs=1e-4)
    width = lir(two(), steps=1, flow=flow, attention=HARD, control=Control({"p.scale": 1.0}), trace=QUIET)
    S = AIM2 + (M - AIM) ** 2
    assert moments(width.pdg) == pytest.approx((M, S + (S2 - S) * math.exp(-2)), abs=1e-4)


def test_a_gradient_step_is_chi_times_the_gradient():
    pdg = two()
    inconsistency(pdg, HARD).value.backward()
    slope = pdg.theta["p.b"].grad
    assert slope is not None and float(slope) == pytest.approx((M - AIM) / S2)
    run = lir(two(), steps=1, flow=Step(), attention=HARD, control=Control({"p": 0.2}), trace=QUIET)
    assert float(run.theta["p.b"]) == pytest.approx(M - 0.2 * float(slope), abs=1e-9)


@pytest.mark.parametrize("flow", [Step(), Descent(), Descent("SGD", 0.1), ODE(), ODE("rk4"), Natural(), FullControl()])
def test_control_is_component_by_component(flow: Any):
    W = Variable("W", Euclidean(2))
    p = LinearGaussian(None, [0.0, 0.0], [[1.0, 0.3], [0.3, 2.0]])
    pdg = PDG(Arc("p", (), W, p), Arc("q", (), W, LinearGaussian(None, [1.0, -1.0], [[0.5, 0.0], [0.0, 0.5]])))
    chi = Control({"p.b": torch.tensor([0.5, 0.0]), "p.scale": torch.tensor([[0.0, 0.0], [0.0, 0.5]])})
    run = lir(pdg, steps=1, flow=flow, attention=HARD, control=chi, trace=QUIET)
    moved = {k: (run.theta[k] != pdg.theta[k]).tolist() for k in ("p.b", "p.scale", "q.b", "q.scale")}
    assert moved == {
        "p.b": [True, False],
        "p.scale": [[False, False], [False, True]],
        "q.b": [False] * 2,
        "q.scale": [[False] * 2] * 2,
    }
    assert run.after.upper < run.before.upper


def test_full_control_of_the_mean_alone_takes_it_to_the_mean_of_mu():
    run = lir(two(), steps=1, attention=HARD, control=Control({"p.b": math.inf}), trace=QUIET)
    assert moments(run.pdg) == pytest.approx((AIM, S2), abs=1e-5)


def test_the_flow_of_a_stiff_model_arrives():
    """A slope in shoe sizes per centimetre is thirty thousand times as stiff as a shift."""
    pdg, _ = load(Path(__file__).parents[3] / "examples" / "shoes.json", learnable=True)
    rule = Control({"rule.A": 1.0})
    ode = lir(pdg, steps=1, flow=ODE(rtol=1e-2, atol=1e-4), control=rule, trace=QUIET)
    assert ode.resolution_percent > 90 and not ode.trace.rows[0].projected
    assert lir(pdg, steps=4, trace=QUIET).resolution_percent > 99.9


def test_a_stiff_flow_is_too_much_for_an_explicit_method():
    pdg, _ = load(Path(__file__).parents[3] / "examples" / "shoes.json", learnable=True)
    with pytest.raises(DissonanceError, match=r"ode\(dopri5\) did not get through.*stiff"):
        lir(pdg, steps=1, flow=ODE("dopri5", most=3), trace=QUIET)


@pytest.mark.parametrize("flow", [Step(), Descent("SGD", 1.0, 2), ODE("euler", steps=1)])
def test_a_gaussian_that_leaves_the_parameter_space_is_projected_and_says_so(flow: Any):
    far = PDG(Arc("p", (), U, normal(0.0, 1.0)), Arc("q", (), U, normal(1e3, 1.0)))
    run = lir(far, steps=1, flow=flow, attention=HARD, trace=QUIET)
    assert run.trace.rows[0].projected
    assert all(bool(torch.isfinite(x).all()) for x in run.theta.values())
    assert math.isfinite(run.after.upper)
    near = lir(two(), steps=1, flow=flow, attention=HARD, control=Control({"p": 0.01}), trace=QUIET)
    assert not near.trace.rows[0].projected
