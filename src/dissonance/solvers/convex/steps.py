"""The parts of a Newton step, compiled: what `interior.py` puts together. `I`, `X` and `L`: see `room.py`.

Eliminating dz and dl from Newton's equations leaves the quadratic program of `elimination.py` with

    G = diag(z/mu) + sum_terms V diag(W / (s qt)) V',    V = 1[x in (s,t)] - q(t|s) 1[x in s],    qt = (q + mu(t|s)) / 2
    g = tau'/mu - r,     r = slack - z,     tau' = tau - dz dmu
    dz = tau'/mu - (z/mu) mu+,     dl = (m+ - q s+) / (s qt)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dissonance.compiled import compiled
from dissonance.solvers.convex.certificate import normalise, slack
from dissonance.solvers.convex.layout import HARD, Ints
from dissonance.solvers.convex.room import Offsets

Floats = npt.NDArray[np.float64]

TINY = 1e-300


@compiled
def _misfit(I: Ints, X: Floats, L: Offsets, x: int, mass: float) -> None:
    """m = x(s,t) of every entry, and what is missing of every equation: E'x - X'x, the root's 1 - mass, -A x."""
    for e in range(L.entries):
        X[L.m + e] = 0.0
    for u in range(L.unknowns):
        X[L.off + u] = 0.0
    for k in range(L.clusters):
        at, stop = I[L.cell_at + k], I[L.cell_at + k + 1]
        for i in range(at, stop):
            X[L.off + I[L.own + i]] -= X[x + i]
        if I[L.parent + k] < 0:
            X[L.off + I[L.unknown_at + k]] += mass
        for j in range(I[L.child_at + k], I[L.child_at + k + 1]):
            shift = I[L.above_at + I[L.child + j]] - at
            for i in range(at, stop):
                X[L.off + I[L.above + shift + i]] += X[x + i]
        for t in range(I[L.term_at + k], I[L.term_at + k + 1]):
            shift = I[L.term_cell + t] - at
            for i in range(at, stop):
                X[L.m + I[L.entry + shift + i]] += X[x + i]
            if I[L.kind + t] == HARD:
                for r in range(I[L.row_at + t], I[L.row_at + t + 1]):
                    total = 0.0
                    for e in range(I[L.entry_at + r], I[L.entry_at + r + 1]):
                        total += X[L.m + e]
                    for e in range(I[L.entry_at + r], I[L.entry_at + r + 1]):
                        X[L.off_hard + e] = X[L.q + e] * total - X[L.m + e]


@compiled
def measure(I: Ints, X: Floats, L: Offsets) -> tuple[float, float, float, float, float, float]:
    """Normalise y, fill q, r, m and the curvature 1/(s qt), and say how far the problem is from done:

    the gap of its own proof, how far mu is from its equations, max(1, |value|), mu.z, mu.|r|, the largest |lam|.
    """
    normalise(I, X, L)
    slack(I, X, L, L.r, 1.0)
    below = gap = rest = off = value = away = 0.0
    for i in range(L.cells):
        below -= min(X[L.r + i], 0.0)
        X[L.r + i] -= X[L.z + i]
        gap += X[L.mu + i] * X[L.z + i]
        rest += X[L.mu + i] * abs(X[L.r + i])
    for k in range(L.clusters):
        if I[L.parent + k] < 0:
            value += X[L.d + I[L.unknown_at + k]]
    _misfit(I, X, L, L.mu, 1.0)
    for u in range(L.unknowns):
        off += abs(X[L.off + u])
    for t in range(L.terms):
        for r in range(I[L.row_at + t], I[L.row_at + t + 1]):
            total = 0.0
            for e in range(I[L.entry_at + r], I[L.entry_at + r + 1]):
                total += X[L.m + e]
            for e in range(I[L.entry_at + r], I[L.entry_at + r + 1]):
                X[L.curve + e] = 2.0 / max(total * X[L.q + e] + X[L.m + e], TINY)
                if I[L.kind + t] == HARD:
                    off += abs(X[L.off_hard + e])
                    away = max(away, abs(X[L.y + e]))
    return below + gap + rest, off, max(1.0, abs(value)), gap, rest, away


