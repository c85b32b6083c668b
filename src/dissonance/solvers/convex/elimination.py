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
bound stands in. Loops are written out, and matrices are flat: that is what compiles quickly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dissonance.compiled import compiled
from dissonance.solvers.convex.layout import HARD, Ints, Layout

Floats = npt.NDArray[np.float64]

WIDE = 64
"""Cells above which a cluster is eliminated by its multipliers, if these are fewer."""

FEWER = 0.8
"""How many multipliers a cell there may be at most for that."""

PANEL = 32
"""Columns that are eliminated together in a large front."""

TINY = 1e-300

DEPENDENT = 1e-13
"""A pivot of an equation below this part of its diagonal: it repeats others."""


class Fronts(NamedTuple):
    """How each cluster is eliminated. `size` (clusters,) of its front, of which the last are its separator's states;
    `by_cells`; `absorbed`: the term in P (-1: none); `front_at`, `vector_at`, `message_at`: where matrices begin."""

    size: Ints
    by_cells: npt.NDArray[np.bool_]
    absorbed: Ints
    front_at: Ints
    vector_at: Ints
    message_at: Ints


class System(NamedTuple):
    """The factored systems of P problems: the fronts, what they say to their parents, M.

    The matrices of all problems lie one after another in `front` and `message`; else there is a row a problem.
    """

    front: Floats
    message: Floats
    vector: Floats
    told: Floats  # (P, unknowns) h or a
    pivot: Ints  # (P, cells) cells by their place in the front
    a: Floats  # (P, cells) M = diag a + up up' - down down' in every row of the absorbed term
    up: Floats
    down: Floats
    scale: Floats  # (P, entries) sqrt w of soft entries, -1 of hard ones


@compiled
def fronts(lay: Layout) -> Fronts:
    """The cheaper way for each cluster; by multipliers from every hard arc up to its root."""
    C = len(lay.parent)
    size, absorbed = np.zeros(C, dtype=np.int64), np.full(C, -1)
    by_cells = np.ones(C, dtype=np.bool_)
    front_at, vector_at, message_at = np.zeros(C + 1, np.int64), np.zeros(C + 1, np.int64), np.zeros(C + 1, np.int64)
    for k in range(C - 1, -1, -1):
        n, own = lay.cell_at[k + 1] - lay.cell_at[k], lay.unknown_at[k + 1] - lay.unknown_at[k]
        count, hard = own, not by_cells[k]
        for t in range(lay.term_at[k + 1] - 1, lay.term_at[k] - 1, -1):
            entries = lay.entry_at[lay.row_at[t + 1]] - lay.entry_at[lay.row_at[t]]
            hard |= lay.kind[t] == HARD
            if entries == n and lay.kind[t] != HARD and absorbed[k] < 0:
                absorbed[k] = t
            else:
                count += entries
        for j in range(lay.child_at[k], lay.child_at[k + 1]):
            c = lay.child[j]
            count += lay.unknown_at[c + 1] - lay.unknown_at[c]
        by_cells[k] = not (hard or (n > WIDE and count < FEWER * n))
        size[k] = n if by_cells[k] else count
        if hard and lay.parent[k] >= 0:
            by_cells[lay.parent[k]] = False  # marks it: its turn comes later
    for k in range(C):
        own = lay.unknown_at[k + 1] - lay.unknown_at[k]
        front_at[k + 1] = front_at[k] + size[k] * size[k]
        vector_at[k + 1] = vector_at[k] + size[k]
        message_at[k + 1] = message_at[k] + own * own
    return Fronts(size, by_cells, absorbed, front_at, vector_at, message_at)


def system(lay: Layout, f: Fronts, count: int) -> System:
    """Room for the systems of so many problems."""
    cells, entries, unknowns = len(lay.own), len(lay.row), int(lay.unknown_at[-1])
    wide = 1 if f.by_cells.all() else cells
    return System(
        np.empty(count * f.front_at[-1]),
        np.empty(count * f.message_at[-1]),
        np.empty((count, f.vector_at[-1])),
        np.empty((count, unknowns)),
        np.empty((count, cells), dtype=np.int64),
        np.empty((count, wide)),
        np.empty((count, wide)),
        np.empty((count, wide)),
        np.empty((count, entries)),
    )


