"""Many problems solved and proved: in chunks that fit, over threads, from nearby solutions where they are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dissonance.compiled import Entry, expect
from dissonance.numerics import ROUNDING
from dissonance.solvers.base import TOGETHER
from dissonance.solvers.convex import certificate, elimination, interior, steps, threads
from dissonance.solvers.convex.dense import TINY
from dissonance.solvers.convex.interior import BROAD, COLD, FOLLOWING, HERE, INSIDE, WARM_STEPS
from dissonance.solvers.convex.layout import HARD, STRUCTURAL
from dissonance.solvers.convex.program import Numbers, Program, Structure

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

newton, solve_system = Entry(interior.newton), Entry(interior.solve_system)
measure, aim, inside = Entry(steps.measure), Entry(steps.aim), Entry(steps.inside)
agree, certify, contradiction = Entry(certificate.agree), Entry(certificate.certify), Entry(certificate.contradiction)
cost, normalise, slack = Entry(certificate.cost), Entry(certificate.normalise), Entry(certificate.slack)
factor = Entry(elimination.factor)

SECONDS_PER_CELL, SECONDS_PER_PRODUCT, WARM = 7e-4, 1.7e-6, 0.4
"""What a solve takes a cell, and a multiplication of a Newton step, roughly, if it is interpreted; and the part of that
which it takes from a point that is known."""

NARROW, ANY = 1e-7, 1e300
"""The gap at which a point is a start for other gammas; and any move of mu will do there."""

ROUNDS = 12
"""How often mu is moved onto the hard arcs at most; a cell that must nearly vanish shrinks by ten a round."""


class Sharing(NamedTuple):
    """When threads save time: cells, of all problems together, for each thread; and multiplications of a Newton step
    from which on the subtrees of one problem are shared out over threads."""

    cells_per_thread: int = 20_000
    subtree_work: float = 2e7


SHARING = Sharing()


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


class Work:
    """Some problems of one structure, with room to solve them: a row of X each; see `room.py`."""

    def __init__(self, s: Structure, numbers: Numbers, at: Floats | None = None, sharing: Sharing = SHARING) -> None:
        self.sharing = sharing
        self.structure, self.I, self.L = s, *s.flat_layout
        self.offsets = np.array(self.L)
        self.X = np.zeros((len(numbers.c), self.L.width))
        self.clusters = s.clusters
        for name, values in zip(("c", "W", "p"), numbers, strict=True):
            self.view(name, values.shape[1])[...] = values
        if at is not None:
            self.at[...] = at

    def view(self, name: str, size: int) -> Floats:
        """What the problems have of something, (P, size), in place."""
        start = getattr(self.L, name)
        return self.X[:, start : start + size]

    @property
    def at(self) -> Floats:
        """Where the iteration stands, (P, point)."""
        return self.view("mu", self.L.point)

    @property
    def broad(self) -> Floats:
        """Where it stood when the gap was BROAD, (P, point); 0 if it never was."""
        return self.view("broad", self.L.point)

    @property
    def mu(self) -> Floats:
        """(P, cells)."""
        return self.view("mu", self.L.cells)

    @property
    def proved(self) -> Floats:
        """The mu of the upper bound, (P, cells)."""
        return self.view("proved", self.L.cells)

    @property
    def bounds(self) -> Floats:
        """lower, upper, how far hard arcs are from holding, (P, 3)."""
        return self.view("bounds", 3)

    def rows(self) -> list[tuple[Ints, Floats, Ints]]:
        """The arguments of compiled functions, problem by problem."""
        return [(self.I, x, self.offsets) for x in self.X]

    def newton(
        self,
        tol: Floats,
        start: int = COLD,
        most: int = 100,
        *,
        mu_tol: float = math.inf,
        which: Ints | None = None,
        taken: Ints | None = None,
    ) -> Floats:
        """Iterate and prove some problems, all by default: how far mu moved last, (P,); see `interior.newton`."""
        count = len(self.X)
        which = np.arange(count) if which is None else which
        taken = np.zeros(count, dtype=np.int64) if taken is None else taken
        moves = np.zeros(count)
        each = SECONDS_PER_CELL * self.L.cells + SECONDS_PER_PRODUCT * self.structure.work
        expect(each * len(which) * (1.0 if start == COLD else WARM), newton)
        args = self.I, self.X, self.offsets, self.clusters, which, start, tol, mu_tol, most, taken, moves
        if self.structure.work < self.sharing.subtree_work:
            newton(*args)
        else:
            with threads.without_blas_threads():
                (self.over_subtrees if len(which) == 1 and threads.free() > 1 else newton)(*args)
        return moves

    @cached_property
    def over_subtrees(self) -> Callable[..., None]:
        """`newton` for one large problem: over threads, if its tree has branches that are worth it."""
        size = self.structure.fronts.size.astype(np.float64)
        parts, above = threads.subtrees(self.structure.layout.parent, size**2 * (size + 10.0), threads.free())
        return threads.over_subtrees(parts, above) if len(parts) > 1 else newton

    def settle(self, tol: Floats, mu_tol: float, most: int, start: Floats | None = None) -> tuple[Floats, Floats]:
        """Until mu stands still, from a cold start or one given: how far it moved last (P,), a start for other gammas.

        A start (P, point) is where the gap is BROAD, for from there on gamma matters; for other gammas, NARROW.
        """
        if start is None:
            self.newton(np.full(len(self.X), BROAD), COLD, most, mu_tol=ANY)
        else:
            self.at[...] = start
        self.newton(np.maximum(tol, NARROW), HERE, most, mu_tol=ANY)
        start = self.at.copy()
        return self.newton(tol, HERE, most, mu_tol=mu_tol), start

    def certify(self) -> None:
        """Prove bounds."""
        for row in self.rows():
            certify(*row, ROUNDING)

    def derivative(self, twice: Numbers, least: Floats) -> Floats:
        """mu less its derivative times gamma (P, cells): `twice` are the numbers at 2 gamma; `least` slack (P,)."""
        L, cells = self.L, self.L.cells
        z = self.X[:, L.z : L.z + cells]
        g = self.view("g", cells)
        for b, row in enumerate(self.rows()):
            measure(*row)
            g[b] = -(self.X[b, L.r : L.r + cells] + z[b])
            for name, values in zip(("c", "W"), twice, strict=False):
                self.X[b, getattr(L, name) : getattr(L, name) + values.shape[1]], values[b] = (
                    values[b].copy(),
                    self.X[b, getattr(L, name) : getattr(L, name) + values.shape[1]].copy(),
                )
            slack(*row, L.r, 1.0)
            for name, values in zip(("c", "W"), twice, strict=False):
                self.X[b, getattr(L, name) : getattr(L, name) + values.shape[1]] = values[b]
            change = g[b] + self.X[b, L.r : L.r + cells]
            np.maximum(z[b], least[b], out=z[b])
            factor(*row, self.clusters)
            aim(*row, 0.0)
            g[b] = z[b] + change
            solve_system(*row, self.clusters, 0, 3, 1.0)
        return self.view("x", cells)

    def project(self, b: int) -> Floats:
        """The mu (cells,) nearest to the point's, each cell in units of its mass, that satisfies the equations.

        W and c are 0, z is 1.
        """
        row = self.I, self.X[b], self.offsets
        factor(*row, self.clusters)
        aim(*row, 0.0)
        self.view("g", self.L.cells)[b] = 1.0
        solve_system(*row, self.clusters, 0, 2, 1.0)
        return self.view("x", self.L.cells)[b]


def solve(
    program: Program,
    tol: Floats,
    enough: Floats,
    near: Floats | None = None,
    known: Bools | None = None,
    most: int = TOGETHER,
    sharing: Sharing = SHARING,
) -> Outcome:
    """Solve and prove; `near` (P, point): solutions of nearby problems, where `known`. At most `most` at a time."""
    count, s = len(program), program.structure
    found = unsolved(program)
    known = np.full(count, near is not None) if known is None else known
    parallel = min(threads.free(), max(1, count * s.flat_layout[1].cells // sharing.cells_per_thread))
    size = max(1, min(most, -(-count // parallel)))

    def piece(first: int) -> Callable[[], None]:
        def one() -> None:
            some = slice(first, first + size)
            w = Work(s, program.take(some).numbers, None if near is None else near[some], sharing)
            _stages(w, known[some], tol[some], enough[some], found.steps[some])
            found.at[some], found.broad[some] = w.at, w.broad
            found.mu[some], found.bounds[some] = w.proved, w.bounds
            if s.hard:
                _satisfy(w, found, some)

        return one

    threads.side_by_side([piece(first) for first in range(0, count, size)])
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
    w, taken = Work(program.structure, program.numbers, at), np.zeros(1, dtype=np.int64)
    (row,) = w.rows()
    certify(*row, within)
    if polish is not None:
        gap = float(w.bounds[0, 1] - w.bounds[0, 0])
        gap = min(max(gap, 1e-8), 1.0) if math.isfinite(gap) else 1.0
        y = w.view("y", w.L.entries)
        np.maximum(y, np.where(program.structure.kind == HARD, -np.inf, -60.0), out=y)
        inside(*row, gap, 0.3 * gap)
        w.newton(np.array([polish]), HERE, taken=taken)
    found = replace(unsolved(program), at=w.at.copy(), mu=w.proved.copy(), bounds=w.bounds.copy(), steps=taken)
    if program.structure.hard and within == ROUNDING:
        _satisfy(w, found, slice(0, 1))
    return found


def _satisfy(w: Work, found: Outcome, some: slice) -> None:
    """Move mu onto the hard arcs where it is off, and prove its cost again; or show that they contradict each other."""
    rows = w.rows()
    found.contradiction[some] = [contradiction(*row) for row in rows]
    bounds, mu = found.bounds[some], found.mu[some]
    for b in np.flatnonzero((bounds[:, 2] > ROUNDING) & ~(found.contradiction[some] > 0)).tolist():
        w.mu[b] = satisfied(w.structure, w.view("p", w.L.entries)[b : b + 1], mu[b : b + 1])[0]
        certify(*rows[b], ROUNDING)
        if w.bounds[b, 2] < bounds[b, 2]:
            mu[b], bounds[b] = w.proved[b], w.bounds[b]
        if bounds[b, 2] > ROUNDING:  # what is missing shows where they contradict each other
            measure(*rows[b])
            missing = w.view("off_hard", w.L.entries)[b]
            w.view("y", w.L.entries)[b] = np.where(w.structure.kind == HARD, missing, 0.0)
            found.contradiction[some][b] = contradiction(*rows[b])


def satisfied(s: Structure, p: Floats, mu: Floats) -> Floats:
    """mu + D A'y with A D A'y = b - A mu and D = diag mu, again and again: cells (P, cells) that satisfy the hard arcs.

    Every cell moves in proportion to its mass, so that small ones keep their sign; a few rounds leave only rounding.
    """
    w = Work(s, Numbers(np.zeros_like(mu), np.zeros((len(mu), len(s.layout.kind))), p))
    w.view("z", w.L.cells)[...] = 1.0
    w.mu[...] = np.maximum(mu, TINY)
    found = w.mu.copy()
    for b, row in enumerate(w.rows()):
        least = math.inf
        for _ in range(ROUNDS):
            off = measure(*row)[1]
            if not off < least:
                break
            least, found[b] = off, w.mu[b]
            if off <= 1e-15:
                break
            x = w.project(b)
            shrink = -float((x / w.mu[b] - 1.0).min())
            w.mu[b] = np.maximum(w.mu[b] + min(1.0, 0.9 / max(shrink, 1e-300)) * (x - w.mu[b]), TINY)
    return found


def agreeing(s: Structure, mu: Floats) -> Floats:
    """Cells (P, cells) whose clusters agree exactly."""
    w = Work(s, Numbers(mu, np.zeros((len(mu), len(s.layout.kind))), np.zeros((len(mu), len(s.layout.row)))))
    for row in w.rows():
        agree(*row, w.L.c, w.L.proved)
    return w.proved


def value(s: Structure, numbers: Numbers, mu: Floats) -> tuple[float, float]:
    """The incompatibility of one problem's clusters (cells,) that agree, and how far hard arcs are from holding."""
    w = Work(s, numbers)
    w.proved[0], w.view("q", w.L.entries)[0] = mu, numbers.p[0]
    found, _, broken = cost(w.I, w.X[0], w.offsets, w.L.proved)
    return float(found), float(broken)


