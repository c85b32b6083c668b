"""One Newton system, eliminated along the tree, compiled.

The system is a quadratic program in mu, with G = D + sum of V w V' over the terms, D = diag(z/mu), and on every term
V = 1[x in (s,t)] - q(t|s) 1[x in s]:

    G mu = g + X d - sum_children E_c d_c + A' lam
    X_c' mu_c = E_c' mu_parent + e_c   (at a root: e_c alone, its mass),     A mu = e     (A: V of the hard arcs, at p)

From the leaves to the roots, every cluster becomes a function of its separator's marginal m alone: a quadratic
m'Q m/2 - h'm with d = Q m - h, or the same thing turned over, m = K d + a. Two ways lead there; each is a partial
factorisation of one dense matrix, the *front*:

- by its cells: one cell of every separator state, that of most mass, is what the others leave of m; the others are
  eliminated. What remains is Q. For clusters of few cells.
- by its multipliers: mu = M (g + X d - U u), M = P^-1, P = D and one term that has an entry for every cell; u are the
  multipliers of the other terms, of hard arcs and of the children's separators. What remains is K. For wide clusters,
  whose multipliers are fewer than their cells, and where there are hard arcs: equations that repeat others have a pivot
  of 0 there, and are left out.

Exact arithmetic gives a lower bound of every pivot (z/mu of a cell, 1 of a soft entry): where rounding leaves less, the
bound stands in. `I`, `X` and `L` are explained in `room.py`; loops are written out, which is what compiles quickly.
"""

from __future__ import annotations

import numpy as np

from dissonance.compiled import compiled
from dissonance.solvers.convex.layout import HARD, Floats, Ints
from dissonance.solvers.convex.room import AT

FEW, PANEL = 4, 32
"""Columns that are eliminated together in a small and in a large front."""

TINY = 1e-300

DEPENDENT = 1e-14
"""A pivot of an equation below this part of its diagonal: it repeats others."""


# -- dense matrices, flat: entry (i, j) of the matrix from `at` on is F[at + i n + j] ----------------------------------


@compiled
def _eliminate(F: Floats, at: int, n: int, first: int, last: int, end: int, least: Floats) -> None:
    """Rows first to last of the upper triangle, out of the rows up to `end`.

    The diagonal becomes 1/pivot. `least`: positive, a lower bound of the pivot (inf: the unknown is left out);
    negative: minus the diagonal of an equation, which is left out where it repeats others.
    """
    for j in range(first, last):
        row = at + j * n
        pivot = F[row + j]
        inverse = 0.0
        if least[j] >= 0:
            inverse = 1.0 / max(pivot, least[j])
        elif pivot > -DEPENDENT * least[j]:
            inverse = 1.0 / pivot
        F[row + j] = inverse
        for i in range(j + 1, end):
            f = F[row + i] * inverse
            if f != 0.0:
                below = at + i * n
                for b in range(i, n):
                    F[below + b] -= f * F[row + b]


@compiled
def _update(F: Floats, at: int, n: int, start: int, R: Floats, r_at: int, weight: Floats, count: int) -> None:
    """F[i, b] -= sum_j weight_j R[j, i] R[j, b] for b >= i >= start, over `count` rows of R, four at a time."""
    for i in range(start, n):
        row = at + i * n
        for j in range(0, count - count % 4, 4):
            p, q, r, s = r_at + j * n, r_at + (j + 1) * n, r_at + (j + 2) * n, r_at + (j + 3) * n
            a, b = weight[j] * R[p + i], weight[j + 1] * R[q + i]
            c, d = weight[j + 2] * R[r + i], weight[j + 3] * R[s + i]
            for x in range(i, n):
                F[row + x] -= (a * R[p + x] + b * R[q + x]) + (c * R[r + x] + d * R[s + x])
        for j in range(count - count % 4, count):
            p = r_at + j * n
            a = weight[j] * R[p + i]
            for x in range(i, n):
                F[row + x] -= a * R[p + x]


@compiled
def _partial(F: Floats, at: int, n: int, count: int, least: Floats) -> None:
    """Eliminate the first `count` unknowns of a symmetric matrix, of which the upper triangle is given, in place."""
    if n <= 6:
        _eliminate(F, at, n, 0, count, n, least)
        return
    width = FEW if n <= 4 * PANEL else PANEL
    weight = np.empty(PANEL)
    for first in range(0, count, width):
        last = min(first + width, count)
        _eliminate(F, at, n, first, last, last, least)
        for j in range(first, last):
            weight[j - first] = F[at + j * n + j]
        _update(F, at, n, last, F, at + first * n, weight, last - first)


