"""Proofs: bounds on the inconsistency from any primal and dual guess, independent of how it was found.

lower   For any conditionals q, separators d and multipliers lam of the hard arcs, every feasible mu costs at least

            sum_roots d + sum_clusters min_x slack(x),  slack = c + W log q + sum_children d_c - d - (lam - sum_t p lam)

        for E_mu log q <= E_mu log mu(t|s), and the d of agreeing clusters and the lam of hard arcs have no mean.
upper   The incompatibility of a mu whose clusters agree exactly: mu(rest | separator) is carried down the tree.

Both are for mu that break hard arcs by at most `within` p(t|s) mu(s) + UNSEEN at every (s, t) (see `numerics.py`). That
lowers the mean of lam by at most within E_mu sum_t p |lam| + UNSEEN sum |lam|, which the lower bound gives up.

Every sum is widened by what rounding may have done to it. `math.exp` and `math.log` are the C library's whether this is
compiled or not, so that results are the same bit for bit; numpy has its own. `I`, `X` and `L`: see `room.py`.
"""

from __future__ import annotations

import math

import numpy as np

from dissonance.compiled import compiled
from dissonance.solvers.convex.layout import HARD, Floats, Ints
from dissonance.solvers.convex.room import AT
from dissonance.tolerances import FEASIBLE, UNSEEN

EPS = float(np.finfo(np.float64).eps)


@compiled
def normalise(I: Ints, X: Floats, L: Ints) -> None:
    """y = log q of soft entries shifted so that every row of q sums to 1; q is p at hard entries."""
    n_terms, i_kind, i_row_at, i_entry_at, x_p = L[AT.terms], L[AT.kind], L[AT.row_at], L[AT.entry_at], L[AT.p]
    x_y, x_q = L[AT.y], L[AT.q]
    for t in range(n_terms):
        for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
            first, stop = I[i_entry_at + r], I[i_entry_at + r + 1]
            if I[i_kind + t] == HARD:
                for e in range(first, stop):
                    X[x_q + e] = X[x_p + e]
                continue
            total, largest = 0.0, 0.0
            for e in range(first, stop):
                largest = max(largest, X[x_y + e])
            if largest > 700.0:  # the exponential would overflow
                for e in range(first, stop):
                    X[x_y + e] -= largest
            for e in range(first, stop):
                X[x_q + e] = math.exp(X[x_y + e])
                total += X[x_q + e]
            shift, part = math.log(total) if total > 0.0 else -np.inf, 1.0 / total
            for e in range(first, stop):
                X[x_y + e] -= shift
                X[x_q + e] *= part


@compiled
def lift(I: Ints, X: Floats, L: Ints, t: int, sign: float, within: float) -> float:
    """What a term adds to the slack at its entries, at dl: W log q or sum_t p lam - lam; and sum |lam|: see `slack`."""
    i_kind, i_row_at, i_entry_at, x_W = L[AT.kind], L[AT.row_at], L[AT.entry_at], L[AT.W]
    x_p, x_y, x_dl = L[AT.p], L[AT.y], L[AT.dl]
    hard, W, total = I[i_kind + t] == HARD, X[x_W + t], 0.0
    for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
        first, stop, mean = I[i_entry_at + r], I[i_entry_at + r + 1], 0.0
        if hard:
            for e in range(first, stop):
                size = abs(X[x_y + e])
                mean += X[x_p + e] * (X[x_y + e] - within * size if sign > 0 else size)
                total += size
        for e in range(first, stop):
            if hard:
                X[x_dl + e] = mean - X[x_y + e] if sign > 0 else mean + abs(X[x_y + e])
            else:
                part = W * X[x_y + e] if W != 0.0 else 0.0
                X[x_dl + e] = part if sign > 0 else abs(part)
    return total


@compiled
def slack(I: Ints, X: Floats, L: Ints, out: int, sign: float, within: float) -> float:
    """c + W log q + sum_children d_c - d - (lam - sum_t p lam) at every cell, less what breaking hard arcs by `within`
    may gain; returns sum |lam|.

    With sign = -1 every part enters with its absolute value: that is what rounding is relative to.
    """
    n_clusters, i_cell_at, i_own, i_child_at = L[AT.clusters], L[AT.cell_at], L[AT.own], L[AT.child_at]
    i_child, i_above_at, i_above, i_term_at = L[AT.child], L[AT.above_at], L[AT.above], L[AT.term_at]
    i_term_cell, i_entry, x_c, x_d, x_dl = L[AT.term_cell], L[AT.entry], L[AT.c], L[AT.d], L[AT.dl]
    total = 0.0
    for k in range(n_clusters):
        at, stop = I[i_cell_at + k], I[i_cell_at + k + 1]
        for i in range(at, stop):
            u = X[x_d + I[i_own + i]]
            X[out + i] = X[x_c + i] - u if sign > 0 else abs(X[x_c + i]) + abs(u)
        for t in range(I[i_term_at + k], I[i_term_at + k + 1]):
            shift = I[i_term_cell + t] - at
            total += lift(I, X, L, t, sign, within)
            for i in range(at, stop):
                X[out + i] += X[x_dl + I[i_entry + shift + i]]
        for j in range(I[i_child_at + k], I[i_child_at + k + 1]):
            shift = I[i_above_at + I[i_child + j]] - at
            for i in range(at, stop):
                u = X[x_d + I[i_above + shift + i]]
                X[out + i] += u if sign > 0 else abs(u)
    return total


