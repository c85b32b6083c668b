"""Clusters eliminated by their multipliers, compiled; see `elimination.py`.

    mu = M (g + X d - U u),     M = P^-1,     P = diag(z/mu) and one term that has an entry for every cell

u are the multipliers of the other terms, of hard arcs and of the children's separators; X and U lay states and entries
over the cells. The front is [U X]' M [U X], and what multipliers have by themselves; what remains of it is K.

Where m is given, the structural term is (mu - Y m)' w (mu - Y m) / 2, Y = q(rest | separator): w is part of P, and

    mu = M (g + w Y m + X y - U u),     X' mu = m,     d = y + Y' w (Y m - mu)

u are the other terms' and L' E' mu of every child, Q = L L'. The front is [U X wY]' M [U X wY], with 1 by itself for
u, -1 between X and wY, and -Y' w Y in the end; what remains of it is -Q.
"""

from __future__ import annotations

import numpy as np

from dissonance.compiled import compiled
from dissonance.solvers.convex.dense import TINY, cholesky, lowered, partial
from dissonance.solvers.convex.layout import GIVEN, HARD, ZERO, Floats, Ints
from dissonance.solvers.convex.room import AT


@compiled
def _structural(I: Ints, X: Floats, L: Ints, k: int) -> tuple[Floats, Floats]:
    """w and Y of every cell of a cluster, for its structural term, which is its last."""
    i_cell_at, i_term_at, i_term_cell, i_entry = L[AT.cell_at], L[AT.term_at], L[AT.term_cell], L[AT.entry]
    x_W, x_q, x_curve = L[AT.W], L[AT.q], L[AT.curve]
    n, t = I[i_cell_at + k + 1] - I[i_cell_at + k], I[i_term_at + k + 1] - 1
    w, Y = np.empty(n), np.empty(n)
    for i in range(n):
        e = I[i_entry + I[i_term_cell + t] + i]
        w[i], Y[i] = X[x_W + t] * X[x_curve + e], X[x_q + e]
    return w, Y


@compiled
def _invert(I: Ints, X: Floats, L: Ints, W: float, k: int, t: int) -> None:
    """M at mu, z and q for a cluster and its absorbed term (-1: none), without cancellation.

    P = diag(1/a) + W rho w w' - (W/rho) v v' with 1/a = z/mu + W/f, f = mu(s) qt, v = q/f, rho = sum q v and
    w = 1 - v/rho, in every row: two updates of rank one. Where m is given, the structural term adds to z/mu.
    """
    i_cell_at, i_term_cell, i_entry, i_row_at = L[AT.cell_at], L[AT.term_cell], L[AT.entry], L[AT.row_at]
    i_row, x_mu, x_z, x_q, x_a, x_up, x_down = L[AT.row], L[AT.mu], L[AT.z], L[AT.q], L[AT.a], L[AT.up], L[AT.down]
    at, n = I[i_cell_at + k], I[i_cell_at + k + 1] - I[i_cell_at + k]
    z = X[x_z + at : x_z + at + n].copy()
    if I[L[AT.way] + k] == GIVEN:
        structural, _ = _structural(I, X, L, k)
        for i in range(n):
            z[i] += structural[i] * X[x_mu + at + i]
    if t < 0 or W == 0.0:
        for i in range(n):
            X[x_a + at + i], X[x_up + at + i], X[x_down + at + i] = X[x_mu + at + i] / z[i], 0.0, 0.0
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
        stiff = z[i] + W * X[x_mu + at + i] / f[i]
        X[x_a + at + i] = X[x_mu + at + i] / stiff
        slope = z[i] * f[i] / stiff * v[i]
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
    """For every block of a front by multipliers (terms, children, its own separator, and that once more where m is
    given) and cell the column of its indicator, (blocks, cells)."""
    i_cell_at, i_unknown_at, i_own, i_child_at = L[AT.cell_at], L[AT.unknown_at], L[AT.own], L[AT.child_at]
    i_child, i_above_at, i_above, i_term_at = L[AT.child], L[AT.above_at], L[AT.above], L[AT.term_at]
    i_term_cell, i_entry, i_row_at, i_entry_at = L[AT.term_cell], L[AT.entry], L[AT.row_at], L[AT.entry_at]
    i_absorbed, given = L[AT.absorbed], I[L[AT.way] + k] == GIVEN
    n, column, block = I[i_cell_at + k + 1] - I[i_cell_at + k], 0, 0
    terms, children = I[i_term_at + k + 1] - I[i_term_at + k], I[i_child_at + k + 1] - I[i_child_at + k]
    found = np.empty((terms - (I[i_absorbed + k] >= 0) + children + 1, n), dtype=np.int64)
    for t in range(I[i_term_at + k], I[i_term_at + k + 1] - given):
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
    for more in range(1 + given):
        for i in range(n):
            found[block + more, i] = column + I[i_own + I[i_cell_at + k] + i] - I[i_unknown_at + k]
        column += I[i_unknown_at + k + 1] - I[i_unknown_at + k]
    return found


