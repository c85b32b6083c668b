"""One Newton system, eliminated along the tree, compiled.

The system is a quadratic program in mu, with G = D + sum of V w V' over the terms, D = diag(z/mu), and on every term
V = 1[x in (s,t)] - q(t|s) 1[x in s]:

    G mu = g + X d - sum_children E_c d_c + A' lam
    X_c' mu_c = E_c' mu_parent + e_c   (at a root: e_c alone, its mass),     A mu = e     (A: V of the hard arcs, at p)

From the leaves to the roots, every cluster becomes a function of its separator's marginal m alone: a quadratic
m'Q m/2 - h'm with d = Q m - h, or the same thing turned over, m = K d + a. Three ways lead there; each is a partial
factorisation of one dense matrix, the *front*:

- by its cells: one cell of every separator state, that of most mass, is what the others leave of m; the others are
  eliminated. What remains is Q. For clusters of few cells.
- by its multipliers: mu = M (g + X d - U u), M = P^-1, P = D and one term that has an entry for every cell; u are the
  multipliers of the other terms, of hard arcs and of the children's separators. What remains is K. For wide clusters,
  whose multipliers are fewer than their cells, and where there are hard arcs: equations that repeat others have a pivot
  of 0 there, and are left out.
- by its multipliers with m given, where the structural term is diagonal, so that P can have another one that has an
  entry for every cell. What remains is Q. For wide clusters where gamma > 0 that have such a term.

Exact arithmetic gives a lower bound of every pivot (z/mu of a cell, 1 of a soft entry): where rounding leaves less, the
bound stands in. Loops that go down from cluster to cluster go down inside of each where they can: processors fetch
ahead what is read in one direction. `I`, `X` and `L` are explained in `room.py`; loops are written out, which is what
compiles quickly.
"""

from __future__ import annotations

import numpy as np

from dissonance.compiled import compiled
from dissonance.solvers.convex.dense import backward, forward, inverse, partial, symmetric
from dissonance.solvers.convex.layout import BY_CELLS, BY_MULTIPLIERS, GIVEN, ZERO, Floats, Ints
from dissonance.solvers.convex.multipliers import apply, by_multipliers, sums, times_inverse
from dissonance.solvers.convex.room import AT


@compiled
def _by_cells(I: Ints, X: Floats, L: Ints, k: int, ints: Ints, room: Floats) -> None:
    """Factor a front by cells, at the beginning of `room`, and keep the rows that are eliminated, from the diagonal on.

    In small room that stays in the cache: all fronts of a large problem would not.
    """
    i_cell_at, i_unknown_at, i_own, i_child_at = L[AT.cell_at], L[AT.unknown_at], L[AT.own], L[AT.child_at]
    i_child, i_above_at, i_above, i_term_at = L[AT.child], L[AT.above_at], L[AT.above], L[AT.term_at]
    i_term_cell, i_entry, i_row_at, i_entry_at = L[AT.term_cell], L[AT.entry], L[AT.row_at], L[AT.entry_at]
    i_size, i_front_at, i_message_at, x_W, x_mu = L[AT.size], L[AT.front_at], L[AT.message_at], L[AT.W], L[AT.mu]
    x_z, x_q, x_curve, x_pivot, x_front = L[AT.z], L[AT.q], L[AT.curve], L[AT.pivot], L[AT.front]
    x_message = L[AT.message]
    at, n, first = I[i_cell_at + k], I[i_size + k], I[i_unknown_at + k]
    own = I[i_unknown_at + k + 1] - first
    e = n - own
    H, B, C, least = room[: n * n], room[n * n : 2 * n * n], room[2 * n * n : 3 * n * n], room[3 * n * n :]
    place, partner = ints[:n], ints[n : 2 * n]  # cells by place, their pivots
    # the cell of most mass of every state comes last, the others in their order
    for i in range(own):
        place[e + i] = -1
    for i in range(n - 1, -1, -1):
        state = I[i_own + at + i] - first
        best = place[e + state]
        if best < 0 or X[x_mu + at + i] * X[x_z + at + best] >= X[x_mu + at + best] * X[x_z + at + i]:
            place[e + state] = i
    count = 0
    for i in range(n):
        if place[e + I[i_own + at + i] - first] != i:
            place[count] = i
            count += 1
    for a in range(n):
        i = place[a]
        X[x_pivot + at + a] = i
        partner[a] = place[e + I[i_own + at + i] - first]
        least[a] = X[x_z + at + i] / X[x_mu + at + i]
    for a in range(e):
        row, state, mine = H[a * n : (a + 1) * n], I[i_own + at + place[a]] - first, partner[a]
        under = least[e + state]
        for x in range(a, e):
            row[x] = under if partner[x] == mine else 0.0
        for x in range(e, n):
            row[x] = 0.0
        row[e + state] = -under
        row[a] += least[a]
    for a in range(e, n):
        for b in range(a, n):
            H[a * n + b] = 0.0
        H[a * n + a] = least[a]
    for t in range(I[i_term_at + k + 1] - 1, I[i_term_at + k] - 1, -1):
        W = X[x_W + t]
        if W != 0.0:
            base = I[i_entry_at + I[i_row_at + t]]
            size = I[i_entry_at + I[i_row_at + t + 1]] - base
            for i in range(size * size):
                B[i] = 0.0
            for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
                start, stop, total = I[i_entry_at + r] - base, I[i_entry_at + r + 1] - base, 0.0
                for x in range(start, stop):  # C is room
                    C[x] = W * X[x_curve + base + x] * X[x_q + base + x]
                    total += C[x] * X[x_q + base + x]
                for x in range(start, stop):
                    rest = total - C[x]
                    for y in range(start, stop):
                        B[x * size + y] = rest - C[y]
                    B[x * size + x] += W * X[x_curve + base + x]
            _lay(H, n, e, B, ZERO, size, I, i_entry + I[i_term_cell + t], base, ints, C)
    for j in range(I[i_child_at + k], I[i_child_at + k + 1]):
        c = I[i_child + j]
        size = I[i_unknown_at + c + 1] - I[i_unknown_at + c]
        base = I[i_unknown_at + c]
        there = i_above + I[i_above_at + c]
        _lay(H, n, e, X, x_message + I[i_message_at + c], size, I, there, base, ints, C)
    partial(H, ZERO, n, e, least)
    front = x_front + I[i_front_at + k]
    for a in range(e):
        row, into = H[a * n + a : (a + 1) * n], X[front : front + n - a]
        for i in range(len(row)):
            into[i] = row[i]
        front += n - a