@compiled
def _front(f: Fronts, b: int, k: int) -> int:
    """Where the front of a cluster of problem b begins."""
    return b * f.front_at[-1] + f.front_at[k]


@compiled
def _message(f: Fronts, b: int, k: int) -> int:
    """Where Q or K of a cluster of problem b begins."""
    return b * f.message_at[-1] + f.message_at[k]


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
        if least[j] >= 0:
            inverse = 1.0 / max(pivot, least[j])
        else:
            inverse = 1.0 / pivot if pivot > -DEPENDENT * least[j] else 0.0
        F[row + j] = inverse
        for i in range(j + 1, end):
            f = F[row + i] * inverse
            if f != 0.0:
                below = at + i * n
                for b in range(i, n):
                    F[below + b] -= f * F[row + b]


@compiled
def _update(F: Floats, at: int, n: int, start: int, R: Floats, r_at: int, weight: Floats, count: int) -> None:
    """F[i, b] -= sum_j weight_j R[j, i] R[j, b] for b >= i >= start, over the first `count` rows of R, four at a time."""
    for j in range(0, count - count % 4, 4):
        p, q, r, s = r_at + j * n, r_at + (j + 1) * n, r_at + (j + 2) * n, r_at + (j + 3) * n
        for i in range(start, n):
            a, b = weight[j] * R[p + i], weight[j + 1] * R[q + i]
            c, d = weight[j + 2] * R[r + i], weight[j + 3] * R[s + i]
            row = at + i * n
            for x in range(i, n):
                F[row + x] -= (a * R[p + x] + b * R[q + x]) + (c * R[r + x] + d * R[s + x])
    for j in range(count - count % 4, count):
        p = r_at + j * n
        for i in range(start, n):
            a, row = weight[j] * R[p + i], at + i * n
            for x in range(i, n):
                F[row + x] -= a * R[p + x]


@compiled
def _partial(F: Floats, at: int, n: int, count: int, least: Floats) -> None:
    """Eliminate the first `count` unknowns of a symmetric matrix, of which the upper triangle is given, in place."""
    if n <= 2 * PANEL:
        _eliminate(F, at, n, 0, count, n, least)
        return
    weight = np.empty(PANEL)
    for first in range(0, count, PANEL):
        last = min(first + PANEL, count)
        _eliminate(F, at, n, first, last, last, least)
        for j in range(first, last):
            weight[j - first] = F[at + j * n + j]
        _update(F, at, n, last, F, at + first * n, weight, last - first)


@compiled
def _forward(F: Floats, at: int, n: int, count: int, v: Floats, b: int, o: int) -> None:
    """Row b of v, from o on, is the right side: eliminate the first `count` unknowns from it."""
    for j in range(count):
        row = at + j * n
        f = v[b, o + j] * F[row + j]
        if f != 0.0:
            for i in range(j + 1, n):
                v[b, o + i] -= f * F[row + i]


@compiled
def _backward(F: Floats, at: int, n: int, count: int, v: Floats, b: int, o: int) -> None:
    """The first `count` unknowns where the others are known; sums in four parts, always in the same order."""
    for j in range(count - 1, -1, -1):
        row = at + j * n
        p = q = r = s = 0.0
        i = j + 1
        while i + 3 < n:
            p += F[row + i] * v[b, o + i]
            q += F[row + i + 1] * v[b, o + i + 1]
            r += F[row + i + 2] * v[b, o + i + 2]
            s += F[row + i + 3] * v[b, o + i + 3]
            i += 4
        while i < n:
            p += F[row + i] * v[b, o + i]
            i += 1
        v[b, o + j] = (v[b, o + j] - ((p + q) + (r + s))) * F[row + j]


@compiled
def _inverse(A: Floats, at: int, n: int) -> None:
    """The inverse of a symmetric positive semidefinite matrix, in place; directions without weight get none."""
    F, least, v = np.empty(n * n), np.empty(n), np.zeros((n, n))
    for i in range(n):
        least[i] = -max(A[at + i * n + i], TINY)
        v[i, i] = 1.0
        for j in range(n):
            F[i * n + j] = A[at + i * n + j]
    _partial(F, 0, n, n, least)
    for i in range(n):
        _forward(F, 0, n, n, v, i, 0)
        _backward(F, 0, n, n, v, i, 0)
    for i in range(n):
        for j in range(n):
            A[at + i * n + j] = 0.5 * (v[i, j] + v[j, i])


