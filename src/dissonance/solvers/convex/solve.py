"""Many problems solved and proved: in chunks that fit, over threads, from nearby solutions where they are known."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dissonance.solvers.convex import interior
from dissonance.solvers.convex.certificate import contradiction
from dissonance.solvers.convex.elimination import TINY
from dissonance.solvers.convex.layout import HARD
from dissonance.solvers.convex.program import Program
from dissonance.solvers.convex.steps import Compiled, Numbers, Point, point

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TOGETHER = 256
"""At most so many problems are iterated together: more do not fit the caches."""

WORTH = 200_000
"""Cells, of all problems together, from which on another thread pays."""

KEPT = 1e-12
"""How far hard arcs may be from holding in a mu whose cost counts as proof without trying to do better."""

ROUNDS = 12
"""How often mu is moved onto the hard arcs at most; a cell that must nearly vanish shrinks by ten a round."""


@dataclass
class Outcome:
    """P problems: where the iteration stopped, the mu (P, cells) that proves the upper bound, lower, upper and residual
    (P, 3), steps (P,), and by how much their multipliers contradict each other (P,), if that is positive."""

    at: Point
    mu: Floats
    bounds: Floats
    steps: Ints
    contradiction: Floats


@lru_cache(maxsize=1)
def threads() -> int:
    """How many threads there may be: OMP_NUM_THREADS, or the cores this process may use."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads(), thread_name_prefix="dissonance")


def over_threads(work: Sequence[Callable[[], None]]) -> None:
    """Do all of it, side by side where there is more than one thing to do and more than one core."""
    if len(work) < 2 or threads() < 2:
        for one in work:
            one()
    else:
        for done in [_pool().submit(one) for one in work]:
            done.result()


def solve(
    program: Program,
    tol: Floats,
    enough: Floats,
    near: Point | None = None,
    known: npt.NDArray[np.bool_] | None = None,
    most: int = TOGETHER,
) -> Outcome:
    """Solve and prove; `near`: solutions of nearby problems, where `known`. At most `most` problems at a time."""
    count, lay = len(program), program.structure.layout
    at = point(lay, count)
    known = np.full(count, near is not None) if known is None else known
    if near is not None:
        for mine, theirs in zip(at, near, strict=True):
            mine[...] = theirs
    found = replace(unsolved(program), at=at)
    parallel = min(threads(), max(1, count * len(lay.own) // WORTH))
    size = max(1, min(most, -(-count // parallel)))

    def work(first: int) -> Callable[[], None]:
        def one() -> None:
            some = slice(first, first + size)
            part = Point(*(x[some] for x in at))
            steps = Compiled(lay, program.structure.fronts, program.take(some).numbers, part)
            bounds, taken = interior.solve(steps, known[some], tol[some], enough[some], found.mu[some])
            found.bounds[some], found.steps[some] = bounds, taken
            if program.hard:
                _satisfy(steps, found, some)

        return one

    over_threads([work(first) for first in range(0, count, size)])
    return found


def prove(program: Program, at: Point, polish: float | None = None) -> Outcome:
    """The outcome of a point of one problem; `polish`: after Newton steps to that tolerance, from a little inside."""
    steps = Compiled(program.structure.layout, program.structure.fronts, program.numbers, at)
    found, one = unsolved(program), np.zeros(1, dtype=np.int64)
    found.at = at
    steps.certify(one, found.mu, found.bounds)
    if polish is not None:
        gap = np.nan_to_num(found.bounds[:, 1] - found.bounds[:, 0], nan=1.0, posinf=1.0).clip(1e-8, 1.0)
        np.maximum(at.y, np.where(program.structure.kind == HARD, -np.inf, -60.0), out=at.y)
        steps.inside(one, gap, 0.3 * gap)
        found.steps = interior.newton(steps, one, np.array([polish]), 100)
        steps.certify(one, found.mu, found.bounds)
    if program.hard:
        _satisfy(steps, found, slice(0, 1))
    return found


def unsolved(program: Program) -> Outcome:
    """Nothing is known, not even that anything is possible."""
    count, at = len(program), point(program.structure.layout, len(program))
    bounds = np.tile([-math.inf, math.inf, math.inf], (count, 1))
    return Outcome(at, np.zeros_like(at.mu), bounds, np.zeros(count, dtype=np.int64), np.full(count, -math.inf))


def _satisfy(steps: Compiled, found: Outcome, some: slice) -> None:
    """Move mu onto the hard arcs where it is off, and prove its cost again; or show that they contradict each other."""
    lay, numbers = steps.lay, steps.numbers
    every = np.arange(len(numbers.c))
    found.contradiction[some] = contradiction(lay, numbers.p, steps.at.y, every)
    off = every[(found.bounds[some][:, 2] > KEPT) & ~(found.contradiction[some] > 0)]
    if not len(off):
        return
    mu = found.mu[some][off]
    moved = satisfied(steps, numbers.p[off], mu)
    again = Point(moved, *(x[off] for x in steps.at[1:]))
    proof = Compiled(lay, steps.fronts, Numbers(*(x[off] for x in numbers)), again)
    proved, bounds = np.zeros_like(mu), np.zeros((len(off), 3))
    proof.certify(np.arange(len(off)), proved, bounds)
    closer = bounds[:, 2] < found.bounds[some][off, 2]
    better = off[closer]
    found.mu[some][better], found.bounds[some][better] = proved[closer], bounds[closer]


def satisfied(steps: Compiled, p: Floats, mu: Floats) -> Floats:
    """mu + D A'y with A D A'y = b - A mu and D = diag mu, again and again: cluster marginals on the hard arcs.

    Every cell moves in proportion to its mass, so that small ones keep their sign; a few rounds leave only rounding.
    """
    count, lay = len(mu), steps.lay
    zero = Numbers(np.zeros_like(mu), np.zeros((count, len(lay.kind))), p)
    entries, unknowns = np.zeros((count, len(lay.row))), np.zeros((count, int(lay.unknown_at[-1])))
    at = Point(np.maximum(mu, TINY), np.ones_like(mu), entries, unknowns)
    engine = Compiled(lay, steps.fronts, zero, at)
    active, least = np.arange(count), np.full(count, math.inf)
    for _ in range(ROUNDS):
        off = engine.measure(active)[:, 1]
        better = off < least[active]
        engine.keep(active[better])
        least[active[better]] = off[better]
        active = active[better & (off > 1e-15)]
        if not len(active):
            break
        x = engine.project(active)
        ratio = (x / at.mu[active] - 1.0).min(1)
        length = np.minimum(1.0, 0.9 / np.maximum(-ratio, 1e-300))[:, None]
        at.mu[active] = np.maximum(at.mu[active] + length * (x - at.mu[active]), TINY)
    engine.back(np.arange(count))
    return at.mu
