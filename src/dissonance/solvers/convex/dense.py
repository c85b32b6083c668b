"""Dense symmetric matrices, compiled: partial factorisations and the solves that go with them.

Matrices are flat: entry (i, j) of the (n, n) matrix from `at` on is F[at + i n + j]. Of a symmetric one the upper
triangle is given. No index here, nor in any compiled function of `convex/`, is negative: see `FROM_THE_START` in
`compiled.py`. Inner loops run over slices, of which the compiler knows that they are contiguous.
"""

from __future__ import annotations

import numpy as np

from dissonance.compiled import compiled
from dissonance.solvers.convex.layout import ZERO, Floats

SMALL, PANEL = 32, 4
"""Rows up to which a matrix is eliminated two rows at a time, and columns that are eliminated together in others."""

LARGE, DEEP, ROWS = 48, 32, 128
"""An update of more columns than that, by so many rows or more, is left to BLAS, so many of its rows at a time."""

TILE = 32
"""Rows and columns of a matrix that are copied together."""

TINY = 1e-300

DEPENDENT = 1e-14
"""A pivot of an equation below this part of its diagonal: it repeats others."""


@compiled
def _part(pivot: float, least: float) -> float:
    """1/pivot. `least`: positive, a lower bound of the pivot (inf: the unknown is left out); negative: minus the
    diagonal of an equation, which is left out where it repeats others."""
    if least >= 0:
        return 1.0 / max(pivot, least)
    return 1.0 / pivot if pivot > -DEPENDENT * least else 0.0


@compiled
def _by_rows(F: Floats, at: int, n: int, count: int, least: Floats) -> None:
    """Eliminate the first `count` unknowns of a small matrix: every two rows by all those before them, four columns at
    a time, so that most of what is read is used twice.

    The diagonal becomes 1/pivot; the lower triangle is room.
    """
    for i in range(0, n - 1, 2):
        here, above = at + i * n, min(i, count)
        under = here + n
        p, q, r = F[here + i], F[here + i + 1], F[under + i + 1]
        for j in range(above):
            there, part = at + j * n + i, F[at + j * n + j]
            F[here + j], F[under + j] = F[there] * part, F[there + 1] * part
            p -= F[here + j] * F[there]
            q -= F[here + j] * F[there + 1]
            r -= F[under + j] * F[there + 1]
        f = 0.0
        if i < count:
            p = _part(p, least[i])
            f = q * p
            r -= f * q
        if i + 1 < count:
            r = _part(r, least[i + 1])
        F[here + i], F[here + i + 1], F[under + i + 1] = p, q, r
        for b in range(i + 2, n - 3, 4):
            p, q, r, s = F[here + b], F[here + b + 1], F[here + b + 2], F[here + b + 3]
            t, u, v, w = F[under + b], F[under + b + 1], F[under + b + 2], F[under + b + 3]
            for j in range(above):
                x, y, there = F[here + j], F[under + j], at + j * n + b
                p -= x * F[there]
                q -= x * F[there + 1]
                r -= x * F[there + 2]
                s -= x * F[there + 3]
                t -= y * F[there]
                u -= y * F[there + 1]
                v -= y * F[there + 2]
                w -= y * F[there + 3]
            F[here + b], F[here + b + 1], F[here + b + 2], F[here + b + 3] = p, q, r, s
            F[under + b], F[under + b + 1] = t - f * p, u - f * q
            F[under + b + 2], F[under + b + 3] = v - f * r, w - f * s
        for b in range(n - (n - i - 2) % 4, n):
            p, q = F[here + b], F[under + b]
            for j in range(above):
                p -= F[here + j] * F[at + j * n + b]
                q -= F[under + j] * F[at + j * n + b]
            F[here + b], F[under + b] = p, q - f * p
    if n % 2:  # the last row has no other
        here = at + (n - 1) * n
        p = F[here + n - 1]
        for j in range(min(n - 1, count)):
            there = at + j * n
            p -= F[there + n - 1] * F[there + j] * F[there + n - 1]
        F[here + n - 1] = _part(p, least[n - 1]) if count == n else p