# -- factoring ---------------------------------------------------------------------------------------------------------


@compiled
def factor(
    lay: Layout,
    f: Fronts,
    s: System,
    W: Floats,
    mu: Floats,
    z: Floats,
    q: Floats,
    curve: Floats,
    active: Ints,
    clusters: Ints,
) -> None:
    """Eliminate some clusters of the active problems, children first.

    `q` (P, entries): conditionals, p at hard entries; `curve` (P, entries): 1/(s qt).
    """
    for b in active:
        for k in clusters:
            if f.by_cells[k]:
                _by_cells(lay, f, s, W, mu, z, q, curve, b, k)
            else:
                _by_multipliers(lay, f, s, W, mu, z, q, curve, b, k)
            n, own = f.size[k], lay.unknown_at[k + 1] - lay.unknown_at[k]
            start, at = _front(f, b, k) + (n - own) * n + n - own, _message(f, b, k)
            for i in range(own):
                for j in range(i, own):
                    s.message[at + i * own + j] = s.front[start + i * n + j]
                    s.message[at + j * own + i] = s.front[start + i * n + j]
            if f.by_cells[k] != (lay.parent[k] < 0 or f.by_cells[lay.parent[k]]):
                _inverse(s.message, at, own)


@compiled
def _by_cells(
    lay: Layout, f: Fronts, s: System, W: Floats, mu: Floats, z: Floats, q: Floats, curve: Floats, b: int, k: int
) -> None:
    at, n, first = lay.cell_at[k], f.size[k], lay.unknown_at[k]
    own = lay.unknown_at[k + 1] - first
    e = n - own
    H, h = s.front, _front(f, b, k)
    place = np.empty(n, dtype=np.int64)
    # the cell of most mass of every state comes last, the others in their order
    for i in range(own):
        place[e + i] = -1
    for i in range(n):
        state = lay.own[at + i] - first
        best = place[e + state]
        if best < 0 or mu[b, at + i] * z[b, at + best] > mu[b, at + best] * z[b, at + i]:
            place[e + state] = i
    count = 0
    for i in range(n):
        if place[e + lay.own[at + i] - first] != i:
            place[count] = i
            count += 1
    for a in range(n):
        s.pivot[b, at + a] = place[a]
    least, partner = np.empty(n), np.empty(n, dtype=np.int64)
    for a in range(n):
        i = place[a]
        partner[a] = place[e + lay.own[at + i] - first]
        least[a] = z[b, at + i] / mu[b, at + i]
    for x in range(n * n):
        H[h + x] = 0.0
    for a in range(e):
        state = lay.own[at + place[a]] - first
        under = least[e + state]
        for x in range(a, e):
            if partner[x] == partner[a]:
                H[h + a * n + x] = under
        H[h + a * n + e + state] = -under
        H[h + a * n + a] += least[a]
    for a in range(e, n):
        H[h + a * n + a] = least[a]
    for t in range(lay.term_at[k], lay.term_at[k + 1]):
        if W[b, t] != 0.0:
            base = lay.entry_at[lay.row_at[t]]
            size = lay.entry_at[lay.row_at[t + 1]] - base
            B = np.zeros(size * size)
            for r in range(lay.row_at[t], lay.row_at[t + 1]):
                stop, total = lay.entry_at[r + 1], 0.0
                for x in range(lay.entry_at[r], stop):
                    total += W[b, t] * curve[b, x] * q[b, x] * q[b, x]
                for x in range(lay.entry_at[r], stop):
                    w = W[b, t] * curve[b, x]
                    for y in range(lay.entry_at[r], stop):
                        B[(x - base) * size + y - base] = total - w * q[b, x] - W[b, t] * curve[b, y] * q[b, y]
                    B[(x - base) * size + x - base] += w
            _lay(H, h, n, e, B, 0, size, lay.entry, lay.term_cell[t], base, place, partner)
    for j in range(lay.child_at[k], lay.child_at[k + 1]):
        c = lay.child[j]
        size = lay.unknown_at[c + 1] - lay.unknown_at[c]
        base = lay.unknown_at[c]
        _lay(H, h, n, e, s.message, _message(f, b, c), size, lay.above, lay.above_at[c], base, place, partner)
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
) -> None:
    """Add R'B R to a front by cells, where R takes the pivot of its state out of every other cell.

    B (size, size) has its row and column index[index_at + i] - base for cell i. What a cell and its pivot have in
    common cancels exactly.
    """
    C = np.empty(size * n)
    for a in range(n):
        x, y = index[index_at + place[a]] - base, index[index_at + partner[a]] - base
        for u in range(size):
            C[u * n + a] = B[at + u * size + x]
        if a < e:
            for u in range(size):
                C[u * n + a] = 0.0 if x == y else C[u * n + a] - B[at + u * size + y]
    for a in range(n):
        x, y = index[index_at + place[a]] - base, index[index_at + partner[a]] - base
        if a >= e:
            for c in range(a, n):
                H[h + a * n + c] += C[x * n + c]
        elif x != y:
            for c in range(a, n):
                H[h + a * n + c] += C[x * n + c] - C[y * n + c]