@compiled
def _add_rows(I: Ints, X: Floats, L: Ints, k: int, columns: Ints, parts: Floats) -> None:
    """What M has beside its diagonal, up up' - down down' in every row of the absorbed term, onto the front.

    A row has few cells where there are many rows, so that few columns meet. `parts` (cells,): of the last block.
    """
    i_cell_at, i_term_cell, i_entry, i_row_at = L[AT.cell_at], L[AT.term_cell], L[AT.entry], L[AT.row_at]
    i_entry_at, i_size, i_absorbed, i_front_at = L[AT.entry_at], L[AT.size], L[AT.absorbed], L[AT.front_at]
    x_up, x_down, x_front = L[AT.up], L[AT.down], L[AT.front]
    at, n, size, t = I[i_cell_at + k], I[i_cell_at + k + 1] - I[i_cell_at + k], I[i_size + k], I[i_absorbed + k]
    h, base = x_front + I[i_front_at + k], I[i_entry_at + I[i_row_at + t]]
    cell, met, seen = np.empty(n, dtype=np.int64), np.empty(size, dtype=np.int64), np.full(size, -1)
    up, down = np.empty(size), np.empty(size)
    for i in range(n):
        cell[I[i_entry + I[i_term_cell + t] + i] - base] = i
    for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
        count = 0
        for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
            i = cell[e - base]
            for x in range(len(columns)):
                j, part = columns[x, i], parts[i] if x == len(columns) - 1 else 1.0
                if seen[j] != r:
                    seen[j], met[count], up[j], down[j] = r, j, 0.0, 0.0
                    count += 1
                up[j] += part * X[x_up + at + i]
                down[j] += part * X[x_down + at + i]
        for x in range(count):
            for y in range(x, count):
                i, j = min(met[x], met[y]), max(met[x], met[y])
                X[h + i * size + j] += up[i] * up[j] - down[i] * down[j]


@compiled
def by_multipliers(I: Ints, X: Floats, L: Ints, k: int) -> None:
    """Factor the front of a cluster: M, then U'M U and what multipliers have by themselves, then all but its states."""
    i_cell_at, i_unknown_at, i_child_at, i_child = L[AT.cell_at], L[AT.unknown_at], L[AT.child_at], L[AT.child]
    i_term_at, i_kind, i_row_at, i_entry_at = L[AT.term_at], L[AT.kind], L[AT.row_at], L[AT.entry_at]
    i_size, i_absorbed, i_front_at, i_message_at = L[AT.size], L[AT.absorbed], L[AT.front_at], L[AT.message_at]
    x_W, x_q, x_curve, x_a, x_scale = L[AT.W], L[AT.q], L[AT.curve], L[AT.a], L[AT.scale]
    x_front, x_message, x_cholesky, given = L[AT.front], L[AT.message], L[AT.cholesky], I[L[AT.way] + k] == GIVEN
    at, n, size, absorbed = I[i_cell_at + k], I[i_cell_at + k + 1] - I[i_cell_at + k], I[i_size + k], I[i_absorbed + k]
    own = I[i_unknown_at + k + 1] - I[i_unknown_at + k]
    F, h, least, parts = X, x_front + I[i_front_at + k], np.zeros(size), np.ones(n)
    weight = X[x_W + absorbed] if absorbed >= 0 else 0.0
    _invert(I, X, L, weight, k, absorbed)
    columns = _columns(I, L, k)
    for i in range(h, h + size * size):
        F[i] = 0.0
    if given:
        w, Y = _structural(I, X, L, k)
        for i in range(n):
            parts[i] = w[i] * Y[i]
            F[h + columns[len(columns) - 1, i] * (size + 1)] -= parts[i] * Y[i]
        for j in range(size - 2 * own, size - own):
            F[h + j * size + j + own] = -1.0
    for x in range(len(columns)):
        for y in range(x, len(columns)):
            for i in range(n):
                part = X[x_a + at + i]
                if y == len(columns) - 1:
                    part *= parts[i] * parts[i] if x == y else parts[i]
                F[h + columns[x, i] * size + columns[y, i]] += part
    if weight != 0.0:
        _add_rows(I, X, L, k, columns, parts)
    column = ZERO
    for t in range(I[i_term_at + k], I[i_term_at + k + 1] - given):
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
            row = F[h + j * size + j : h + (j + 1) * size]
            for i in range(size - j):
                row[i] *= scale
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
        if given:
            cholesky(X, x_message + I[i_message_at + c], states, X, x_cholesky + I[i_message_at + c])
            lowered(F, h, size, column, states, X, x_cholesky + I[i_message_at + c])
            for x in range(column, column + states):
                F[h + x * (size + 1)] += 1.0
                least[x] = 1.0
        else:
            for x in range(states):
                start, there = h + (column + x) * (size + 1), x_message + I[i_message_at + c] + x * (states + 1)
                row, more = F[start : start + states - x], X[there : there + states - x]
                for y in range(states - x):
                    row[y] += more[y]
                least[column + x] = -max(row[0], TINY)
        column += states
    for x in range(column, size - own):
        least[x] = -max(F[h + x * (size + 1)], TINY)
    partial(F, h, size, size - own, least)


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
        row, right = F[h + e * n + e : h + (e + 1) * n], total[e:]
        for i in range(n - e):
            right[i] += row[i]
    for e in range(start, stop):
        inner += total[e]
    for e in range(start, stop):
        w = Q[q + e - shift]
        for i in range(start):
            F[h + i * n + e] -= w * total[i]
        row, right = F[h + e * n + stop : h + (e + 1) * n], total[stop:]
        for i in range(n - stop):
            row[i] -= w * right[i]
        for x in range(e, stop):
            F[h + e * n + x] += w * Q[q + x - shift] * inner - w * total[x] - Q[q + x - shift] * total[e]


