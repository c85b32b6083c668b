"""The parts of a Newton step, compiled, for many problems of one layout: what `interior.py` puts together.

Eliminating dz and dl from Newton's equations leaves the quadratic program of `elimination.py` with

    G = diag(z/mu) + sum_terms V diag(W / (s qt)) V',    V = 1[x in (s,t)] - q(t|s) 1[x in s],    qt = (q + mu(t|s)) / 2
    g = tau'/mu - r,     r = slack - z,     tau' = tau - dz dmu
    dz = tau'/mu - (z/mu) mu+,     dl = (m+ - q s+) / (s qt)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dissonance.compiled import compiled
from dissonance.solvers.convex.certificate import certify, normalise, slack
from dissonance.solvers.convex.elimination import TINY, Fronts, downward, factor, system, upward
from dissonance.solvers.convex.layout import HARD, Ints, Layout

Floats = npt.NDArray[np.float64]


class Numbers(NamedTuple):
    """The numbers of P problems: c (P, cells), W (P, terms), p (P, entries): hard tables, or a first guess of q."""

    c: Floats
    W: Floats
    p: Floats


class Point(NamedTuple):
    """Where the iteration stands, a row a problem: mu and z (P, cells), y (P, entries), d (P, unknowns).

    y is l = log q of soft entries and lam of hard ones.
    """

    mu: Floats
    z: Floats
    y: Floats
    d: Floats


class Room(NamedTuple):
    """What a step works in: by cells, by entries, by unknowns."""

    r: Floats
    g: Floats
    x: Floats
    target: Floats
    q: Floats
    m: Floats
    curve: Floats
    dl: Floats
    off_hard: Floats
    lam: Floats
    off: Floats
    d: Floats


def point(lay: Layout, count: int) -> Point:
    """Points of so many problems, all 0."""
    cells, entries, unknowns = len(lay.own), len(lay.row), int(lay.unknown_at[-1])
    return Point(*(np.zeros((count, n)) for n in (cells, cells, entries, unknowns)))


def room(lay: Layout, count: int) -> Room:
    """Room for the steps of so many problems."""
    cells, entries, unknowns = len(lay.own), len(lay.row), int(lay.unknown_at[-1])
    return Room(*(np.zeros((count, n)) for n in (*[cells] * 4, *[entries] * 6, *[unknowns] * 2)))


@compiled
def _misfit(
    lay: Layout, x: Floats, q: Floats, m: Floats, off: Floats, off_hard: Floats, mass: float, b: int
) -> None:
    """m = x(s,t) of every entry, and what is missing of every equation: E'x - X'x, the root's 1 - mass, -A x."""
    for e in range(len(lay.row)):
        m[b, e] = 0.0
    for u in range(lay.unknown_at[-1]):
        off[b, u] = 0.0
    for k in range(len(lay.parent)):
        at, stop = lay.cell_at[k], lay.cell_at[k + 1]
        for i in range(at, stop):
            off[b, lay.own[i]] -= x[b, i]
        if lay.parent[k] < 0:
            off[b, lay.unknown_at[k]] += mass
        for j in range(lay.child_at[k], lay.child_at[k + 1]):
            shift = lay.above_at[lay.child[j]] - at
            for i in range(at, stop):
                off[b, lay.above[shift + i]] += x[b, i]
        for t in range(lay.term_at[k], lay.term_at[k + 1]):
            shift = lay.term_cell[t] - at
            for i in range(at, stop):
                m[b, lay.entry[shift + i]] += x[b, i]
            if lay.kind[t] == HARD:
                for r in range(lay.row_at[t], lay.row_at[t + 1]):
                    total = 0.0
                    for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                        total += m[b, e]
                    for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                        off_hard[b, e] = q[b, e] * total - m[b, e]