@compiled
def _invert(lay: Layout, s: System, W: float, mu: Floats, z: Floats, q: Floats, b: int, k: int, t: int) -> None:
    """M at mu, z and q for a cluster and its absorbed term (-1: none), without cancellation.

    P = diag(1/a) + W rho w w' - (W/rho) v v' with 1/a = z/mu + W/f, f = mu(s) qt, v = q/f, rho = sum q v and
    w = 1 - v/rho, in every row: two updates of rank one.
    """
    at, n = lay.cell_at[k], lay.cell_at[k + 1] - lay.cell_at[k]
    if t < 0 or W == 0.0:
        for i in range(at, at + n):
            s.a[b, i], s.up[b, i], s.down[b, i] = mu[b, i] / z[b, i], 0.0, 0.0
        return
    start, first, rows = lay.term_cell[t], lay.row_at[t], lay.row_at[t + 1] - lay.row_at[t]
    mass, rho, left, cross, bent = np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows)
    f, v = np.empty(n), np.empty(n)
    for i in range(n):
        mass[lay.row[lay.entry[start + i]] - first] += mu[b, at + i]
    for i in range(n):
        e = lay.entry[start + i]
        r = lay.row[e] - first
        f[i] = max(0.5 * (mass[r] * q[b, e] + mu[b, at + i]), TINY)
        v[i] = q[b, e] / f[i]
        rho[r] += q[b, e] * v[i]
    for i in range(n):
        r = lay.row[lay.entry[start + i]] - first
        stiff = z[b, at + i] + W * mu[b, at + i] / f[i]
        s.a[b, at + i] = mu[b, at + i] / stiff
        slope = z[b, at + i] * f[i] / stiff * v[i]
        left[r] += slope * v[i]
        cross[r] += slope * (1.0 - v[i] / max(rho[r], TINY))
    for i in range(n):
        r = lay.row[lay.entry[start + i]] - first
        w, a = 1.0 - v[i] / max(rho[r], TINY), s.a[b, at + i]
        s.down[b, at + i] = a * (w - cross[r] / max(left[r], TINY) * v[i])
        s.up[b, at + i] = np.sqrt(W / max(left[r], TINY)) * a * v[i]
        bent[r] += w * s.down[b, at + i]
    for i in range(n):
        r = lay.row[lay.entry[start + i]] - first
        s.down[b, at + i] *= np.sqrt(W * rho[r] / (1.0 + W * rho[r] * bent[r]))


@compiled
def _columns(lay: Layout, f: Fronts, k: int) -> Ints:
    """For every block of a front by multipliers (terms, children, its own separator) and cell the column of its
    indicator, (blocks, cells)."""
    n, column, block = lay.cell_at[k + 1] - lay.cell_at[k], 0, 0
    terms, children = lay.term_at[k + 1] - lay.term_at[k], lay.child_at[k + 1] - lay.child_at[k]
    found = np.empty((terms - (f.absorbed[k] >= 0) + children + 1, n), dtype=np.int64)
    for t in range(lay.term_at[k], lay.term_at[k + 1]):
        if t != f.absorbed[k]:
            base = lay.entry_at[lay.row_at[t]]
            for i in range(n):
                found[block, i] = column + lay.entry[lay.term_cell[t] + i] - base
            column += lay.entry_at[lay.row_at[t + 1]] - base
            block += 1
    for j in range(lay.child_at[k], lay.child_at[k + 1]):
        c = lay.child[j]
        for i in range(n):
            found[block, i] = column + lay.above[lay.above_at[c] + i] - lay.unknown_at[c]
        column += lay.unknown_at[c + 1] - lay.unknown_at[c]
        block += 1
    for i in range(n):
        found[block, i] = column + lay.own[lay.cell_at[k] + i] - lay.unknown_at[k]
    return found