@compiled
def _eliminate(F: Floats, at: int, n: int, first: int, last: int, least: Floats) -> None:
    """Rows first to last of the upper triangle, out of each other; the diagonal becomes 1/pivot."""
    for j in range(first, last):
        row = F[at + j * n : at + (j + 1) * n]
        inverse = row[j] = _part(row[j], least[j])
        for i in range(j + 1, last):
            f = row[i] * inverse
            if f != 0.0:
                below, right = F[at + i * n + i : at + (i + 1) * n], row[i:]
                for b in range(len(below)):
                    below[b] -= f * right[b]


@compiled
def update(F: Floats, at: int, n: int, start: int, end: int, R: Floats, r_at: int, weight: Floats, count: int) -> None:
    """F[i, b] -= sum_j weight_j R[j, i] R[j, b] for b >= i and start <= i < end, over `count` rows of R."""
    if n - start > LARGE and count >= DEEP:
        rights, lefts, products = np.empty(count * (n - start)), np.empty(count * ROWS), np.empty(ROWS * (n - start))
        for i in range(start, end, ROWS):
            wide, high = n - i, min(ROWS, end - i)
            right, left = rights[: count * wide].reshape(count, wide), lefts[: count * high].reshape(count, high)
            for j in range(count):
                row, part = R[r_at + j * n + i : r_at + (j + 1) * n], weight[j]
                for x in range(wide):
                    right[j, x] = row[x]
                for x in range(high):
                    left[j, x] = part * row[x]
            product = products[: high * wide].reshape(high, wide)
            np.dot(left.T, right, product)
            for x in range(high):
                row, less = F[at + (i + x) * n + i + x : at + (i + x + 1) * n], product[x, x:]
                for y in range(len(row)):
                    row[y] -= less[y]
        return
    for i in range(start, end):
        row = F[at + i * n + i : at + (i + 1) * n]
        for j in range(0, count - count % 4, 4):
            here = r_at + j * n + i
            p, q = R[here : here + n - i], R[here + n : here + 2 * n - i]
            r, s = R[here + 2 * n : here + 3 * n - i], R[here + 3 * n : here + 4 * n - i]
            a, b = weight[j] * p[0], weight[j + 1] * q[0]
            c, d = weight[j + 2] * r[0], weight[j + 3] * s[0]
            for x in range(len(row)):
                row[x] -= (a * p[x] + b * q[x]) + (c * r[x] + d * s[x])
        for j in range(count - count % 4, count):
            p = R[r_at + j * n + i : r_at + (j + 1) * n]
            a = weight[j] * p[0]
            for x in range(len(row)):
                row[x] -= a * p[x]


@compiled
def partial(F: Floats, at: int, n: int, count: int, least: Floats) -> None:
    """Eliminate the first `count` unknowns of a symmetric matrix, of which the upper triangle is given, in place.

    After 2^k blocks of columns, the next 2^k blocks of rows are updated for them all at once; in the end the rest is,
    for all columns. So most of the work is products of large matrices.
    """
    if n <= SMALL:
        _by_rows(F, at, n, count, least)
        return
    weight = np.empty(count)
    for first in range(0, count, PANEL):
        last = min(first + PANEL, count)
        _eliminate(F, at, n, first, last, least)
        for j in range(first, last):
            weight[j] = F[at + j * n + j]
        blocks = first // PANEL + 1
        behind = (blocks & -blocks) * PANEL
        if last < count:
            end = min(last + behind, count)
            update(F, at, n, last, end, F, at + (last - behind) * n, weight[last - behind :], behind)
    update(F, at, n, count, n, F, at, weight, count)


@compiled
def forward(F: Floats, at: int, n: int, count: int, packed: int, v: Floats, o: int) -> None:
    """v, from o on, is the right side: eliminate the first `count` unknowns from it.

    `packed`: 1 if rows of F begin at the diagonal, one after another; 0 if they are whole.
    """
    start = at
    for j in range(count):
        row, rest = F[start : start + n - j], v[o + j : o + n]
        f = rest[0] * row[0]
        if f != 0.0:
            for i in range(1, len(row)):
                rest[i] -= f * row[i]
        start += n - j if packed else n + 1


