"""The torch implementation for GPUs, on the CPU where there is none: the same contract as the compiled one."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from problems import chain, component, inf, loop, nudged, program, spread, violation_of

from dissonance import Attention
from dissonance.problem import Batch, prepare
from dissonance.solvers import Newton
from dissonance.solvers.convex import device
from dissonance.solvers.convex.program import Program
from dissonance.solvers.convex.solve import Outcome, Work, solve
from strategies import MIXED, SOFT, STRUCTURED, Style, random_case

STYLES = {
    "soft": SOFT,
    "zeros": Style(zeros=0.2),
    "structured": STRUCTURED,
    "mixed": MIXED,
    "hard": Style(zeros=0.1, hard=0.5, gammas=(0.0, 0.4)),
    "sharp": Style(sharp=0.5, zeros=0.1),
    "ratio": Style(ratio=1e3),
}
TOL, ENOUGH = 1e-10, 1e-9
WHERE = "cuda" if torch.cuda.is_available() else "cpu"


def problems(style: Style, count: int = 25) -> Iterator[tuple[Batch, Program]]:
    """Components that some mu satisfies."""
    for seed in range(count):
        case = random_case(seed, style)
        for c in prepare(case.pdg, case.attention).parts:
            if violation_of(c) <= 1e-9:
                yield c, program(c)


def on_device(one: Program) -> device.DeviceBatch:
    """Its problems, as tensors."""
    return device.DeviceBatch(one.structure, WHERE).of(*(torch.from_numpy(x).to(WHERE) for x in one.numbers))


def on_torch(one: Program, near: np.ndarray | None = None, known: np.ndarray | None = None) -> Outcome:
    known = np.full(len(one), near is not None) if known is None else known
    return device.solve(one, spread(one, TOL), spread(one, ENOUGH), near, known, WHERE)


def check_agreement(here: Outcome, there: Outcome) -> None:
    """Brackets overlap and values agree; where hard arcs do not quite hold, an upper bound is not one."""
    for a, b in zip(here.bounds, there.bounds, strict=True):
        scale = max(1.0, abs(a[1]))
        assert np.isfinite(b).all()
        assert b[1] == pytest.approx(a[1], abs=1e-7 * scale)
        slop = 1e-9 * scale if max(a[2], b[2]) > 1e-13 else 0.0
        assert max(a[0], b[0]) <= min(a[1], b[1]) + slop


@pytest.mark.parametrize("style", STYLES)
def test_random_problems_have_the_same_bounds(style: str):
    checked = 0
    for _, one in problems(STYLES[style]):
        assert device.small_enough(one.structure)
        here, there = solve(one, spread(one, TOL), spread(one, ENOUGH)), on_torch(one)
        check_agreement(here, there)
        checked += 1
    assert checked >= 15


@pytest.mark.parametrize("hard", [(), ("cd",)], ids=["soft", "hard"])
@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_a_batch_has_the_same_bounds_from_nowhere_and_from_nearby(gamma: float, hard: tuple[str, ...]):
    """Nudged a little, and replaced altogether: followed, shifted inside, or forgotten."""
    rng = np.random.default_rng(2)
    pdgs = [loop(rng) for _ in range(12)]
    attention = Attention.uniform(pdgs[0], beta=1.2, gamma=gamma).replace(beta=dict.fromkeys(hard, inf))
    one = program([component(p, attention) for p in pdgs])
    first = on_torch(one)
    check_agreement(solve(one, spread(one, TOL), spread(one, ENOUGH)), first)
    moved = program([component(nudged(p, rng, 0.002 if i % 4 else 2.0), attention) for i, p in enumerate(pdgs)])
    known = np.arange(12) % 5 > 0
    here = solve(moved, spread(moved, TOL), spread(moved, ENOUGH), first.at, known)
    there = on_torch(moved, first.at, known)
    check_agreement(here, there)
    fresh = on_torch(moved)
    check_agreement(fresh, there)
    near = known & (np.arange(12) % 4 > 0)
    assert there.steps[near].mean() < 0.75 * fresh.steps[near].mean()


def test_a_finished_problem_takes_no_step_and_keeps_its_proof():
    rng = np.random.default_rng(3)
    one = program([component(loop(rng)) for _ in range(5)])
    first = on_torch(one)
    again = on_torch(one, first.at)
    assert (again.steps <= 1).all()
    np.testing.assert_allclose(again.bounds, first.bounds, atol=1e-9)


def test_a_start_that_is_not_a_number_is_forgotten():
    rng = np.random.default_rng(4)
    one = program([component(loop(rng)) for _ in range(3)])
    first = on_torch(one)
    lost = first.at.copy()
    lost[1] = math.nan
    found = on_torch(one, lost)
    assert (found.bounds[:, 1] - found.bounds[:, 0] <= 10 * ENOUGH).all()
    check_agreement(first, found)


@pytest.mark.parametrize("style", ["soft", "structured", "mixed", "hard"])
def test_the_bounds_of_any_point_are_those_of_the_compiled_proof(style: str):
    """From garbage: lower, upper, how far hard arcs are from holding, and the mu of the upper bound."""
    rng = np.random.default_rng(5)
    for c, one in problems(STYLES[style]):
        work = Work(one.structure, one.numbers)
        for noise in (0.3, 3.0):
            work.at[...] = noise * rng.normal(size=work.at.shape)
            work.mu[...] = rng.random(work.mu.shape) * (rng.random(work.mu.shape) < 0.8)
            at = torch.from_numpy(work.at.copy()).to(WHERE)
            work.certify()
            batch = on_device(one)
            mu, bounds = batch.certify(at)
            np.testing.assert_allclose(mu.cpu().numpy(), work.proved, atol=1e-13)
            size = max(1.0, float(np.abs(work.bounds[np.isfinite(work.bounds)]).max()))
            np.testing.assert_allclose(bounds.cpu().numpy(), work.bounds, atol=1e-11 * size)
            assert not float(batch.contradiction(at)) > 1e-12  # some mu satisfies the hard arcs
            solution = Newton().solve(c)
            assert float(bounds[0, 0]) - c.accuracy.blur(np.zeros(1))[0] <= solution.upper


def test_contradictory_multipliers_are_proof_on_both():
    """Where hard arcs contradict each other, whatever says so on the one says so on the other."""
    proved = 0
    for seed in range(60):
        case = random_case(seed, Style(hard=0.9, contradict=0.8))
        for c in prepare(case.pdg, case.attention).parts:
            violation = violation_of(c)
            if not 1e-4 < violation < inf:
                continue
            here, there = solve(one := program(c), spread(one, TOL), spread(one, ENOUGH)), on_torch(one)
            moved = on_device(one).contradiction(torch.from_numpy(here.at).to(WHERE))
            assert float(moved) == pytest.approx(float(here.contradiction[0]), abs=1e-12)
            assert not (there.bounds[0, 2] < 1e-6 and there.bounds[0, 1] < inf)  # no mu is claimed to satisfy them
            proved += here.contradiction[0] > 0
    assert proved > 5


def test_what_is_large_does_not_fit():
    rng = np.random.default_rng(6)
    assert device.small_enough(program(component(chain(rng, 20))).structure)
    assert not device.small_enough(program(component(chain(rng, 200))).structure)
