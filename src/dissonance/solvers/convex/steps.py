"""The parts of a Newton step, compiled: what `interior.py` puts together. `I`, `X` and `L`: see `room.py`.

Eliminating dz and dl from Newton's equations leaves the quadratic program of `elimination.py` with

    G = diag(z/mu) + sum_terms V diag(W / (s qt)) V',    V = 1[x in (s,t)] - q(t|s) 1[x in s],    qt = (q + mu(t|s)) / 2
    g = tau'/mu - r,     r = slack - z,     tau' = tau - dz dmu
    dz = tau'/mu - (z/mu) mu+,     dl = (m+ - q s+) / (s qt)
"""

from __future__ import annotations

import math

from dissonance.compiled import compiled
from dissonance.solvers.convex.certificate import normalise, slack
from dissonance.solvers.convex.dense import TINY
from dissonance.solvers.convex.layout import HARD, Floats, Ints
from dissonance.solvers.convex.room import AT
from dissonance.tolerances import UNSEEN

LONGER, FAR = 0.1, 10.0
"""How much longer a step shall become by a corrector, and the factor by which mu z may be off."""


@compiled
def _misfit(I: Ints, X: Floats, L: Ints, x: int, mass: float) -> None:
    """m = x(s,t) of every entry, and what is missing of every equation: E'x - X'x, the root's 1 - mass, -A x."""
    n_clusters, n_entries, n_unknowns, i_parent = L[AT.clusters], L[AT.entries], L[AT.unknowns], L[AT.parent]
    i_cell_at, i_unknown_at, i_own, i_child_at = L[AT.cell_at], L[AT.unknown_at], L[AT.own], L[AT.child_at]
    i_child, i_above_at, i_above, i_term_at = L[AT.child], L[AT.above_at], L[AT.above], L[AT.term_at]
    i_kind, i_term_cell, i_entry, i_row_at = L[AT.kind], L[AT.term_cell], L[AT.entry], L[AT.row_at]
    i_entry_at, x_q, x_m, x_off_hard, x_off = L[AT.entry_at], L[AT.q], L[AT.m], L[AT.off_hard], L[AT.off]
    for e in range(n_entries):
        X[x_m + e] = 0.0
    for u in range(n_unknowns):
        X[x_off + u] = 0.0
    for k in range(n_clusters):
        at, stop = I[i_cell_at + k], I[i_cell_at + k + 1]
        for i in range(at, stop):
            X[x_off + I[i_own + i]] -= X[x + i]
        if I[i_parent + k] < 0:
            X[x_off + I[i_unknown_at + k]] += mass
        for j in range(I[i_child_at + k], I[i_child_at + k + 1]):
            shift = I[i_above_at + I[i_child + j]] - at
            for i in range(at, stop):
                X[x_off + I[i_above + shift + i]] += X[x + i]
        for t in range(I[i_term_at + k], I[i_term_at + k + 1]):
            shift = I[i_term_cell + t] - at
            for i in range(at, stop):
                X[x_m + I[i_entry + shift + i]] += X[x + i]
            if I[i_kind + t] == HARD:
                for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
                    total = 0.0
                    for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                        total += X[x_m + e]
                    for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                        X[x_off_hard + e] = X[x_q + e] * total - X[x_m + e]


