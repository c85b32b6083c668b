"""The gradient is the slope: central differences of the certified value, soft and hard arcs alike."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dissonance import Arc, Attention, SoftmaxTable, Table, inconsistency
from dissonance.solvers import CliqueTreeSolver, JointSolver, Newton
from strategies import STRUCTURED, Case, Style, random_case, random_joint

STEP = 1e-4
LEARNABLE = Style(learnable=True, gammas=(0.1, 0.5, 1.0))
SOLVERS = [Newton(tol=1e-9), CliqueTreeSolver(tol=1e-9), JointSolver(tol=1e-9)]


def middle(case: Case, solver, theta) -> tuple[float, float]:
    """The middle of the bracket and half its width."""
    result = inconsistency(case.pdg, case.attention, solver=solver, theta=theta)
    assert result.converged
    return 0.5 * (result.lower + result.upper), 0.5 * (result.upper - result.lower)


def assert_slope(case: Case, solver, seed: int, curvature: float = 100.0) -> None:
    """Compare the gradient with a central difference along a random direction in every parameter."""
    rng = np.random.default_rng(seed)
    theta = {k: v.detach() for k, v in case.pdg.theta.items()}
    result = inconsistency(case.pdg, case.attention, solver=solver)
    names, parameters = list(theta), list(case.pdg.parameters())
    gradients = torch.autograd.grad(result.value, parameters, allow_unused=True)
    for name, gradient in zip(names, gradients, strict=True):
        gradient = torch.zeros_like(theta[name]) if gradient is None else gradient
        assert torch.isfinite(gradient).all()
        way = torch.from_numpy(rng.normal(size=tuple(theta[name].shape)))
        (ahead, e1), (behind, e2) = (
            middle(case, solver, {**theta, name: theta[name] + sign * STEP * way}) for sign in (1, -1)
        )
        allowed = (e1 + e2) / (2 * STEP) + curvature * STEP**2
        assert (ahead - behind) / (2 * STEP) == pytest.approx(float((gradient * way).sum()), abs=allowed), name


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.name)
@pytest.mark.parametrize("seed", range(5))
def test_with_structure_the_gradient_is_the_slope(seed: int, solver):
    assert_slope(random_case(seed, LEARNABLE), solver, seed)


def one_hard(seed: int, style: Style) -> Case:
    """A case with one hard arc, and beliefs about the whole joint so that no kink is near."""
    case = random_case(seed, style, most=3)
    joint = random_joint(np.random.default_rng(seed), case.pdg.variables)
    pdg = case.pdg + Arc("all", (), case.pdg.variables, SoftmaxTable(joint))
    beta = {"all": 1.0 + case.attention.gamma, case.pdg.arcs[0].name: math.inf}
    return Case(pdg, case.attention.replace(beta=beta, alpha={"all": 1.0}))


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.name)
@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_of_a_hard_arc_goes_through_its_multipliers(seed: int, solver):
    assert_slope(one_hard(seed, LEARNABLE), solver, seed)


@pytest.mark.parametrize("seed", range(5))
def test_at_gamma_zero_the_gradient_is_the_slope_where_the_minimiser_is_unique(seed: int):
    case = one_hard(seed, Style(learnable=True))
    first = case.pdg.arcs[0].name
    soft = Case(case.pdg, case.attention.replace(beta={first: 1.0}))
    assert_slope(soft, Newton(tol=1e-9), seed)
    assert_slope(case, Newton(tol=1e-9), seed)


@pytest.mark.parametrize("seed", range(4))
def test_two_soft_arcs_beside_a_hard_one_of_the_same_mechanism(seed: int):
    case = one_hard(seed, LEARNABLE)
    first = case.pdg.arcs[0]
    rng = np.random.default_rng(seed + 100)
    p = rng.dirichlet(np.ones(math.prod(v.size for v in first.targets)), size=math.prod(v.size for v in first.sources))
    pdg = case.pdg + Arc("rival", first.sources, first.targets, SoftmaxTable(p.reshape(first.cpd.table_shape)))
    pdg = pdg + Arc("fixed", first.sources, first.targets, Table(p[:, ::-1].reshape(first.cpd.table_shape).copy()))
    attention = case.attention.replace(beta={"rival": 0.7, "fixed": 0.4}, alpha={"rival": 0.5})
    assert_slope(Case(pdg, attention), Newton(tol=1e-9), seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_hard_bayesian_network_is_differentiated_by_substitution(seed: int):
    rng = np.random.default_rng(seed)
    case = random_case(seed, Style(learnable=True, gammas=(0.0, 0.5)))
    arcs, before = [], []
    for v in case.pdg.variables:
        shape = [u.size for u in (*before, v)]
        p = rng.dirichlet(np.ones(v.size), size=math.prod(shape[:-1])).reshape(shape)
        arcs.append(Arc(f"hard {v.name}", tuple(before), v, SoftmaxTable(p)))
        before.append(v)
    pdg = case.pdg
    for a in arcs:
        pdg = pdg + a
    beta = {a.name: math.inf for a in arcs} | {case.pdg.arcs[0].name: -0.5}  # disbelief is welcome when mu is pinned
    case = Case(pdg, case.attention.replace(beta=beta, alpha={arcs[0].name: 1.0}))
    result = inconsistency(case.pdg, case.attention)
    assert result.solver == "pinned"
    assert_slope(case, "auto", seed)


def test_the_gradient_in_an_unattended_arc_is_zero_and_in_an_infinite_value_there_is_none():
    case = random_case(3, STRUCTURED)
    arc = Arc(
        "idle",
        (),
        case.pdg.variables[0],
        SoftmaxTable(np.full(case.pdg.variables[0].size, 1.0) / case.pdg.variables[0].size),
    )
    result = inconsistency(case.pdg + arc, case.attention)
    assert not result.value.requires_grad
    x = case.pdg.variables[0]
    points = np.eye(x.size)
    pdg = type(case.pdg)(Arc("p", (), x, SoftmaxTable(points[0])), Arc("q", (), x, SoftmaxTable(points[1])))
    assert not inconsistency(pdg, Attention.uniform(pdg)).value.requires_grad


def test_no_graph_is_built_without_grad():
    case = random_case(1, LEARNABLE)
    with torch.no_grad():
        assert not inconsistency(case.pdg, case.attention).value.requires_grad