@compiled
def measure(lay: Layout, c: Floats, W: Floats, p: Floats, at: Point, w: Room, active: Ints) -> Floats:
    """Normalise y, fill q, r, m and the curvature 1/(s qt), and say how far each active problem is, (active, 6):

    the gap of its own proof, how far mu is from its equations, max(1, |value|), mu.z, mu.|r|, the largest |lam|.
    """
    found = np.zeros((len(active), 6))
    for a in range(len(active)):
        b = active[a]
        normalise(lay, at.y, p, w.q, b)
        slack(lay, c, W, w.q, at.y, at.d, b, w.r, 1.0)
        below = gap = rest = off = value = away = 0.0
        for i in range(len(lay.own)):
            below -= min(w.r[b, i], 0.0)
            w.r[b, i] -= at.z[b, i]
            gap += at.mu[b, i] * at.z[b, i]
            rest += at.mu[b, i] * abs(w.r[b, i])
        for k in range(len(lay.parent)):
            if lay.parent[k] < 0:
                value += at.d[b, lay.unknown_at[k]]
        _misfit(lay, at.mu, w.q, w.m, w.off, w.off_hard, 1.0, b)
        for u in range(lay.unknown_at[-1]):
            off += abs(w.off[b, u])
        for t in range(len(lay.kind)):
            for r in range(lay.row_at[t], lay.row_at[t + 1]):
                total = 0.0
                for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                    total += w.m[b, e]
                for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                    w.curve[b, e] = 2.0 / max(total * w.q[b, e] + w.m[b, e], TINY)
                    if lay.kind[t] == HARD:
                        off += abs(w.off_hard[b, e])
                        away = max(away, abs(at.y[b, e]))
        found[a, 0], found[a, 1], found[a, 2] = below + gap + rest, off, max(1.0, abs(value))
        found[a, 3], found[a, 4], found[a, 5] = gap, rest, away
    return found


@compiled
def aim(lay: Layout, at: Point, w: Room, tau: Floats, predict: bool, active: Ints) -> None:
    """The right side of a step to mu z = tau (active,), or of the predictor, to 0; and that of the equations."""
    for a in range(len(active)):
        b = active[a]
        for i in range(len(lay.own)):
            w.target[b, i] = 0.0 if predict else tau[a]
            w.g[b, i] = w.target[b, i] / at.mu[b, i] - w.r[b, i]
    _equations(lay, w, active)


@compiled
def _equations(lay: Layout, w: Room, active: Ints) -> None:
    """The right side of the equations: roots of mass 1."""
    for b in active:
        for u in range(lay.unknown_at[-1]):
            w.off[b, u] = 0.0
        for e in range(len(lay.row)):
            w.off_hard[b, e] = 0.0
        for k in range(len(lay.parent)):
            if lay.parent[k] < 0:
                w.off[b, lay.unknown_at[k]] = 1.0


@compiled
def correct(lay: Layout, at: Point, w: Room, now: Floats, tol: Floats, active: Ints) -> None:
    """From the predictor's mu+ in w.x to the right side of the corrector: tau' = tau - the product of its steps.

    Mehrotra's tau: from how far the predictor gets.
    """
    n = len(lay.own)
    for a in range(len(active)):
        b = active[a]
        primal = dual = 0.99
        for i in range(n):
            x = w.x[b, i] / at.mu[b, i]
            primal, dual = max(primal, 1.0 - x), max(dual, x)
        ahead, gap = 0.0, now[a, 3] / n
        for i in range(n):
            x = w.x[b, i] / at.mu[b, i]
            ahead += at.mu[b, i] * at.z[b, i] * (1.0 + (x - 1.0) / primal) * (1.0 - x / dual)
        ahead /= n
        tau = max((ahead / gap) ** 3 * gap, max(0.1 * now[a, 4], 0.1 * tol[a]) / n)
        for i in range(n):
            x = w.x[b, i] / at.mu[b, i]
            w.target[b, i] = tau - min(max(at.mu[b, i] * at.z[b, i] * x * (1.0 - x), -gap), gap)
            w.g[b, i] = w.target[b, i] / at.mu[b, i] - w.r[b, i]
    _equations(lay, w, active)