def lower_from(s: Structure, numbers: Numbers, mu: Floats) -> float:
    """A lower bound on one problem without hard arcs, on one cluster, from a mu (cells,) alone.

    Its own conditionals are only as good as the root of its error.
    """
    w, lay = Work(s, numbers), s.layout
    (row,) = w.rows()
    m = np.bincount(lay.entry, np.tile(mu, len(lay.kind)), len(lay.row))
    y = w.view("y", w.L.entries)[0]
    y[...], w.mu[0] = np.log(np.maximum(m, TINY)), mu
    structural = lay.kind == STRUCTURAL
    if structural.any():  # the best conditionals: softmax of -cost / gamma
        W = w.view("W", w.L.terms)[0]
        gamma, W[structural] = float(W[structural][0]), 0.0
        normalise(*row)
        slack(*row, w.L.r, 1.0)
        total = w.view("r", w.L.cells)[0]
        y[lay.entry[lay.term_cell[np.flatnonzero(structural)[0]] :]] = -(total - total.min()) / gamma
        W[structural] = gamma
    certify(*row, ROUNDING)
    return float(w.bounds[0, 0])


def adjoint(s: Structure, numbers: Numbers, mu: Floats, v: Floats, barrier: float) -> tuple[Floats, Floats]:
    """w (cells,) and nu (entries,) with F'' w - A'nu = v, A w = 0, at a minimiser mu (cells,) of one problem.

    `barrier`, in units of 1/mu, keeps F'' regular where a whole separator state could move.
    """
    w, lay = Work(s, numbers), s.layout
    (row,) = w.rows()
    w.mu[0], w.view("z", w.L.cells)[0] = np.maximum(mu, TINY), barrier
    measure(*row)
    m = w.view("m", w.L.entries)[0]
    total = np.add.reduceat(m, lay.entry_at[:-1]) if len(m) else m
    log_q = np.log(np.maximum(m, TINY) / np.maximum(total, TINY)[lay.row])
    w.view("y", w.L.entries)[0] = np.where(s.kind == HARD, 0.0, log_q)
    measure(*row)
    factor(*row, w.clusters)
    aim(*row, 0.0)
    w.view("off", w.L.unknowns)[0], w.view("g", w.L.cells)[0] = 0.0, v
    solve_system(*row, w.clusters, 0, 4, 0.0)
    return w.view("x", w.L.cells)[0], w.view("dlam", w.L.entries)[0]
