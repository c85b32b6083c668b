"""Many problems solved and proved: in chunks that fit, over threads, from nearby solutions where they are known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from dissonance import threads
from dissonance.problem import Bools
from dissonance.solvers.convex.dense import TINY
from dissonance.solvers.convex.entries import agree, certify, cost, inside, measure
from dissonance.solvers.convex.hard import satisfy
from dissonance.solvers.convex.interior import COLD, FOLLOWING, HERE, INSIDE, WARM_STEPS
from dissonance.solvers.convex.layout import HARD, STRUCTURAL, Ints
from dissonance.solvers.convex.program import Floats, Numbers, Program, Structure
from dissonance.solvers.convex.work import SHARING, Sharing, Work
from dissonance.tolerances import ROUNDING


@dataclass
class Outcome:
    """P problems: where the iteration stopped and where its gap was BROAD (P, point), the mu (P, cells) that proves the
    upper bound, lower, upper and how far hard arcs are from holding (P, 3), steps (P,), and by how much the multipliers
    contradict (P,)."""

    at: Floats
    broad: Floats
    mu: Floats
    bounds: Floats
    steps: Ints
    contradiction: Floats

    def take(self, some: Ints | slice) -> Outcome:
        """Return what was found of some of the problems; of a slice of them on the same memory."""
        return Outcome(*(x[some] for x in vars(self).values()))

    def put(self, k: int, one: Outcome) -> None:
        """Overwrite what was found of problem k, in place."""
        for mine, theirs in zip(vars(self).values(), vars(one).values(), strict=True):
            mine[k] = theirs[0]


def solve(
    program: Program,
    tol: Floats,
    enough: Floats,
    near: Floats | None = None,
    known: Bools | None = None,
    most: int = 256,
    sharing: Sharing = SHARING,
) -> Outcome:
    """Solve and prove; `near` (P, point): solutions of nearby problems, where `known`. At most `most` at a time."""
    count, s = len(program), program.structure
    found = unsolved(program)
    known = np.full(count, near is not None) if known is None else known
    parallel = min(threads.free(), max(1, count * s.flat_layout[1].cells // sharing.cells_per_thread))
    size = max(1, min(most, -(-count // parallel)))

    def piece(first: int) -> None:
        some = slice(first, first + size)
        w = Work(s, program.take(some).numbers, None if near is None else near[some], sharing)
        _stages(w, known[some], tol[some], enough[some], found.steps[some])
        found.at[some], found.broad[some] = w.at, w.broad
        if s.hard:
            found.contradiction[some] = satisfy(w, enough[some])
        found.mu[some], found.bounds[some] = w.proved, w.bounds

    threads.side_by_side([partial(piece, first) for first in range(0, count, size)])
    return found


def _stages(w: Work, known: Bools, tol: Floats, enough: Floats, taken: Ints) -> None:
    """Solutions of nearby problems are followed; then starts inside; what is not proved well enough starts afresh."""
    which = np.flatnonzero(known)
    for start, most in ((FOLLOWING, 5), (INSIDE, WARM_STEPS), (HERE, 2 * WARM_STEPS)):
        if len(which):
            w.newton(tol, start, most, which=which, taken=taken)
            lower, upper = w.bounds[which, 0], w.bounds[which, 1]
            which = which[~(upper - lower <= enough[which] * np.maximum(1.0, np.abs(upper)))]
    which = np.concatenate([np.flatnonzero(~known), which])
    if len(which):
        w.newton(tol, COLD, which=which, taken=taken)


def unsolved(program: Program) -> Outcome:
    """Nothing is known, not even that anything is possible."""
    count, L = len(program), program.structure.flat_layout[1]
    bounds = np.tile([-math.inf, math.inf, math.inf], (count, 1))
    steps, none = np.zeros(count, dtype=np.int64), np.full(count, -math.inf)
    at, broad = np.zeros((2, count, L.point))
    return Outcome(at, broad, np.zeros((count, L.cells)), bounds, steps, none)


def prove(program: Program, at: Floats, polish: float | None = None, within: float = ROUNDING) -> Outcome:
    """The outcome of a point of one problem; `polish`: after Newton steps to that tolerance, from a little inside.

    `within`: for hard arcs that need not hold more closely than that.
    """
    w, found = Work(program.structure, program.numbers, at), unsolved(program)
    (row,) = w.rows()
    certify(*row, within)
    if polish is not None:
        gap = float(w.bounds[0, 1] - w.bounds[0, 0])
        gap = min(max(gap, 1e-8), 1.0) if math.isfinite(gap) else 1.0
        y = w.view("y")
        np.maximum(y, np.where(program.structure.kind == HARD, -np.inf, -60.0), out=y)
        inside(*row, gap, 0.3 * gap)
        w.newton(np.array([polish]), HERE, taken=found.steps)
    found.at[:] = w.at
    if program.structure.hard and within == ROUNDING:
        found.contradiction[:] = satisfy(w, np.zeros(1))
    found.mu[:], found.bounds[:] = w.proved, w.bounds
    return found


def agreeing(s: Structure, mu: Floats) -> Floats:
    """Cells (P, cells) whose clusters agree exactly."""
    w = Work(s, Numbers(mu, np.zeros((len(mu), len(s.layout.kind))), np.zeros((len(mu), len(s.layout.row)))))
    for row in w.rows():
        agree(*row, w.L.c, w.L.proved)
    return w.proved


def value(s: Structure, numbers: Numbers, mu: Floats) -> tuple[float, float, float]:
    """The incompatibility of one problem's clusters (cells,) that agree, how rounding may have changed it, and how far
    hard arcs are from holding."""
    w = Work(s, numbers)
    w.proved[0], w.view("q")[0] = mu, numbers.p[0]
    found, blur, broken = cost(*w.rows()[0], w.L.proved)
    return float(found), float(blur), float(broken)


def lower_from(s: Structure, numbers: Numbers, mu: Floats) -> float:
    """A lower bound on one problem without hard arcs, on one cluster, from a mu (cells,) alone.

    Its own conditionals are only as good as the root of its error.
    """
    w, lay = Work(s, numbers), s.layout
    y = np.log(np.maximum(s.entry_sums(mu[None]), TINY))
    if lay.kind[-1] == STRUCTURAL:  # the best conditionals: softmax of -cost / gamma
        log_q, W = y - np.log(s.row_sums(np.exp(y))), np.where(lay.kind == STRUCTURAL, 0.0, numbers.W)
        total = (numbers.c + s.cell_sums(W[:, s.term] * log_q))[0]
        y[0, lay.entry[lay.term_cell[-2] :]] = -(total - total.min()) / numbers.W[0, -1]
    w.view("y")[...], w.mu[0] = y, mu
    w.certify()
    return float(w.bounds[0, 0])


def adjoint(s: Structure, numbers: Numbers, mu: Floats, v: Floats, barrier: float) -> tuple[Floats, Floats]:
    """w (cells,) and nu (entries,) with F'' w - A'nu = v, A w = 0, at a minimiser mu (cells,) of one problem.

    `barrier`, in units of 1/mu, keeps F'' regular where a whole separator state could move.
    """
    w = Work(s, numbers)
    (row,) = w.rows()
    w.mu[0], w.view("z")[0] = np.maximum(mu, TINY), barrier
    measure(*row)
    m = w.view("m")
    log_q = np.log(np.maximum(m, TINY) / np.maximum(s.row_sums(m), TINY))
    w.view("y")[...] = np.where(s.kind == HARD, 0.0, log_q)
    measure(*row)
    return w.solve_system(0, v, 4, 0.0), w.view("dlam")[0]
