"""Brackets past treewidth: never wrong, exact on trees, narrow, and never mistaken for a value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dissonance import PDG, Arc, Attention, CapabilityError, Variable, inconsistency
from dissonance.bounds.dual import RelaxedDual
from dissonance.bounds.larger import helpful
from dissonance.bounds.regions import carried, regions_of
from dissonance.bounds.terms import terms_of
from dissonance.forecasts import Template
from dissonance.problem import prepare
from dissonance.scores import observational_incompatibility
from dissonance.solvers import Auto, Bounds


def test_no_bracket_misses_the_exact_value(families: Any):
    missed, compared, _ = families.wrong(60, seed=7)
    assert missed == 0 and compared > 40


def chain(n: int) -> PDG:
    rng = np.random.default_rng(1)
    v = [Variable(f"X{i}", 3) for i in range(n)]
    arcs = [Arc(f"a{i}", v[i], v[i + 1], rng.dirichlet([1, 1, 1], 3)) for i in range(n - 1)]
    return PDG(*arcs, *(Arc(f"u{i}", (), v[i], rng.dirichlet([1, 1, 1])) for i in range(n)))


def test_the_lower_bound_is_exact_on_trees():
    pdg = chain(6)
    (component,) = prepare(pdg, Attention.uniform(pdg)).parts
    dual = RelaxedDual(regions_of(terms_of(component)))
    x = dual.start
    for eps in (0.1, 0.01, 1e-3, 1e-4, 1e-5):
        x, _ = dual.raised(x, eps, 400)
    exact = inconsistency(pdg)
    value, blur = dual.certified(x)
    assert value == pytest.approx(exact.lower, rel=1e-4)
    assert value - blur <= exact.upper and blur < 1e-10


def test_a_region_for_a_frustrated_cycle_is_found_and_closes_its_gap():
    x = [Variable(f"X{i}", 2) for i in range(3)]
    agree = np.array([[0.95, 0.05], [0.05, 0.95]])
    pdg = PDG(Arc("a", x[0], x[1], agree), Arc("b", x[1], x[2], agree), Arc("c", x[2], x[0], 1 - agree))
    exact = inconsistency(pdg)
    (component,) = prepare(pdg, Attention.uniform(pdg)).parts
    terms = terms_of(component)
    found = {}
    for more in ((), ((0, 1, 2),)):
        regions = regions_of(terms, more)
        dual = RelaxedDual(regions)
        point = dual.start
        for eps in (0.1, 0.01, 1e-3, 1e-4):
            point, _ = dual.raised(point, eps, 400)
        found[more] = dual.certified(point)[0]
        if not more:
            assert helpful(terms, regions, dual.smoothed(point, eps)[2], (), 1000) == [(0, 1, 2)]
    assert exact.lower > 0.1 and found[()] < 1e-6
    assert found[((0, 1, 2),)] == pytest.approx(exact.lower, rel=1e-2)


def test_a_larger_region_that_rules_out_more_leaves_bets_on_what_is_possible():
    x, rng = [Variable(f"X{i}", 3) for i in range(3)], np.random.default_rng(0)
    lax, loose = [[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]], [[1, 0, 0], [0, 0.5, 0.5], [0, 0, 1]]
    rules = [Arc("r", x[0], x[1], lax), Arc("s", x[1], x[2], loose), Arc("t", x[2], x[0], loose)]
    said = [Arc(f"b{i}", *pair, rng.dirichlet([1, 1, 1], 3)) for i, pair in enumerate([x[:2], x[1::-1], x[:2]])]
    pdg = PDG(*rules, *said)
    (component,) = prepare(pdg, Attention.uniform(pdg)).parts
    terms = terms_of(component)
    small, large = regions_of(terms), regions_of(terms, [(0, 1, 2)])
    assert len(large.others.log_p) < len(small.others.log_p)
    before, after = RelaxedDual(small), RelaxedDual(large)
    point, _ = before.raised(before.start, 0.01, 100)
    moved = carried(point, small, large)
    assert len(moved) == after.size and after.certified(moved)[0] >= before.certified(point)[0] - 1e-9


def test_the_upper_bound_is_the_incompatibility_of_its_mu(families: Any):
    pdg = families.regular(20, True)
    found = inconsistency(pdg, solver=Bounds(seconds=0.0))
    cost = observational_incompatibility(found.mu, pdg, Attention.uniform(pdg).beta)
    assert float(cost) == pytest.approx(found.upper, rel=1e-9)
    rows = found.by_arc()
    assert sum(r.contribution for r in rows) == pytest.approx(found.upper, rel=1e-9)
    assert all(r.saved_if_dropped is None for r in rows)


def test_auto_brackets_what_no_tree_fits_and_says_so(families: Any):
    found = inconsistency(families.regular(400, True), solver=Auto(seconds=0.0))
    assert found.solver == "bounds" and found.is_bracket and not found.converged
    assert 0 < found.lower < found.upper < math.inf
    assert "between" in repr(found) and "a bracket, not a value" in found.caution


def test_the_same_seed_gives_the_same_bracket(families: Any):
    pdg = families.regular(30, True)
    one, two = (inconsistency(pdg, solver=Bounds(seconds=0.0, seed=5)) for _ in range(2))
    assert (one.lower, one.upper) == (two.lower, two.upper)


def test_disbelief_and_what_is_not_convex_are_refused():
    pdg = chain(3)
    for attention in (Attention.uniform(pdg, gamma=1.0, alpha=2.0), Attention.only({"a0": -1.0, "u0": 1.0})):
        with pytest.raises(CapabilityError, match="beta >= gamma alpha"):
            inconsistency(pdg, attention, solver="bounds")


def test_contradictory_rules_are_infinite():
    x, y = Variable("X", 2), Variable("Y", 2)
    pdg = PDG(Arc("same", x, y, np.eye(2)), Arc("x", (), x, [1.0, 0.0]), Arc("y", (), y, [0.0, 1.0]))
    assert inconsistency(pdg, solver="bounds").lower == math.inf


BOOK = [
    *("P(A) = 0.5", "P(B | A) = 0.5", "P(A and B) = 0.4", "P(A or C) = 0.3 @ 2", "P(C | not A) in [0.5, 0.6]"),
    *("A -> D", "P(D) = 0.2", "P(exactly one of A, C, E) = 0.8", "P(E) >= P(C)", "P(Winner=x) = 0.7"),
    *("P(Winner in {x, y}) = 0.5", "Winner in {x, y, z}"),
]


def test_the_bracket_of_a_book_has_bets_that_win_it_in_every_world():
    template, past = Template(BOOK), Template(BOOK)
    past.past_tree = True
    p, high = ([[getattr(b, end) for b in template.beliefs]] for end in ("low", "high"))
    exact, found = template.solve(p, high), past.solve(p, high, seconds=5.0)
    assert found.lower[0] <= exact.upper[0] and found.upper[0] >= exact.lower[0]
    assert found.upper[0] - found.lower[0] <= 0.05 * exact.upper[0]
    np.testing.assert_allclose(found.coherent, exact.coherent, atol=0.05)
    from dissonance.coherence.beliefs import as_beliefs
    from dissonance.coherence.book import _report

    report = _report(as_beliefs(BOOK), past, found, 0, "log")
    assert report.worlds is not None and report.worlds[0].gain >= report.lower - 1e-9


def test_hard_arcs_that_contradict_each_other_are_infinite():
    x, y, z = Variable("X", 2), Variable("Y", 2), Variable("Z", 2)
    cases = {
        "the same variable": [Arc("a", (), x, [0.3, 0.7]), Arc("b", (), x, [0.6, 0.4])],
        "along a chain": [
            *(Arc("a", (), x, [0.3, 0.7]), Arc("b", x, y, [[0.9, 0.1], [0.2, 0.8]])),
            Arc("c", (), y, [0.1, 0.9]),
        ],
    }
    for arcs in cases.values():
        pdg = PDG(*arcs, Arc("soft", x, z, [[0.5, 0.5], [0.1, 0.9]]))
        attention = Attention.only({a.name: math.inf for a in arcs} | {"soft": 1.0})
        assert inconsistency(pdg, attention).lower == math.inf
        found = inconsistency(pdg, attention, solver="bounds")
        assert found.lower == found.upper == math.inf
    fine = PDG(Arc("a", (), x, [0.3, 0.7]), Arc("b", x, y, [[0.9, 0.1], [0.2, 0.8]]), Arc("c", (), y, [0.41, 0.59]))
    found = inconsistency(fine, Attention.only({"a": math.inf, "b": math.inf, "c": math.inf}), solver="bounds")
    assert found.lower < 1e-6


def test_states_that_move_keep_their_counts_and_never_cost_more_than_they_did_when_it_is_cold(families: Any):
    from dissonance.bounds import descent
    from dissonance.bounds.states import Sampler

    pdg = families.regular(30, True)
    (component,) = prepare(pdg, Attention.uniform(pdg)).parts
    sampler = Sampler(terms := terms_of(component), regions_of(terms))
    rng = np.random.default_rng(0)
    down = descent.StateDescent(sampler, rng.integers(0, 2, (30, 64)).astype(np.uint8), rng)

    def cost() -> float:
        return sampler.cost(down.states)

    costs = [cost()]
    for _ in range(5):
        down.round()
        costs.append(cost())
        kept = down.tally.arrays.counts.copy()
        down.tally.count(down.states)
        np.testing.assert_array_equal(kept, down.tally.arrays.counts)
    assert costs[-1] < costs[1] < 0.5 * costs[0]
    before = cost()
    down.double()
    assert cost() == pytest.approx(before, rel=1e-12)


def test_forests_are_forests(families: Any):
    import networkx as nx

    from dissonance.bounds.forest import random_forest
    from dissonance.bounds.states import Sampler
    from dissonance.bounds.tally import CellTally

    pdg = families.grid(5, True)
    (component,) = prepare(pdg, Attention.uniform(pdg)).parts
    sampler = Sampler(terms := terms_of(component), regions_of(terms))
    tally = CellTally(sampler, np.zeros((25, 4), dtype=np.uint8))
    forest = random_forest(tally.tables, tally.holding, np.random.default_rng(1).permutation(25).tolist())
    inside = set(forest.variable.tolist())
    edges = {s for s in map(tuple, sampler.scopes) if len(s) == 2 and inside >= set(s)}
    parents = {
        tuple(sorted(e)) for e in zip(forest.variable.tolist(), forest.parent.tolist(), strict=True) if e[1] >= 0
    }
    assert len(inside) > 12 and parents == {tuple(sorted(e)) for e in edges}
    assert nx.is_forest(nx.Graph(list(edges)))
    assert len(set(forest.term.tolist())) == len(forest.term)
