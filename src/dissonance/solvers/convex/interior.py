"""The dual interior-point Newton method, compiled: where to start, when to take which step, and when to stop.

Unknowns: y (l = log q of soft entries, lam of hard ones), d, and a pair mu, z > 0 with z -> slack(y, d). What a step
does is in `steps.py`, its system in `elimination.py`, where an iteration begins in `starts.py`; `I`, `X` and `L` are
explained in `room.py`. No problem knows of others.
"""

from __future__ import annotations

import math

import numpy as np

from dissonance.compiled import compiled
from dissonance.solvers.convex.certificate import certify
from dissonance.solvers.convex.elimination import downward, upward
from dissonance.solvers.convex.layout import ZERO, Floats, Ints, Rows
from dissonance.solvers.convex.room import AT
from dissonance.solvers.convex.starts import cold, inside
from dissonance.solvers.convex.steps import aim, bend, centre, copy, correct, measure, move, residual, step_lengths
from dissonance.tolerances import ROUNDING

FOLLOWING, INSIDE, HERE, COLD = range(4)
"""Where to start; see `newton`."""

FINAL = 0.3
"""The gap at which a solution is followed, in units of the tolerance."""

LEAST_FOLLOWED = 0.5
"""Following a nearby solution ends with a Newton step of which at most this fraction can be taken."""

WARM_STEPS = 6
"""The limit of Newton steps from a start inside; from the point where those end, the limit is twice as large."""

UNIFORM_SHARE = 10.0
"""The share of the uniform distribution that is mixed into a start inside, in units of the gap."""

PATIENCE = 15
"""Steps without a better point after which the iteration stops: further steps only change rounding errors."""

REFINEMENTS = 2
"""How often a step of a problem with wide clusters is refined."""

CORRECTORS, LONG, MORE = 8, 0.9, 1.01
"""Correctors of such a step at most; the part of it that is enough; and the factor by which each must lengthen it."""

ROUGH = 1e-3
"""What rounding alone may move mu by."""

BROAD = 1e-4
"""The gap at which a point is kept, to start from for a slightly different problem: further on, it would be too close
to the boundary."""

RUNAWAY = 1e11
"""Only contradictory hard arcs push their multipliers that far, in units of 1 + max |c|."""


@compiled
def solve_system(
    I: Ints, X: Floats, L: Ints, clusters: Ints, factoring: int, first: int, last: int, mass: float
) -> None:
    """mu+ at x, dlam and dd, for the right side at g, off and off_hard (turn 0); then for what they leave of it.

    `factoring`: 1 if the system is new, and turn 0 eliminates it.
    """
    x_g, x_left, x_x, x_more = L[AT.g], L[AT.left], L[AT.x], L[AT.more]
    for turn in range(first, last + 1):
        if turn == 0:
            upward(I, X, L, x_g, x_x, clusters, factoring)
            downward(I, X, L, x_g, x_x, clusters, ZERO)
        else:
            residual(I, X, L, mass)
            upward(I, X, L, x_left, x_more, clusters, ZERO)
            downward(I, X, L, x_left, x_more, clusters, ZERO)
            for i in range(x_left - x_x):
                X[x_x + i] += X[x_more + i]


@compiled
def lengthen(I: Ints, X: Floats, L: Ints, clusters: Ints, tau: float) -> None:
    """Correct a step again, as long as more of it can be taken then: where solving is cheaper than factoring."""
    n_cells, x_mu, x_r, x_g = L[AT.cells], L[AT.mu], L[AT.r], L[AT.g]
    x_target, x_left = L[AT.target], L[AT.left]
    primal, dual = step_lengths(X, L)
    for _ in range(CORRECTORS):
        if min(primal, dual) > LONG:
            break
        copy(X, L, x_target, x_left)
        centre(X, L, tau, primal, dual)
        solve_system(I, X, L, clusters, ZERO, ZERO, ZERO, 1.0)
        further = step_lengths(X, L)
        if min(further[0], 1.0) * min(further[1], 1.0) < MORE * min(primal, 1.0) * min(dual, 1.0):
            copy(X, L, x_left, x_target)
            for i in range(n_cells):
                X[x_g + i] = X[x_target + i] / X[x_mu + i] - X[x_r + i]
            break
        primal, dual = further