@compiled
def _forward(F: Floats, at: int, n: int, count: int, v: Floats, o: int) -> None:
    """v, from o on, is the right side: eliminate the first `count` unknowns from it."""
    for j in range(count):
        row = at + j * n
        f = v[o + j] * F[row + j]
        if f != 0.0:
            for i in range(j + 1, n):
                v[o + i] -= f * F[row + i]


@compiled
def _backward(F: Floats, at: int, n: int, count: int, v: Floats, o: int) -> None:
    """The first `count` unknowns where the others are known; sums in four parts, always in the same order."""
    for j in range(count - 1, -1, -1):
        row = at + j * n
        p = q = r = s = 0.0
        i = j + 1
        while i + 3 < n:
            p += F[row + i] * v[o + i]
            q += F[row + i + 1] * v[o + i + 1]
            r += F[row + i + 2] * v[o + i + 2]
            s += F[row + i + 3] * v[o + i + 3]
            i += 4
        while i < n:
            p += F[row + i] * v[o + i]
            i += 1
        v[o + j] = (v[o + j] - ((p + q) + (r + s))) * F[row + j]


@compiled
def _inverse(A: Floats, at: int, n: int) -> None:
    """The inverse of a symmetric positive semidefinite matrix, in place; directions without weight get none."""
    F, least, v = np.empty(n * n), np.empty(n), np.zeros(n * n)
    for i in range(n):
        least[i] = -max(A[at + i * n + i], TINY)
        v[i * n + i] = 1.0
        for j in range(n):
            F[i * n + j] = A[at + i * n + j]
    _partial(F, 0, n, n, least)
    for i in range(n):
        _forward(F, 0, n, n, v, i * n)
        _backward(F, 0, n, n, v, i * n)
    for i in range(n):
        for j in range(n):
            A[at + i * n + j] = 0.5 * (v[i * n + j] + v[j * n + i])


# -- factoring ---------------------------------------------------------------------------------------------------------


@compiled
def factor(I: Ints, X: Floats, L: Ints, clusters: Ints) -> None:
    """Eliminate some clusters, children first, at mu, z, q (p at hard entries) and curve."""
    i_parent, i_unknown_at, i_size, i_by_cells = L[AT.parent], L[AT.unknown_at], L[AT.size], L[AT.by_cells]
    i_front_at, i_message_at, x_front, x_message = L[AT.front_at], L[AT.message_at], L[AT.front], L[AT.message]
    widest = L[AT.widest]
    place, partner = np.empty(widest, dtype=np.int64), np.empty(widest, dtype=np.int64)
    mine, theirs = np.empty(widest, dtype=np.int64), np.empty(widest, dtype=np.int64)
    least, block, columns = np.empty(widest), np.empty(widest * widest), np.empty(widest * widest)
    for k in clusters:
        if I[i_by_cells + k]:
            _by_cells(I, X, L, k, place, partner, least, block, columns, mine, theirs)
        else:
            _by_multipliers(I, X, L, k)
        n, own = I[i_size + k], I[i_unknown_at + k + 1] - I[i_unknown_at + k]
        start, at = x_front + I[i_front_at + k] + (n - own) * n + n - own, x_message + I[i_message_at + k]
        for i in range(own):
            for j in range(i, own):
                X[at + i * own + j] = X[start + i * n + j]
                X[at + j * own + i] = X[start + i * n + j]
        if I[i_by_cells + k] != (I[i_parent + k] < 0 or I[i_by_cells + I[i_parent + k]]):
            _inverse(X, at, own)


