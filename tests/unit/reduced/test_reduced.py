"""The reduced dual: its bounds hold, meet, and agree with Newton's; `auto` takes it where Newton's steps do not fit."""

from __future__ import annotations

import math
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, CapabilityError, SoftmaxTable, Variable, incompatibility, inconsistency
from dissonance.problem import Batch, prepare
from dissonance.reduced.dual import ReducedDual, reduced_terms
from dissonance.solvers import Auto, Newton, Reduced, exact, solve_parts
from dissonance.solvers.peeled import Peeled

ROOT = Path(__file__).parents[3]


@pytest.fixture
def families(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.delitem(sys.modules, "bounds", raising=False)
    return import_module("bounds")


def test_no_bracket_of_the_reduced_dual_misses_the_exact_value(families: Any):
    missed, compared, gaps = families.wrong(60, seed=3, make=families.structural, solver=lambda k: Reduced(seconds=0.2))
    assert missed == 0 and compared > 40 and np.median(gaps) < 1e-6


@pytest.mark.parametrize("gamma", [0.03, 0.3])
def test_grids_have_the_value_mu_and_blame_that_newton_finds(families: Any, gamma: float):
    pdg = families.grid(4, True)
    attention = Attention.uniform(pdg, gamma=gamma)
    with torch.no_grad():
        found = inconsistency(pdg, attention, solver="reduced")
        known = inconsistency(pdg, attention, solver="newton")
    assert found.converged and not found.is_bracket and found.solver == "reduced"
    assert found.lower <= known.upper and known.lower <= found.upper
    assert found.upper == pytest.approx(known.upper, abs=1e-6)
    assert float(incompatibility(found.mu, pdg, attention)) == pytest.approx(found.upper, abs=1e-9)
    for a, b in zip(found.by_arc(saved=False), known.by_arc(saved=False), strict=True):
        assert a.contribution == pytest.approx(b.contribution, abs=1e-4)


def hard_loop() -> tuple[PDG, Attention]:
    rng = np.random.default_rng(5)
    a, b, c, d = (Variable(x, 3) for x in "ABCD")
    table = lambda n: SoftmaxTable(rng.dirichlet([1, 1, 1], n))  # noqa: E731
    pdg = PDG(
        Arc("ab", a, b, table(3)),
        Arc("bc", b, c, table(3)),
        Arc("cd", c, d, table(3)),
        Arc("da", d, a, table(3)),
        Arc("a", (), a, SoftmaxTable(rng.dirichlet([1, 1, 1]))),
    )
    return pdg, Attention.only({"ab": math.inf, "bc": 1.0, "cd": math.inf, "da": 0.7, "a": 0.0}, {"a": 0.0}, 0.2)


def test_hard_arcs_hold_and_gradients_are_newtons():
    pdg, attention = hard_loop()
    slopes = {}
    for solver in ("reduced", "newton"):
        result = inconsistency(pdg, attention, solver=solver)
        assert result.converged and result.within == 0
        moving = list(pdg.parameters())
        slopes[solver] = torch.autograd.grad(result.value, moving, allow_unused=True)
    for found, known in zip(slopes["reduced"], slopes["newton"], strict=True):
        assert (found is None) == (known is None)
        assert found is None or torch.allclose(found, known, atol=1e-4)


def test_hard_arcs_that_contradict_each_other_are_infinite():
    x = Variable("X", 2)
    pdg = PDG(Arc("p", (), x, [0.5, 0.5]), Arc("q", (), x, [0.2, 0.8]), Arc("r", (), x, [0.4, 0.6]))
    attention = Attention.only({"p": math.inf, "q": math.inf, "r": 1.0}, {}, 0.1)
    assert inconsistency(pdg, attention, solver="reduced").lower == math.inf


def test_any_conditionals_prove_a_lower_bound_and_the_gradient_is_that_of_the_value(families: Any):
    pdg = families.grid(3, True)
    (component,) = prepare(pdg, Attention.uniform(pdg, gamma=0.2)).parts
    dual = ReducedDual(component.tree, reduced_terms(component))
    rng, exact_value = np.random.default_rng(0), inconsistency(pdg, Attention.uniform(pdg, gamma=0.2)).upper
    for _ in range(10):
        x = dual.tamed(rng.normal(size=len(dual.start)))
        point = dual.at_point(x, 0.2)
        assert point.value - dual.blur(point) <= exact_value <= point.incompatibility(0.2) + dual.blur(point)
        assert dual.least(point) >= point.value
        way = rng.normal(size=len(x))
        ahead, behind = (dual.at_point(x + h * way, 0.2).value for h in (1e-6, -1e-6))
        assert (ahead - behind) / 2e-6 == pytest.approx(float(point.gradient @ way), rel=1e-5, abs=1e-6)


def test_without_gamma_it_is_a_bracket_that_holds_the_value(families: Any):
    pdg = families.grid(4, False)
    with torch.no_grad():
        found, known = inconsistency(pdg, solver="reduced"), inconsistency(pdg)
    assert found.lower <= known.upper and known.lower <= found.upper
    assert found.upper - found.lower < 1e-4 and found.is_bracket
    assert "bracket" in found.caution and "0.00 %" not in found.caution


def test_without_gamma_nothing_costs_less_than_0_however_little_time_there_is():
    rng = np.random.default_rng(3)
    x = [Variable(f"X{i}", 3) for i in range(6)]
    pairs = [(x[i], x[(i + k) % 6]) for i in range(6) for k in (1, 2)]
    pdg = PDG(*(Arc(f"{a.name}{b.name}", a, b, rng.dirichlet(np.full(3, 0.05), 3)) for a, b in pairs))
    found = inconsistency(pdg, solver=Reduced(seconds=0.0))
    assert not found.converged and -1e-12 < found.lower < inconsistency(pdg).lower


def test_auto_takes_it_where_newton_has_too_much_to_do(families: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exact, "MOST_WORK", 1e4)
    pdg = families.grid(4, True)
    for gamma in (0.0, 0.1):
        (component,) = prepare(pdg, Attention.uniform(pdg, gamma=gamma)).parts
        assert Newton().refuses(component)
        with torch.no_grad():
            assert inconsistency(pdg, Attention.uniform(pdg, gamma=gamma), solver=Auto(seconds=0.3)).solver == "reduced"


def test_auto_takes_it_where_newtons_pairs_of_cells_do_not_fit(families: Any):
    pdg = families.grid(5, True)
    (component,) = prepare(pdg, Attention.uniform(pdg, gamma=0.1)).parts
    for solver, wanted in ((Auto(budget=200_000), "reduced"), (Auto(), "newton")):
        for whole in (component, Batch.together([component] * 3)):
            ((found, rows),) = solver.choose(whole)
            assert found.name == wanted and rows.tolist() == list(range(len(whole)))


def test_what_is_not_convex_is_refused():
    x = Variable("X", 2)
    pdg = PDG(Arc("p", (), x, [0.5, 0.5]), Arc("q", (), x, [0.2, 0.8]))
    with pytest.raises(CapabilityError, match="beta >= gamma alpha"):
        inconsistency(pdg, Attention.only({"p": 0.1, "q": 0.1}, {"p": 1.0, "q": 1.0}, 1.0), solver="reduced")


def test_loose_ends_cost_nothing_at_gamma_above_0_either():
    rng = np.random.default_rng(2)
    x = [Variable(f"X{i}", 3) for i in range(5)]
    arcs = [Arc(f"a{i}", x[i], x[i + 1], rng.dirichlet([1, 1, 1], 3)) for i in range(4)]
    pdg = PDG(*arcs, Arc("e", (), x[2], [0.1, 0.2, 0.7]), Arc("f", (), x[2], [0.6, 0.2, 0.2]))
    (component,) = prepare(pdg, Attention.uniform(pdg, gamma=0.3)).parts
    with torch.no_grad():
        whole, (peeled,) = Newton().solve(component), solve_parts([component], Peeled())
    assert peeled.upper == pytest.approx(whole.upper, abs=1e-8)
    for v in x:
        assert torch.allclose(whole.mu.marginal(v.name), peeled.mu.marginal(v.name), atol=1e-4)