@compiled
def newton(
    I: Ints,
    rows: Rows,
    L: Ints,
    clusters: Ints,
    which: Ints,
    start: int,
    tol: Floats,
    mu_tol: float,
    most: int,
    taken: Ints,
    moves: Floats,
) -> None:
    """Iterate some problems, a row each, until a point's own proof is tight to `tol`, relative to max(1, |value|).

    Adds how many steps that took to `taken`, writes how far mu moved last to `moves`, and proves bounds. Starts:

    - FOLLOWING the solution of a nearby problem, at the final tau at once, as long as every mu and z changes by little
      of itself; where that does not hold, the point goes back to where it was.
    - INSIDE: from such a solution, a little inside. HERE: from the point as it stands. COLD: afresh.

    With a finite `mu_tol` convergence is judged by mu and not by the bounds: until a step moves mu by less than that,
    or by no less than the step before because of rounding, or the point, once within 100 `tol`, gets worse again. Near
    the end the system is so ill-conditioned that steps may make the point worse: the best point is returned, and one
    that is within 100 `tol` and did not improve twice is final.
    """
    n_cells, x_c, x_mu, x_best, x_broad = L[AT.cells], L[AT.c], L[AT.mu], L[AT.best], L[AT.broad]
    x_bounds, x_g, x_x, careful = L[AT.bounds], L[AT.g], L[AT.x], L[AT.careful]
    following = 1 if start == FOLLOWING else 0
    for b in which:
        X = rows[b]
        if start == INSIDE:
            gap = X[x_bounds + 1] - X[x_bounds]
            gap = min(max(gap, 1e-8), 1.0) if gap == gap else 1.0
            inside(I, X, L, gap, min(UNIFORM_SHARE * gap, 0.3))
        elif start == COLD:
            cold(I, X, L)
        largest = 0.0
        for i in range(n_cells):
            largest = max(largest, abs(X[x_c + i]))
        before = earlier = moved = least = np.inf
        stalled = step = 0
        best = -1
        arrived = left = done = False
        narrow = following == 1
        while True:
            merit, off, scale, gap, rest, away = measure(I, X, L)
            target, score = tol[b] * scale, merit + off
            if not narrow and gap + rest < BROAD * scale:
                narrow = True
                copy(X, L, x_mu, x_broad)
            better = score < least
            if following:
                done = (merit < target and off < 1e-7) or step == most
                better = step == 0
            elif mu_tol < np.inf:
                near = gap + rest < 100 * target + 1e-15 * max(1.0, largest)
                done = moved < mu_tol or ROUGH > moved > 0.5 * earlier
                done = done and gap + rest < target + 1e-15 * max(1.0, largest) and off < 1e-7
                better = not near or moved < least
                left = arrived and not near
                if near and not arrived:
                    better = arrived = True
            else:
                close = merit < 100 * target
                stalled += close and merit > 0.5 * before
                done = (merit < target and off < max(tol[b], 1e-9)) or (close and stalled >= 2 and off < 1e-7)
            finite = math.isfinite(merit + off)
            done = finite and (done or away > RUNAWAY * (1.0 + largest))
            if finite and better and not left and not done:
                least, best = (score if mu_tol == np.inf else moved), step
                copy(X, L, x_mu, x_best)
            if done or not finite or left or step == most or (step > best + PATIENCE and best >= 0):
                break
            before, earlier = merit, moved
            aim(I, X, L, following * FINAL * tol[b] / n_cells, 1.0)
            upward(I, X, L, x_g, x_x, clusters, 1)
            downward(I, X, L, x_g, x_x, clusters, 1 - following)
            solve_system(I, X, L, clusters, ZERO, 1, following * careful, 1.0)
            if not following:
                if careful:
                    bend(I, X, L)
                tau = correct(X, L, gap, rest, tol[b], careful)
                solve_system(I, X, L, clusters, ZERO, ZERO, ZERO, 1.0)
                if careful:
                    lengthen(I, X, L, clusters, tau)
                    solve_system(I, X, L, clusters, ZERO, careful, REFINEMENTS * careful, 1.0)
            moved, length = move(I, X, L)
            step += 1
            if following and length <= LEAST_FOLLOWED:
                break
        if best >= 0 and not done:
            copy(X, L, x_best, x_mu)
            moved = moved if mu_tol == np.inf else min(1.0, 10.0 * least)  # the least of many that rounding made
        taken[b] += step
        moves[b] = moved
        certify(I, X, L, ROUNDING)
