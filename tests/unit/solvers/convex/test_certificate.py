"""Proofs hold whatever was guessed: for random garbage, lower <= the inconsistency <= upper."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from problems import Dense, iterated, program, started, supported, violation_of

from dissonance import PDG, Arc, Attention, Variable, inconsistency
from dissonance.distributions import CliqueTree
from dissonance.distributions.tree import single
from dissonance.problem import Batch, prepare
from dissonance.proof import ProvedBounds
from dissonance.solvers import FEASIBLE, Answer, CliqueTreeSolver, Newton
from dissonance.solvers import JointSolver as JointSolver
from dissonance.solvers.convex import certificate, layout
from dissonance.solvers.convex.hard import satisfied
from dissonance.solvers.convex.program import Program
from dissonance.solvers.convex.solve import agreeing, lower_from, value
from dissonance.solvers.convex.work import Work
from dissonance.tolerances import ROUNDING
from reference import convex
from reference.dense import incompatibility
from strategies import MIXED, NASTY, SOFT, STRUCTURED, Case, Style, case_of, cases, random_case

HARD = Style(zeros=0.1, hard=0.5, gammas=(0.0, 0.4))
seeds = st.integers(0, 2**32 - 1)


def programs(case: Case) -> list[tuple[Batch, Program, Answer]]:
    """Every component of a case that has a finite inconsistency, on its tree and as one cluster, with its solution."""
    found = []
    for component in prepare(case.pdg, case.attention).parts:
        if violation_of(component) > 1e-9:
            continue
        for tree in (component.tree, single(component.sizes)):
            solution = Newton().solve(component)
            assert solution.converged and math.isfinite(solution.upper)
            found.append((component, program(component, tree), solution))
    return found


def garbage(one: Program, rng: np.random.Generator, at: np.ndarray | None, noise: float) -> Work:
    """Numbers that mean nothing, or a solution spoilt by noise."""
    work = started(one, at)
    L, n = work.L, work.L.cells
    mu = work.mu * rng.lognormal(sigma=noise, size=n) + noise * rng.normal(size=n) / 100
    work.mu[...] = np.abs(mu)
    work.view("y", "d")[...] += noise * rng.normal(size=L.entries + L.unknowns)
    work.certify()
    return work


def satisfying(dense: Dense, mu: np.ndarray) -> float:
    """How far mu is from every equation."""
    off = dense.V(dense.p)[dense.hard] @ mu
    return max(float(np.abs(dense.B @ mu - dense.e).max()), float(np.abs(off).max(initial=0.0)))


@pytest.mark.parametrize("style", [SOFT, STRUCTURED, MIXED, HARD], ids=["soft", "structured", "mixed", "hard"])
def test_bounds_from_garbage_are_still_bounds(style: Style):
    rng = np.random.default_rng(0)
    checked = 0
    for seed in range(18):
        for component, one, solution in programs(random_case(seed, style)):
            solved = iterated(one, 1e-10)[0].at.copy()
            for at, noise in ((None, 3.0), (None, 0.3), (solved, 1.0), (solved, 1e-2), (solved, 1e-5), (solved, 0.0)):
                lower, upper, residual = garbage(one, rng, at, noise).bounds[0].tolist()
                assert not math.isnan(lower) and not math.isnan(upper)
                assert lower - component.accuracy.blur(np.zeros(1))[0] <= solution.upper, (seed, noise)
                if residual <= 1e-12:
                    assert upper + component.accuracy.blur(np.zeros(1))[0] >= solution.lower, (seed, noise)
                checked += 1
    assert checked > 100


@given(cases(STRUCTURED), seeds, st.floats(0, 5))
@settings(max_examples=40, phases=(Phase.explicit, Phase.generate))
def test_bounds_from_garbage_contain_an_independent_reference(case: Case, seed: int, noise: float):
    reference = convex.solve(case.pdg, case.attention)
    assume(reference.accurate)
    rng = np.random.default_rng(seed)
    problem = prepare(case.pdg, case.attention)
    free = ProvedBounds.entropy(problem.free, problem.gamma)
    assembled = [program(c) for c in problem.parts]
    for solved in (False, True):
        low, up = free.lower.item(), free.upper.item()
        for one in assembled:
            at = iterated(one, 1e-10)[0].at.copy() if solved else None
            lower, upper, _ = garbage(one, rng, at, 1e-6 * noise if solved else noise).bounds[0].tolist()
            low, up = low + lower, up + upper
        assert low - reference.slop <= reference.value <= up + reference.slop


def test_the_upper_bound_is_the_cost_of_a_real_joint():
    rng = np.random.default_rng(1)
    for seed in range(20):
        for component, one, _ in programs(random_case(seed, STRUCTURED)):
            found, s = garbage(one, rng, None, 1.0), one.structure
            mu = CliqueTree(component.variables, s.tree, s.tables(found.proved[0]))
            joint, case = mu.joint().table.numpy(), case_of(component)
            assert joint.min() >= 0 and joint.sum() == pytest.approx(1, abs=1e-12)
            wanted = incompatibility(case.pdg, case.attention, joint)
            assert found.bounds[0, 1] == pytest.approx(wanted, abs=1e-9)
            assert value(s, one.numbers, found.proved[0])[0] == pytest.approx(wanted, abs=1e-9)
            assert Dense(component, s).cost(found.proved[0]) == pytest.approx(wanted, abs=1e-9)


def test_the_lower_bound_is_the_sum_of_the_least_slacks():
    """lower = sum_roots d + sum_clusters min slack, with the slack written out from its definition."""
    rng = np.random.default_rng(5)
    for seed in range(20):
        for component, one, _ in programs(random_case(seed, HARD)):
            work, dense = garbage(one, rng, None, 1.0), Dense(component, one.structure)
            y, d = work.view("y")[0], work.view("d")[0]
            least = np.minimum.reduceat(dense.slack(y, d), one.structure.layout.cell_at[:-1]).sum()
            wanted = float(dense.e @ d) + float(least)
            given_up = (
                2 * ROUNDING * len(component.arcs) * np.abs(y[one.structure.kind == layout.HARD]).max(initial=0.0)
            )
            assert wanted - 1e-11 - given_up <= work.bounds[0, 0] <= wanted + 1e-13


def test_tables_and_cells_are_inverse():
    rng = np.random.default_rng(6)
    for seed in range(10):
        for _, one, _ in programs(random_case(seed, MIXED)):
            mu = rng.random(len(one.structure.layout.own))
            tables = one.structure.tables(mu)
            assert [tuple(t.shape) for t in tables] == list(one.structure.tree.shapes)
            np.testing.assert_array_equal(one.structure.flat(tables), mu)


def test_agreement_makes_neighbours_agree_and_keeps_what_agrees():
    rng = np.random.default_rng(2)
    for seed in range(20):
        for component, one, _ in programs(random_case(seed, MIXED)):
            dense, n = Dense(component, one.structure), len(one.structure.layout.own)
            mu = agreeing(one.structure, (rng.random(n) * (rng.random(n) < 0.6))[None]).copy()
            assert np.abs(dense.B @ mu[0] - dense.e).max() <= 1e-14 and mu.min() >= 0
            np.testing.assert_allclose(agreeing(one.structure, mu), mu, atol=1e-15)


def test_moving_onto_hard_arcs_leaves_only_rounding():
    rng = np.random.default_rng(3)
    moved = 0
    for seed in range(40):
        for component, one, _ in programs(random_case(seed, HARD)):
            s = one.structure
            if not s.hard:
                continue
            mu, dense = iterated(one, 1e-10)[0].mu, Dense(component, s)
            spoilt = agreeing(s, mu * rng.lognormal(sigma=1e-4, size=mu.shape)).copy()
            kept = satisfied(s, one.numbers.p, spoilt)[0]
            before, after = (satisfying(dense, m) for m in (spoilt[0], kept))
            assert kept.min() >= 0
            assert after <= max(1e-13, 1e-6 * before), seed
            moved += before > 1e-6
    assert moved > 10


def test_a_proof_of_contradiction_is_never_wrong():
    """Whatever the multipliers, Farkas' condition must not hold for arcs that some mu satisfies."""
    rng = np.random.default_rng(4)
    checked = 0
    for seed in range(30):
        for _, one, _ in programs(random_case(seed, HARD)):
            if one.structure.hard:
                work = started(one)
                (row,) = work.rows()
                for scale in (1e-3, 1.0, 1e6):
                    work.view("y")[...] = scale * rng.normal(size=work.L.entries)
                    assert not certificate.contradiction(*row) > 1e-12
                    checked += 1
    assert checked > 30


