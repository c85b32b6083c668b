"""mu* at gamma = 0: among the minimisers of OInc the one that minimises SDef, the gamma -> 0+ limit."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from dissonance import PDG, Arc, Attention, Variable, inconsistency, structural_deficiency
from dissonance.solvers import CliqueTree
from reference import convex
from strategies import Style, random_case

X, Y = Variable("X", 3), Variable("Y", 4)


def rows(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), size=shape[:-1])


def entropies(p: np.ndarray) -> np.ndarray:
    return -(p * np.log(p)).sum(-1)


def test_an_indifferent_source_is_uniform():
    """The quasi-convexity case: both rows of p(B|A) equal, so that A does not matter; SDef makes it uniform."""
    a, b = Variable("A", 2), Variable("B", 2)
    pdg = PDG(Arc("q", (), b, [0.5, 0.5]), Arc("p", a, b, [[0.25, 0.75], [0.25, 0.75]]))
    result = inconsistency(pdg)
    np.testing.assert_allclose(result.mu.marginal("A"), [0.5, 0.5], atol=1e-6)
    middle = np.sqrt([0.125, 0.375]) / np.sqrt([0.125, 0.375]).sum()
    np.testing.assert_allclose(result.mu.marginal("A", "B"), np.outer([0.5, 0.5], middle), atol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_one_arc_leaves_its_sources_to_structure(alpha: float):
    """min -H(X,Y) + alpha H(Y|X) with mu(Y|X) = p: mu(x) is proportional to exp((1 - alpha) H(p(.|x)))."""
    p = rows(0, 3, 4)
    pdg = PDG(Arc("p", X, Y, p))
    result = inconsistency(pdg, Attention({"p": 1.0}, {"p": alpha}))
    weight = np.exp((1 - alpha) * entropies(p))
    np.testing.assert_allclose(result.mu.marginal("X"), weight / weight.sum(), atol=1e-5)
    np.testing.assert_allclose(result.mu.conditional("Y", "X"), p, atol=1e-5)
    assert result.mu_error < 1e-5


def test_unmentioned_variables_are_uniform_and_independent():
    pdg = PDG(Arc("x", (), X, [0.2, 0.3, 0.5]), variables=(X, Y))
    mu = inconsistency(pdg).mu
    np.testing.assert_allclose(mu.marginal("X", "Y"), np.outer([0.2, 0.3, 0.5], np.full(4, 0.25)), atol=1e-7)


def test_only_the_least_inconsistent_rows_carry_mass():
    """Two conditionals that agree at X = 1 and disagree elsewhere: all mass goes where they agree."""
    p, q = rows(1, 3, 4), rows(2, 3, 4)
    q[1] = p[1]
    pdg = PDG(Arc("p", X, Y, p), Arc("q", X, Y, q))
    result = inconsistency(pdg)
    assert result.upper == pytest.approx(0, abs=1e-7)
    np.testing.assert_allclose(result.mu.marginal("X"), [0, 1, 0], atol=1e-5)


def test_the_weight_of_an_arc_does_not_change_what_is_selected():
    """The selection depends on the set of minimisers and on alpha, not on the scale of beta."""
    p = rows(3, 3, 4)
    for scale in (1e-3, 1.0, 1e3):
        mu = inconsistency(PDG(Arc("p", X, Y, p)), Attention({"p": scale}, {"p": 0.3})).mu
        weight = np.exp(0.7 * entropies(p))
        np.testing.assert_allclose(mu.marginal("X"), weight / weight.sum(), atol=1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_limit_of_small_gammas(seed: int):
    case = random_case(seed, Style(hard=0.1), most=4)
    names = [v.name for v in case.pdg.variables]
    mu = inconsistency(case.pdg, case.attention).mu.marginal(*names).numpy()
    # an independent solver at a gamma it can resolve, and a certified solve at a much smaller one
    coarse = convex.solve(case.pdg, case.attention.replace(gamma=3e-4))
    assert coarse.accurate and 0.5 * np.abs(mu - coarse.mu).sum() < 0.03
    gamma = 1e-5
    fine = inconsistency(case.pdg, case.attention.replace(gamma=gamma), solver=CliqueTree(tol=1e-10))
    unsure = math.sqrt(2 * (fine.upper - fine.lower) / gamma)  # by strong convexity
    assert unsure < 0.01
    assert 0.5 * np.abs(mu - fine.mu.marginal(*names).numpy()).sum() < unsure + 1e-3


@pytest.mark.parametrize("solver", ["newton", "clique-tree", "joint"])
def test_every_solver_selects_the_same_mu(solver: str):
    for seed in range(8):
        case = random_case(seed, Style(zeros=0.1, hard=0.15))
        names = [v.name for v in case.pdg.variables]
        one, other = (inconsistency(case.pdg, case.attention, solver=s) for s in ("auto", solver))
        gap = 0.5 * (one.mu.marginal(*names) - other.mu.marginal(*names)).abs().sum()
        assert float(gap) <= 1e-5 + 3 * (one.mu_error + other.mu_error), seed


def test_no_other_minimiser_has_less_structural_deficiency():
    better = 0
    for seed in range(15):
        case = random_case(seed, Style(zeros=0.1))
        result = inconsistency(case.pdg, case.attention)
        for s in result.solutions:
            names = {a.name for a in s.component.arcs}
            alpha = {n: a for n, a in case.attention.alpha.items() if n in names}
            pdg = s.component.pdg
            found = inconsistency(pdg, Attention({a.name: a.beta for a in s.component.arcs}, alpha))
            selected = float(structural_deficiency(found.mu, pdg, alpha))
            other = float(structural_deficiency(s.mu, pdg, alpha))  # the solver's own minimiser
            assert selected <= other + 1e-4
            better += selected < other - 1e-4
    assert better > 0  # it does make a difference


def test_it_is_computed_only_when_asked(monkeypatch: pytest.MonkeyPatch):
    def never(*_: object) -> None:
        raise AssertionError("selected without being asked")

    monkeypatch.setattr(sys.modules["dissonance.inconsistency"], "select", never)
    result = inconsistency(PDG(Arc("p", X, Y, rows(4, 3, 4))))
    assert math.isfinite(result.upper)
    with pytest.raises(AssertionError, match="without being asked"):
        _ = result.mu