@compiled
def _by_multipliers(
    lay: Layout, f: Fronts, s: System, W: Floats, mu: Floats, z: Floats, q: Floats, curve: Floats, b: int, k: int
) -> None:
    at, n, size, absorbed = lay.cell_at[k], lay.cell_at[k + 1] - lay.cell_at[k], f.size[k], f.absorbed[k]
    F, h, least = s.front, _front(f, b, k), np.zeros(size)
    weight = W[b, absorbed] if absorbed >= 0 else 0.0
    _invert(lay, s, weight, mu, z, q, b, k, absorbed)
    columns = _columns(lay, f, k)
    for x in range(size * size):
        F[h + x] = 0.0
    for x in range(len(columns)):
        for y in range(x, len(columns)):
            for i in range(n):
                F[h + columns[x, i] * size + columns[y, i]] += s.a[b, at + i]
    if weight != 0.0:
        first, start = lay.row_at[absorbed], lay.term_cell[absorbed]
        rows = lay.row_at[absorbed + 1] - first
        ranks, sign = np.zeros(2 * rows * size), np.empty(2 * rows)
        for r in range(2 * rows):
            sign[r] = 1.0 if r % 2 else -1.0
        for i in range(n):
            r = 2 * (lay.row[lay.entry[start + i]] - first) * size
            for x in range(len(columns)):
                ranks[r + columns[x, i]] += s.up[b, at + i]
                ranks[r + size + columns[x, i]] += s.down[b, at + i]
        _update(F, h, size, 0, ranks, 0, sign, 2 * rows)
    column = 0
    for t in range(lay.term_at[k], lay.term_at[k + 1]):
        if t == absorbed:
            continue
        base, stop, hard = lay.entry_at[lay.row_at[t]], lay.entry_at[lay.row_at[t + 1]], lay.kind[t] == HARD
        for r in range(lay.row_at[t], lay.row_at[t + 1]):
            _centre(F, h, size, column - base, lay.entry_at[r], lay.entry_at[r + 1], q, b)
        for e in range(base, stop):
            scale = -1.0 if hard else np.sqrt(W[b, t] * curve[b, e])
            s.scale[b, e] = scale
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
            for r in range(lay.row_at[t], lay.row_at[t + 1]):
                likeliest = lay.entry_at[r]
                for e in range(likeliest, lay.entry_at[r + 1]):
                    if q[b, e] > q[b, likeliest]:
                        likeliest = e
                least[column + likeliest - base] = np.inf
        column += stop - base
    for j in range(lay.child_at[k], lay.child_at[k + 1]):
        c = lay.child[j]
        states = lay.unknown_at[c + 1] - lay.unknown_at[c]
        for x in range(states):
            row = h + (column + x) * size + column
            for y in range(x, states):
                F[row + y] += s.message[_message(f, b, c) + x * states + y]
            least[column + x] = -max(F[row + x], TINY)
        column += states
    _partial(F, h, size, column, least)


@compiled
def _centre(F: Floats, h: int, n: int, shift: int, first: int, last: int, q: Floats, b: int) -> None:
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
        w = q[b, e - shift]
        for i in range(start):
            F[h + i * n + e] -= w * total[i]
        for i in range(stop, n):
            F[h + e * n + i] -= w * total[i]
        for x in range(e, stop):
            F[h + e * n + x] += w * q[b, x - shift] * inner - w * total[x] - q[b, x - shift] * total[e]


# -- solving -----------------------------------------------------------------------------------------------------------


