"""Proofs: bounds on the inconsistency from any primal and dual guess, independent of how it was found.

lower   For any conditionals q, separators d and multipliers lam of the hard arcs, every feasible mu costs at least

            sum_roots d + sum_clusters min_x slack(x),  slack = c + W log q + sum_children d_c - d - (lam - sum_t p lam)

        for E_mu log q <= E_mu log mu(t|s), and the d of agreeing clusters and the lam of hard arcs have no mean.
upper   The incompatibility of a mu whose clusters agree exactly: mu(rest | separator) is carried down the tree.

Every sum is widened by what rounding may have done to it. Arrays have a row a problem.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dissonance.compiled import compiled
from dissonance.solvers.convex.layout import HARD, Ints, Layout

Floats = npt.NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)


@compiled
def normalise(lay: Layout, y: Floats, p: Floats, q: Floats, b: int) -> None:
    """y = log q of soft entries shifted so that every row of q sums to 1; q is p at hard entries."""
    for t in range(len(lay.kind)):
        for r in range(lay.row_at[t], lay.row_at[t + 1]):
            first, stop = lay.entry_at[r], lay.entry_at[r + 1]
            if lay.kind[t] == HARD:
                for e in range(first, stop):
                    q[b, e] = p[b, e]
                continue
            total = 0.0
            for e in range(first, stop):
                q[b, e] = np.exp(y[b, e])
                total += q[b, e]
            shift, part = np.log(total), 1.0 / total
            for e in range(first, stop):
                y[b, e] -= shift
                q[b, e] *= part


@compiled
def slack(lay: Layout, c: Floats, W: Floats, q: Floats, y: Floats, d: Floats, b: int, out: Floats, sign: float) -> None:
    """c + W log q + sum_children d_c - d - (lam - sum_t p lam) at every cell of problem b.

    With sign = -1 every part enters with its absolute value: that is what rounding is relative to.
    """
    for k in range(len(lay.parent)):
        at, stop = lay.cell_at[k], lay.cell_at[k + 1]
        for i in range(at, stop):
            u = d[b, lay.own[i]]
            out[b, i] = c[b, i] - u if sign > 0 else abs(c[b, i]) + abs(u)
        for t in range(lay.term_at[k], lay.term_at[k + 1]):
            shift = lay.term_cell[t] - at
            if lay.kind[t] == HARD:
                for i in range(at, stop):
                    e = lay.entry[shift + i]
                    r, mean = lay.row[e], 0.0
                    for x in range(lay.entry_at[r], lay.entry_at[r + 1]):
                        mean += q[b, x] * (y[b, x] if sign > 0 else abs(y[b, x]))
                    out[b, i] += mean - y[b, e] if sign > 0 else mean + abs(y[b, e])
            elif W[b, t] != 0.0:
                for i in range(at, stop):
                    u = W[b, t] * y[b, lay.entry[shift + i]]
                    out[b, i] += u if sign > 0 else abs(u)
        for j in range(lay.child_at[k], lay.child_at[k + 1]):
            shift = lay.above_at[lay.child[j]] - at
            for i in range(at, stop):
                u = d[b, lay.above[shift + i]]
                out[b, i] += u if sign > 0 else abs(u)


@compiled
def agree(lay: Layout, mu: Floats, out: Floats, b: int) -> None:
    """Clusters that agree exactly: each mu(rest | separator) times the parents' separator mass; roots of mass 1."""
    found, wanted = np.zeros(lay.unknown_at[-1]), np.zeros(lay.unknown_at[-1])
    for k in range(len(lay.parent)):
        at, stop, p = lay.cell_at[k], lay.cell_at[k + 1], lay.parent[k]
        if p < 0:
            wanted[lay.unknown_at[k]] = 1.0
        else:
            shift = lay.above_at[k] - lay.cell_at[p]
            for i in range(lay.cell_at[p], lay.cell_at[p + 1]):
                wanted[lay.above[shift + i]] += out[b, i]
        for i in range(at, stop):
            out[b, i] = mu[b, i] if mu[b, i] > 0.0 and mu[b, i] < np.inf else 0.0
            found[lay.own[i]] += out[b, i]
        for i in range(at, stop):  # a state of which nothing is known: every cell the same
            out[b, i] = out[b, i] if found[lay.own[i]] > 0.0 else -1.0
        for i in range(at, stop):
            found[lay.own[i]] += out[b, i] < 0.0
        for i in range(at, stop):
            out[b, i] = abs(out[b, i]) / found[lay.own[i]] * wanted[lay.own[i]]


