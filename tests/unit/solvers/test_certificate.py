"""Proofs hold whatever was guessed: for random garbage, lower <= the inconsistency <= upper."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from dissonance import PDG, Arc, Attention, Variable, inconsistency
from dissonance.distributions.tree import single
from dissonance.problem import Component, prepare
from dissonance.solvers import FEASIBLE, CliqueTree, Newton, Solution
from dissonance.solvers import Joint as JointSolver
from dissonance.solvers import bounds as batched
from dissonance.solvers.assemble import assemble
from dissonance.solvers.batch import Arcs, structure
from dissonance.solvers.certificate import agree, certify, contradiction, satisfy
from dissonance.solvers.interior import cold as cold_batch
from dissonance.solvers.newton import Iterate, cold, newton
from dissonance.solvers.program import Program
from reference import convex
from reference.dense import incompatibility
from reference.feasible import least_violation
from strategies import MIXED, NASTY, SOFT, STRUCTURED, Case, Style, cases, random_case

HARD = Style(zeros=0.1, hard=0.5, gammas=(0.0, 0.4))
seeds = st.integers(0, 2**32 - 1)


def programs(case: Case) -> list[tuple[Component, Program, Solution]]:
    """Every component of a case that has a finite inconsistency, on its tree and as one cluster, with its solution."""
    found = []
    for component in prepare(case.pdg, case.attention).components:
        if least_violation(component.pdg, component.attention) > 1e-9:
            continue
        for tree in (component.tree, single(component.sizes)):
            program = assemble(component, tree)
            assert program is not None
            solution = Newton().solve(component)
            assert solution.converged and math.isfinite(solution.upper)
            found.append((component, program, solution))
    return found


def garbage(program: Program, rng: np.random.Generator, near: Iterate | None, noise: float) -> Iterate:
    """Numbers that mean nothing, or a solution spoilt by noise."""
    start = cold(program) if near is None else near
    mu = np.abs(
        start.mu * rng.lognormal(sigma=noise, size=start.mu.shape) + noise * rng.normal(size=start.mu.shape) / 100
    )
    return Iterate(
        mu, start.z, start.l + noise * rng.normal(size=start.l.shape), start.u + noise * rng.normal(size=start.u.shape)
    )


@pytest.mark.parametrize("style", [SOFT, STRUCTURED, MIXED, HARD], ids=["soft", "structured", "mixed", "hard"])
def test_bounds_from_garbage_are_still_bounds(style: Style):
    rng = np.random.default_rng(0)
    checked = 0
    for seed in range(18):
        for component, program, solution in programs(random_case(seed, style)):
            solved = newton(program, cold(program), 1e-10)
            for near, noise in ((None, 3.0), (None, 0.3), (solved, 1.0), (solved, 1e-2), (solved, 1e-5), (solved, 0.0)):
                found = certify(program, garbage(program, rng, near, noise))
                assert not math.isnan(found.lower) and not math.isnan(found.upper)
                assert found.lower - component.rounding <= solution.upper, (seed, noise)
                if found.residual <= 1e-12:
                    assert found.upper + component.rounding >= solution.lower, (seed, noise)
                checked += 1
    assert checked > 100


@given(cases(STRUCTURED), seeds, st.floats(0, 5))
@settings(max_examples=40, phases=(Phase.explicit, Phase.generate))
def test_bounds_from_garbage_contain_an_independent_reference(case: Case, seed: int, noise: float):
    reference = convex.solve(case.pdg, case.attention)
    assume(reference.accurate)
    rng = np.random.default_rng(seed)
    problem = prepare(case.pdg, case.attention)
    assembled = [assemble(c, c.tree) for c in problem.components]
    for solved in (False, True):
        low = up = problem.constant
        for program in assembled:
            near = newton(program, cold(program), 1e-10) if solved else None
            found = certify(program, garbage(program, rng, near, 1e-6 * noise if solved else noise))
            low, up = low + found.lower, up + found.upper
        assert low - reference.slop <= reference.value <= up + reference.slop


def test_the_upper_bound_is_the_cost_of_a_real_joint():
    rng = np.random.default_rng(1)
    for seed in range(20):
        case = random_case(seed, STRUCTURED)
        for component, program, _ in programs(case):
            found = certify(program, garbage(program, rng, None, 1.0))
            solution = Solution(component, 0, 0, "", tree=program.tree, tables=_tables(program, found.mu))
            joint = solution.mu.joint().table.numpy()
            assert joint.min() >= 0 and joint.sum() == pytest.approx(1, abs=1e-12)
            assert found.upper == pytest.approx(incompatibility(component.pdg, component.attention, joint), abs=1e-9)


def _tables(program: Program, mu: np.ndarray) -> list[torch.Tensor]:
    tables = []
    for i, (states, shape) in enumerate(zip(program.states, program.tree.shapes, strict=True)):
        table = np.zeros(math.prod(shape))
        table[states] = mu[program.offsets[i] : program.offsets[i + 1]]
        tables.append(torch.from_numpy(table.reshape(shape)))
    return tables


def test_agreement_makes_neighbours_agree_and_keeps_what_agrees():
    rng = np.random.default_rng(2)
    for seed in range(20):
        for _, program, _ in programs(random_case(seed, MIXED)):
            mu = agree(program, rng.random(len(program.c)) * (rng.random(len(program.c)) < 0.6))
            structural = program.A[: program.first_hard] @ mu - program.b[: program.first_hard]
            assert np.abs(structural).max() <= 1e-14 and mu.min() >= 0
            np.testing.assert_allclose(agree(program, mu), mu, atol=1e-15)


def test_moving_onto_hard_arcs_leaves_only_rounding():
    rng = np.random.default_rng(3)
    moved = 0
    for seed in range(40):
        case = random_case(seed, HARD)
        for _, program, _ in programs(case):
            if not program.hard:
                continue
            solved = newton(program, cold(program), 1e-10)
            spoilt = agree(program, solved.mu * rng.lognormal(sigma=1e-4, size=solved.mu.shape))
            kept = satisfy(program, spoilt)
            before, after = (np.abs(program.A @ m - program.b).max() for m in (spoilt, kept))
            assert kept.min() >= 0
            assert after <= max(1e-13, 1e-6 * before), seed
            moved += before > 1e-6
    assert moved > 10


def test_a_proof_of_contradiction_is_never_wrong():
    """Whatever the multipliers, Farkas' condition must not hold for arcs that some mu satisfies."""
    rng = np.random.default_rng(4)
    for seed in range(30):
        for _, program, _ in programs(random_case(seed, HARD)):
            if program.hard:
                for scale in (1e-3, 1.0, 1e6):
                    assert not contradiction(program, scale * rng.normal(size=len(program.b)))


