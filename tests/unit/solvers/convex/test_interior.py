"""The Newton method: from a cold start, from nearby solutions, to where rounding ends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from problems import (
    branching,
    by_clarabel,
    chain,
    component,
    hub,
    inf,
    interpreted,
    iterated,
    loop,
    nudged,
    program,
    rows,
    spread,
)

from dissonance import PDG, Arc, Attention, Variable
from dissonance.problem import Batch, prepare
from dissonance.solvers import CliqueTreeSolver, Newton
from dissonance.solvers.convex import interior, steps
from dissonance.solvers.convex import work as working
from dissonance.solvers.convex.conic import conic
from dissonance.solvers.convex.interior import PATIENCE
from dissonance.solvers.convex.solve import Work, prove, solve
from dissonance.solvers.exact import NewtonMarginals
from dissonance.solvers.front import solve_parts
from strategies import Style, random_case


def gaps(work: Work) -> np.ndarray:
    work.certify()
    return work.bounds[:, 1] - work.bounds[:, 0]


def check_against_clarabel(c: Batch) -> None:
    found = Newton().solve(c)
    low, high, residual = by_clarabel(c).bounds[0].tolist()
    assert found.converged and found.method == ("newton",)
    if residual <= 1e-12:
        assert max(low - c.accuracy.blur(np.zeros(1))[0], found.lower) <= min(
            high + c.accuracy.blur(np.zeros(1))[0], found.upper
        )
    assert found.upper == pytest.approx(high, abs=1e-6 * max(1.0, abs(high)))


@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_a_deep_tree_is_solved_in_few_steps(gamma: float):
    rng = np.random.default_rng(6)
    xs = [Variable(f"X{i}", 2) for i in range(90)]
    arcs = [Arc(f"f{i}", xs[i], xs[i + 1], rows(rng, 2, 2)) for i in range(89)]
    arcs += [Arc(f"b{i}", xs[i + 1], xs[i], rows(rng, 2, 2)) for i in range(89)]
    arcs += [Arc(f"side{i}", xs[i], Variable(f"Y{i}", 2), rows(rng, 2, 2)) for i in range(0, 90, 7)]
    pdg = PDG(*arcs)
    c = component(pdg, Attention.uniform(pdg, gamma=gamma))
    parent, depth = c.tree.parent, np.zeros(len(c.tree.parent), dtype=int)
    for k, p in enumerate(parent):
        depth[k] = depth[p] + 1 if p >= 0 else 0
    assert depth.max() > 40
    check_against_clarabel(c)
    assert Newton().solve(c).steps < 25


def test_a_hub_with_many_children_is_no_harder_than_a_chain():
    c = component(hub(np.random.default_rng(7), 60))
    check_against_clarabel(c)
    assert Newton().solve(c).steps < 25


@pytest.mark.parametrize("gamma", [0.0, 0.3])
@pytest.mark.parametrize("hard", [(), ("ca",), ("abc", "dg")], ids=lambda x: "-".join(x) or "soft")
def test_wide_clusters_are_solved_as_clarabel_solves_them(gamma: float, hard: tuple[str, ...]):
    pdg = branching(np.random.default_rng(8))
    c = component(pdg, Attention.uniform(pdg, beta=1.5, gamma=gamma).replace(beta=dict.fromkeys(hard, inf)))
    check_against_clarabel(c)


def test_a_tree_with_several_children_a_cluster_and_a_hard_arc():
    rng = np.random.default_rng(18)
    xs = [Variable(f"X{i}", 2 + i % 2) for i in range(14)]
    arcs = [Arc(f"a{i}", xs[i // 3], xs[i], rows(rng, xs[i // 3].size, xs[i].size)) for i in range(1, 14)]
    arcs += [Arc(f"b{i}", xs[i], xs[i // 3], rows(rng, xs[i].size, xs[i // 3].size)) for i in range(1, 14)]
    pdg = PDG(*arcs)
    for gamma in (0.0, 0.3):
        check_against_clarabel(component(pdg, Attention.uniform(pdg, gamma=gamma).replace(beta={"a3": inf})))


def test_a_warm_start_takes_fewer_steps_and_ends_where_a_cold_one_does():
    rng = np.random.default_rng(8)
    pdgs = [loop(rng) for _ in range(10)]
    one = program([component(p) for p in pdgs])
    at = solve(one, spread(one), spread(one, 1e-9)).at
    moved = program([component(nudged(p, rng)) for p in pdgs])
    assert moved.structure is one.structure
    again = solve(moved, spread(moved), spread(moved, 1e-9), at)
    fresh = solve(moved, spread(moved), spread(moved, 1e-9))
    assert again.steps.mean() < 0.75 * fresh.steps.mean()
    for found in (again, fresh):
        assert (found.bounds[:, 1] - found.bounds[:, 0] <= 1e-9).all()
    assert (again.bounds[:, 0] <= fresh.bounds[:, 1]).all() and (fresh.bounds[:, 0] <= again.bounds[:, 1]).all()


def test_a_solution_is_followed_in_few_steps_and_one_far_away_is_left_where_it_was():
    rng = np.random.default_rng(9)
    pdgs = [loop(rng) for _ in range(10)]
    one = program([component(p) for p in pdgs])
    at = iterated(one, 1e-9)[0].at.copy()
    moved = program([component(nudged(p, rng)) for p in pdgs])
    found, taken = iterated(moved, 1e-9, 5, at, start=interior.FOLLOWING)
    close = gaps(found) < 1e-7
    assert close.sum() >= 8 and taken[close].mean() < 3.5

    other = program([component(loop(rng)) for _ in range(10)])
    lost, _ = iterated(other, 1e-9, 5, at, start=interior.FOLLOWING)
    kept = (lost.mu == at[:, : lost.L.cells]).all(1)
    assert kept.any() and (gaps(lost)[kept] > 1e-7).all()
    solved = solve(other, spread(other, 1e-9), spread(other, 1e-8), at)
    fresh = solve(other, spread(other, 1e-9), spread(other, 1e-8))
    assert (solved.bounds[:, 1] - solved.bounds[:, 0] <= 1e-8).all()
    np.testing.assert_allclose(solved.bounds[:, 1], fresh.bounds[:, 1], atol=2e-8)
    assert (solved.steps[kept] > 1).all()


def test_a_problem_that_is_finished_takes_no_step():
    """From its own solution: nothing moves, and the proof is what it was."""
    rng = np.random.default_rng(10)
    one = program([component(loop(rng)) for _ in range(6)])
    before = solve(one, spread(one, 1e-9), spread(one, 1e-8))
    again = solve(one, spread(one, 1e-9), spread(one, 1e-8), before.at)
    assert (again.steps == 0).all()
    np.testing.assert_array_equal(again.mu, before.mu)
    np.testing.assert_allclose(again.bounds, before.bounds, rtol=0, atol=1e-14)  # log q is normalised once more


def test_no_start_whatever_it_is_keeps_a_problem_from_being_solved():
    rng = np.random.default_rng(11)
    one = program([component(loop(rng)) for _ in range(4)])
    fresh = solve(one, spread(one), spread(one, 1e-9))
    for bad in (np.nan, np.inf, 0.0, -1.0, 1e300):
        found = solve(one, spread(one), spread(one, 1e-9), np.full_like(fresh.at, bad))
        assert (found.bounds[:, 1] - found.bounds[:, 0] <= 1e-9).all(), bad
        assert (found.bounds[:, 0] <= fresh.bounds[:, 1]).all() and (fresh.bounds[:, 0] <= found.bounds[:, 1]).all()


def test_a_start_that_leads_nowhere_is_forgotten():
    c = component(chain(np.random.default_rng(13), 60))
    found = Newton().solve(c)
    assert isinstance(found.on, NewtonMarginals)
    nowhere = replace(found.on.outcome, at=np.full_like(found.on.outcome.at, np.nan))
    lost = replace(found, on=NewtonMarginals(found.on.structure, nowhere))
    again = solve_parts([c], Newton(), near=[lost])[0]
    assert again.converged and again.upper == pytest.approx(found.upper, abs=1e-8)


def test_a_start_of_another_structure_is_not_used():
    rng = np.random.default_rng(14)
    c, other = component(loop(rng)), component(chain(rng, 4))
    here, there = Newton().solve(c), Newton().solve(other)
    again = solve_parts([c], Newton(), near=[there])[0]
    assert (again.lower, again.upper, again.steps) == (here.lower, here.upper, here.steps)


def test_hard_arcs_over_overlapping_rows_take_few_steps():
    rng = np.random.default_rng(11)
    a, s, o = (Variable(n, k) for n, k in zip("ASO", (2, 3, 3), strict=True))
    pdg = PDG(
        Arc("policy", (), a, rows(rng, 2)),
        Arc("belief", a, s, rows(rng, 2, 3)),
        Arc("outcome", (s, a), o, rows(rng, 3, 2, 3)),
        Arc("wish", (), o, rows(rng, 3)),
    )
    hard = component(pdg, Attention.only({"policy": inf, "outcome": inf, "belief": 1.0, "wish": 1.0}))
    found = Newton().solve(hard)
    assert found.converged and found.method == ("newton",) and found.steps < 15
    assert found.upper == pytest.approx(CliqueTreeSolver().solve(hard).upper, abs=1e-7)


def test_steps_end_where_they_are_told_to():
    one = program(component(loop(np.random.default_rng(15))))
    taken = [int(iterated(one, 1e-10, most)[1][0]) for most in (0, 1, 3, 60)]
    assert taken[:3] == [0, 1, 3] and 3 < taken[3] < 60
    reached = [float(gaps(iterated(one, 1e-10, most)[0])[0]) for most in (0, 3, 60)]
    assert reached[0] > reached[1] > reached[2]


def test_when_rounding_takes_over_the_best_point_stands(monkeypatch: pytest.MonkeyPatch):
    """From the tenth step on, directions are off by as much as they are long."""
    case = random_case(3, Style())
    one = program(prepare(case.pdg, case.attention).parts[0])
    good = float(gaps(iterated(one, 1e-14, 8)[0])[0])
    calls = 0
    aim, system = interior.aim, interior.solve_system

    def counted(*args: Any) -> None:
        nonlocal calls
        calls += 1
        aim(*args)

    def worse(*args: Any) -> None:
        system(*args)
        if calls >= 10:
            (_, X, L, *_), at = args, steps.AT
            for start, size in ((L[at.x], L[at.cells]), (L[at.dd], L[at.unknowns])):
                X[start : start + size] *= np.random.default_rng(calls).uniform(-1, 3, size)

    monkeypatch.setattr(interior, "aim", counted)
    monkeypatch.setattr(interior, "solve_system", worse)
    monkeypatch.setattr(working, "newton", interpreted(interior.newton))
    work = Work(one.structure, one.numbers)
    work.newton(np.array([1e-16]))
    assert 10 <= calls <= 9 + PATIENCE + 2 < 60
    assert float(gaps(work)[0]) <= good


@pytest.mark.parametrize("gamma", [0.0, 0.4])
def test_a_point_of_clarabel_is_polished(gamma: float):
    """Stopped far too early, it proves little; a few Newton steps prove the rest."""
    rng = np.random.default_rng(16)
    for hard in ((), ("ab",)):
        pdg = loop(rng)
        c = component(pdg, Attention.uniform(pdg, gamma=gamma).replace(beta=dict.fromkeys(hard, inf)))
        one = program(c)
        at = conic(one, 1e-3).at
        rough, fine = prove(one, at), prove(one, at, 1e-10)
        assert fine.bounds[0, 1] - fine.bounds[0, 0] < 1e-9 < rough.bounds[0, 1] - rough.bounds[0, 0]
        assert 0 < fine.steps[0] < 30 and rough.steps[0] == 0
        sharp = by_clarabel(c, 1e-10).bounds[0]
        assert fine.bounds[0, 0] <= sharp[1] + 1e-9 and sharp[0] <= fine.bounds[0, 1] + 1e-9