@compiled
def _by_cells(
    I: Ints,
    X: Floats,
    L: Ints,
    k: int,
    place: Ints,
    partner: Ints,
    least: Floats,
    B: Floats,
    C: Floats,
    mine: Ints,
    theirs: Ints,
) -> None:
    """Factor a front by cells; the other arguments are room: cells by place, their pivots, pivots' bounds, blocks."""
    i_cell_at, i_unknown_at, i_own, i_child_at = L[AT.cell_at], L[AT.unknown_at], L[AT.own], L[AT.child_at]
    i_child, i_above_at, i_above, i_term_at = L[AT.child], L[AT.above_at], L[AT.above], L[AT.term_at]
    i_term_cell, i_entry, i_row_at, i_entry_at = L[AT.term_cell], L[AT.entry], L[AT.row_at], L[AT.entry_at]
    i_size, i_front_at, i_message_at, x_W, x_mu = L[AT.size], L[AT.front_at], L[AT.message_at], L[AT.W], L[AT.mu]
    x_z, x_q, x_curve, x_pivot, x_front = L[AT.z], L[AT.q], L[AT.curve], L[AT.pivot], L[AT.front]
    x_message = L[AT.message]
    at, n, first = I[i_cell_at + k], I[i_size + k], I[i_unknown_at + k]
    own = I[i_unknown_at + k + 1] - first
    e = n - own
    H, h = X, x_front + I[i_front_at + k]
    # the cell of most mass of every state comes last, the others in their order
    for i in range(own):
        place[e + i] = -1
    for i in range(n):
        state = I[i_own + at + i] - first
        best = place[e + state]
        if best < 0 or X[x_mu + at + i] * X[x_z + at + best] > X[x_mu + at + best] * X[x_z + at + i]:
            place[e + state] = i
    count = 0
    for i in range(n):
        if place[e + I[i_own + at + i] - first] != i:
            place[count] = i
            count += 1
    for a in range(n):
        X[x_pivot + at + a] = place[a]
    for a in range(n):
        i = place[a]
        partner[a] = place[e + I[i_own + at + i] - first]
        least[a] = X[x_z + at + i] / X[x_mu + at + i]
    for x in range(n * n):
        H[h + x] = 0.0
    for a in range(e):
        state = I[i_own + at + place[a]] - first
        under = least[e + state]
        for x in range(a, e):
            if partner[x] == partner[a]:
                H[h + a * n + x] = under
        H[h + a * n + e + state] = -under
        H[h + a * n + a] += least[a]
    for a in range(e, n):
        H[h + a * n + a] = least[a]
    for t in range(I[i_term_at + k], I[i_term_at + k + 1]):
        if X[x_W + t] != 0.0:
            base = I[i_entry_at + I[i_row_at + t]]
            size = I[i_entry_at + I[i_row_at + t + 1]] - base
            for x in range(size * size):
                B[x] = 0.0
            for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
                stop, total = I[i_entry_at + r + 1], 0.0
                W = X[x_W + t]
                for x in range(I[i_entry_at + r], stop):
                    total += W * X[x_curve + x] * X[x_q + x] * X[x_q + x]
                for x in range(I[i_entry_at + r], stop):
                    w = W * X[x_curve + x]
                    for y in range(I[i_entry_at + r], stop):
                        B[(x - base) * size + y - base] = total - w * X[x_q + x] - W * X[x_curve + y] * X[x_q + y]
                    B[(x - base) * size + x - base] += w
            _lay(H, h, n, e, B, 0, size, I, i_entry + I[i_term_cell + t], base, place, partner, C, mine, theirs)
    for j in range(I[i_child_at + k], I[i_child_at + k + 1]):
        c = I[i_child + j]
        size = I[i_unknown_at + c + 1] - I[i_unknown_at + c]
        base = I[i_unknown_at + c]
        there = i_above + I[i_above_at + c]
        _lay(H, h, n, e, X, x_message + I[i_message_at + c], size, I, there, base, place, partner, C, mine, theirs)
    _partial(H, h, n, e, least)


@compiled
def _lay(
    H: Floats,
    h: int,
    n: int,
    e: int,
    B: Floats,
    at: int,
    size: int,
    index: Ints,
    index_at: int,
    base: int,
    place: Ints,
    partner: Ints,
    C: Floats,
    mine: Ints,
    theirs: Ints,
) -> None:
    """Add R'B R to a front by cells, where R takes the pivot of its state out of every other cell.

    B (size, size) has its row and column index[index_at + i] - base for cell i. What a cell and its pivot have in
    common cancels exactly.
    """
    for a in range(n):
        mine[a], theirs[a] = index[index_at + place[a]] - base, index[index_at + partner[a]] - base
    for u in range(size):
        row, into = at + u * size, u * n
        for a in range(e):
            C[into + a] = B[row + mine[a]] - B[row + theirs[a]]  # 0 if that is the same
        for a in range(e, n):
            C[into + a] = B[row + mine[a]]
    for a in range(n):
        x, y = mine[a] * n, theirs[a] * n
        if a >= e:
            for c in range(a, n):
                H[h + a * n + c] += C[x + c]
        elif x != y:
            for c in range(a, n):
                H[h + a * n + c] += C[x + c] - C[y + c]