def test_contradictory_hard_arcs_are_proved_contradictory():
    proved = 0
    for seed in range(60):
        case = random_case(seed, Style(hard=0.9, contradict=0.8))
        for component in prepare(case.pdg, case.attention).components:
            result = Newton().solve(component)
            violation = least_violation(component.pdg, component.attention)
            if violation > 1e-4:
                assert result.lower == result.upper == math.inf
                proved += 1
            if result.lower == math.inf:
                assert violation > FEASIBLE / 10
    assert proved > 10


def test_an_infinite_lower_bound_needs_a_contradiction_even_in_the_hard_regime():
    for seed in range(30):
        case = random_case(seed, NASTY)
        for component in prepare(case.pdg, case.attention).components:
            if Newton().solve(component).lower == math.inf:
                assert least_violation(component.pdg, component.attention) > 1e-9


# -- many problems at once ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", [SOFT, STRUCTURED, MIXED, HARD], ids=["soft", "structured", "mixed", "hard"])
def test_batched_bounds_from_garbage_are_still_bounds(style: Style):
    torch_rng = torch.Generator().manual_seed(0)

    def noisy(x: torch.Tensor, noise: float) -> torch.Tensor:
        return x + noise * torch.randn(x.shape, generator=torch_rng, dtype=x.dtype)

    for seed in range(25):
        case = random_case(seed, style)
        for component in prepare(case.pdg, case.attention).components:
            solution = Newton().solve(component)
            batch, possible = Arcs.of([component]).batch(structure(component, component.tree))
            assert bool(possible[0]) or solution.lower == math.inf
            if math.isinf(solution.upper):
                continue
            state = cold_batch(batch)
            for noise in (0.0, 0.3, 3.0):
                guess = {name: noisy(getattr(state, name), noise) for name in ("l", "d", "lam")}
                mu = noisy(state.mu, noise).abs() * (state.mu > 0)
                found = batched.certify(batch, replace(state, mu=mu, **guess))
                assert float(found.lower) - component.rounding <= solution.upper, (seed, noise)
                if float(found.residual) <= 1e-12:
                    assert float(found.upper) + component.rounding >= solution.lower, (seed, noise)
                assert not bool(batched.contradiction(batch, guess["lam"]))


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
            result = inconsistency(pdg, Attention({"p": math.inf, "q": 1e4}), solver=solver)
            assert result.lower <= exact <= result.upper, solver


@pytest.mark.parametrize("solver", [Newton, CliqueTree, JointSolver])
def test_a_tolerance_out_of_reach_is_admitted(solver: type[Newton]):
    for seed in range(5):
        case = random_case(seed, SOFT)
        found = inconsistency(case.pdg, case.attention, solver=solver(tol=1e-18))
        usual = inconsistency(case.pdg, case.attention, solver=solver())
        assert not found.converged and "NOT converged" in repr(found)
        assert found.lower <= found.upper and max(found.lower, usual.lower) <= min(found.upper, usual.upper)