@compiled
def cost(lay: Layout, c: Floats, W: Floats, q: Floats, y: Floats, mu: Floats, b: int) -> tuple[float, float, float]:
    """The incompatibility of clusters that agree, with the first-order price of breaking hard arcs, and how rounding
    may have changed it; and the largest |mu(s,t) - p(t|s) mu(s)|."""
    value = weights = worst = 0.0
    size = 1.0
    for i in range(len(lay.own)):
        value += c[b, i] * mu[b, i]
        size += abs(c[b, i]) * mu[b, i]
    m = np.zeros(len(lay.row))
    for k in range(len(lay.parent)):
        at, stop = lay.cell_at[k], lay.cell_at[k + 1]
        for t in range(lay.term_at[k], lay.term_at[k + 1]):
            hard, part, shift = lay.kind[t] == HARD, 0.0, lay.term_cell[t] - at
            for i in range(at, stop):
                m[lay.entry[shift + i]] += mu[b, i]
            for r in range(lay.row_at[t], lay.row_at[t + 1]):
                total = 0.0
                for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                    total += m[e]
                for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                    if hard:
                        off = abs(m[e] - q[b, e] * total)
                        value += abs(y[b, e]) * off
                        worst = max(worst, off)
                    elif m[e] > 0.0:
                        part += m[e] * np.log(m[e] / total)
            if not hard:
                value += W[b, t] * part
                weights += abs(W[b, t])
    return value, 32 * EPS * (size + weights), worst


@compiled
def certify(
    lay: Layout,
    c: Floats,
    W: Floats,
    p: Floats,
    mu: Floats,
    y: Floats,
    d: Floats,
    out: Floats,
    bounds: Floats,
    active: Ints,
) -> None:
    """lower, upper and how far the hard arcs are from holding, (P, 3); `out` (P, cells) proves the upper bound."""
    q, room = np.empty_like(y), np.empty_like(mu)
    for b in active:
        normalise(lay, y, p, q, b)
        slack(lay, c, W, q, y, d, b, room, 1.0)
        slack(lay, c, W, q, y, d, b, out, -1.0)
        low = spread = roots = 0.0
        for k in range(len(lay.parent)):
            lowest = np.inf
            for i in range(lay.cell_at[k], lay.cell_at[k + 1]):
                lowest = min(lowest, room[b, i] - 8 * EPS * out[b, i])
            low += lowest
            spread += abs(lowest)
            if lay.parent[k] < 0:
                low += d[b, lay.unknown_at[k]]
                roots += abs(d[b, lay.unknown_at[k]])
        low -= EPS * (2 * roots + np.sqrt(len(lay.parent)) * spread)
        agree(lay, mu, out, b)
        value, rounding, worst = cost(lay, c, W, q, y, out, b)
        bounds[b, 0] = low - rounding if low == low else -np.inf
        bounds[b, 1] = value + rounding if value == value else np.inf
        bounds[b, 2] = worst


@compiled
def contradiction(lay: Layout, p: Floats, y: Floats, active: Ints) -> Floats:
    """If positive, these multipliers prove the hard arcs unsatisfiable (Farkas): no mu makes their mean 0, (active,).

    min over joint states of -(lam - sum_t p lam), for multipliers scaled to 1; -inf if there are none.
    """
    found = np.full(len(active), -np.inf)
    cells, entries, unknowns = len(lay.own), len(lay.row), lay.unknown_at[-1]
    for a in range(len(active)):
        b, size = active[a], 0.0
        lam, table = np.zeros((1, entries)), np.zeros((1, entries))
        for t in range(len(lay.kind)):
            if lay.kind[t] == HARD:
                for e in range(lay.entry_at[lay.row_at[t]], lay.entry_at[lay.row_at[t + 1]]):
                    lam[0, e], table[0, e] = y[b, e], p[b, e]
                    size = max(size, abs(y[b, e]))
        if not (size > 0.0 and size < np.inf):
            continue
        for e in range(entries):
            lam[0, e] /= size
        cost, nothing = np.empty((1, cells)), np.zeros((1, cells))
        slack(lay, nothing, np.zeros((1, len(lay.kind))), table, lam, np.zeros((1, unknowns)), 0, cost, 1.0)
        best, total = np.full(unknowns, np.inf), 0.0
        for k in range(len(lay.parent) - 1, -1, -1):
            at, stop = lay.cell_at[k], lay.cell_at[k + 1]
            for j in range(lay.child_at[k], lay.child_at[k + 1]):
                shift = lay.above_at[lay.child[j]] - at
                for i in range(at, stop):
                    cost[0, i] += best[lay.above[shift + i]]
            for i in range(at, stop):
                best[lay.own[i]] = min(best[lay.own[i]], cost[0, i])
            if lay.parent[k] < 0:
                total += best[lay.unknown_at[k]]
        found[a] = total
    return found