@compiled
def _lay(
    H: Floats,
    n: int,
    e: int,
    B: Floats,
    at: int,
    size: int,
    index: Ints,
    index_at: int,
    base: int,
    ints: Ints,
    C: Floats,
) -> None:
    """Add R'B R to a front by cells, where R takes the pivot of its state out of every other cell.

    B (size, size) has its row and column index[index_at + i] - base for cell i. What a cell and its pivot have in
    common cancels exactly. `ints`: cells by place, their pivots, and room.
    """
    mine, theirs = ints[2 * n : 3 * n], ints[3 * n : 4 * n]
    for a in range(n):
        mine[a], theirs[a] = index[index_at + ints[a]] - base, index[index_at + ints[n + a]] - base
    for u in range(size):
        row, into = B[at + u * size : at + (u + 1) * size], C[u * n : (u + 1) * n]
        for a in range(e):
            into[a] = row[mine[a]] - row[theirs[a]]  # 0 if that is the same
        for a in range(e, n):
            into[a] = row[mine[a]]
    for a in range(n):
        x, y = mine[a] * n, theirs[a] * n
        into, more, less = H[a * n + a : (a + 1) * n], C[x + a : x + n], C[y + a : y + n]
        if a >= e:
            for c in range(n - a):
                into[c] += more[c]
        elif x != y:
            for c in range(n - a):
                into[c] += more[c] - less[c]


@compiled
def upward(I: Ints, X: Floats, L: Ints, g: int, x: int, clusters: Ints, factoring: int) -> None:
    """What some clusters ask of their parents, children first, for the right side at g, off and off_hard; x: room.

    `factoring`: 1 if they are to be eliminated before that, at mu, z, q and curve, each just before it is asked. The
    fronts of a large problem do not stay in any cache: it saves time to use them while they are there.
    """
    i_parent, i_cell_at, i_unknown_at, i_own = L[AT.parent], L[AT.cell_at], L[AT.unknown_at], L[AT.own]
    i_size, i_way, i_front_at, i_vector_at = L[AT.size], L[AT.way], L[AT.front_at], L[AT.vector_at]
    i_message_at, x_off, x_told, x_pivot = L[AT.message_at], L[AT.off], L[AT.told], L[AT.pivot]
    x_vector, x_front, x_message = L[AT.vector], L[AT.front], L[AT.message]
    widest = L[AT.widest] * factoring
    ints, room = np.empty(4 * widest, dtype=np.int64), np.empty((3 * widest + 1) * widest)
    for k in clusters:
        by_cells, turned = I[i_way + k] == BY_CELLS, I[i_way + k] == BY_MULTIPLIERS
        above = I[i_parent + k] >= 0 and I[i_way + I[i_parent + k]] == BY_MULTIPLIERS
        if factoring:
            n, own, Q = I[i_size + k], I[i_unknown_at + k + 1] - I[i_unknown_at + k], x_message + I[i_message_at + k]
            if by_cells:
                _by_cells(I, X, L, k, ints, room)
                symmetric(room, ZERO, n, X, Q, own)
            else:
                by_multipliers(I, X, L, k)
                symmetric(X, x_front + I[i_front_at + k], n, X, Q, own)
            if I[i_way + k] == GIVEN:
                for i in range(Q, Q + own * own):
                    X[i] = -X[i]
            if turned != above:
                inverse(X, Q, own)
        at, base = I[i_cell_at + k], I[i_unknown_at + k]
        n, own, o = I[i_size + k], I[i_unknown_at + k + 1] - base, x_vector + I[i_vector_at + k]
        e = n - own
        _right(I, X, L, g, x, k)
        if by_cells:
            for a in range(n):
                i = at + int(X[x_pivot + at + a])
                X[o + a] = X[x + i]
                if a < e:
                    X[o + a] -= X[x + at + int(X[x_pivot + at + e + I[i_own + i] - base])]
        else:
            times_inverse(I, X, L, x, k)
            sums(I, X, L, x, k)
        forward(X, x_front + I[i_front_at + k], n, e, 1 if by_cells else 0, X, o)
        if I[i_parent + k] < 0:
            continue
        Q, same, missing = x_message + I[i_message_at + k], turned == above, 0.0
        for j in range(own):
            missing += abs(X[x_off + base + j])
        for i in range(own):  # h - Q e or a - e; Q (a - e) or K h - e where the parent wants the other
            told = X[o + e + i] if same else 0.0
            if not same or (not above and missing != 0.0):  # mostly not: messages take long to read
                for j in range(own):
                    part = 0.0 if same else X[o + e + j]
                    if not above:
                        part -= X[x_off + base + j]
                    told += X[Q + i * own + j] * part
            X[x_told + base + i] = told - X[x_off + base + i] if above else told


