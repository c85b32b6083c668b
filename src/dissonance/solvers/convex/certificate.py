"""Proofs: bounds on the inconsistency from any primal and dual guess, independent of how it was found.

lower   For any conditionals q, separators d and multipliers lam of the hard arcs, every feasible mu costs at least

            sum_roots d + sum_clusters min_x slack(x),  slack = c + W log q + sum_children d_c - d - (lam - sum_t p lam)

        for E_mu log q <= E_mu log mu(t|s), and the d of agreeing clusters and the lam of hard arcs have no mean.
upper   The incompatibility of a mu whose clusters agree exactly: mu(rest | separator) is carried down the tree.

Every sum is widened by what rounding may have done to it. `I`, `X` and `L` are explained in `room.py`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dissonance.compiled import compiled
from dissonance.solvers.convex.layout import HARD, Ints
from dissonance.solvers.convex.room import Offsets

Floats = npt.NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)


@compiled
def normalise(I: Ints, X: Floats, L: Offsets) -> None:
    """y = log q of soft entries shifted so that every row of q sums to 1; q is p at hard entries."""
    for t in range(L.terms):
        for r in range(I[L.row_at + t], I[L.row_at + t + 1]):
            first, stop = I[L.entry_at + r], I[L.entry_at + r + 1]
            if I[L.kind + t] == HARD:
                for e in range(first, stop):
                    X[L.q + e] = X[L.p + e]
                continue
            total = 0.0
            for e in range(first, stop):
                X[L.q + e] = np.exp(X[L.y + e])
                total += X[L.q + e]
            shift, part = np.log(total), 1.0 / total
            for e in range(first, stop):
                X[L.y + e] -= shift
                X[L.q + e] *= part


@compiled
def slack(I: Ints, X: Floats, L: Offsets, out: int, sign: float) -> None:
    """c + W log q + sum_children d_c - d - (lam - sum_t p lam) at every cell of problem b.

    With sign = -1 every part enters with its absolute value: that is what rounding is relative to.
    """
    for k in range(L.clusters):
        at, stop = I[L.cell_at + k], I[L.cell_at + k + 1]
        for i in range(at, stop):
            u = X[L.d + I[L.own + i]]
            X[out + i] = X[L.c + i] - u if sign > 0 else abs(X[L.c + i]) + abs(u)
        for t in range(I[L.term_at + k], I[L.term_at + k + 1]):
            shift = I[L.term_cell + t] - at
            if I[L.kind + t] == HARD:
                for i in range(at, stop):
                    e = I[L.entry + shift + i]
                    r, mean = I[L.row + e], 0.0
                    for x in range(I[L.entry_at + r], I[L.entry_at + r + 1]):
                        mean += X[L.q + x] * (X[L.y + x] if sign > 0 else abs(X[L.y + x]))
                    X[out + i] += mean - X[L.y + e] if sign > 0 else mean + abs(X[L.y + e])
            elif X[L.W + t] != 0.0:
                for i in range(at, stop):
                    u = X[L.W + t] * X[L.y + I[L.entry + shift + i]]
                    X[out + i] += u if sign > 0 else abs(u)
        for j in range(I[L.child_at + k], I[L.child_at + k + 1]):
            shift = I[L.above_at + I[L.child + j]] - at
            for i in range(at, stop):
                u = X[L.d + I[L.above + shift + i]]
                X[out + i] += u if sign > 0 else abs(u)


@compiled
def agree(I: Ints, X: Floats, L: Offsets, mu: int, out: int) -> None:
    """Clusters that agree exactly: each mu(rest | separator) times the parents' separator mass; roots of mass 1."""
    found, wanted = np.zeros(L.unknowns), np.zeros(L.unknowns)
    for k in range(L.clusters):
        at, stop, p = I[L.cell_at + k], I[L.cell_at + k + 1], I[L.parent + k]
        if p < 0:
            wanted[I[L.unknown_at + k]] = 1.0
        else:
            shift = I[L.above_at + k] - I[L.cell_at + p]
            for i in range(I[L.cell_at + p], I[L.cell_at + p + 1]):
                wanted[I[L.above + shift + i]] += X[out + i]
        for i in range(at, stop):
            X[out + i] = X[mu + i] if X[mu + i] > 0.0 and X[mu + i] < np.inf else 0.0
            found[I[L.own + i]] += X[out + i]
        for i in range(at, stop):  # a state of which nothing is known: every cell the same
            X[out + i] = X[out + i] if found[I[L.own + i]] > 0.0 else -1.0
        for i in range(at, stop):
            found[I[L.own + i]] += X[out + i] < 0.0
        for i in range(at, stop):
            X[out + i] = abs(X[out + i]) / found[I[L.own + i]] * wanted[I[L.own + i]]