@compiled
def _invert(I: Ints, X: Floats, L: Ints, W: float, k: int, t: int) -> None:
    """M at mu, z and q for a cluster and its absorbed term (-1: none), without cancellation.

    P = diag(1/a) + W rho w w' - (W/rho) v v' with 1/a = z/mu + W/f, f = mu(s) qt, v = q/f, rho = sum q v and
    w = 1 - v/rho, in every row: two updates of rank one.
    """
    i_cell_at, i_term_cell, i_entry, i_row_at = L[AT.cell_at], L[AT.term_cell], L[AT.entry], L[AT.row_at]
    i_row, x_mu, x_z, x_q, x_a, x_up, x_down = L[AT.row], L[AT.mu], L[AT.z], L[AT.q], L[AT.a], L[AT.up], L[AT.down]
    at, n = I[i_cell_at + k], I[i_cell_at + k + 1] - I[i_cell_at + k]
    if t < 0 or W == 0.0:
        for i in range(at, at + n):
            X[x_a + i], X[x_up + i], X[x_down + i] = X[x_mu + i] / X[x_z + i], 0.0, 0.0
        return
    start, first, rows = I[i_term_cell + t], I[i_row_at + t], I[i_row_at + t + 1] - I[i_row_at + t]
    mass, rho, left, cross, bent = np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows)
    f, v = np.empty(n), np.empty(n)
    for i in range(n):
        mass[I[i_row + I[i_entry + start + i]] - first] += X[x_mu + at + i]
    for i in range(n):
        e = I[i_entry + start + i]
        r = I[i_row + e] - first
        f[i] = max(0.5 * (mass[r] * X[x_q + e] + X[x_mu + at + i]), TINY)
        v[i] = X[x_q + e] / f[i]
        rho[r] += X[x_q + e] * v[i]
    for i in range(n):
        r = I[i_row + I[i_entry + start + i]] - first
        stiff = X[x_z + at + i] + W * X[x_mu + at + i] / f[i]
        X[x_a + at + i] = X[x_mu + at + i] / stiff
        slope = X[x_z + at + i] * f[i] / stiff * v[i]
        left[r] += slope * v[i]
        cross[r] += slope * (1.0 - v[i] / max(rho[r], TINY))
    for i in range(n):
        r = I[i_row + I[i_entry + start + i]] - first
        w, a = 1.0 - v[i] / max(rho[r], TINY), X[x_a + at + i]
        X[x_down + at + i] = a * (w - cross[r] / max(left[r], TINY) * v[i])
        X[x_up + at + i] = np.sqrt(W / max(left[r], TINY)) * a * v[i]
        bent[r] += w * X[x_down + at + i]
    for i in range(n):
        r = I[i_row + I[i_entry + start + i]] - first
        X[x_down + at + i] *= np.sqrt(W * rho[r] / (1.0 + W * rho[r] * bent[r]))


@compiled
def _columns(I: Ints, L: Ints, k: int) -> Ints:
    """For every block of a front by multipliers (terms, children, its own separator) and cell the column of its
    indicator, (blocks, cells)."""
    i_cell_at, i_unknown_at, i_own, i_child_at = L[AT.cell_at], L[AT.unknown_at], L[AT.own], L[AT.child_at]
    i_child, i_above_at, i_above, i_term_at = L[AT.child], L[AT.above_at], L[AT.above], L[AT.term_at]
    i_term_cell, i_entry, i_row_at, i_entry_at = L[AT.term_cell], L[AT.entry], L[AT.row_at], L[AT.entry_at]
    i_absorbed = L[AT.absorbed]
    n, column, block = I[i_cell_at + k + 1] - I[i_cell_at + k], 0, 0
    terms, children = I[i_term_at + k + 1] - I[i_term_at + k], I[i_child_at + k + 1] - I[i_child_at + k]
    found = np.empty((terms - (I[i_absorbed + k] >= 0) + children + 1, n), dtype=np.int64)
    for t in range(I[i_term_at + k], I[i_term_at + k + 1]):
        if t != I[i_absorbed + k]:
            base = I[i_entry_at + I[i_row_at + t]]
            for i in range(n):
                found[block, i] = column + I[i_entry + I[i_term_cell + t] + i] - base
            column += I[i_entry_at + I[i_row_at + t + 1]] - base
            block += 1
    for j in range(I[i_child_at + k], I[i_child_at + k + 1]):
        c = I[i_child + j]
        for i in range(n):
            found[block, i] = column + I[i_above + I[i_above_at + c] + i] - I[i_unknown_at + c]
        column += I[i_unknown_at + c + 1] - I[i_unknown_at + c]
        block += 1
    for i in range(n):
        found[block, i] = column + I[i_own + I[i_cell_at + k] + i] - I[i_unknown_at + k]
    return found