@compiled
def residual(lay: Layout, W: Floats, at: Point, w: Room, left: Floats, mass: float, active: Ints) -> None:
    """What w.x, w.d, w.lam leave of the right side: of g in `left`, of the equations in w.off and w.off_hard."""
    for b in active:
        _misfit(lay, w.x, w.q, w.m, w.off, w.off_hard, mass, b)
        for t in range(len(lay.kind)):
            for r in range(lay.row_at[t], lay.row_at[t + 1]):
                total = mean = 0.0
                for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                    total += w.m[b, e]
                for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                    hard = lay.kind[t] == HARD
                    w.dl[b, e] = -w.lam[b, e] if hard else W[b, t] * w.curve[b, e] * (w.m[b, e] - w.q[b, e] * total)
                    mean += w.q[b, e] * w.dl[b, e]
                for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                    w.dl[b, e] -= mean
        for k in range(len(lay.parent)):
            first, stop = lay.cell_at[k], lay.cell_at[k + 1]
            for i in range(first, stop):
                left[b, i] = w.g[b, i] + w.d[b, lay.own[i]] - at.z[b, i] / at.mu[b, i] * w.x[b, i]
            for t in range(lay.term_at[k], lay.term_at[k + 1]):
                shift = lay.term_cell[t] - first
                for i in range(first, stop):
                    left[b, i] -= w.dl[b, lay.entry[shift + i]]
            for j in range(lay.child_at[k], lay.child_at[k + 1]):
                shift = lay.above_at[lay.child[j]] - first
                for i in range(first, stop):
                    left[b, i] -= w.d[b, lay.above[shift + i]]


@compiled
def move(lay: Layout, at: Point, w: Room, active: Ints) -> Floats:
    """Take the step to w.x, w.d, w.lam, in place; how far mu moves, and how much of the step is taken, (active, 2)."""
    n = len(lay.own)
    found = np.empty((len(active), 2))
    for a in range(len(active)):
        b, largest = active[a], 4.0
        for e in range(len(lay.row)):
            w.m[b, e] = 0.0
        for k in range(len(lay.parent)):
            for t in range(lay.term_at[k], lay.term_at[k + 1]):
                shift = lay.term_cell[t] - lay.cell_at[k]
                for i in range(lay.cell_at[k], lay.cell_at[k + 1]):
                    w.m[b, lay.entry[shift + i]] += w.x[b, i]
        for t in range(len(lay.kind)):
            for r in range(lay.row_at[t], lay.row_at[t + 1]):
                total = mean = 0.0
                for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                    total += w.m[b, e]
                for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                    w.dl[b, e] = (w.m[b, e] - w.q[b, e] * total) * w.curve[b, e]
                    mean += w.q[b, e] * w.dl[b, e]
                for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                    if lay.kind[t] == HARD:
                        w.dl[b, e] = w.lam[b, e]
                    else:  # centred: the softmax does not see a shift
                        w.dl[b, e] -= mean
                        largest = max(largest, abs(w.dl[b, e]))
        primal = dual = 0.99
        for i in range(n):
            x = w.x[b, i] / at.mu[b, i]
            w.r[b, i] = w.target[b, i] / (at.mu[b, i] * at.z[b, i]) - x  # dz / z
            primal, dual = max(primal, 1.0 - x), max(dual, -w.r[b, i])
        primal, dual = min(1.0, 0.99 / primal), min(min(1.0, 0.99 / dual), 4.0 / largest)
        moved = 0.0
        for i in range(n):
            change = primal * (w.x[b, i] - at.mu[b, i])
            moved += abs(change)
            at.mu[b, i] += change
            at.z[b, i] += dual * w.r[b, i] * at.z[b, i]
        for e in range(len(lay.row)):
            at.y[b, e] += dual * w.dl[b, e]
        for u in range(lay.unknown_at[-1]):
            at.d[b, u] += dual * w.d[b, u]
        found[a, 0], found[a, 1] = moved, min(primal, dual)
    return found