@compiled
def aim(I: Ints, X: Floats, L: Offsets, tau: float) -> None:
    """The right side of a step to mu z = tau (of the predictor: 0); roots of mass 1."""
    for i in range(L.cells):
        X[L.target + i] = tau
        X[L.g + i] = tau / X[L.mu + i] - X[L.r + i]
    for u in range(L.unknowns):
        X[L.off + u] = 0.0
    for e in range(L.entries):
        X[L.off_hard + e] = 0.0
    for k in range(L.clusters):
        if I[L.parent + k] < 0:
            X[L.off + I[L.unknown_at + k]] = 1.0


@compiled
def correct(I: Ints, X: Floats, L: Offsets, gap: float, rest: float, tol: float) -> None:
    """From the predictor's mu+ in w.x to the right side of the corrector: tau' = tau - the product of its steps.

    Mehrotra's tau: from how far the predictor gets.
    """
    n = L.cells
    primal = dual = 0.99
    for i in range(n):
        x = X[L.x + i] / X[L.mu + i]
        primal, dual = max(primal, 1.0 - x), max(dual, x)
    ahead, mean = 0.0, gap / n
    for i in range(n):
        x = X[L.x + i] / X[L.mu + i]
        ahead += X[L.mu + i] * X[L.z + i] * (1.0 + (x - 1.0) / primal) * (1.0 - x / dual)
    ahead /= n
    tau = max((ahead / mean) ** 3 * mean, max(0.1 * rest, 0.1 * tol) / n)
    for i in range(n):
        x = X[L.x + i] / X[L.mu + i]
        X[L.target + i] = tau - min(max(X[L.mu + i] * X[L.z + i] * x * (1.0 - x), -mean), mean)
        X[L.g + i] = X[L.target + i] / X[L.mu + i] - X[L.r + i]


@compiled
def residual(I: Ints, X: Floats, L: Offsets, mass: float) -> None:
    """What w.x, w.d, w.lam leave of the right side: of g in w.left, of the equations in w.off and w.off_hard."""
    _misfit(I, X, L, L.x, mass)
    for t in range(L.terms):
        for r in range(I[L.row_at + t], I[L.row_at + t + 1]):
            total = mean = 0.0
            for e in range(I[L.entry_at + r], I[L.entry_at + r + 1]):
                total += X[L.m + e]
            for e in range(I[L.entry_at + r], I[L.entry_at + r + 1]):
                hard = I[L.kind + t] == HARD
                X[L.dl + e] = -X[L.dlam + e] if hard else X[L.W + t] * X[L.curve + e] * (X[L.m + e] - X[L.q + e] * total)
                mean += X[L.q + e] * X[L.dl + e]
            for e in range(I[L.entry_at + r], I[L.entry_at + r + 1]):
                X[L.dl + e] -= mean
    for k in range(L.clusters):
        first, stop = I[L.cell_at + k], I[L.cell_at + k + 1]
        for i in range(first, stop):
            X[L.left + i] = X[L.g + i] + X[L.dd + I[L.own + i]] - X[L.z + i] / X[L.mu + i] * X[L.x + i]
        for t in range(I[L.term_at + k], I[L.term_at + k + 1]):
            shift = I[L.term_cell + t] - first
            for i in range(first, stop):
                X[L.left + i] -= X[L.dl + I[L.entry + shift + i]]
        for j in range(I[L.child_at + k], I[L.child_at + k + 1]):
            shift = I[L.above_at + I[L.child + j]] - first
            for i in range(first, stop):
                X[L.left + i] -= X[L.dd + I[L.above + shift + i]]


@compiled
def refine(I: Ints, X: Floats, L: Offsets) -> None:
    """Add the solution for the residual."""
    for i in range(L.cells):
        X[L.x + i] += X[L.x_more + i]
    for u in range(L.unknowns):
        X[L.dd + u] += X[L.dd_more + u]
    for e in range(L.entries):
        X[L.dlam + e] += X[L.dlam_more + e]


