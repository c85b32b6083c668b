"""Many problems at once: what a problem gives alone it gives in any company, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from problems import by_clarabel, chain, component, inf, loop, nudged, program, spread

from dissonance import PDG, Arc, Attention, SoftmaxTable, Variable
from dissonance.errors import SizeError
from dissonance.inconsistency import inconsistencies, inconsistency
from dissonance.problem import Batch
from dissonance.solvers import Answer, CliqueTreeSolver, Newton, solve_parts
from dissonance.solvers.convex import program as remembering
from dissonance.solvers.convex import solve as solving
from dissonance.solvers.convex import work as working
from dissonance.solvers.convex.program import Structure, forget_structures, structure
from dissonance.solvers.convex.support import structure_of
from reference import convex
from strategies import case_of


def varied(seed: int, count: int, gamma: float = 0.0, zeros: float = 0.0, hard: Sequence[str] = ()) -> list[Batch]:
    """Problems that are alike, each with its own tables, beta, alpha and gamma."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(count):
        pdg, g = loop(rng, zeros), gamma * (1 + i / count)
        beta = {a.name: float(rng.uniform(1.0, 3.0)) for a in pdg.arcs} | dict.fromkeys(hard, inf)
        alpha = {a.name: float(rng.uniform(0.0, 1.0)) for a in pdg.arcs}
        found.append(component(pdg, Attention.only(beta, alpha, g)))
    return found


def check_the_same(one: Answer, other: Answer) -> None:
    """Bit for bit."""
    assert (one.lower, one.upper, one.converged) == (other.lower, other.upper, other.converged)
    assert np.array_equal(one.steps, other.steps) and np.array_equal(one.slope, other.slope)
    assert (one.on is None) == (other.on is None)
    if one.on is None or other.on is None:
        return
    for a, b in zip(one.on.tables, other.on.tables, strict=True):
        assert torch.equal(a, b)
    assert (one.on.multipliers is None) == (other.on.multipliers is None)
    if one.on.multipliers is not None:
        np.testing.assert_array_equal(one.on.multipliers, other.on.multipliers)


@pytest.mark.parametrize(
    ("gamma", "zeros", "hard"), [(0.0, 0.0, ()), (0.4, 0.0, ()), (0.0, 0.2, ()), (0.3, 0.2, ("ab",))]
)
def test_a_problem_in_a_batch_has_the_inconsistency_it_has_alone(gamma: float, zeros: float, hard: tuple[str, ...]):
    rng = np.random.default_rng(5)
    pdgs = [loop(rng, zeros) for _ in range(12)]
    attentions = [
        Attention.uniform(p, beta=1 + i / 4, gamma=gamma).replace(beta=dict.fromkeys(hard, inf))
        for i, p in enumerate(pdgs)
    ]
    components = [component(p, a) for p, a in zip(pdgs, attentions, strict=True)]
    assert len({c.shape.key for c in components}) == 1
    for c, s in zip(components, solve_parts(components, Newton()), strict=True):
        alone = CliqueTreeSolver().solve(c)
        assert s.converged == alone.converged
        assert s.lower <= alone.upper and alone.lower <= s.upper
        assert s.upper == pytest.approx(alone.upper, abs=1e-7)


@pytest.mark.parametrize("hard", [(), ("ab", "cd")], ids=["soft", "hard"])
@pytest.mark.parametrize("gamma", [0.0, 0.3])
@pytest.mark.parametrize("zeros", [0.0, 0.15])
def test_no_problem_depends_on_its_company(gamma: float, zeros: float, hard: tuple[str, ...]):
    components = varied(20, 30, gamma, zeros, hard)
    together = solve_parts(components, Newton())
    backwards = solve_parts(components[::-1], Newton())[::-1]
    for c, a, b in zip(components, together, backwards, strict=True):
        check_the_same(a, solve_parts([c], Newton())[0])
        check_the_same(a, b)
    assert sum(math.isfinite(s.upper) for s in together) >= 10


def test_no_start_depends_on_its_company():
    rng = np.random.default_rng(21)
    pdgs = [loop(rng) for _ in range(12)]
    before = solve_parts([component(p) for p in pdgs], Newton())
    moved = [component(nudged(p, rng, 0.02 if i % 3 else 1.0)) for i, p in enumerate(pdgs)]
    together = solve_parts(moved, Newton(), near=before)
    for c, near, s in zip(moved, before, together, strict=True):
        check_the_same(s, solve_parts([c], Newton(), near=[near])[0])
    assert any(s.steps != Newton().solve(c).steps for s, c in zip(together, moved, strict=True))