@compiled
def _by_multipliers(I: Ints, X: Floats, L: Ints, k: int) -> None:
    i_cell_at, i_unknown_at, i_child_at, i_child = L[AT.cell_at], L[AT.unknown_at], L[AT.child_at], L[AT.child]
    i_term_at, i_kind, i_term_cell, i_entry = L[AT.term_at], L[AT.kind], L[AT.term_cell], L[AT.entry]
    i_row_at, i_entry_at, i_row, i_size = L[AT.row_at], L[AT.entry_at], L[AT.row], L[AT.size]
    i_absorbed, i_front_at, i_message_at, x_W = L[AT.absorbed], L[AT.front_at], L[AT.message_at], L[AT.W]
    x_q, x_curve, x_a, x_up, x_down, x_scale = L[AT.q], L[AT.curve], L[AT.a], L[AT.up], L[AT.down], L[AT.scale]
    x_front, x_message = L[AT.front], L[AT.message]
    at, n, size, absorbed = I[i_cell_at + k], I[i_cell_at + k + 1] - I[i_cell_at + k], I[i_size + k], I[i_absorbed + k]
    F, h, least = X, x_front + I[i_front_at + k], np.zeros(size)
    weight = X[x_W + absorbed] if absorbed >= 0 else 0.0
    _invert(I, X, L, weight, k, absorbed)
    columns = _columns(I, L, k)
    for x in range(size * size):
        F[h + x] = 0.0
    for x in range(len(columns)):
        for y in range(x, len(columns)):
            for i in range(n):
                F[h + columns[x, i] * size + columns[y, i]] += X[x_a + at + i]
    if weight != 0.0:
        first, start = I[i_row_at + absorbed], I[i_term_cell + absorbed]
        rows = I[i_row_at + absorbed + 1] - first
        ranks, sign = np.zeros(2 * rows * size), np.empty(2 * rows)
        for r in range(2 * rows):
            sign[r] = 1.0 if r % 2 else -1.0
        for i in range(n):
            r = 2 * (I[i_row + I[i_entry + start + i]] - first) * size
            for x in range(len(columns)):
                ranks[r + columns[x, i]] += X[x_up + at + i]
                ranks[r + size + columns[x, i]] += X[x_down + at + i]
        _update(F, h, size, 0, ranks, 0, sign, 2 * rows)
    column = 0
    for t in range(I[i_term_at + k], I[i_term_at + k + 1]):
        if t == absorbed:
            continue
        base, stop, hard = I[i_entry_at + I[i_row_at + t]], I[i_entry_at + I[i_row_at + t + 1]], I[i_kind + t] == HARD
        for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
            _centre(F, h, size, column - base, I[i_entry_at + r], I[i_entry_at + r + 1], X, x_q)
        for e in range(base, stop):
            scale = -1.0 if hard else np.sqrt(X[x_W + t] * X[x_curve + e])
            X[x_scale + e] = scale
            j = column + e - base
            for i in range(j + 1):
                F[h + i * size + j] *= scale
            for i in range(j, size):
                F[h + j * size + i] *= scale
            if hard:
                least[j] = -max(F[h + j * size + j], TINY)
            else:
                F[h + j * size + j] += 1.0
                least[j] = 1.0
        if hard:  # the likeliest value of every row is what the others leave
            for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
                likeliest = I[i_entry_at + r]
                for e in range(likeliest, I[i_entry_at + r + 1]):
                    if X[x_q + e] > X[x_q + likeliest]:
                        likeliest = e
                least[column + likeliest - base] = np.inf
        column += stop - base
    for j in range(I[i_child_at + k], I[i_child_at + k + 1]):
        c = I[i_child + j]
        states = I[i_unknown_at + c + 1] - I[i_unknown_at + c]
        for x in range(states):
            row = h + (column + x) * size + column
            for y in range(x, states):
                F[row + y] += X[x_message + I[i_message_at + c] + x * states + y]
            least[column + x] = -max(F[row + x], TINY)
        column += states
    _partial(F, h, size, column, least)