@compiled
def trim(I: Ints, X: Floats, L: Ints) -> None:
    """Raise the multipliers of hard arcs that are lower than the slack needs, in place; no cluster's least slack falls.

    Raising lam(s,t) by u takes u from the slack at (s,t) and adds p(t|s) u in all of s. An interior point has slack of
    tau/mu, and lam of minus that, at a cell that must have a mass of 1e-23; what is given up for lam is more than the
    value then. The likeliest value of a row has lam = 0.
    """
    n_clusters, n_entries, i_cell_at, i_term_at = L[AT.clusters], L[AT.entries], L[AT.cell_at], L[AT.term_at]
    i_kind, i_term_cell, i_entry, i_row_at = L[AT.kind], L[AT.term_cell], L[AT.entry], L[AT.row_at]
    i_entry_at, x_y, x_q, x_r = L[AT.entry_at], L[AT.y], L[AT.q], L[AT.r]
    normalise(I, X, L)
    slack(I, X, L, x_r, 1.0, 0.0)
    change = np.empty(n_entries)
    for k in range(n_clusters):
        at, stop = I[i_cell_at + k], I[i_cell_at + k + 1]
        lowest = np.inf
        for i in range(at, stop):
            lowest = min(lowest, X[x_r + i])
        for t in range(I[i_term_at + k], I[i_term_at + k + 1]):
            if I[i_kind + t] != HARD:
                continue
            shift = I[i_term_cell + t] - at
            for e in range(I[i_entry_at + I[i_row_at + t]], I[i_entry_at + I[i_row_at + t + 1]]):
                change[e] = np.inf
            for i in range(at, stop):
                e = I[i_entry + shift + i]
                change[e] = min(change[e], X[x_r + i] - lowest)
            for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
                likeliest, mean = I[i_entry_at + r], 0.0
                for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                    if X[x_q + e] > X[x_q + likeliest]:
                        likeliest = e
                zero = X[x_y + likeliest]
                for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                    X[x_y + e] -= zero
                    change[e] = max(min(change[e], -X[x_y + e]), 0.0)
                    X[x_y + e] += change[e]
                    mean += X[x_q + e] * change[e]
                for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                    change[e] = mean - change[e]
            for i in range(at, stop):
                X[x_r + i] += change[I[i_entry + shift + i]]


@compiled
def agree(I: Ints, X: Floats, L: Ints, mu: int, out: int) -> None:
    """Clusters that agree exactly: each mu(rest | separator) times the parents' separator mass; roots of mass 1."""
    n_clusters, n_unknowns, i_parent, i_cell_at = L[AT.clusters], L[AT.unknowns], L[AT.parent], L[AT.cell_at]
    i_unknown_at, i_own, i_above_at, i_above = L[AT.unknown_at], L[AT.own], L[AT.above_at], L[AT.above]
    found, wanted = np.zeros(n_unknowns), np.zeros(n_unknowns)
    for k in range(n_clusters):
        at, stop, p = I[i_cell_at + k], I[i_cell_at + k + 1], I[i_parent + k]
        if p < 0:
            wanted[I[i_unknown_at + k]] = 1.0
        else:
            shift = I[i_above_at + k] - I[i_cell_at + p]
            for i in range(I[i_cell_at + p], I[i_cell_at + p + 1]):
                wanted[I[i_above + shift + i]] += X[out + i]
        for i in range(at, stop):
            X[out + i] = X[mu + i] if X[mu + i] > 0.0 and X[mu + i] < np.inf else 0.0
            found[I[i_own + i]] += X[out + i]
        for i in range(at, stop):  # a state of which nothing is known: every cell the same
            X[out + i] = X[out + i] if found[I[i_own + i]] > 0.0 else -1.0
        for i in range(at, stop):
            found[I[i_own + i]] += X[out + i] < 0.0
        for i in range(at, stop):
            X[out + i] = abs(X[out + i]) / found[I[i_own + i]] * wanted[I[i_own + i]]


