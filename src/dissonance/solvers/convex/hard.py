"""Hard arcs after a solve: mu moved onto them, multipliers that prove more, and proofs that they contradict."""

from __future__ import annotations

import math

import numpy as np

from dissonance.solvers.convex.dense import TINY
from dissonance.solvers.convex.entries import certify, contradiction, measure, trim
from dissonance.solvers.convex.layout import HARD
from dissonance.solvers.convex.program import Floats, Numbers, Structure, first_guess
from dissonance.solvers.convex.work import Work
from dissonance.tolerances import ROUNDING

ROUNDS = 12
"""How often mu is moved onto the hard arcs at most; a cell that must nearly vanish shrinks by ten a round."""

NOTHING = 1e-9
"""The mass that may be none: hard arcs may leave no mass at cells where no table has a 0."""

CLOSEST = 1e-16
"""The gap to which hard arcs are solved as soft ones: as far as rounding goes."""


def satisfy(w: Work, enough: Floats) -> Floats:
    """Move mu onto the hard arcs where it is off and prove its cost again; or show that they contradict each other.

    By how much they do, (P,). Where the bounds are further apart than `enough` (P,), trimmed multipliers are tried.
    """
    rows = w.rows()
    found = np.array([contradiction(*row) for row in rows])
    for b in np.flatnonzero(~(found > 0)).tolist():
        row, bounds, mu = rows[b], w.bounds[b].copy(), w.proved[b].copy()
        for least in (0.0, NOTHING):
            if bounds[2] > ROUNDING:
                w.mu[b] = satisfied(w.structure, w.view("p")[b : b + 1], np.where(mu > least, mu, 0.0)[None])[0]
                certify(*row, ROUNDING)
                if w.bounds[b, 2] < bounds[2]:
                    bounds, mu = w.bounds[b].copy(), w.proved[b].copy()
        if bounds[2] > ROUNDING:
            found[b] = _contradiction(w, b)
        elif not bounds[1] - bounds[0] <= enough[b] * max(1.0, abs(bounds[1])):
            trim(*row)
            certify(*row, ROUNDING)
            bounds[0] = max(bounds[0], w.bounds[b, 0])
        w.bounds[b], w.proved[b] = bounds, mu
    return found


def _contradiction(w: Work, b: int) -> float:
    """By how much hard arcs contradict each other where no mu was found that satisfies them: multipliers are what the
    mu at hand misses, or the `dispute`."""
    row, y = w.rows()[b], w.view("y")[b]
    measure(*row)
    y[...] = np.where(w.structure.kind == HARD, w.view("off_hard")[b], 0.0)
    found = contradiction(*row)
    if not found > 0:
        y[...] = dispute(w.structure, w.view("p")[b])
        found = max(found, contradiction(*row))
    return found


def dispute(s: Structure, p: Floats) -> Floats:
    """Multipliers (entries,) that prove that hard arcs contradict each other, if they do: log p/q, where q solves

        v = min over mu of the sum over hard arcs of KL( mu(t|s) || p(t|s) )

    as if they were soft. Then sum log q/p >= v at every joint state, and -(lam - sum_t p lam) = log q/p + KL(p || q) is
    no less. So it is proof if v > 0, however small the probabilities are that contradict each other.
    """
    hard = s.kind == HARD
    log_p = np.where(hard, np.log(np.maximum(p, TINY)), 0.0)
    weights = (s.layout.kind == HARD).astype(np.float64)
    w = Work(s.softened, Numbers(s.cell_sums(-log_p[None]), weights[None], np.where(hard, first_guess(p), p)[None]))
    w.newton(np.full(1, CLOSEST))
    return np.where(hard, log_p - w.view("y")[0], 0.0)


def satisfied(s: Structure, p: Floats, mu: Floats) -> Floats:
    """mu + D A'y with A D A'y = b - A mu and D = diag mu, again and again: cells (P, cells) that satisfy the hard arcs.

    Every cell moves in proportion to its mass, so that small ones keep their sign; a few rounds leave only rounding.
    """
    w = Work(s, Numbers(np.zeros_like(mu), np.zeros((len(mu), len(s.layout.kind))), p))
    w.view("z")[...] = 1.0
    w.mu[...] = np.maximum(mu, TINY)
    found = w.mu.copy()
    for b, row in enumerate(w.rows()):
        least = math.inf
        for _ in range(ROUNDS):
            off = measure(*row)[1]
            if not off < least:
                break
            least, found[b] = off, w.mu[b]
            if off <= 1e-15:
                break
            x = w.solve_system(b, 1.0, 2)  # the nearest, each cell in units of its mass: W and c are 0, z is 1
            shrink = -float((x / w.mu[b] - 1.0).min())
            w.mu[b] = np.maximum(w.mu[b] + min(1.0, 0.9 / max(shrink, 1e-300)) * (x - w.mu[b]), TINY)
    return found