@compiled
def cold(lay: Layout, p: Floats, at: Point, active: Ints) -> None:
    """A start that knows nothing but the tables: uniform clusters, unit slack."""
    for b in active:
        for u in range(lay.unknown_at[-1]):
            at.d[b, u] = 0.0
        for k in range(len(lay.parent)):
            for i in range(lay.cell_at[k], lay.cell_at[k + 1]):
                at.z[b, i] = 1.0
                at.mu[b, i] = 1.0 / (lay.cell_at[k + 1] - lay.cell_at[k])
        for t in range(len(lay.kind)):
            for e in range(lay.entry_at[lay.row_at[t]], lay.entry_at[lay.row_at[t + 1]]):
                at.y[b, e] = 0.0 if lay.kind[t] == HARD else np.log(p[b, e])


@compiled
def inside(
    lay: Layout, c: Floats, W: Floats, p: Floats, at: Point, w: Room, gap: Floats, mix: Floats, active: Ints
) -> None:
    """Shift points whose bounds are `gap` apart inside, in place; `mix`: how much of the uniform they take in."""
    for a in range(len(active)):
        b = active[a]
        normalise(lay, at.y, p, w.q, b)
        slack(lay, c, W, w.q, at.y, at.d, b, w.r, 1.0)
        for k in range(len(lay.parent)):
            first, stop = lay.cell_at[k], lay.cell_at[k + 1]
            for i in range(first, stop):
                at.mu[b, i] = (1 - mix[a]) * max(at.mu[b, i], 0.0) + mix[a] / (stop - first)
                at.z[b, i] = max(w.r[b, i], 0.0) + gap[a] / len(lay.own)