@compiled
def cost(I: Ints, X: Floats, L: Ints, mu: int) -> tuple[float, float, float]:
    """The incompatibility of clusters that agree, with the first-order price of breaking hard arcs, and how rounding
    may have changed it; and how far hard arcs are from holding, as `numerics.broken` has it."""
    n_clusters, n_cells, n_entries, i_cell_at = L[AT.clusters], L[AT.cells], L[AT.entries], L[AT.cell_at]
    i_term_at, i_kind, i_term_cell, i_entry = L[AT.term_at], L[AT.kind], L[AT.term_cell], L[AT.entry]
    i_row_at, i_entry_at, x_c, x_W, x_y, x_q = L[AT.row_at], L[AT.entry_at], L[AT.c], L[AT.W], L[AT.y], L[AT.q]
    value = weights = worst = 0.0
    size = 1.0
    for i in range(n_cells):
        value += X[x_c + i] * X[mu + i]
        size += abs(X[x_c + i]) * X[mu + i]
    m = np.zeros(n_entries)
    for k in range(n_clusters):
        at, stop = I[i_cell_at + k], I[i_cell_at + k + 1]
        for t in range(I[i_term_at + k], I[i_term_at + k + 1]):
            hard, part, shift = I[i_kind + t] == HARD, 0.0, I[i_term_cell + t] - at
            for i in range(at, stop):
                m[I[i_entry + shift + i]] += X[mu + i]
            for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
                total = 0.0
                for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                    total += m[e]
                for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                    if hard:
                        off = abs(m[e] - X[x_q + e] * total)
                        value += abs(X[x_y + e]) * off
                        if off > UNSEEN:
                            worst = max(worst, (off - UNSEEN) / (X[x_q + e] * total))
                    elif m[e] > 0.0:
                        part += m[e] * math.log(m[e] / total)
            if not hard:
                value += X[x_W + t] * part
                weights += abs(X[x_W + t])
    return value, 32 * EPS * (size + weights), worst


@compiled
def certify(I: Ints, X: Floats, L: Ints, within: float) -> None:
    """lower, upper and how far the hard arcs are from holding, at `bounds`; the mu of the upper bound, at `proved`."""
    n_clusters, i_parent, i_cell_at, i_unknown_at = L[AT.clusters], L[AT.parent], L[AT.cell_at], L[AT.unknown_at]
    x_mu, x_d, x_proved, x_bounds, x_r = L[AT.mu], L[AT.d], L[AT.proved], L[AT.bounds], L[AT.r]
    normalise(I, X, L)
    slack(I, X, L, x_proved, -1.0, 0.0)
    low = -UNSEEN * slack(I, X, L, x_r, 1.0, within)
    spread = roots = 0.0
    for k in range(n_clusters):
        lowest = np.inf
        for i in range(I[i_cell_at + k], I[i_cell_at + k + 1]):
            lowest = min(lowest, X[x_r + i] - 8 * EPS * X[x_proved + i])
        low += lowest
        spread += abs(lowest)
        if I[i_parent + k] < 0:
            low += X[x_d + I[i_unknown_at + k]]
            roots += abs(X[x_d + I[i_unknown_at + k]])
    low -= EPS * (2 * roots + np.sqrt(n_clusters) * spread)
    agree(I, X, L, x_mu, x_proved)
    value, rounding, worst = cost(I, X, L, x_proved)
    X[x_bounds] = low - rounding if low == low else -np.inf
    X[x_bounds + 1] = value + rounding if value == value else np.inf
    X[x_bounds + 2] = worst


@compiled
def contradiction(I: Ints, X: Floats, L: Ints) -> float:
    """If positive, the multipliers prove that hard arcs do not hold closely enough at any mu (Farkas).

    min over joint states of -(lam - sum_t p lam), less what is given up, for multipliers scaled to 1; -inf if none.
    """
    n_clusters, n_cells, n_terms, n_unknowns = L[AT.clusters], L[AT.cells], L[AT.terms], L[AT.unknowns]
    i_parent, i_cell_at, i_unknown_at, i_own = L[AT.parent], L[AT.cell_at], L[AT.unknown_at], L[AT.own]
    i_child_at, i_child, i_above_at, i_above = L[AT.child_at], L[AT.child], L[AT.above_at], L[AT.above]
    i_term_at, i_kind, i_term_cell, i_entry = L[AT.term_at], L[AT.kind], L[AT.term_cell], L[AT.entry]
    i_row_at, i_entry_at, x_y, x_dl = L[AT.row_at], L[AT.entry_at], L[AT.y], L[AT.dl]
    size, total = 0.0, 0.0
    for t in range(n_terms):
        if I[i_kind + t] == HARD:
            for e in range(I[i_entry_at + I[i_row_at + t]], I[i_entry_at + I[i_row_at + t + 1]]):
                size = max(size, abs(X[x_y + e]))
    if not (size > 0.0 and size < np.inf):
        return -np.inf
    best, cost = np.full(n_unknowns, np.inf), np.zeros(n_cells)
    for k in range(n_clusters - 1, -1, -1):
        at, stop = I[i_cell_at + k], I[i_cell_at + k + 1]
        for t in range(I[i_term_at + k], I[i_term_at + k + 1]):
            if I[i_kind + t] == HARD:
                shift = I[i_term_cell + t] - at
                total -= UNSEEN * lift(I, X, L, t, 1.0, FEASIBLE)
                for i in range(at, stop):
                    cost[i] += X[x_dl + I[i_entry + shift + i]]
        for j in range(I[i_child_at + k], I[i_child_at + k + 1]):
            shift = I[i_above_at + I[i_child + j]] - at
            for i in range(at, stop):
                cost[i] += best[I[i_above + shift + i]]
        for i in range(at, stop):
            best[I[i_own + i]] = min(best[I[i_own + i]], cost[i])
        if I[i_parent + k] < 0:
            total += best[I[i_unknown_at + k]]
    return float(total / size)