@compiled
def _centre(F: Floats, h: int, n: int, shift: int, first: int, last: int, Q: Floats, q: int) -> None:
    """From sums over entries to V: take q times its row's sum from every entry of a row, on both sides.

    F is symmetric, of which the upper triangle is given; entries first to last stand at first + shift on.
    """
    start, stop, inner = first + shift, last + shift, 0.0
    total = np.zeros(n)
    for e in range(start, stop):
        for i in range(e):
            total[i] += F[h + i * n + e]
        for i in range(e, n):
            total[i] += F[h + e * n + i]
    for e in range(start, stop):
        inner += total[e]
    for e in range(start, stop):
        w = Q[q + e - shift]
        for i in range(start):
            F[h + i * n + e] -= w * total[i]
        for i in range(stop, n):
            F[h + e * n + i] -= w * total[i]
        for x in range(e, stop):
            F[h + e * n + x] += w * Q[q + x - shift] * inner - w * total[x] - Q[q + x - shift] * total[e]


# -- solving -----------------------------------------------------------------------------------------------------------


@compiled
def upward(I: Ints, X: Floats, L: Ints, g: int, x: int, clusters: Ints) -> None:
    """What some clusters ask of their parents, children first, for the right side at g, off and off_hard; x: room."""
    i_parent, i_cell_at, i_unknown_at, i_own = L[AT.parent], L[AT.cell_at], L[AT.unknown_at], L[AT.own]
    i_child_at, i_child, i_above_at, i_above = L[AT.child_at], L[AT.child], L[AT.above_at], L[AT.above]
    i_size, i_by_cells, i_front_at, i_vector_at = L[AT.size], L[AT.by_cells], L[AT.front_at], L[AT.vector_at]
    i_message_at, x_off, x_told, x_pivot = L[AT.message_at], L[AT.off], L[AT.told], L[AT.pivot]
    x_vector, x_front, x_message = L[AT.vector], L[AT.front], L[AT.message]
    for k in clusters:
        at, stop, base = I[i_cell_at + k], I[i_cell_at + k + 1], I[i_unknown_at + k]
        n, own, o = I[i_size + k], I[i_unknown_at + k + 1] - base, x_vector + I[i_vector_at + k]
        e = n - own
        for i in range(at, stop):
            X[x + i] = X[g + i]
        if I[i_by_cells + k]:
            for j in range(I[i_child_at + k], I[i_child_at + k + 1]):
                there = I[i_above_at + I[i_child + j]] - at
                for i in range(at, stop):
                    X[x + i] += X[x_told + I[i_above + there + i]]
            for a in range(n):
                i = at + int(X[x_pivot + at + a])
                X[o + a] = X[x + i]
                if a < e:
                    X[o + a] -= X[x + at + int(X[x_pivot + at + e + I[i_own + i] - base])]
        else:
            _times_inverse(I, X, L, x, k)
            _sums(I, X, L, x, k)
        _forward(X, x_front + I[i_front_at + k], n, e, X, o)
        if I[i_parent + k] < 0:
            continue
        above, Q = I[i_by_cells + I[i_parent + k]], x_message + I[i_message_at + k]
        for i in range(own):  # h - Q e or a - e; Q (a - e) or K h - e where the parent wants the other
            told = 0.0
            if I[i_by_cells + k] == above:
                told += X[o + e + i]
            for j in range(own):
                part = 0.0
                if I[i_by_cells + k] != above:
                    part += X[o + e + j]
                if above:
                    part -= X[x_off + base + j]
                told += X[Q + i * own + j] * part
                if I[i_by_cells + k] == above and not above:
                    break
            X[x_told + base + i] = told if above else told - X[x_off + base + i]


