"""The batched interior point: what a problem gives alone it gives in a batch, shallow trees and deep ones alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, SoftmaxTable, Variable
from dissonance.errors import SizeError
from dissonance.inconsistency import inconsistencies, inconsistency
from dissonance.problem import Component, front_bytes, prepare
from dissonance.solvers import CliqueTree, Newton, Solution, bounds, exact, layout
from dissonance.solvers import batch as remembering
from dissonance.solvers.batch import Arcs, Batch, alike, forget, structure
from dissonance.solvers.bounds import certify
from dissonance.solvers.elimination import Elimination
from dissonance.solvers.interior import cold, curve, follow, hessian, interior, warm
from dissonance.solvers.nearby import solve_nearby
from dissonance.solvers.support import supports
from dissonance.solvers.whole import Whole


def rows(rng: np.random.Generator, *shape: int, zeros: float = 0.0) -> np.ndarray:
    p = rng.random(shape)
    p[rng.random(shape) < zeros] = 0.0
    p[..., 0] += 0.05
    return p / p.sum(-1, keepdims=True)


def loop(rng: np.random.Generator, zeros: float = 0.0) -> PDG:
    """Four variables in a loop with a chord, and a marginal: two clusters of three variables."""
    a, b, c, d = (Variable(n, k) for n, k in zip("ABCD", (2, 3, 2, 3), strict=True))
    return PDG(
        Arc("ab", a, b, rows(rng, 2, 3, zeros=zeros)),
        Arc("bc", b, c, rows(rng, 3, 2, zeros=zeros)),
        Arc("cd", c, d, rows(rng, 2, 3, zeros=zeros)),
        Arc("da", d, a, rows(rng, 3, 2, zeros=zeros)),
        Arc("bd", (), (b, d), rows(rng, 9, zeros=zeros).reshape(3, 3)),
    )


@pytest.fixture
def through_the_batch(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Component]], list[Solution]]:
    """Solve components as one batch, however small they are."""

    def solve(components: list[Component]) -> list[Solution]:
        monkeypatch.setattr(exact, "SMALL", 0)
        found = Newton().solve_many(components)
        monkeypatch.undo()
        return found

    return solve


def component(pdg: PDG, attention: Attention | None = None) -> Component:
    return prepare(pdg, attention or Attention.uniform(pdg)).components[0]


def batch_of(components: list[Component]) -> Batch:
    return Arcs.of(components).batch(structure(components[0], components[0].tree))[0]


def tolerance(batch: Batch, value: float = 1e-10) -> torch.Tensor:
    return torch.full((len(batch),), value, dtype=torch.float64)


@pytest.mark.parametrize(
    ("gamma", "zeros", "hard"), [(0.0, 0.0, ()), (0.4, 0.0, ()), (0.0, 0.2, ()), (0.3, 0.2, ("ab",))]
)
def test_a_problem_in_a_batch_has_the_inconsistency_it_has_alone(
    gamma: float, zeros: float, hard: tuple[str, ...], through_the_batch: Callable[[list[Component]], list[Solution]]
) -> None:
    rng = np.random.default_rng(5)
    pdgs = [loop(rng, zeros) for _ in range(12)]
    attentions = [
        Attention.uniform(p, beta=1 + i / 4, gamma=gamma).replace(beta=dict.fromkeys(hard, math.inf))
        for i, p in enumerate(pdgs)
    ]
    components = [component(p, a) for p, a in zip(pdgs, attentions, strict=True)]
    assert len({alike(c) for c in components}) == 1
    for c, s in zip(components, through_the_batch(components), strict=True):
        alone = CliqueTree().solve(c)
        assert s.converged == alone.converged
        assert s.lower <= alone.upper and alone.lower <= s.upper
        assert s.upper == pytest.approx(alone.upper, abs=1e-7)


def test_a_deep_tree_is_solved_through_its_spine_and_agrees_with_the_dual(
    through_the_batch: Callable[[list[Component]], list[Solution]],
) -> None:
    rng = np.random.default_rng(6)
    xs = [Variable(f"X{i}", 2) for i in range(90)]
    arcs = [Arc(f"f{i}", xs[i], xs[i + 1], rows(rng, 2, 2)) for i in range(89)]
    arcs += [Arc(f"b{i}", xs[i + 1], xs[i], rows(rng, 2, 2)) for i in range(89)]
    arcs += [Arc(f"side{i}", xs[i], Variable(f"Y{i}", 2), rows(rng, 2, 2)) for i in range(0, 90, 7)]
    c = component(PDG(*arcs))
    batch = batch_of([c])
    assert batch.structure.spine and len(batch.structure.levels) > layout.SHALLOW
    s = through_the_batch([c])[0]
    reference = Newton().solve(c)
    assert s.converged
    assert s.upper == pytest.approx(reference.upper, abs=1e-7)


def test_a_hub_with_many_children_is_no_harder_than_a_chain(
    through_the_batch: Callable[[list[Component]], list[Solution]],
) -> None:
    rng = np.random.default_rng(7)
    hub = Variable("Hub", 3)
    leaves = [Variable(f"L{i}", 2) for i in range(60)]
    arcs = [Arc(f"out{i}", hub, leaf, rows(rng, 3, 2)) for i, leaf in enumerate(leaves)]
    arcs += [Arc(f"in{i}", leaf, hub, rows(rng, 2, 3)) for i, leaf in enumerate(leaves)]
    c = component(PDG(*arcs))
    assert through_the_batch([c])[0].upper == pytest.approx(Newton().solve(c).upper, abs=1e-6)


def test_a_warm_start_takes_fewer_steps_and_ends_where_a_cold_one_does() -> None:
    rng = np.random.default_rng(8)
    pdgs = [loop(rng) for _ in range(10)]
    batch = batch_of([component(p) for p in pdgs])
    state = interior(batch, cold(batch), tolerance(batch))

    def nudged(p: PDG) -> PDG:
        return p.replace(*(Arc(a.name, a.sources, a.targets, _nudge(a, rng)) for a in p.arcs))

    moved = batch_of([component(nudged(p)) for p in pdgs])
    again = interior(moved, warm(moved, state), tolerance(moved))
    fresh = interior(moved, cold(moved), tolerance(moved))
    assert again.steps.double().mean() < 0.75 * fresh.steps.double().mean()
    a, b = (certify(moved, s) for s in (again, fresh))
    assert torch.allclose(a.upper, b.upper, atol=1e-8)


def test_a_solution_is_followed_in_few_steps_and_one_far_away_is_left_where_it_was() -> None:
    rng = np.random.default_rng(9)
    pdgs = [loop(rng) for _ in range(10)]
    batch = batch_of([component(p) for p in pdgs])
    tol = tolerance(batch, 1e-9)
    near = interior(batch, cold(batch), tol)
    near = replace(near, steps=torch.zeros_like(near.steps))
    nudged = [p.replace(*(Arc(a.name, a.sources, a.targets, _nudge(a, rng)) for a in p.arcs)) for p in pdgs]
    moved = batch_of([component(p) for p in nudged])
    found = follow(moved, near, tol)
    close = certify(moved, found).gap < 1e-7
    assert int(close.sum()) >= 8
    assert float(found.steps[close].double().mean()) < 3.5

    other = batch_of([component(loop(rng)) for _ in range(10)])
    lost = follow(other, near, tol)
    far = certify(other, lost).gap > 1e-7
    kept = (lost.mu == near.mu).all(1)
    assert bool(kept.any()) and bool((far >= kept).all())
    state, proved = solve_nearby(other, near, tol, 10 * tol)
    assert bool((proved.gap < 1e-8).all())
    assert torch.allclose(proved.upper, certify(other, interior(other, cold(other), tol)).upper, atol=1e-8)
    assert bool((state.steps[kept] > 1).all())


@pytest.mark.parametrize("zeros", [0.0, 0.2])
def test_a_small_system_is_solved_alike_as_a_whole_and_front_by_front(zeros: float) -> None:
    rng = np.random.default_rng(10)
    batch, possible = Arcs.of(cs := [component(loop(rng, zeros)) for _ in range(6)]).batch(structure(cs[0], cs[0].tree))
    batch = batch.take(possible)
    assert (batch.alive is not None) == bool(zeros) and batch.structure.whole is not None
    state = interior(batch, cold(batch), tolerance(batch, 1e-3))
    q = batch.conditionals(state.l)
    curvature = curve(batch, batch.misfit(state.mu)[0], q)
    diagonal = state.z / batch.masked(state.mu, 1.0)
    whole = Whole(batch, batch.structure.whole, q, batch.W * curvature, diagonal)
    fronts = Elimination(batch, hessian(batch, q, curvature, diagonal))
    g = batch.masked(torch.from_numpy(rng.standard_normal(batch.c.shape)), 0.0)
    for mine, theirs in zip(vars(whole.solve(g, 2)).values(), vars(fronts.solve(g, 2)).values(), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-6, atol=1e-9)


def _nudge(arc: Arc, rng: np.random.Generator) -> np.ndarray:
    p = arc.log_table().exp().numpy() * np.exp(0.002 * rng.standard_normal(arc.log_table().shape))
    axes = tuple(range(len(arc.sources), p.ndim))
    return p / p.sum(axes, keepdims=True)


def test_bounds_hold_for_any_iterate_of_any_problem_of_a_batch() -> None:
    rng = np.random.default_rng(9)
    pdgs = [loop(rng, zeros=0.1) for _ in range(6)]
    for gamma in (0.0, 0.5):
        components = [component(p, Attention.uniform(p, gamma=gamma)) for p in pdgs]
        batch = batch_of(components)
        exact_values = torch.tensor([Newton().solve(c).upper for c in components])
        state = cold(batch)
        for _ in range(10):
            garbage = {k: torch.from_numpy(rng.standard_normal(getattr(state, k).shape)) for k in ("l", "d", "lam")}
            mu = state.mu * torch.from_numpy(rng.random(state.mu.shape))
            found = certify(batch, replace(state, mu=mu, **garbage))
            assert (found.lower <= exact_values + 1e-9).all()
            assert (found.upper >= exact_values - 1e-9).all()


def test_dead_cells_are_found_as_the_single_solver_finds_them() -> None:
    rng = np.random.default_rng(10)
    for _ in range(20):
        pdg = loop(rng, zeros=0.4)
        c = component(pdg, Attention.uniform(pdg).replace(beta={"cd": math.inf}))
        batch, possible = Arcs.of([c]).batch(structure(c, c.tree))
        found = supports(c, c.tree)
        assert bool(possible) == (found is not None)
        if found is not None and batch.alive is not None:
            flat = np.concatenate([o + s for o, s in zip(batch.structure.cell_at, found, strict=True)])
            assert np.array_equal(np.flatnonzero(batch.alive[0].numpy()), np.sort(flat))


def test_many_pdgs_at_once_give_what_each_gives_alone_with_gradients_and_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(11)
    pdgs = [loop(rng) for _ in range(8)]
    pdgs = [
        p.replace(Arc("ab", p["ab"].sources, p["ab"].targets, SoftmaxTable(p["ab"].log_table().exp()))) for p in pdgs
    ]
    monkeypatch.setattr(exact, "SMALL", 100)
    many = inconsistencies(pdgs)
    monkeypatch.undo()
    for pdg, result in zip(pdgs, many, strict=True):
        alone = inconsistency(pdg)
        assert float(result.value.detach()) == pytest.approx(float(alone.value.detach()), abs=1e-7)
        gradients = [torch.autograd.grad(r.value, list(pdg.parameters()))[0] for r in (result, alone)]
        assert torch.allclose(*gradients, atol=1e-4)
        assert [r.saved_if_dropped for r in result.by_arc()] == pytest.approx(
            [r.saved_if_dropped for r in alone.by_arc()], abs=1e-7
        )


def test_contradictory_hard_arcs_are_infinite_for_one_problem_and_leave_the_others_alone(
    through_the_batch: Callable[[list[Component]], list[Solution]],
) -> None:
    x = Variable("X", 3)
    tables = [([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]), ([0.2, 0.3, 0.5], [0.3, 0.3, 0.4])]
    pdgs = [PDG(Arc("p", (), x, p), Arc("q", (), x, q), Arc("r", (), x, [0.1, 0.1, 0.8])) for p, q in tables]
    hard = Attention(beta={"p": math.inf, "q": math.inf, "r": 1.0})
    found = through_the_batch([component(p, hard) for p in pdgs])
    assert found[1].lower == math.inf
    wanted = sum(a * math.log(a / b) for a, b in zip(tables[0][0], [0.1, 0.1, 0.8], strict=True))
    assert found[0].upper == pytest.approx(wanted, abs=1e-7)


def test_hard_arcs_over_overlapping_rows_take_few_steps(
    through_the_batch: Callable[[list[Component]], list[Solution]],
) -> None:
    rng = np.random.default_rng(11)
    a, s, o = (Variable(n, k) for n, k in zip("ASO", (2, 3, 3), strict=True))
    pdg = PDG(
        Arc("policy", (), a, rows(rng, 2)),
        Arc("belief", a, s, rows(rng, 2, 3)),
        Arc("outcome", (s, a), o, rows(rng, 3, 2, 3)),
        Arc("wish", (), o, rows(rng, 3)),
    )
    hard = component(pdg, Attention({"policy": math.inf, "outcome": math.inf, "belief": 1.0, "wish": 1.0}))
    found = through_the_batch([hard])[0]
    assert found.converged and found.method == "batched" and found.steps < 15
    assert found.upper == pytest.approx(CliqueTree().solve(hard).upper, abs=1e-7)


def test_a_solution_without_an_upper_bound_has_not_converged() -> None:
    x = Variable("X", 2)
    barely = PDG(Arc("p", (), x, [0.5, 0.5]), Arc("q", (), x, [0.5 + 1e-8, 0.5 - 1e-8]), Arc("r", (), x, [0.3, 0.7]))
    hard = Attention(beta={"p": math.inf, "q": math.inf, "r": 1.0})
    for solver in (Newton(), CliqueTree()):
        found = solver.solve(component(barely, hard))
        assert found.converged == (found.upper - found.lower <= 1e-7 * abs(found.upper) < math.inf)


def chain(rng: np.random.Generator, n: int) -> PDG:
    xs = [Variable(f"X{i}", 2) for i in range(n)]
    there = [Arc(f"f{i}", xs[i], xs[i + 1], rows(rng, 2, 2)) for i in range(n - 1)]
    back = [Arc(f"b{i}", xs[i + 1], xs[i], rows(rng, 2, 2)) for i in range(n - 1)]
    return PDG(*there, *back)


def test_a_result_is_a_start_for_almost_the_same_numbers() -> None:
    rng = np.random.default_rng(12)
    pdg = chain(rng, 60)
    before = inconsistency(pdg)
    moved = pdg.replace(*(Arc(a.name, a.sources, a.targets, _nudge(a, rng)) for a in pdg.arcs))
    fresh, again = inconsistency(moved), inconsistency(moved, near=before)
    assert again.converged and again.upper == pytest.approx(fresh.upper, abs=1e-7)
    assert again.stats["steps"] < fresh.stats["steps"]


def test_a_start_that_leads_nowhere_is_forgotten() -> None:
    rng = np.random.default_rng(13)
    c = component(chain(rng, 60))
    found = Newton().solve_many([c])[0]
    assert found.near is not None
    s, state = found.near
    lost = replace(state, mu=torch.full_like(state.mu, math.nan))
    again = Newton().solve_many([c], [replace(found, near=(s, lost))])[0]
    assert again.converged and again.upper == pytest.approx(found.upper, abs=1e-8)


def test_a_batch_is_cut_to_the_budget_and_memory_is_reported() -> None:
    rng = np.random.default_rng(14)
    components = [component(loop(rng)) for _ in range(12)]
    need = front_bytes(components[0].tree)
    wide, narrow = Newton(), Newton(budget=5 * need)
    assert wide.together(components[0].tree, False, 12) == 12
    assert narrow.together(components[0].tree, False, 12) == 5
    a, b = wide.solve_many(components), narrow.solve_many(components)
    assert [x.upper for x in a] == pytest.approx([x.upper for x in b], abs=1e-9)
    assert max(x.memory for x in a) == 12 * need and max(x.memory for x in b) == 5 * need
    assert inconsistency(loop(rng)).stats["memory"] > 0


def test_what_does_not_fit_is_refused_before_anything_is_made() -> None:
    rng = np.random.default_rng(15)
    with pytest.raises(SizeError, match="budget"):
        Newton(budget=10_000).solve(component(chain(rng, 60)))


def test_mass_carried_down_a_deep_tree_level_by_level_and_by_one_solve_is_the_same() -> None:
    rng = np.random.default_rng(16)
    batch = batch_of([component(chain(rng, 70)) for _ in range(2)])
    assert len(batch.structure.levels) > bounds.FEW
    mu = torch.from_numpy(rng.random(batch.c.shape))
    given = (
        mu
        / torch.zeros(2, len(batch.structure.roots), dtype=mu.dtype).index_add(1, batch.structure.own, mu)[
            :, batch.structure.own
        ]
    )
    assert torch.allclose(bounds._carried(batch, given), bounds._solved(batch, given), atol=1e-14)


def test_the_same_pdg_with_other_numbers_shares_its_structure() -> None:
    rng = np.random.default_rng(17)
    one, two = (component(chain(rng, 30)) for _ in range(2))
    assert structure(one, one.tree) is structure(two, two.tree)
    forget()
    assert structure(one, one.tree) is structure(two, two.tree)


@pytest.mark.parametrize("small", [0, 10_000])
def test_fronts_by_height_and_one_front_for_all_agree(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(18)
    xs = [Variable(f"X{i}", 2 + i % 2) for i in range(14)]
    arcs = [Arc(f"a{i}", xs[i // 3], xs[i], rows(rng, xs[i // 3].size, xs[i].size)) for i in range(1, 14)]
    arcs += [Arc(f"b{i}", xs[i], xs[i // 3], rows(rng, xs[i].size, xs[i // 3].size)) for i in range(1, 14)]
    pdg = PDG(*arcs)
    monkeypatch.setattr(layout, "WHOLE", small)
    forget()
    for gamma in (0.0, 0.3):
        c = component(pdg, Attention.uniform(pdg, gamma=gamma).replace(beta={"a3": math.inf}))
        s = structure(c, c.tree)
        assert bool(s.fronts) == (small == 0) and bool(s.spine) == (small > 0)
        monkeypatch.setattr(exact, "SMALL", 0)
        found = Newton().solve_many([c])[0]
        assert found.near is not None and found.converged
        assert found.upper == pytest.approx(CliqueTree().solve(c).upper, abs=1e-7)
    forget()


def test_only_so_many_structures_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(19)
    forget()
    monkeypatch.setattr(remembering, "_KEPT", 3)
    chains = [component(chain(rng, n)) for n in range(3, 9)]
    made = [structure(c, c.tree) for c in chains]
    assert structure(chains[-1], chains[-1].tree) is made[-1]
    assert structure(chains[0], chains[0].tree) is not made[0]
    forget()