@compiled
def measure(I: Ints, X: Floats, L: Ints) -> tuple[float, float, float, float, float, float]:
    """Normalise y, fill q, r, m and the curvature 1/(s qt), and say how far the problem is from done:

    the gap of its own proof, how far mu is from its equations, max(1, |value|), mu.z, mu.|r|, the largest |lam|.

    How far: what is missing in all, and of the hard arc that is furthest from holding as `numerics.broken` has it.
    """
    n_clusters, n_terms, n_unknowns, i_cell_at = L[AT.clusters], L[AT.terms], L[AT.unknowns], L[AT.cell_at]
    i_parent, i_unknown_at, i_kind, i_row_at = L[AT.parent], L[AT.unknown_at], L[AT.kind], L[AT.row_at]
    i_entry_at, x_mu, x_z, x_y, x_d, x_r, x_q = L[AT.entry_at], L[AT.mu], L[AT.z], L[AT.y], L[AT.d], L[AT.r], L[AT.q]
    x_m, x_curve, x_off_hard, x_off = L[AT.m], L[AT.curve], L[AT.off_hard], L[AT.off]
    normalise(I, X, L)
    slack(I, X, L, x_r, 1.0, 0.0)
    below = gap = rest = off = value = away = worst = 0.0
    for k in range(n_clusters):
        lowest = 0.0
        for i in range(I[i_cell_at + k], I[i_cell_at + k + 1]):
            lowest = min(lowest, X[x_r + i])
            X[x_r + i] -= X[x_z + i]
            gap += X[x_mu + i] * X[x_z + i]
            rest += X[x_mu + i] * abs(X[x_r + i])
        below -= lowest
        if I[i_parent + k] < 0:
            value += X[x_d + I[i_unknown_at + k]]
    _misfit(I, X, L, x_mu, 1.0)
    for u in range(n_unknowns):
        off += abs(X[x_off + u])
    for t in range(n_terms):
        for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
            total = 0.0
            for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                total += X[x_m + e]
            for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                X[x_curve + e] = 2.0 / max(total * X[x_q + e] + X[x_m + e], TINY)
                if I[i_kind + t] == HARD:
                    missing = abs(X[x_off_hard + e])
                    off += missing
                    if missing > UNSEEN:
                        worst = max(worst, (missing - UNSEEN) / (X[x_q + e] * total))
                    away = max(away, abs(X[x_y + e]))
    return below + gap + rest, off + worst, max(1.0, abs(value)), gap, rest, away


@compiled
def aim(I: Ints, X: Floats, L: Ints, tau: float, mass: float) -> None:
    """The right side of a step to mu z = tau (of the predictor: 0); roots of some mass."""
    n_clusters, n_cells, n_entries, n_unknowns = L[AT.clusters], L[AT.cells], L[AT.entries], L[AT.unknowns]
    i_parent, i_unknown_at, x_mu, x_r, x_g = L[AT.parent], L[AT.unknown_at], L[AT.mu], L[AT.r], L[AT.g]
    x_target, x_off_hard, x_off = L[AT.target], L[AT.off_hard], L[AT.off]
    for i in range(n_cells):
        X[x_target + i] = tau
        X[x_g + i] = tau / X[x_mu + i] - X[x_r + i]
    for u in range(n_unknowns):
        X[x_off + u] = 0.0
    for e in range(n_entries):
        X[x_off_hard + e] = 0.0
    for k in range(n_clusters):
        if I[i_parent + k] < 0:
            X[x_off + I[i_unknown_at + k]] = mass


@compiled
def correct(X: Floats, L: Ints, gap: float, rest: float, tol: float, careful: int) -> float:
    """From the predictor's mu+ in w.x to the right side of the corrector: tau' = tau - the product of its steps.

    Mehrotra's tau, which is returned: from how far the predictor gets, at most what it is now. Where more correctors
    follow (`careful`), it may be lower, and the product larger: they put right what is too much.
    """
    n, x_mu, x_z, x_r, x_g, x_x = L[AT.cells], L[AT.mu], L[AT.z], L[AT.r], L[AT.g], L[AT.x]
    x_target = L[AT.target]
    primal = dual = 0.99
    for i in range(n):
        x = X[x_x + i] / X[x_mu + i]
        primal, dual = max(primal, 1.0 - x), max(dual, x)
    ahead, mean = 0.0, gap / n
    most, largest = 1.0 - 0.7 * careful, (1.0 + 4.0 * careful) * mean
    for i in range(n):
        x = X[x_x + i] / X[x_mu + i]
        ahead += X[x_mu + i] * X[x_z + i] * (1.0 + (x - 1.0) / primal) * (1.0 - x / dual)
    ahead /= n
    tau = max(min((ahead / mean) * (ahead / mean) * (ahead / mean), most) * mean, max(0.1 * rest, 0.1 * tol) / n)
    for i in range(n):
        x = X[x_x + i] / X[x_mu + i]
        X[x_target + i] = tau - min(max(X[x_mu + i] * X[x_z + i] * x * (1.0 - x), -largest), largest)
        X[x_g + i] = X[x_target + i] / X[x_mu + i] - X[x_r + i]
    return tau