@compiled
def backward(F: Floats, at: int, n: int, count: int, packed: int, v: Floats, o: int) -> None:
    """The first `count` unknowns where the others are known; sums in four parts, always in the same order."""
    start = at + (count * (2 * n - count + 1) // 2 if packed else count * (n + 1))
    for j in range(count - 1, -1, -1):
        start -= n - j if packed else n + 1
        row, known = F[start + 1 : start + n - j], v[o + j + 1 : o + n]
        p = q = r = s = 0.0
        for i in range(len(row) // 4):
            p += row[4 * i] * known[4 * i]
            q += row[4 * i + 1] * known[4 * i + 1]
            r += row[4 * i + 2] * known[4 * i + 2]
            s += row[4 * i + 3] * known[4 * i + 3]
        for i in range(len(row) - len(row) % 4, len(row)):
            p += row[i] * known[i]
        v[o + j] = (v[o + j] - ((p + q) + (r + s))) * F[start]


@compiled
def symmetric(F: Floats, at: int, n: int, A: Floats, into: int, size: int) -> None:
    """Copy the last `size` rows and columns of a matrix, of which the upper triangle is given, into a whole matrix.

    Tile by tile: a column of a large matrix is spread all over the memory.
    """
    start = at + (n - size) * (n + 1)
    for first in range(0, size, TILE):
        for second in range(first, size, TILE):
            for i in range(first, min(first + TILE, size)):
                for j in range(max(i, second), min(second + TILE, size)):
                    A[into + i * size + j] = A[into + j * size + i] = F[start + i * n + j]


@compiled
def cholesky(A: Floats, at: int, n: int, B: Floats, into: int) -> None:
    """A lower triangular L with L L' = A, symmetric and positive semidefinite; directions without weight get none."""
    F, least = np.empty(n * n), np.empty(n)
    for i in range(n * n):
        F[i] = A[at + i]
    for i in range(n):
        least[i] = -max(F[i * n + i], TINY)
    partial(F, ZERO, n, n, least)
    for j in range(n):
        part = np.sqrt(F[j * n + j])
        B[into + j * n + j] = 1.0 / part if part > 0.0 else 0.0
        for i in range(j + 1, n):
            B[into + i * n + j] = F[j * n + i] * part
            B[into + j * n + i] = 0.0


@compiled
def lowered(F: Floats, h: int, n: int, start: int, count: int, R: Floats, r: int) -> None:
    """Multiply rows of F, from `start` on, by L', and so its columns, in place; the lower triangular L is at r in R.

    The lower triangle of F is room.
    """
    stop, old = start + count, np.empty(count)
    for i in range(start, stop):
        for j in range(i + 1, stop):
            F[h + j * n + i] = F[h + i * n + j]
    for i in range(stop):
        row = F[h + i * n + start : h + i * n + stop]
        for x in range(count):
            old[x], row[x] = row[x], 0.0
        for x in range(count):
            part, more = old[x], R[r + x * count : r + x * count + x + 1]
            for y in range(len(more)):
                row[y] += part * more[y]
    for x in range(count):
        row, part = F[h + (start + x) * n + start : h + (start + x + 1) * n], R[r + x * count + x]
        for i in range(len(row)):
            row[i] *= part
        for y in range(x + 1, count):
            below, part = F[h + (start + y) * n + start : h + (start + y + 1) * n], R[r + y * count + x]
            for i in range(len(row)):
                row[i] += part * below[i]


@compiled
def inverse(A: Floats, at: int, n: int) -> None:
    """The inverse of a symmetric positive semidefinite matrix, in place; directions without weight get none.

    Eliminating A from [[A, 1], [1, 0]] leaves -A^-1.
    """
    m = 2 * n
    F, least = np.zeros(m * m), np.empty(m)
    for i in range(n):
        least[i] = -max(A[at + i * n + i], TINY)
        F[i * m + n + i] = 1.0
        for j in range(i, n):
            F[i * m + j] = A[at + i * n + j]
    partial(F, ZERO, m, n, least)
    for i in range(n):
        for j in range(i, n):
            A[at + i * n + j] = A[at + j * n + i] = -F[(n + i) * m + n + j]