@compiled
def upward(
    lay: Layout,
    f: Fronts,
    s: System,
    q: Floats,
    g: Floats,
    e_separator: Floats,
    e_hard: Floats,
    x: Floats,
    active: Ints,
    clusters: Ints,
) -> None:
    """What some clusters ask of their parents, children first, for a right side g (P, cells), e. `x` is room."""
    for b in active:
        for k in clusters:
            at, stop, base = lay.cell_at[k], lay.cell_at[k + 1], lay.unknown_at[k]
            n, own, o = f.size[k], lay.unknown_at[k + 1] - base, f.vector_at[k]
            e = n - own
            for i in range(at, stop):
                x[b, i] = g[b, i]
            if f.by_cells[k]:
                for j in range(lay.child_at[k], lay.child_at[k + 1]):
                    there = lay.above_at[lay.child[j]] - at
                    for i in range(at, stop):
                        x[b, i] += s.told[b, lay.above[there + i]]
                for a in range(n):
                    i = at + s.pivot[b, at + a]
                    s.vector[b, o + a] = x[b, i]
                    if a < e:
                        s.vector[b, o + a] -= x[b, at + s.pivot[b, at + e + lay.own[i] - base]]
            else:
                _times_inverse(lay, f, s, x, b, k)
                _sums(lay, f, s, q, x, e_hard, b, k)
            _forward(s.front, _front(f, b, k), n, e, s.vector, b, o)
            if lay.parent[k] < 0:
                continue
            above, Q = f.by_cells[lay.parent[k]], _message(f, b, k)
            for i in range(own):  # h - Q e or a - e; Q (a - e) or K h - e where the parent wants the other
                told = 0.0
                if f.by_cells[k] == above:
                    told += s.vector[b, o + e + i]
                for j in range(own):
                    part = 0.0
                    if f.by_cells[k] != above:
                        part += s.vector[b, o + e + j]
                    if above:
                        part -= e_separator[b, base + j]
                    told += s.message[Q + i * own + j] * part
                    if f.by_cells[k] == above and not above:
                        break
                s.told[b, base + i] = told if above else told - e_separator[b, base + i]


@compiled
def downward(
    lay: Layout,
    f: Fronts,
    s: System,
    q: Floats,
    g: Floats,
    e_separator: Floats,
    x: Floats,
    d: Floats,
    lam: Floats,
    active: Ints,
    clusters: Ints,
) -> None:
    """mu in `x` (P, cells), d (P, unknowns) and lam (P, entries) of some clusters, parents first."""
    for b in active:
        for z in range(len(clusters) - 1, -1, -1):
            k = clusters[z]
            at, stop, base, p = lay.cell_at[k], lay.cell_at[k + 1], lay.unknown_at[k], lay.parent[k]
            n, own, o, Q = f.size[k], lay.unknown_at[k + 1] - base, f.vector_at[k], _message(f, b, k)
            e = n - own
            m = np.empty(own)
            for i in range(own):
                m[i] = e_separator[b, base + i]
            if p >= 0:
                there = lay.above_at[k] - lay.cell_at[p]
                for i in range(lay.cell_at[p], lay.cell_at[p + 1]):
                    m[lay.above[there + i] - base] += x[b, i]
            if p < 0 or f.by_cells[p]:  # else the parent has found d
                for i in range(own):
                    total = 0.0
                    for j in range(own):
                        part = m[j] if f.by_cells[k] else m[j] - s.vector[b, o + e + j]
                        total += s.message[Q + i * own + j] * part
                    d[b, base + i] = total - s.vector[b, o + e + i] if f.by_cells[k] else total
            for i in range(own):
                s.vector[b, o + e + i] = m[i] if f.by_cells[k] else -d[b, base + i]
            _backward(s.front, _front(f, b, k), n, e, s.vector, b, o)
            if f.by_cells[k]:
                for a in range(e):
                    i = at + s.pivot[b, at + a]
                    x[b, i] = s.vector[b, o + a]
                    m[lay.own[i] - base] -= x[b, i]
                for a in range(own):
                    x[b, at + s.pivot[b, at + e + a]] = m[a]
            else:
                for i in range(at, stop):
                    x[b, i] = g[b, i]
                _apply(lay, f, s, q, x, d, lam, b, k)
                _times_inverse(lay, f, s, x, b, k)