@compiled
def _right(I: Ints, X: Floats, L: Ints, g: int, x: int, k: int) -> None:
    """The right side of a cluster's system at x: g, and what its children tell it unless that stands in their rows."""
    i_child_at, i_child, i_above_at, i_above = L[AT.child_at], L[AT.child], L[AT.above_at], L[AT.above]
    at, stop, x_told = I[L[AT.cell_at] + k], I[L[AT.cell_at] + k + 1], L[AT.told]
    for i in range(at, stop):
        X[x + i] = X[g + i]
    if I[L[AT.way] + k] != BY_MULTIPLIERS:
        for j in range(I[i_child_at + k], I[i_child_at + k + 1]):
            there = I[i_above_at + I[i_child + j]] - at
            for i in range(at, stop):
                X[x + i] += X[x_told + I[i_above + there + i]]


@compiled
def downward(I: Ints, X: Floats, L: Ints, g: int, x: int, clusters: Ints, mu_alone: int) -> None:
    """mu at x, and behind it the multipliers of hard arcs and separators, of some clusters, parents first.

    `mu_alone`: 1 if nothing else is asked for. By cells mu is found without d, for which all messages would be read.
    """
    i_parent, i_cell_at, i_unknown_at, i_own = L[AT.parent], L[AT.cell_at], L[AT.unknown_at], L[AT.own]
    i_above_at, i_above, i_size, i_way = L[AT.above_at], L[AT.above], L[AT.size], L[AT.way]
    i_front_at, i_vector_at, i_message_at, x_off = L[AT.front_at], L[AT.vector_at], L[AT.message_at], L[AT.off]
    x_pivot, x_vector, x_front, x_message = L[AT.pivot], L[AT.vector], L[AT.front], L[AT.message]
    m, lam, d = np.empty(L[AT.most]), x + L[AT.dlam] - L[AT.x], x + L[AT.dd] - L[AT.x]
    for z in range(len(clusters) - 1, -1, -1):
        k = clusters[z]
        at, base, p = I[i_cell_at + k], I[i_unknown_at + k], I[i_parent + k]
        n, own, o = I[i_size + k], I[i_unknown_at + k + 1] - base, x_vector + I[i_vector_at + k]
        Q, by_cells, turned = x_message + I[i_message_at + k], I[i_way + k] == BY_CELLS, I[i_way + k] == BY_MULTIPLIERS
        e = n - own
        for i in range(own):
            m[i] = X[x_off + base + i]
        if p >= 0:
            there = I[i_above_at + k] - I[i_cell_at + p]
            for i in range(I[i_cell_at + p], I[i_cell_at + p + 1]):
                m[I[i_above + there + i] - base] += X[x + i]
        if (p < 0 or I[i_way + p] != BY_MULTIPLIERS) and (turned or not mu_alone):  # else the parent has found d
            for i in range(own - 1, -1, -1):
                total = 0.0
                for j in range(own):
                    part = m[j] - X[o + e + j] if turned else m[j]
                    total += X[Q + i * own + j] * part
                X[d + base + i] = total if turned else total - X[o + e + i]
        for i in range(own):
            X[o + e + i] = m[i] if by_cells else -X[d + base + i] if turned else -m[i]
        backward(X, x_front + I[i_front_at + k], n, e, 1 if by_cells else 0, X, o)
        if by_cells:
            for a in range(e):
                i = at + int(X[x_pivot + at + a])
                X[x + i] = X[o + a]
                m[I[i_own + i] - base] -= X[x + i]
            for a in range(own):
                X[x + at + int(X[x_pivot + at + e + a])] = m[a]
        else:
            _right(I, X, L, g, x, k)
            apply(I, X, L, x, d, lam, k)
            times_inverse(I, X, L, x, k)