@compiled
def times_inverse(I: Ints, X: Floats, L: Ints, x: int, k: int) -> None:
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
def sums(I: Ints, X: Floats, L: Ints, x: int, k: int) -> None:
    """U'x - a of a front by multipliers, X'x, and Y'w x where m is given, in the cluster's vector."""
    i_cell_at, i_unknown_at, i_own, i_child_at = L[AT.cell_at], L[AT.unknown_at], L[AT.own], L[AT.child_at]
    i_child, i_above_at, i_above, i_term_at = L[AT.child], L[AT.above_at], L[AT.above], L[AT.term_at]
    i_kind, i_term_cell, i_entry, i_row_at = L[AT.kind], L[AT.term_cell], L[AT.entry], L[AT.row_at]
    i_entry_at, i_size, i_absorbed, i_vector_at = L[AT.entry_at], L[AT.size], L[AT.absorbed], L[AT.vector_at]
    x_q, x_off_hard, x_told, x_scale, x_vector = L[AT.q], L[AT.off_hard], L[AT.told], L[AT.scale], L[AT.vector]
    at, n, o = I[i_cell_at + k], I[i_cell_at + k + 1] - I[i_cell_at + k], x_vector + I[i_vector_at + k]
    given = I[L[AT.way] + k] == GIVEN
    for i in range(I[i_size + k]):
        X[o + i] = 0.0
    for t in range(I[i_term_at + k], I[i_term_at + k + 1] - given):
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
        count = I[i_unknown_at + c + 1] - base
        if given:
            r = L[AT.cholesky] + I[L[AT.message_at] + c]
            for u in range(count):
                X[o + u] *= X[r + u * count + u]
                for v in range(u + 1, count):
                    X[o + u] += X[r + v * count + u] * X[o + v]
        else:
            for u in range(count):
                X[o + u] -= X[x_told + base + u]
        o += count
    base = I[i_unknown_at + k]
    for i in range(at, at + n):
        X[o + I[i_own + i] - base] += X[x + i]
    if given:
        w, Y = _structural(I, X, L, k)
        o += I[i_unknown_at + k + 1] - base
        for i in range(n):
            X[o + I[i_own + at + i] - base] += w[i] * Y[i] * X[x + at + i]


@compiled
def apply(I: Ints, X: Floats, L: Ints, x: int, d: int, lam: int, k: int) -> None:
    """x + X d - U u, x + w Y m + X y - U u where m is given; the cluster's vector has u, -y and -m.

    The children's d and the hard arcs' lam are among u, but not where m is given.
    """
    i_cell_at, i_unknown_at, i_own, i_child_at = L[AT.cell_at], L[AT.unknown_at], L[AT.own], L[AT.child_at]
    i_child, i_above_at, i_above, i_term_at = L[AT.child], L[AT.above_at], L[AT.above], L[AT.term_at]
    i_kind, i_term_cell, i_entry, i_row_at = L[AT.kind], L[AT.term_cell], L[AT.entry], L[AT.row_at]
    i_entry_at, i_absorbed, i_vector_at, x_q = L[AT.entry_at], L[AT.absorbed], L[AT.vector_at], L[AT.q]
    x_scale, x_vector = L[AT.scale], L[AT.vector]
    at, n, o = I[i_cell_at + k], I[i_cell_at + k + 1] - I[i_cell_at + k], x_vector + I[i_vector_at + k]
    given, own = I[L[AT.way] + k] == GIVEN, I[i_unknown_at + k + 1] - I[i_unknown_at + k]
    if given:
        w, Y = _structural(I, X, L, k)
        y = o + I[L[AT.size] + k] - 2 * own - I[i_unknown_at + k]
        for i in range(n):
            state = y + I[i_own + at + i]
            X[x + at + i] -= X[state] + w[i] * Y[i] * X[state + own]
    else:
        for i in range(at, at + n):
            X[x + i] += X[d + I[i_own + i]]
    for t in range(I[i_term_at + k], I[i_term_at + k + 1] - given):
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
        count = I[i_unknown_at + c + 1] - base
        if given:
            r = L[AT.cholesky] + I[L[AT.message_at] + c]
            for u in range(count - 1, -1, -1):
                X[o + u] *= X[r + u * count + u]
                for v in range(u):
                    X[o + u] += X[r + u * count + v] * X[o + v]
        else:
            for u in range(count):
                X[d + base + u] = X[o + u]
        for i in range(n):
            X[x + at + i] -= X[o + I[i_above + I[i_above_at + c] + i] - base]
        o += count