class Compiled:
    """Newton steps of P problems of one layout, by compiled code; the points are changed in place."""

    def __init__(self, lay: Layout, f: Fronts, numbers: Numbers, at: Point) -> None:
        count = len(at.mu)
        self.lay, self.fronts, self.numbers, self.at = lay, f, numbers, at
        self.system, self.room = system(lay, f, count), room(lay, count)
        self.cells, self.largest = len(lay.own), np.abs(numbers.c).max(1, initial=0.0)
        self.careful = not f.by_cells.all()
        self.hard = bool((lay.kind == HARD).any())
        self._best: Point | None = None
        self._more: Room | None = None
        self._clusters = np.arange(len(lay.parent) - 1, -1, -1)

    def measure(self, active: Ints) -> Floats:
        """How far problems are from done; see `measure`."""
        return measure(self.lay, *self.numbers[:3], self.at, self.room, active)

    def predictor_corrector(self, active: Ints, now: Floats, tol: Floats) -> Floats:
        """A Newton step, with Mehrotra's tau: how far mu moves, and how much of the step is taken, (active, 2)."""
        self._factor(active)
        aim(self.lay, self.at, self.room, tol, True, active)
        self._solve(active, 0)
        correct(self.lay, self.at, self.room, now, tol, active)
        self._solve(active, 3 if self.careful else 0)
        return move(self.lay, self.at, self.room, active)

    def centred(self, active: Ints, tau: Floats) -> Floats:
        """A Newton step to mu z = tau (active,)."""
        self._factor(active)
        aim(self.lay, self.at, self.room, tau, False, active)
        self._solve(active, 1 if self.careful else 0)
        return move(self.lay, self.at, self.room, active)

    def project(self, active: Ints) -> Floats:
        """The mu nearest to the point's, each cell in units of its mass, that satisfies the equations; W and c are 0."""
        self._factor(active)
        aim(self.lay, self.at, self.room, np.zeros(len(active)), True, active)
        self.room.g[active] = 1.0
        self._solve(active, 2)
        return self.room.x[active]

    def derivative(self, twice: Numbers, least: Floats) -> Floats:
        """mu less its derivative times gamma (P, cells): `twice` are the numbers at 2 gamma; `least` slack (P,)."""
        every, w, at = np.arange(len(self.at.mu)), self.room, self.at
        self.measure(every)
        here = w.r + at.z
        for b in every:
            slack(self.lay, twice.c, twice.W, w.q, at.y, at.d, b, w.r, 1.0)
        np.maximum(at.z, least[:, None], out=at.z)
        self._factor(every)
        change = w.r - here
        aim(self.lay, at, w, np.zeros(len(every)), True, every)
        w.g[...] = at.z + change
        self._solve(every, 3)
        return w.x

    def cold(self, active: Ints) -> None:
        """Start from nothing but the tables."""
        cold(self.lay, self.numbers.p, self.at, active)

    def inside(self, active: Ints, gap: Floats, mix: Floats) -> None:
        """Shift points inside."""
        inside(self.lay, *self.numbers[:3], self.at, self.room, gap, mix, active)

    def keep(self, active: Ints) -> None:
        """Remember where some problems stand."""
        if self._best is None:
            self._best = Point(*(np.empty_like(x) for x in self.at))
        for mine, now in zip(self._best, self.at, strict=True):
            mine[active] = now[active]

    def back(self, active: Ints) -> None:
        """Go back to where they were kept."""
        assert self._best is not None
        for mine, now in zip(self._best, self.at, strict=True):
            now[active] = mine[active]

    def certify(self, active: Ints, mu: Floats, bounds: Floats) -> None:
        """Prove bounds (P, 3), with the mu (P, cells) of the upper one."""
        n = self.numbers
        certify(self.lay, n.c, n.W, n.p, self.at.mu, self.at.y, self.at.d, mu, bounds, active)

    def solve_equations(self, active: Ints, refinements: int) -> None:
        """Factor, and solve for the right side in the room as it is, of mass 0."""
        self._factor(active)
        self._solve(active, refinements, 0.0)

    def _factor(self, active: Ints) -> None:
        at, w = self.at, self.room
        factor(self.lay, self.fronts, self.system, self.numbers.W, at.mu, at.z, w.q, w.curve, active, self._clusters)

    def _solve(self, active: Ints, refinements: int, mass: float = 1.0) -> None:
        """mu+ in w.x, dd in w.d, dlam in w.lam; the system's own residual is solved for as often as asked."""
        w = self.room
        self._pass(w.g, w, active)
        if not refinements:
            return
        if self._more is None:
            self._more = room(self.lay, len(self.at.mu))
        more = self._more
        for _ in range(refinements):
            residual(self.lay, self.numbers.W, self.at, w, more.g, mass, active)
            self._pass(more.g, more, active)
            for total, part in ((w.x, more.x), (w.d, more.d), (w.lam, more.lam)):
                total[active] += part[active]

    def _pass(self, g: Floats, into: Room, active: Ints) -> None:
        w, common = self.room, (self.lay, self.fronts, self.system, self.room.q)
        upward(*common, g, w.off, w.off_hard, into.x, active, self._clusters)
        downward(*common, g, w.off, into.x, into.d, into.lam, active, self._clusters)


def adjoint_step(lay: Layout, f: Fronts, numbers: Numbers, mu: Floats, v: Floats, barrier: float) -> tuple[Floats, Floats]:
    """w (cells,) and nu (entries,) with F'' w - A'nu = v, A w = 0, at a minimiser mu (cells,) of one problem.

    `barrier`, in units of 1/mu, keeps F'' regular where a whole separator state could move.
    """
    at = point(lay, 1)
    at.mu[0], at.z[0] = np.maximum(mu, TINY), barrier
    steps, one = Compiled(lay, f, numbers, at), np.zeros(1, dtype=np.int64)
    w = steps.room
    steps.measure(one)
    total = np.add.reduceat(w.m[0], lay.entry_at[:-1]) if len(lay.row) else w.m[0]
    hard = np.repeat(lay.kind, np.diff(lay.entry_at[lay.row_at])) == HARD
    at.y[0] = np.where(hard, 0.0, np.log(np.maximum(w.m[0], TINY) / np.maximum(total, TINY)[lay.row]))
    steps.measure(one)
    w.g[0], w.off[0], w.off_hard[0] = v, 0.0, 0.0
    steps.solve_equations(one, 4)
    return w.x[0], w.lam[0]
