"""The Gaussian solver where mu is improper or degenerate, beside finite variables, and what it refuses."""

from __future__ import annotations

import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    DissonanceError,
    Euclidean,
    LinearGaussian,
    PointMass,
    SizeError,
    Table,
    Variable,
    inconsistency,
)
from dissonance.solvers import GaussianSolver

inf = float("inf")
X, Y = (Variable(n, Euclidean(1)) for n in "XY")
PLANE = Variable("P", Euclidean(2))


def normal(b: object, Sigma: object) -> LinearGaussian:
    """N(b, Sigma)."""
    return LinearGaussian(None, b, Sigma)


# -- improper and degenerate -------------------------------------------------------------------------------------------


def test_a_lone_conditional_is_consistent_and_its_source_gets_some_spread():
    found = inconsistency(PDG(Arc("y", X, Y, LinearGaussian(2.0, 1.0, 0.5))))
    assert -1e-9 < found.lower <= 0 <= found.upper < 1e-9
    fitted = found.mu.conditional("Y", "X")
    assert float(fitted.A) == pytest.approx(2.0, abs=1e-6)
    assert float(fitted.Sigma) == pytest.approx(0.5, abs=1e-6)
    assert float(found.mu.marginal("X").covariance) > 0.01


def test_an_infimum_that_no_mu_attains_is_found_all_the_same():
    pdg = PDG(Arc("y", X, Y, LinearGaussian(1.0)), Arc("x", Y, X, LinearGaussian(1.0)))  # only a flat mu would do
    found = inconsistency(pdg)
    assert found.converged
    assert abs(found.upper) < 1e-9
    assert sum(row.contribution for row in found.by_arc(saved=False)) < 1e-3


def test_beliefs_that_agree_at_one_source_value_only_put_all_mass_there():
    pdg = PDG(Arc("p", X, Y, LinearGaussian(1.0, 0.0, 0.5)), Arc("q", X, Y, LinearGaussian(-1.0, 4.0, 0.5)))
    found = inconsistency(pdg)
    assert abs(found.upper) < 1e-9
    assert found.mu.mean.tolist() == pytest.approx([2.0, 2.0])
    assert float(found.mu.marginal("X").covariance) < 1e-9


def test_a_direction_nobody_bounds_is_minus_infinity_at_positive_gamma():
    pdg = PDG(Arc("y", X, Y, LinearGaussian(1.0)))
    found = inconsistency(pdg, Attention.uniform(pdg, gamma=0.5))
    assert (found.lower, found.upper) == (-inf, -inf)
    with pytest.raises(DissonanceError, match="no arc bounds some Euclidean direction"):
        _ = found.mu
    unmentioned = PDG(Arc("x", (), X, normal(0.0, 1.0)), variables=[X, Y])
    assert inconsistency(unmentioned, Attention.uniform(unmentioned, gamma=0.5)).upper == -inf
    assert inconsistency(unmentioned).mu.marginal("Y").covariance.tolist() == [[1.0]]


def test_what_the_solver_cannot_do_is_one_line():
    pdg = PDG(Arc("p", (), X, normal(0.0, 1.0)), Arc("q", (), X, normal(1.0, 1.0)))
    with pytest.raises(CapabilityError, match="newton solver needs finite variables; X: Euclidean"):
        inconsistency(pdg, solver="newton")
    with pytest.raises(CapabilityError, match="gaussian solver needs Euclidean variables"):
        inconsistency(PDG(Arc("p", (), Variable("C", 2), [0.5, 0.5])), solver="gaussian")
    with pytest.raises(CapabilityError, match=r"arc 'at' .* linear-Gaussian.*beta\['at'\]"):
        inconsistency(PDG(Arc("at", (), X, PointMass([1.0]))))
    both = PDG(
        Arc("p", (), PLANE, normal([0.0, 0.0], 1.0)),
        Arc("y", PLANE, Y, LinearGaussian([[1.0, 1.0]])),
        Arc("b", Y, PLANE, LinearGaussian([[1.0], [1.0]])),
    )
    with pytest.raises(SizeError, match="covariance"):
        inconsistency(both, solver=GaussianSolver(budget=100))


# -- beside finite variables -------------------------------------------------------------------------------------------


def test_finite_and_gaussian_components_live_in_one_pdg():
    C = Variable("C", 2)
    finite = PDG(Arc("p", (), C, Table([0.9, 0.1])), Arc("q", (), C, Table([0.2, 0.8])))
    normals = PDG(Arc("x", (), X, normal(0.0, 1.0)), Arc("z", (), X, normal(2.0, 1.0)))
    both = inconsistency(finite + normals)
    assert both.upper == pytest.approx(inconsistency(finite).upper + inconsistency(normals).upper)
    assert both.solver == "gaussian + newton"
    assert float(both.mu.marginal("C").sum()) == pytest.approx(1.0)
    assert float(both.mu.marginal("X").mean) == pytest.approx(1.0)
    assert sum(r.contribution for r in both.by_arc()) == pytest.approx(both.upper)
    assert set(both.mu.sample(2, torch.Generator().manual_seed(0))) == {"C", "X"}
    with pytest.raises(CapabilityError, match="ask apart"):
        both.mu.marginal("C", "X")
    assert float(both.mu.entropy()) == pytest.approx(float(both.mu.entropy("C") + both.mu.entropy("X")))


def test_a_problem_that_rounding_spoils_is_solved_as_far_as_digits_go():
    """Where rounding makes a diagonal of Newton's matrix negative the bounds so far are the answer, and they hold."""
    pdg = PDG(
        Arc("x", (), X, normal(171.0, 80.0)),
        Arc("y", X, Y, LinearGaussian([[0.25]], -1.5, 1.0)),
        Arc("z", (), Y, normal(44.0, 4.0)),
    )
    numbers = {
        "x.b": 170.81327423885938,
        "x.scale": 8.999785371927496,
        "y.A": 2.7096157661956743,
        "y.b": -1.5109352503675915,
        "y.scale": 0.01908277016390655,
        "z.b": 44.01093525036755,
        "z.scale": 8.09971500242604,
    }
    theta = {k: torch.full_like(v, numbers.get(k, 0.0)) for k, v in pdg.theta.items()}
    found = inconsistency(pdg, theta=theta)
    assert found.lower <= found.upper and found.upper - found.lower < 1e-6
