"""When hard arcs hold: one definition, the same in every solver and in scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, Variable, incompatibility, inconsistency, numerics, tolerances
from dissonance.distributions import Joint
from dissonance.inconsistency import Inconsistency

inf = math.inf
X, Y, Z = Variable("X", 2), Variable("Y", 2), Variable("Z", 2)
EXACT = ["newton", "joint", "clique-tree"]
EVERY = ["pinned", *EXACT]


def two(a: list[float], b: list[float], solver: str) -> Inconsistency:
    """Two hard beliefs about X and a soft one."""
    pdg = PDG(Arc("a", (), X, a), Arc("b", (), X, b), Arc("c", (), X, [0.3, 0.7]))
    return inconsistency(pdg, Attention.only({"a": inf, "b": inf, "c": 1.0}), solver=solver)


def own_score(result: Inconsistency) -> float:
    return float(incompatibility(result.mu, result.pdg, result.attention))


@pytest.mark.parametrize("solver", EVERY)
def test_what_an_arc_calls_impossible_is_impossible_however_small(solver):
    result = two([1 - 9e-9, 9e-9], [1.0, 0.0], solver)
    assert (result.lower, result.upper, result.converged) == (inf, inf, True)
    mu = Joint([X], [1 - 9e-9, 9e-9])
    assert float(incompatibility(mu, result.pdg, result.attention)) == inf


@pytest.mark.parametrize("off", [0.0, 1e-13])
@pytest.mark.parametrize("solver", EVERY)
def test_what_differs_by_rounding_holds(solver, off):
    result = two([0.5, 0.5], [0.5 + off, 0.5 - off], solver)
    assert result.converged and result.within == 0
    assert own_score(result) == pytest.approx(result.upper, abs=1e-9)


@pytest.mark.parametrize("off", [1e-11, 1e-10, 3e-9])
def test_what_holds_only_within_1e_8_says_so_and_solvers_agree(off):
    found = [two([0.5, 0.5], [0.5 + off, 0.5 - off], solver) for solver in EVERY]
    for result in found:
        assert result.converged and result.within == tolerances.FEASIBLE
        assert "hold only within 1e-08" in repr(result)
        assert own_score(result) == pytest.approx(result.upper, abs=1e-7)
    assert max(r.lower for r in found) <= min(r.upper for r in found)


@pytest.mark.parametrize("off", [1e-7, 1e-4, 0.1])
@pytest.mark.parametrize("solver", EVERY)
def test_what_differs_by_more_is_a_contradiction(solver, off):
    result = two([0.5, 0.5], [0.5 + off, 0.5 - off], solver)
    assert (result.lower, result.upper, result.converged) == (inf, inf, True)


@pytest.mark.parametrize("off", [1e-8, 2e-8, 4e-8])
@pytest.mark.parametrize("solver", EVERY)
def test_between_the_two_nothing_wrong_is_said(solver, off):
    """Some mu may satisfy both within 1e-8: no bound says that none does, or how much it costs."""
    result = two([0.5, 0.5], [0.5 + off, 0.5 - off], solver)
    low = two([0.5, 0.5], [0.5, 0.5], solver)
    assert result.lower == inf or result.lower <= low.upper
    assert result.converged == (result.lower == inf or result.upper < inf)
    assert ("undecided: hard arcs contradict each other" in repr(result)) == (not result.converged)


@pytest.mark.parametrize("size", [1e-6, 1e-7, 1e-8, 3e-9, 1e-9, 1e-10, 1e-12, 1e-15])
def test_tables_whose_shared_marginals_differ_are_solved_or_refused_never_a_crash(size):
    rng = np.random.default_rng(17)
    for _ in range(5):
        a, b = rng.dirichlet(np.ones(4)).reshape(2, 2), rng.dirichlet(np.ones(2), 2)
        b = b * (a.sum(0) + np.array([size, -size]))[:, None]
        pdg = PDG(Arc("a", (), (X, Y), a), Arc("b", (), (Y, Z), b / b.sum()), Arc("c", X, Z, [[0.3, 0.7], [0.6, 0.4]]))
        attention = Attention.only({"a": inf, "b": inf, "c": 1.0})
        found = [inconsistency(pdg, attention, solver=s) for s in EXACT]
        exact, close = [r for r in found if not r.within], [r for r in found if r.within]
        assert max((r.lower for r in exact), default=-inf) <= min((r.upper for r in exact), default=inf)
        assert max((r.lower for r in close), default=-inf) <= min(r.upper for r in found)
        for r in found:
            if r.upper < inf:
                assert r.upper < 10 and own_score(r) <= r.upper + 1e-7


def test_the_seeds_of_the_stress_run_that_crossed():
    """Hard arcs that contradict each other by 1e-9 where probabilities are 1e-9: a contradiction, relatively."""
    p, q = [1 - 1e-9, 1e-9], [1 - 2e-9, 2e-9]
    for solver in EVERY:
        assert two(p, q, solver).lower == inf


def test_broken_is_relative_and_leaves_rounding_alone():
    p = torch.tensor([[0.25, 0.75]], dtype=torch.float64)
    assert numerics.broken(p + torch.tensor([1e-13, -1e-13]), p) <= tolerances.ROUNDING
    assert numerics.broken(p + torch.tensor([1e-12, -1e-12]), p) > tolerances.ROUNDING
    assert numerics.broken(p + torch.tensor([1e-6, -1e-6]), p) == pytest.approx(4e-6, rel=1e-3)
    zero = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    assert numerics.broken(torch.tensor([[1e-14, 1 - 1e-14]], dtype=torch.float64), zero) == inf
    assert numerics.broken(zero, zero) == 0