def test_without_multipliers_nothing_is_contradicted():
    for seed in range(10):
        for _, one, _ in programs(random_case(seed, HARD)):
            work = started(one)
            (row,) = work.rows()
            work.view("y")[...] = 0.0
            assert certificate.contradiction(*row) == -math.inf


def test_contradictory_hard_arcs_are_proved_contradictory():
    proved = 0
    for seed in range(60):
        case = random_case(seed, Style(hard=0.9, contradict=0.8))
        for component in prepare(case.pdg, case.attention).parts:
            result = Newton().solve(component)
            violation = violation_of(component)
            if violation > 1e-4:
                assert result.lower == result.upper == math.inf
                proved += 1
            if result.lower == math.inf:
                assert violation > FEASIBLE / 10
    assert proved > 10


def test_an_infinite_lower_bound_needs_a_contradiction_even_in_the_hard_regime():
    for seed in range(30):
        case = random_case(seed, NASTY)
        for component in prepare(case.pdg, case.attention).parts:
            if Newton().solve(component).lower == math.inf:
                assert violation_of(component) > 1e-9


def test_a_lower_bound_from_mu_alone_is_one_and_is_tight_at_the_minimiser():
    tight = 0
    for seed in range(25):
        case = random_case(seed, Style(gammas=(0.0, 0.3)))
        for component in prepare(case.pdg, case.attention).parts:
            s = supported(component, single(component.sizes))
            assert s is not None
            one, solution = program(component, s.tree), JointSolver(tol=1e-12).solve(component)
            rng, mu = np.random.default_rng(seed), s.flat(solution.on.tables)
            for guess in (mu, rng.dirichlet(np.ones(len(mu)))):
                assert lower_from(s, one.numbers, guess) - component.accuracy.blur(np.zeros(1))[0] <= solution.upper
            tight += solution.upper - lower_from(s, one.numbers, mu) < 1e-4
    assert tight > 15