@compiled
def downward(I: Ints, X: Floats, L: Ints, g: int, x: int, d: int, lam: int, clusters: Ints) -> None:
    """mu at x, the multipliers of separators and hard arcs at d and lam, of some clusters, parents first."""
    i_parent, i_cell_at, i_unknown_at, i_own = L[AT.parent], L[AT.cell_at], L[AT.unknown_at], L[AT.own]
    i_above_at, i_above, i_size, i_by_cells = L[AT.above_at], L[AT.above], L[AT.size], L[AT.by_cells]
    i_front_at, i_vector_at, i_message_at, x_off = L[AT.front_at], L[AT.vector_at], L[AT.message_at], L[AT.off]
    x_pivot, x_vector, x_front, x_message = L[AT.pivot], L[AT.vector], L[AT.front], L[AT.message]
    m = np.empty(L[AT.most])
    for z in range(len(clusters) - 1, -1, -1):
        k = clusters[z]
        at, stop, base, p = I[i_cell_at + k], I[i_cell_at + k + 1], I[i_unknown_at + k], I[i_parent + k]
        n, own, o = I[i_size + k], I[i_unknown_at + k + 1] - base, x_vector + I[i_vector_at + k]
        Q = x_message + I[i_message_at + k]
        e = n - own
        for i in range(own):
            m[i] = X[x_off + base + i]
        if p >= 0:
            there = I[i_above_at + k] - I[i_cell_at + p]
            for i in range(I[i_cell_at + p], I[i_cell_at + p + 1]):
                m[I[i_above + there + i] - base] += X[x + i]
        if p < 0 or I[i_by_cells + p]:  # else the parent has found d
            for i in range(own):
                total = 0.0
                for j in range(own):
                    part = m[j] if I[i_by_cells + k] else m[j] - X[o + e + j]
                    total += X[Q + i * own + j] * part
                X[d + base + i] = total - X[o + e + i] if I[i_by_cells + k] else total
        for i in range(own):
            X[o + e + i] = m[i] if I[i_by_cells + k] else -X[d + base + i]
        _backward(X, x_front + I[i_front_at + k], n, e, X, o)
        if I[i_by_cells + k]:
            for a in range(e):
                i = at + int(X[x_pivot + at + a])
                X[x + i] = X[o + a]
                m[I[i_own + i] - base] -= X[x + i]
            for a in range(own):
                X[x + at + int(X[x_pivot + at + e + a])] = m[a]
        else:
            for i in range(at, stop):
                X[x + i] = X[g + i]
            _apply(I, X, L, x, d, lam, k)
            _times_inverse(I, X, L, x, k)


@compiled
def _times_inverse(I: Ints, X: Floats, L: Ints, x: int, k: int) -> None:
    """M x, in place."""
    i_cell_at, i_term_cell, i_entry, i_row_at = L[AT.cell_at], L[AT.term_cell], L[AT.entry], L[AT.row_at]
    i_row, i_absorbed, x_a, x_up, x_down = L[AT.row], L[AT.absorbed], L[AT.a], L[AT.up], L[AT.down]
    at, n, t = I[i_cell_at + k], I[i_cell_at + k + 1] - I[i_cell_at + k], I[i_absorbed + k]
    if t < 0:
        for i in range(at, at + n):
            X[x + i] *= X[x_a + i]
        return
    first, rows, start = I[i_row_at + t], I[i_row_at + t + 1] - I[i_row_at + t], I[i_term_cell + t]
    up, down = np.zeros(rows), np.zeros(rows)
    for i in range(n):
        r = I[i_row + I[i_entry + start + i]] - first
        up[r] += X[x_up + at + i] * X[x + at + i]
        down[r] += X[x_down + at + i] * X[x + at + i]
    for i in range(n):
        r = I[i_row + I[i_entry + start + i]] - first
        X[x + at + i] = X[x_a + at + i] * X[x + at + i] + X[x_up + at + i] * up[r] - X[x_down + at + i] * down[r]