@compiled
def move(I: Ints, X: Floats, L: Offsets) -> tuple[float, float]:
    """Take the step to w.x, w.d, w.lam, in place: how far mu moves, and how much of the step is taken."""
    n, largest = L.cells, 4.0
    for e in range(L.entries):
        X[L.m + e] = 0.0
    for k in range(L.clusters):
        for t in range(I[L.term_at + k], I[L.term_at + k + 1]):
            shift = I[L.term_cell + t] - I[L.cell_at + k]
            for i in range(I[L.cell_at + k], I[L.cell_at + k + 1]):
                X[L.m + I[L.entry + shift + i]] += X[L.x + i]
    for t in range(L.terms):
        for r in range(I[L.row_at + t], I[L.row_at + t + 1]):
            total = mean = 0.0
            for e in range(I[L.entry_at + r], I[L.entry_at + r + 1]):
                total += X[L.m + e]
            for e in range(I[L.entry_at + r], I[L.entry_at + r + 1]):
                X[L.dl + e] = (X[L.m + e] - X[L.q + e] * total) * X[L.curve + e]
                mean += X[L.q + e] * X[L.dl + e]
            for e in range(I[L.entry_at + r], I[L.entry_at + r + 1]):
                if I[L.kind + t] == HARD:
                    X[L.dl + e] = X[L.dlam + e]
                else:  # centred: the softmax does not see a shift
                    X[L.dl + e] -= mean
                    largest = max(largest, abs(X[L.dl + e]))
    primal = dual = 0.99
    for i in range(n):
        x = X[L.x + i] / X[L.mu + i]
        X[L.r + i] = X[L.target + i] / (X[L.mu + i] * X[L.z + i]) - x  # dz / z
        primal, dual = max(primal, 1.0 - x), max(dual, -X[L.r + i])
    primal, dual = min(1.0, 0.99 / primal), min(min(1.0, 0.99 / dual), 4.0 / largest)
    moved = 0.0
    for i in range(n):
        change = primal * (X[L.x + i] - X[L.mu + i])
        moved += abs(change)
        X[L.mu + i] += change
        X[L.z + i] += dual * X[L.r + i] * X[L.z + i]
    for e in range(L.entries):
        X[L.y + e] += dual * X[L.dl + e]
    for u in range(L.unknowns):
        X[L.d + u] += dual * X[L.dd + u]
    return moved, min(primal, dual)


@compiled
def copy(X: Floats, L: Offsets, source: int, into: int) -> None:
    """Overwrite a point: mu, z, y and d stand together."""
    for i in range(L.point):
        X[into + i] = X[source + i]


@compiled
def cold(I: Ints, X: Floats, L: Offsets) -> None:
    """A start that knows nothing but the tables: uniform clusters, unit slack."""
    for u in range(L.unknowns):
        X[L.d + u] = 0.0
    for k in range(L.clusters):
        for i in range(I[L.cell_at + k], I[L.cell_at + k + 1]):
            X[L.z + i] = 1.0
            X[L.mu + i] = 1.0 / (I[L.cell_at + k + 1] - I[L.cell_at + k])
    for t in range(L.terms):
        for e in range(I[L.entry_at + I[L.row_at + t]], I[L.entry_at + I[L.row_at + t + 1]]):
            X[L.y + e] = 0.0 if I[L.kind + t] == HARD else np.log(X[L.p + e])


@compiled
def inside(I: Ints, X: Floats, L: Offsets, gap: float, mix: float) -> None:
    """Shift a point whose bounds are `gap` apart inside, in place; `mix`: how much of the uniform it takes in.

    Used as it is, it would be slower than a cold start: its slack is too close to 0, and a cell that had nearly no
    mass, but is about to need some, would take dozens of steps to get it.
    """
    normalise(I, X, L)
    slack(I, X, L, L.r, 1.0)
    for k in range(L.clusters):
        first, stop = I[L.cell_at + k], I[L.cell_at + k + 1]
        for i in range(first, stop):
            X[L.mu + i] = (1 - mix) * max(X[L.mu + i], 0.0) + mix / (stop - first)
            X[L.z + i] = max(X[L.r + i], 0.0) + gap / L.cells