@compiled
def cost(I: Ints, X: Floats, L: Offsets, mu: int) -> tuple[float, float, float]:
    """The incompatibility of clusters that agree, with the first-order price of breaking hard arcs, and how rounding
    may have changed it; and the largest |mu(s,t) - p(t|s) mu(s)|."""
    value = weights = worst = 0.0
    size = 1.0
    for i in range(L.cells):
        value += X[L.c + i] * X[mu + i]
        size += abs(X[L.c + i]) * X[mu + i]
    m = np.zeros(L.entries)
    for k in range(L.clusters):
        at, stop = I[L.cell_at + k], I[L.cell_at + k + 1]
        for t in range(I[L.term_at + k], I[L.term_at + k + 1]):
            hard, part, shift = I[L.kind + t] == HARD, 0.0, I[L.term_cell + t] - at
            for i in range(at, stop):
                m[I[L.entry + shift + i]] += X[mu + i]
            for r in range(I[L.row_at + t], I[L.row_at + t + 1]):
                total = 0.0
                for e in range(I[L.entry_at + r], I[L.entry_at + r + 1]):
                    total += m[e]
                for e in range(I[L.entry_at + r], I[L.entry_at + r + 1]):
                    if hard:
                        off = abs(m[e] - X[L.q + e] * total)
                        value += abs(X[L.y + e]) * off
                        worst = max(worst, off)
                    elif m[e] > 0.0:
                        part += m[e] * np.log(m[e] / total)
            if not hard:
                value += X[L.W + t] * part
                weights += abs(X[L.W + t])
    return value, 32 * EPS * (size + weights), worst


@compiled
def certify(I: Ints, X: Floats, L: Offsets) -> None:
    """lower, upper and how far the hard arcs are from holding, at `bounds`; the mu that proves the upper, at `proved`."""
    normalise(I, X, L)
    slack(I, X, L, L.r, 1.0)
    slack(I, X, L, L.proved, -1.0)
    low = spread = roots = 0.0
    for k in range(L.clusters):
        lowest = np.inf
        for i in range(I[L.cell_at + k], I[L.cell_at + k + 1]):
            lowest = min(lowest, X[L.r + i] - 8 * EPS * X[L.proved + i])
        low += lowest
        spread += abs(lowest)
        if I[L.parent + k] < 0:
            low += X[L.d + I[L.unknown_at + k]]
            roots += abs(X[L.d + I[L.unknown_at + k]])
    low -= EPS * (2 * roots + np.sqrt(L.clusters) * spread)
    agree(I, X, L, L.mu, L.proved)
    value, rounding, worst = cost(I, X, L, L.proved)
    X[L.bounds] = low - rounding if low == low else -np.inf
    X[L.bounds + 1] = value + rounding if value == value else np.inf
    X[L.bounds + 2] = worst


@compiled
def contradiction(I: Ints, X: Floats, L: Offsets) -> float:
    """If positive, the multipliers prove the hard arcs unsatisfiable (Farkas): no mu makes their mean 0.

    min over joint states of -(lam - sum_t p lam), for multipliers scaled to 1; -inf if there are none.
    """
    size, total = 0.0, 0.0
    for t in range(L.terms):
        if I[L.kind + t] == HARD:
            for e in range(I[L.entry_at + I[L.row_at + t]], I[L.entry_at + I[L.row_at + t + 1]]):
                size = max(size, abs(X[L.y + e]))
    if not (size > 0.0 and size < np.inf):
        return -np.inf
    best, cost = np.full(L.unknowns, np.inf), np.zeros(L.cells)
    for k in range(L.clusters - 1, -1, -1):
        at, stop = I[L.cell_at + k], I[L.cell_at + k + 1]
        for t in range(I[L.term_at + k], I[L.term_at + k + 1]):
            if I[L.kind + t] == HARD:
                for i in range(at, stop):
                    e = I[L.entry + I[L.term_cell + t] - at + i]
                    r = I[L.row + e]
                    cost[i] -= X[L.y + e] / size
                    for x in range(I[L.entry_at + r], I[L.entry_at + r + 1]):
                        cost[i] += X[L.p + x] * (X[L.y + x] / size)
        for j in range(I[L.child_at + k], I[L.child_at + k + 1]):
            shift = I[L.above_at + I[L.child + j]] - at
            for i in range(at, stop):
                cost[i] += best[I[L.above + shift + i]]
        for i in range(at, stop):
            best[I[L.own + i]] = min(best[I[L.own + i]], cost[i])
        if I[L.parent + k] < 0:
            total += best[I[L.unknown_at + k]]
    return total