def test_problems_with_different_zeros_are_solved_side_by_side():
    components = varied(22, 16, zeros=0.25)
    groups = Batch.together(components).groups()
    assert len(groups) > 4 and sorted(np.concatenate(groups)) == list(range(16))
    for c, s in zip(components, solve_parts(components, Newton()), strict=True):
        reference = convex.solve((case := case_of(c)).pdg, case.attention)
        if reference.value == inf:
            assert s.lower == inf
        elif reference.accurate:
            slop = reference.slop + 1e-9
            assert s.converged and s.lower - slop <= reference.value <= s.upper + slop


def test_an_arc_without_weight_counts_for_nothing_in_its_problem_alone():
    """beta = 0 in some problems of a batch: the inconsistency is that of the PDG without the arc, zeros and all."""
    rng = np.random.default_rng(23)
    pdgs = [loop(rng, zeros=0.1 * (i % 2)) for i in range(8)]
    full = [component(p) for p in pdgs]
    whole = Batch.together(full)
    beta = whole.beta.copy()
    off = [a.name for a in whole.beliefs].index("da")
    beta[::2, off] = 0.0
    whole = whole.with_numbers(whole.log_p, beta, 0.0 * whole.alpha, whole.gamma)
    bounds = np.zeros((8, 3))
    for some in whole.groups():
        alike = whole.take(some)
        s = structure_of(alike, alike.tree)
        assert s is not None
        part = remembering.Program(s, s.numbers(alike))
        bounds[some] = solving.solve(part, spread(part, 1e-10), spread(part, 1e-9)).bounds
    for k, pdg in enumerate(pdgs):
        less = PDG(*(a for a in pdg.arcs if k % 2 or a.name != "da"), variables=pdg.variables)
        wanted = inconsistency(less, solver="clique-tree")
        assert bounds[k, 0] <= wanted.upper + 1e-9 and wanted.lower - 1e-9 <= bounds[k, 1]
        assert bounds[k, 1] - bounds[k, 0] <= 1e-8


def test_arcs_of_one_mechanism_add_up():
    """Two soft arcs and one hard one over the same variables, in any order of their names, against the reference."""
    rng = np.random.default_rng(24)
    a, b, c = (Variable(n, k) for n, k in zip("ABC", (2, 3, 2), strict=True))
    p = [rng.dirichlet(np.ones(6), size=2).reshape(2, 3, 2) for _ in range(3)]
    arcs = (
        Arc("p", a, (b, c), p[0]),
        Arc("q", a, (c, b), p[1].transpose(0, 2, 1)),
        Arc("r", (b, c), a, rng.dirichlet(np.ones(2), size=(3, 2))),
        Arc("a", (), a, [0.3, 0.7]),
    )
    for beta in ({}, {"q": inf}, {"p": inf}):
        for gamma in (0.0, 0.2):
            pdg = PDG(*arcs)
            attention = Attention.uniform(pdg, beta=1.3, gamma=gamma).replace(beta=beta)
            found, wanted = inconsistency(pdg, attention, solver="newton"), convex.solve(pdg, attention)
            assert wanted.accurate and found.converged
            assert found.lower - wanted.slop <= wanted.value <= found.upper + wanted.slop


def test_contradictory_hard_arcs_are_infinite_for_one_problem_and_leave_the_others_alone():
    x = Variable("X", 3)
    tables = [([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]), ([0.2, 0.3, 0.5], [0.3, 0.3, 0.4])]
    pdgs = [PDG(Arc("p", (), x, p), Arc("q", (), x, q), Arc("r", (), x, [0.1, 0.1, 0.8])) for p, q in tables]
    hard = Attention.only(beta={"p": inf, "q": inf, "r": 1.0})
    found = solve_parts([component(p, hard) for p in pdgs], Newton())
    assert found[1].lower == inf
    wanted = sum(a * math.log(a / b) for a, b in zip(tables[0][0], [0.1, 0.1, 0.8], strict=True))
    assert found[0].upper == pytest.approx(wanted, abs=1e-7)