@compiled
def residual(I: Ints, X: Floats, L: Ints, mass: float) -> None:
    """What w.x, w.d, w.lam leave of the right side: of g in w.left, of the equations in w.off and w.off_hard."""
    n_clusters, n_terms, i_cell_at, i_own = L[AT.clusters], L[AT.terms], L[AT.cell_at], L[AT.own]
    i_child_at, i_child, i_above_at, i_above = L[AT.child_at], L[AT.child], L[AT.above_at], L[AT.above]
    i_term_at, i_kind, i_term_cell, i_entry = L[AT.term_at], L[AT.kind], L[AT.term_cell], L[AT.entry]
    i_row_at, i_entry_at, x_W, x_mu, x_z, x_g = L[AT.row_at], L[AT.entry_at], L[AT.W], L[AT.mu], L[AT.z], L[AT.g]
    x_left, x_x, x_q, x_m, x_curve, x_dl = L[AT.left], L[AT.x], L[AT.q], L[AT.m], L[AT.curve], L[AT.dl]
    x_dlam, x_dd = L[AT.dlam], L[AT.dd]
    _misfit(I, X, L, x_x, mass)
    for t in range(n_terms):
        hard, W = I[i_kind + t] == HARD, X[x_W + t]
        for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
            total = mean = 0.0
            for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                total += X[x_m + e]
            for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                off = X[x_m + e] - X[x_q + e] * total
                X[x_dl + e] = -X[x_dlam + e] if hard else W * X[x_curve + e] * off
                mean += X[x_q + e] * X[x_dl + e]
            for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                X[x_dl + e] -= mean
    for k in range(n_clusters):
        first, stop = I[i_cell_at + k], I[i_cell_at + k + 1]
        for i in range(first, stop):
            X[x_left + i] = X[x_g + i] + X[x_dd + I[i_own + i]] - X[x_z + i] / X[x_mu + i] * X[x_x + i]
        for t in range(I[i_term_at + k], I[i_term_at + k + 1]):
            shift = I[i_term_cell + t] - first
            for i in range(first, stop):
                X[x_left + i] -= X[x_dl + I[i_entry + shift + i]]
        for j in range(I[i_child_at + k], I[i_child_at + k + 1]):
            shift = I[i_above_at + I[i_child + j]] - first
            for i in range(first, stop):
                X[x_left + i] -= X[x_dd + I[i_above + shift + i]]


@compiled
def _changes(I: Ints, X: Floats, L: Ints) -> float:
    """dl of every entry for the step to w.x (dlam of hard ones), and the largest of the soft ones."""
    n_clusters, n_entries, n_terms, i_cell_at = L[AT.clusters], L[AT.entries], L[AT.terms], L[AT.cell_at]
    i_term_at, i_kind, i_term_cell, i_entry = L[AT.term_at], L[AT.kind], L[AT.term_cell], L[AT.entry]
    i_row_at, i_entry_at, x_x, x_q, x_m = L[AT.row_at], L[AT.entry_at], L[AT.x], L[AT.q], L[AT.m]
    x_curve, x_dl, x_dlam = L[AT.curve], L[AT.dl], L[AT.dlam]
    largest = 0.0
    for e in range(n_entries):
        X[x_m + e] = 0.0
    for k in range(n_clusters):
        for t in range(I[i_term_at + k], I[i_term_at + k + 1]):
            shift = I[i_term_cell + t] - I[i_cell_at + k]
            for i in range(I[i_cell_at + k], I[i_cell_at + k + 1]):
                X[x_m + I[i_entry + shift + i]] += X[x_x + i]
    for t in range(n_terms):
        for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
            total = mean = 0.0
            for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                total += X[x_m + e]
            for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                X[x_dl + e] = (X[x_m + e] - X[x_q + e] * total) * X[x_curve + e]
                mean += X[x_q + e] * X[x_dl + e]
            for e in range(I[i_entry_at + r], I[i_entry_at + r + 1]):
                if I[i_kind + t] == HARD:
                    X[x_dl + e] = X[x_dlam + e]
                else:  # centred: the softmax does not see a shift
                    X[x_dl + e] -= mean
                    largest = max(largest, abs(X[x_dl + e]))
    return largest


