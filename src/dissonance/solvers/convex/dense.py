"""Dense symmetric matrices, compiled: partial factorisations and the solves that go with them.

Matrices are flat: entry (i, j) of the (n, n) matrix from `at` on is F[at + i n + j]. Of a symmetric one the upper
triangle is given.
"""

from __future__ import annotations

import numpy as np

from dissonance.compiled import compiled
from dissonance.solvers.convex.layout import ZERO, Floats

SMALL, PANEL = 12, 4
"""Rows up to which a matrix is eliminated column by column, and columns that are eliminated together in others."""

LARGE, DEEP, ROWS = 48, 16, 128
"""An update of more columns than that, by so many rows or more, is left to BLAS, so many of its rows at a time."""

TINY = 1e-300

DEPENDENT = 1e-14
"""A pivot of an equation below this part of its diagonal: it repeats others."""


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
def update(F: Floats, at: int, n: int, start: int, end: int, R: Floats, r_at: int, weight: Floats, count: int) -> None:
    """F[i, b] -= sum_j weight_j R[j, i] R[j, b] for b >= i and start <= i < end, over `count` rows of R."""
    if n - start > LARGE and count >= DEEP:
        whole = R[r_at : r_at + count * n].reshape(count, n)
        for i in range(start, end, ROWS):
            right = np.ascontiguousarray(whole[:, i:])
            left = np.empty((min(ROWS, end - i), count))
            for j in range(count):
                for x in range(len(left)):
                    left[x, j] = weight[j] * right[j, x]
            product = np.dot(left, right)
            for x in range(len(left)):
                for y in range(n - i):
                    F[at + (i + x) * n + i + y] -= product[x, y]
        return
    for i in range(start, end):
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
def partial(F: Floats, at: int, n: int, count: int, least: Floats) -> None:
    """Eliminate the first `count` unknowns of a symmetric matrix, of which the upper triangle is given, in place.

    After 2^k blocks of columns, the next 2^k blocks of rows are updated for them all at once; in the end the rest is,
    for all columns. So most of the work is products of large matrices.
    """
    if n <= SMALL:
        _eliminate(F, at, n, ZERO, count, n, least)
        return
    weight = np.empty(count)
    for first in range(0, count, PANEL):
        last = min(first + PANEL, count)
        _eliminate(F, at, n, first, last, last, least)
        for j in range(first, last):
            weight[j] = F[at + j * n + j]
        blocks = first // PANEL + 1
        behind = (blocks & -blocks) * PANEL
        if last < count:
            end = min(last + behind, count)
            update(F, at, n, last, end, F, at + (last - behind) * n, weight[last - behind :], behind)
    update(F, at, n, count, n, F, at, weight, count)


@compiled
def forward(F: Floats, at: int, n: int, count: int, v: Floats, o: int) -> None:
    """v, from o on, is the right side: eliminate the first `count` unknowns from it."""
    for j in range(count):
        row = at + j * n
        f = v[o + j] * F[row + j]
        if f != 0.0:
            for i in range(j + 1, n):
                v[o + i] -= f * F[row + i]


@compiled
def backward(F: Floats, at: int, n: int, count: int, v: Floats, o: int) -> None:
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