# -- honesty -----------------------------------------------------------------------------------------------------------


def test_heavy_arcs_are_bracketed_to_the_last_digit():
    """beta = 1e4 makes an ulp of log p visible: the value with fifty digits must still be inside."""
    rng = np.random.default_rng(0)
    x = Variable("X", 2)
    for _ in range(40):
        pdg = PDG(*(Arc(n, (), x, [e, 1 - e]) for n, e in zip("pq", 10 ** rng.uniform(-11, -7, size=2), strict=True)))
        p, q = ([Decimal(float(v)) for v in pdg[n].cpd.table()] for n in "pq")
        with localcontext(prec=50):
            p, q = [v / sum(p) for v in p], [v / sum(q) for v in q]
            exact = float(10_000 * sum(a * (a / b).ln() for a, b in zip(p, q, strict=True)))
        for solver in ("pinned", "newton", "clique-tree"):
            result = inconsistency(pdg, Attention.only({"p": math.inf, "q": 1e4}), solver=solver)
            assert result.lower <= exact <= result.upper, solver


@pytest.mark.parametrize("solver", [Newton, CliqueTreeSolver, JointSolver])
def test_a_tolerance_out_of_reach_is_admitted(solver: type[Newton]):
    for seed in range(5):
        case = random_case(seed, SOFT)
        found = inconsistency(case.pdg, case.attention, solver=solver(tol=1e-18))
        usual = inconsistency(case.pdg, case.attention, solver=solver())
        assert not found.converged and "NOT converged" in repr(found)
        assert found.lower <= found.upper and max(found.lower, usual.lower) <= min(found.upper, usual.upper)


@pytest.mark.parametrize("off", [1e-7, 1e-8, 1e-9, 1e-11, 1e-13])
def test_hard_arcs_that_barely_contradict_are_admitted_whichever_way_it_goes(off: float):
    """`converged` says that the bounds meet: both are infinite, or both finite and close; not that one is known."""
    x = Variable("X", 2)
    barely = PDG(Arc("p", (), x, [0.5, 0.5]), Arc("q", (), x, [0.5 + off, 0.5 - off]), Arc("r", (), x, [0.3, 0.7]))
    (c,) = prepare(barely, Attention.only({"p": math.inf, "q": math.inf, "r": 1.0})).parts
    for solver in (Newton(), CliqueTreeSolver()):
        found = solver.solve(c)
        close = found.upper < math.inf and found.upper - found.lower <= 1e-7 * max(1.0, abs(found.upper))
        assert found.converged == (close or found.lower == found.upper == math.inf)
        if found.lower == math.inf:
            assert off >= FEASIBLE
        elif found.converged:  # mu is on both to within FEASIBLE, at the price of KL(1/2 || 0.3)
            assert off <= FEASIBLE and found.residual <= FEASIBLE
            assert found.upper == pytest.approx(0.5 * math.log(0.25 / 0.21), abs=10 * off + 1e-7)
