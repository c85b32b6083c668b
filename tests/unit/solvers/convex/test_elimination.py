"""The eliminated Newton system solves all of Newton's equations, those it leaves out included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from problems import Dense, at_gamma, branching, chain, component, forced, hub, inf, loop, program

from dissonance import PDG, Arc, Attention
from dissonance.distributions.tree import single
from dissonance.problem import Batch, prepare
from dissonance.solvers.convex import dense, interior, steps
from dissonance.solvers.convex.layout import BY_CELLS, BY_MULTIPLIERS, GIVEN, WIDE
from dissonance.solvers.convex.program import Program
from dissonance.solvers.convex.solve import Work
from strategies import Style, random_case

STYLES = {"soft": Style(zeros=0.1), "hard": Style(zeros=0.1, hard=0.4)}


def small(style: Style, gamma: float, count: int = 12) -> Iterator[tuple[Batch, Program]]:
    """Components of random cases at a gamma, on their trees and as one cluster."""
    for seed in range(count):
        case = random_case(seed, style)
        for c in (at_gamma(c, gamma) for c in prepare(case.pdg, case.attention).parts):
            if c.convex.all():
                for tree in (c.tree, single(c.sizes)):
                    yield c, program(c, tree)


def odd_point(one: Program, seed: int) -> Work:
    """One problem, somewhere inside."""
    rng, work = np.random.default_rng(seed), Work(one.structure, one.numbers)
    L = work.L
    work.mu[...] = rng.uniform(0.05, 1.0, L.cells)
    work.view("z")[...] = rng.uniform(0.05, 1.0, L.cells)
    work.view("y")[...] = rng.normal(size=L.entries)
    work.view("d")[...] = rng.normal(size=L.unknowns)
    return work


def solved(work: Work, tau: float, refinements: int) -> dict[str, np.ndarray]:
    """The step to mu z = tau, as the solver makes it."""
    (row,) = work.rows()
    before = {name: work.view(name)[0].copy() for name in ("mu", "z", "y", "d")}
    steps.measure(*row)
    steps.aim(*row, tau, 1.0)
    interior.solve_system(*row, work.clusters, 1, 0, refinements, 1.0)
    return before | {name: work.view(name)[0].copy() for name in ("x", "dd", "dlam")}


def check(c: Batch, one: Program, seed: int, refinements: int = 0, tau: float = 0.1) -> None:
    """Against the dense system, made and solved by numpy."""
    dense, at = Dense(c, one.structure), solved(odd_point(one, seed), tau, refinements)
    mu, z, y, x = at["mu"], at["z"], at["y"], at["x"]
    q, m = dense.q(y), dense.T @ mu
    V, curve = dense.V(q), 2 / (dense.same @ m * q + m)
    G = np.diag(z / mu) + V.T @ np.diag(np.where(dense.hard, 0.0, dense.W * curve)) @ V
    A, r = V[dense.hard], dense.slack(y, at["d"]) - z
    equations = np.vstack([dense.B, A])
    zero = np.zeros((len(equations), len(equations)))
    right = np.concatenate([tau / mu - r, dense.e, np.zeros(len(A))])
    full = np.block([[G, -equations.T], [equations, zero]])
    wanted, *_ = np.linalg.lstsq(full, right, rcond=1e-13)  # equations may repeat others
    scale = max(1.0, float(np.abs(right).max()), float(np.abs(wanted).max()))
    np.testing.assert_allclose(full @ wanted, right, atol=1e-9 * scale)  # the reference is good enough to judge
    np.testing.assert_allclose(x, wanted[: len(mu)], atol=1e-8 * scale)
    # d and lam need not be unique: they are right if they are multipliers of this mu
    here = np.concatenate([x, at["dd"], at["dlam"][dense.hard]])
    np.testing.assert_allclose(full @ here, right, atol=1e-8 * scale * max(1.0, float(np.abs(here).max())))
    # what was eliminated: the slack moves as z does, by differences
    m_after = dense.T @ x
    dl = np.where(dense.hard, at["dlam"], (m_after - q * (dense.same @ m_after)) * curve)
    t = 1e-6 / max(1.0, float(np.abs(dl).max(initial=0.0)))
    ahead, behind = (dense.slack(y + s * dl, at["d"] + s * at["dd"]) for s in (t, -t))
    dz = tau / mu - z / mu * x
    np.testing.assert_allclose(
        dz, (ahead - behind) / (2 * t) + r, atol=1e-5 * scale * (1 + np.abs(dl).max(initial=0.0))
    )


@pytest.mark.parametrize("gamma", [0.0, 1e-4, 0.3])
@pytest.mark.parametrize("style", STYLES)
def test_the_direction_solves_newtons_equations(gamma: float, style: str):
    seen = 0
    for seed, (c, one) in enumerate(small(STYLES[style], gamma)):
        check(c, one, seed)
        seen += one.structure.hard == (style == "hard")
    assert seen >= 8


@pytest.mark.parametrize("gamma", [0.0, 1e-4, 0.3])
@pytest.mark.parametrize("style", STYLES)
def test_every_way_leads_to_the_same_step(gamma: float, style: str):
    """Every cluster by its multipliers, with its separator's marginal given, and each in any way; clusters above hard
    arcs have no choice."""
    rng, choices = np.random.default_rng(0), [BY_CELLS, BY_MULTIPLIERS, GIVEN][: 3 if gamma > 0 else 2]
    turned = 0
    for seed, (c, one) in enumerate(small(STYLES[style], gamma)):
        ways, free = one.structure.fronts.way, one.structure.fronts.way == BY_CELLS
        others = [np.full_like(ways, way) for way in choices[1:]] + [rng.choice(choices, len(ways))]
        for other in others:
            way = np.where(free, other, ways)
            check(c, replace(one, structure=forced(one.structure, way)), seed)
            turned += bool((ways != way).any())
    assert turned >= 8


@pytest.mark.parametrize("hard", [(), ("ca",), ("abc", "dg"), ("fc",)], ids=lambda x: "-".join(x) or "soft")
@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_a_wide_cluster_with_several_children_is_eliminated_by_its_multipliers(gamma: float, hard: tuple[str, ...]):
    """125 cells, and fewer multipliers; all of the tree by cells, where that is possible, leads to the same."""
    pdg = branching(np.random.default_rng(1))
    c = component(pdg, Attention.uniform(pdg, beta=1.5, gamma=gamma).replace(beta=dict.fromkeys(hard, inf)))
    one = program(c)
    s = one.structure
    sizes, way = np.diff(s.layout.cell_at), s.fronts.way
    assert sizes.max() == 125 > WIDE
    # with gamma > 0 there is one term more that has an entry for every cell
    assert way[sizes.argmax()] == (GIVEN if gamma > 0 and not hard else BY_MULTIPLIERS)
    assert np.bincount(s.layout.parent[s.layout.parent >= 0]).max() >= 2
    check(c, one, 2)
    check(c, one, 3, refinements=2)
    check(c, replace(one, structure=forced(s, np.full_like(way, BY_MULTIPLIERS))), 2)
    if not hard:
        check(c, replace(one, structure=forced(s, np.full_like(way, BY_CELLS))), 2)


def test_a_hub_of_many_children_is_eliminated_in_every_way():
    c = at_gamma(component(hub(np.random.default_rng(3), 25)), 0.1)
    one = program(c)
    check(c, one, 4)
    for way in (BY_MULTIPLIERS, GIVEN):
        check(c, replace(one, structure=forced(one.structure, np.full_like(one.structure.fronts.way, way))), 4)


def test_one_large_front_is_eliminated_panel_by_panel():
    """More unknowns than two panels, by cells: the joint of the branching PDG in three of its variables."""
    c = component(loop(np.random.default_rng(5)))
    small_one = program(c, single(c.sizes))
    assert small_one.structure.fronts.size.max() <= dense.LARGE
    check(c, small_one, 6)
    pdg = branching(np.random.default_rng(5), wide=3)
    c = component(pdg)
    one = program(c, single(c.sizes))
    one = replace(one, structure=forced(one.structure, np.array([BY_CELLS])))
    assert one.structure.fronts.size.max() == 27 * 16 > dense.LARGE
    check(c, one, 6)


@pytest.mark.parametrize("rank", [5, 60, 70])
def test_the_root_of_a_matrix_and_what_it_makes_of_rows_and_columns(rank: int):
    """Of what a child asks, which may be nothing in some directions; of a front, the rows of that child."""
    rng, n, size, start = np.random.default_rng(rank), 70, 90, 12
    A, F = rng.normal(size=(n, rank)), rng.normal(size=(size, size))
    A, F, L = A @ A.T, F + F.T, np.full((n, n), np.nan)
    dense.cholesky(A.ravel(), 0, n, L.ravel(), 0)
    np.testing.assert_array_equal(L, np.tril(L))
    np.testing.assert_allclose(L @ L.T, A, atol=1e-10)
    assert (np.abs(L).max(0) > 1e-5).sum() == rank
    wide, given = np.eye(size), np.triu(F).ravel()
    wide[start : start + n, start : start + n] = L
    dense.lowered(given, 0, size, start, n, L.ravel(), 0)
    np.testing.assert_allclose(np.triu(given.reshape(size, size)), np.triu(wide.T @ F @ wide), atol=1e-9)


def test_equations_that_repeat_others_are_left_out():
    """Two hard arcs that say the same: their multipliers are not unique, mu is."""
    rng = np.random.default_rng(7)
    pdg = loop(rng)
    ab = pdg["ab"]
    twice = PDG(*pdg.arcs, Arc("again", ab.sources, ab.targets, ab.log_table().exp()))
    c = component(twice, Attention.uniform(twice).replace(beta={"ab": inf, "again": inf}))
    check(c, program(c), 8)
    check(c, program(c, single(c.sizes)), 8)


def test_parts_that_have_nothing_in_common_have_a_root_each():
    """LIR solves a whole PDG as one component."""
    rng = np.random.default_rng(9)
    parts = [component(pdg) for pdg in (loop(rng), chain(rng, 3), hub(rng, 2))]
    whole = Batch.of(sum((c.variables for c in parts), ()), sum((c.arcs for c in parts), ()), 0.0)
    one = program(whole)
    assert (one.structure.layout.parent < 0).sum() == 3 == Dense(whole, one.structure).e.sum()
    check(whole, one, 9)
    check(whole, one, 10, refinements=1)


@pytest.mark.parametrize("seed", range(6))
def test_a_step_that_is_lengthened_still_solves_its_equations_and_can_be_taken_as_far(seed: int):
    """Whichever corrector is the last to be kept: its right side and its target stand together."""
    _, one = [*small(STYLES["soft"], 0.0)][seed]
    work = odd_point(one, seed)
    (row,) = work.rows()
    _, _, _, gap, rest, _ = steps.measure(*row)
    steps.aim(*row, 0.0, 1.0)
    interior.solve_system(*row, work.clusters, 1, 0, 0, 1.0)
    tau = steps.correct(*row[1:], gap, rest, 1e-9, 1)
    interior.solve_system(*row, work.clusters, 0, 0, 0, 1.0)
    before = np.minimum(steps.step_lengths(*row[1:]), 1.0).prod()
    interior.lengthen(*row, work.clusters, tau)
    assert np.minimum(steps.step_lengths(*row[1:]), 1.0).prod() >= before * (1 - 1e-12)
    mu, r, g, target = (work.view(name)[0] for name in ("mu", "r", "g", "target"))
    np.testing.assert_allclose(g, target / mu - r, rtol=1e-12)
    steps.residual(*row, 1.0)
    assert np.abs(work.view("left")[0]).max() < 1e-8 * max(1.0, np.abs(g).max())
    assert np.abs(work.view("off")[0]).max() < 1e-10