@compiled
def _times_inverse(lay: Layout, f: Fronts, s: System, x: Floats, b: int, k: int) -> None:
    """M x, in place."""
    at, n, t = lay.cell_at[k], lay.cell_at[k + 1] - lay.cell_at[k], f.absorbed[k]
    if t < 0:
        for i in range(at, at + n):
            x[b, i] *= s.a[b, i]
        return
    first, rows, start = lay.row_at[t], lay.row_at[t + 1] - lay.row_at[t], lay.term_cell[t]
    up, down = np.zeros(rows), np.zeros(rows)
    for i in range(n):
        r = lay.row[lay.entry[start + i]] - first
        up[r] += s.up[b, at + i] * x[b, at + i]
        down[r] += s.down[b, at + i] * x[b, at + i]
    for i in range(n):
        r = lay.row[lay.entry[start + i]] - first
        x[b, at + i] = s.a[b, at + i] * x[b, at + i] + s.up[b, at + i] * up[r] - s.down[b, at + i] * down[r]


@compiled
def _sums(lay: Layout, f: Fronts, s: System, q: Floats, x: Floats, e_hard: Floats, b: int, k: int) -> None:
    """U'x - a of a front by multipliers, and X'x, in the cluster's vector."""
    at, n, o = lay.cell_at[k], lay.cell_at[k + 1] - lay.cell_at[k], f.vector_at[k]
    v = s.vector
    for i in range(f.size[k]):
        v[b, o + i] = 0.0
    for t in range(lay.term_at[k], lay.term_at[k + 1]):
        if t == f.absorbed[k]:
            continue
        base, stop, hard = lay.entry_at[lay.row_at[t]], lay.entry_at[lay.row_at[t + 1]], lay.kind[t] == HARD
        for i in range(n):
            v[b, o + lay.entry[lay.term_cell[t] + i] - base] += x[b, at + i]
        for r in range(lay.row_at[t], lay.row_at[t + 1]):
            total = 0.0
            for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                total += v[b, o + e - base]
            for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                v[b, o + e - base] = (v[b, o + e - base] - q[b, e] * total) * s.scale[b, e]
                if hard:
                    v[b, o + e - base] += e_hard[b, e]
        o += stop - base
    for j in range(lay.child_at[k], lay.child_at[k + 1]):
        c = lay.child[j]
        base = lay.unknown_at[c]
        for i in range(n):
            v[b, o + lay.above[lay.above_at[c] + i] - base] += x[b, at + i]
        for u in range(base, lay.unknown_at[c + 1]):
            v[b, o + u - base] -= s.told[b, u]
        o += lay.unknown_at[c + 1] - base
    for i in range(at, at + n):
        v[b, o + lay.own[i] - lay.unknown_at[k]] += x[b, i]


@compiled
def _apply(lay: Layout, f: Fronts, s: System, q: Floats, x: Floats, d: Floats, lam: Floats, b: int, k: int) -> None:
    """x + X d - U u; the children's d and the hard arcs' lam are among u, the cluster's vector."""
    at, n, o = lay.cell_at[k], lay.cell_at[k + 1] - lay.cell_at[k], f.vector_at[k]
    u = s.vector
    for i in range(at, at + n):
        x[b, i] += d[b, lay.own[i]]
    for t in range(lay.term_at[k], lay.term_at[k + 1]):
        if t == f.absorbed[k]:
            continue
        base, stop = lay.entry_at[lay.row_at[t]], lay.entry_at[lay.row_at[t + 1]]
        for r in range(lay.row_at[t], lay.row_at[t + 1]):
            total = 0.0
            for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                if lay.kind[t] == HARD:
                    lam[b, e] = u[b, o + e - base]
                u[b, o + e - base] *= s.scale[b, e]
                total += q[b, e] * u[b, o + e - base]
            for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                u[b, o + e - base] -= total
        for i in range(n):
            x[b, at + i] -= u[b, o + lay.entry[lay.term_cell[t] + i] - base]
        o += stop - base
    for j in range(lay.child_at[k], lay.child_at[k + 1]):
        c = lay.child[j]
        base = lay.unknown_at[c]
        for v in range(base, lay.unknown_at[c + 1]):
            d[b, v] = u[b, o + v - base]
        for i in range(n):
            x[b, at + i] -= d[b, lay.above[lay.above_at[c] + i]]
        o += lay.unknown_at[c + 1] - base