@compiled
def bend(I: Ints, X: Floats, L: Ints) -> None:
    """Add to r what the slack loses over the step to w.x because log q is curved: W log sum_t q exp(dl) in every row.

    Of a row whose dl exceeds 1, no more than at 1.
    """
    n_clusters, n_terms, i_cell_at, i_term_at = L[AT.clusters], L[AT.terms], L[AT.cell_at], L[AT.term_at]
    i_kind, i_term_cell, i_entry, i_row_at = L[AT.kind], L[AT.term_cell], L[AT.entry], L[AT.row_at]
    i_entry_at, x_W, x_r, x_q, x_m, x_dl = L[AT.entry_at], L[AT.W], L[AT.r], L[AT.q], L[AT.m], L[AT.dl]
    _changes(I, X, L)
    for t in range(n_terms):
        for r in range(I[i_row_at + t], I[i_row_at + t + 1]):
            first, stop, largest, total = I[i_entry_at + r], I[i_entry_at + r + 1], 1.0, 0.0
            for e in range(first, stop):
                largest = max(largest, abs(X[x_dl + e]))
            for e in range(first, stop):
                total += X[x_q + e] * math.exp(X[x_dl + e] / largest)
            lost = 0.0 if I[i_kind + t] == HARD else X[x_W + t] * math.log(total)
            for e in range(first, stop):
                X[x_m + e] = lost
    for k in range(n_clusters):
        for t in range(I[i_term_at + k], I[i_term_at + k + 1]):
            shift = I[i_term_cell + t] - I[i_cell_at + k]
            for i in range(I[i_cell_at + k], I[i_cell_at + k + 1]):
                X[x_r + i] -= X[x_m + I[i_entry + shift + i]]


@compiled
def step_lengths(X: Floats, L: Ints) -> tuple[float, float]:
    """How much of the step to w.x can be taken: by mu, by z."""
    n_cells, x_mu, x_z, x_x, x_target = L[AT.cells], L[AT.mu], L[AT.z], L[AT.x], L[AT.target]
    primal = dual = 0.99
    for i in range(n_cells):
        x = X[x_x + i] / X[x_mu + i]
        primal, dual = max(primal, 1.0 - x), max(dual, x - X[x_target + i] / (X[x_mu + i] * X[x_z + i]))
    return 0.99 / primal, 0.99 / dual


@compiled
def centre(X: Floats, L: Ints, tau: float, primal: float, dual: float) -> None:
    """Gondzio's corrector: the right side of a step that can be taken further.

    Where a longer step would leave mu z far from tau, the target changes by what is missing.
    """
    n_cells, x_mu, x_z, x_r, x_g, x_x = L[AT.cells], L[AT.mu], L[AT.z], L[AT.r], L[AT.g], L[AT.x]
    x_target = L[AT.target]
    primal, dual = min(1.0, primal + LONGER), min(1.0, dual + LONGER)
    for i in range(n_cells):
        mu, z, x, target = X[x_mu + i], X[x_z + i], X[x_x + i], X[x_target + i]
        product = (mu + primal * (x - mu)) * (z + dual * (target - z * x) / mu)
        target += max(min(max(product, tau / FAR), tau * FAR) - product, -tau * FAR)
        X[x_target + i] = target
        X[x_g + i] = target / mu - X[x_r + i]


@compiled
def move(I: Ints, X: Floats, L: Ints) -> tuple[float, float]:
    """Take the step to w.x, w.d, w.lam, in place: how far mu moves, and how much of the step is taken.

    The distance is the largest total variation over the clusters.
    """
    n_clusters, n_entries, n_unknowns, i_cell_at = L[AT.clusters], L[AT.entries], L[AT.unknowns], L[AT.cell_at]
    x_mu, x_z, x_y, x_d, x_x, x_target = L[AT.mu], L[AT.z], L[AT.y], L[AT.d], L[AT.x], L[AT.target]
    x_dl, x_dd = L[AT.dl], L[AT.dd]
    largest = max(4.0, _changes(I, X, L))
    primal, dual = step_lengths(X, L)
    primal, dual = min(1.0, primal), min(min(1.0, dual), 4.0 / largest)
    moved = 0.0
    for k in range(n_clusters):
        here = 0.0
        for i in range(I[i_cell_at + k], I[i_cell_at + k + 1]):
            X[x_z + i] += dual * (X[x_target + i] - X[x_z + i] * X[x_x + i]) / X[x_mu + i]
            change = primal * (X[x_x + i] - X[x_mu + i])
            here += 0.5 * abs(change)
            X[x_mu + i] += change
        moved = max(moved, here)
    for e in range(n_entries):
        X[x_y + e] += dual * X[x_dl + e]
    for u in range(n_unknowns):
        X[x_d + u] += dual * X[x_dd + u]
    return moved, min(primal, dual)


@compiled
def copy(X: Floats, L: Ints, source: int, into: int) -> None:
    """Overwrite a point, where mu, z, y and d stand together; or a step, where tau', mu+, dlam and dd do."""
    n_point = L[AT.point]
    for i in range(n_point):
        X[into + i] = X[source + i]