def test_bounds_hold_for_any_iterate_of_any_problem_of_a_batch():
    rng = np.random.default_rng(9)
    for gamma in (0.0, 0.5):
        components = varied(25, 6, gamma)
        one = program(components)
        values = np.array([by_clarabel(c, 1e-10).bounds[0] for c in components])
        work = working.Work(one.structure, one.numbers)
        L = work.L
        for _ in range(10):
            work.mu[...] = rng.random(work.mu.shape)
            work.view("y", "d")[...] = rng.standard_normal((6, L.entries + L.unknowns))
            work.certify()
            assert (work.bounds[:, 0] <= values[:, 1]).all() and (work.bounds[:, 1] >= values[:, 0]).all()


def test_many_pdgs_at_once_give_what_each_gives_alone_with_gradients_and_blame():
    rng = np.random.default_rng(11)
    pdgs = [loop(rng) for _ in range(8)]
    pdgs = [
        p.replace(Arc("ab", p["ab"].sources, p["ab"].targets, SoftmaxTable(p["ab"].log_table().exp()))) for p in pdgs
    ]
    for pdg, result in zip(pdgs, inconsistencies(pdgs), strict=True):
        alone, reference = inconsistency(pdg), inconsistency(pdg, solver="clique-tree")
        assert result.method == "newton" and reference.method == "clarabel"
        value, same, wanted = (float(r.value.detach()) for r in (result, alone, reference))
        assert value == same == pytest.approx(wanted, abs=1e-7)
        gradient, same, wanted = (
            torch.autograd.grad(r.value, list(pdg.parameters()))[0] for r in (result, alone, reference)
        )
        assert torch.equal(gradient, same)
        assert float(wanted.abs().max()) > 1e-2 and torch.allclose(gradient, wanted, atol=1e-4)
        saved, same, wanted = ([a.saved_if_dropped for a in r.by_arc()] for r in (result, alone, reference))
        assert saved == same == pytest.approx(wanted, abs=1e-7)


def test_a_result_is_a_start_for_almost_the_same_numbers():
    rng = np.random.default_rng(12)
    pdg = chain(rng, 60)
    before = inconsistency(pdg)
    moved = nudged(pdg, rng)
    fresh, again = inconsistency(moved), inconsistency(moved, near=before)
    reference = by_clarabel(component(moved)).bounds[0]
    for found in (fresh, again):
        assert found.converged and found.lower <= reference[1] and reference[0] <= found.upper
        assert found.upper == pytest.approx(reference[1], abs=1e-7)
    assert again.stats["steps"] < fresh.stats["steps"]


def test_a_batch_is_cut_to_the_budget_and_that_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    components, pieces = varied(14, 12), list[int]()
    need = program(components).structure.bytes
    newton = working.newton

    def counted(*args: Any) -> None:
        pieces.append(len(args[1]))
        newton(*args)

    monkeypatch.setattr(working, "newton", counted)
    wide = solve_parts(components, Newton())
    assert pieces == [12]
    pieces.clear()
    narrow = solve_parts(components, Newton(budget=max(5 * need, 200 * components[0].tree.cells)))
    assert pieces and max(pieces) < 12 and sum(pieces) == 12
    for a, b in zip(wide, narrow, strict=True):
        check_the_same(a, b)
    assert inconsistency(case_of(components[0]).pdg).stats["memory"] > 0


def test_what_does_not_fit_is_refused_before_anything_is_made():
    with pytest.raises(SizeError, match="budget"):
        Newton(budget=10_000).solve(component(chain(np.random.default_rng(15), 60)))


def made(c: Batch) -> Structure:
    return structure(c.shape, c.tree, c.hard[0], bool(c.gamma[0] > 0))


def test_the_same_pdg_with_other_numbers_shares_its_structure():
    rng = np.random.default_rng(17)
    one, two = (component(chain(rng, 30)) for _ in range(2))
    assert made(one) is made(two)
    forget_structures()
    assert made(one) is made(two)


def test_only_so_many_structures_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(remembering, "MOST_STRUCTURES", 3)
    rng = np.random.default_rng(19)
    forget_structures()
    chains = [component(chain(rng, n)) for n in range(3, 9)]
    first = [made(c) for c in chains]
    for c, s in list(zip(chains, first, strict=True))[3:]:
        assert made(c) is s
    assert made(chains[0]) is not first[0]
    forget_structures()