@compiled
def _sums(I: Ints, X: Floats, L: Ints, x: int, k: int) -> None:
    """U'x - a of a front by multipliers, and X'x, in the cluster's vector."""
    i_cell_at, i_unknown_at, i_own, i_child_at = L[AT.cell_at], L[AT.unknown_at], L[AT.own], L[AT.child_at]
    i_child, i_above_at, i_above, i_term_at = L[AT.child], L[AT.above_at], L[AT.above], L[AT.term_at]
    i_kind, i_term_cell, i_entry, i_row_at = L[AT.kind], L[AT.term_cell], L[AT.entry], L[AT.row_at]
    i_entry_at, i_size, i_absorbed, i_vector_at = L[AT.entry_at], L[AT.size], L[AT.absorbed], L[AT.vector_at]
    x_q, x_off_hard, x_told, x_scale, x_vector = L[AT.q], L[AT.off_hard], L[AT.told], L[AT.scale], L[AT.vector]
    at, n, o = I[i_cell_at + k], I[i_cell_at + k + 1] - I[i_cell_at + k], x_vector + I[i_vector_at + k]
    for i in range(I[i_size + k]):
        X[o + i] = 0.0
    for t in range(I[i_term_at + k], I[i_term_at + k + 1]):
        if t == I[i_absorbed + k]:
            continue
        base, stop, hard = I[i_entry_at + I[i_row_at + t]], I[i_entry_at + I[i_row_at + t + 1]], I[i_kind + t] == HARD
        for i in range(n):
            X[o + I[i_entry + I[i_term_cell + t] + i] - base] += X[x + at + i]
        for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
            total = 0.0
            for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                total += X[o + e - base]
            for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                X[o + e - base] = (X[o + e - base] - X[x_q + e] * total) * X[x_scale + e]
                if hard:
                    X[o + e - base] += X[x_off_hard + e]
        o += stop - base
    for j in range(I[i_child_at + k], I[i_child_at + k + 1]):
        c = I[i_child + j]
        base = I[i_unknown_at + c]
        for i in range(n):
            X[o + I[i_above + I[i_above_at + c] + i] - base] += X[x + at + i]
        for u in range(base, I[i_unknown_at + c + 1]):
            X[o + u - base] -= X[x_told + u]
        o += I[i_unknown_at + c + 1] - base
    for i in range(at, at + n):
        X[o + I[i_own + i] - I[i_unknown_at + k]] += X[x + i]


@compiled
def _apply(I: Ints, X: Floats, L: Ints, x: int, d: int, lam: int, k: int) -> None:
    """x + X d - U u; the children's d and the hard arcs' lam are among u, the cluster's vector."""
    i_cell_at, i_unknown_at, i_own, i_child_at = L[AT.cell_at], L[AT.unknown_at], L[AT.own], L[AT.child_at]
    i_child, i_above_at, i_above, i_term_at = L[AT.child], L[AT.above_at], L[AT.above], L[AT.term_at]
    i_kind, i_term_cell, i_entry, i_row_at = L[AT.kind], L[AT.term_cell], L[AT.entry], L[AT.row_at]
    i_entry_at, i_absorbed, i_vector_at, x_q = L[AT.entry_at], L[AT.absorbed], L[AT.vector_at], L[AT.q]
    x_scale, x_vector = L[AT.scale], L[AT.vector]
    at, n, o = I[i_cell_at + k], I[i_cell_at + k + 1] - I[i_cell_at + k], x_vector + I[i_vector_at + k]
    for i in range(at, at + n):
        X[x + i] += X[d + I[i_own + i]]
    for t in range(I[i_term_at + k], I[i_term_at + k + 1]):
        if t == I[i_absorbed + k]:
            continue
        base, stop = I[i_entry_at + I[i_row_at + t]], I[i_entry_at + I[i_row_at + t + 1]]
        for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
            total = 0.0
            for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                if I[i_kind + t] == HARD:
                    X[lam + e] = X[o + e - base]
                X[o + e - base] *= X[x_scale + e]
                total += X[x_q + e] * X[o + e - base]
            for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                X[o + e - base] -= total
        for i in range(n):
            X[x + at + i] -= X[o + I[i_entry + I[i_term_cell + t] + i] - base]
        o += stop - base
    for j in range(I[i_child_at + k], I[i_child_at + k + 1]):
        c = I[i_child + j]
        base = I[i_unknown_at + c]
        for v in range(base, I[i_unknown_at + c + 1]):
            X[d + v] = X[o + v - base]
        for i in range(n):
            X[x + at + i] -= X[d + I[i_above + I[i_above_at + c] + i]]
        o += I[i_unknown_at + c + 1] - base
