"""The dual interior-point Newton method, for many problems at once, each by itself.

Unknowns: y (l = log q of soft entries, lam of hard ones), d, and a pair mu, z > 0 with z -> slack(y, d). What a step
does is in `steps.py` (compiled) and `device.py` (on a GPU); here is when to take one, which one, and when to stop.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FINAL = 0.3
"""The gap at which a solution is followed, in units of the tolerance."""

SHORT = 0.5
"""A Newton step of which less than this can be taken ends following."""

SOON = 6
"""Newton steps after which a problem may stop as soon as it is proved well enough: few are left by then."""

MIXED = 10.0
"""How much of the uniform distribution a start inside takes in, times the gap."""

PATIENCE = 15
"""Steps without a better point, after which rounding is all that there is left."""

ROUGH = 1e-3
"""What rounding alone may move mu by."""

RUNAWAY = 1e11
"""Only contradictory hard arcs push their multipliers that far, in units of 1 + max |c|."""


class Steps(Protocol):
    """Newton steps of many problems, whose points they change; `active` are the numbers of some of them."""

    largest: Floats
    cells: int

    def measure(self, active: Ints) -> Floats:
        """The gap of its own proof, how far mu is from its equations, max(1, |value|), mu.z, mu.|r|, max |lam|."""
        ...

    def predictor_corrector(self, active: Ints, now: Floats, tol: Floats) -> Floats:
        """A step with Mehrotra's tau: how far mu moves, and how much of the step is taken, (active, 2)."""
        ...

    def centred(self, active: Ints, tau: Floats) -> Floats:
        """A step to mu z = tau (active,)."""
        ...

    def cold(self, active: Ints) -> None:
        """Start from nothing but the tables."""
        ...

    def inside(self, active: Ints, gap: Floats, mix: Floats) -> None:
        """Shift points whose bounds are `gap` apart inside."""
        ...

    def keep(self, active: Ints) -> None:
        """Remember where some problems stand."""
        ...

    def back(self, active: Ints) -> None:
        """Go back to where they were kept."""
        ...

    def certify(self, active: Ints, mu: Any, bounds: Floats) -> None:
        """lower, upper and residual (P, 3), with the mu (P, cells) that proves the upper bound."""
        ...


def newton(steps: Steps, active: Ints, tol: Floats, most: int = 60) -> Ints:
    """Iterate until each problem's own proof is tight to `tol`, relative to max(1, |value|); how many steps, (active,)."""
    return settle(steps, active, tol, math.inf, most)[0]


def settle(steps: Steps, active: Ints, tol: Floats, still: float, most: int = 100) -> tuple[Ints, Floats]:
    """The same; with a finite `still` it is mu that counts and not the proof: how many steps, and how far mu moved last.

    It is done when a step moves mu by less than `still`, or by no less than the one before for rounding. Near the end the system is so ill-conditioned that steps may lose what was gained: the best
    point stands, and one that is within 100 `tol` and twice did not get better is done.
    """
    taken, last = np.zeros(len(active), dtype=np.int64), np.full(len(active), np.inf)
    here = np.arange(len(active))  # the place of each problem that is not done yet
    before = np.full(len(active), np.inf)
    least, moved, earlier, stalled, best = before.copy(), before.copy(), before.copy(), taken.copy(), taken.copy()
    rough = 1e-15 * np.maximum(1.0, steps.largest[active])
    for step in range(most + 1):
        now = steps.measure(active)
        merit, off, scale, gap, rest, away = now.T
        target, score = tol * scale, merit + off
        if still < math.inf:
            done = (moved < still) | ((moved < ROUGH) & (moved > 0.5 * earlier))
            done &= (gap + rest < target + rough) & (off < 1e-7)
            better = np.isfinite(score)
        else:
            close = merit < 100 * target
            stalled += close & (merit > 0.5 * before)
            done = (merit < target) & (off < np.maximum(tol, 1e-9)) | (close & (stalled >= 2) & (off < 1e-7))
            better = score < least
        done |= away > RUNAWAY * (1 + steps.largest[active])
        lost = ~done & (~np.isfinite(score) | (~better & (step > best + PATIENCE)) | (step == most))
        keep = better & ~done
        if keep.any():
            least, best = np.where(keep, score, least), np.where(keep, step, best)
            steps.keep(active if keep.all() else active[keep])
        if lost.any():
            steps.back(active[lost])
        stop = done | lost
        if stop.any():
            taken[here[stop]], last[here[stop]] = step, moved[stop]
            go = ~stop
            if not go.any():
                break
            active, here, tol, rough, now = active[go], here[go], tol[go], rough[go], now[go]
            merit, least, moved, stalled, best = merit[go], least[go], moved[go], stalled[go], best[go]
        before, earlier = merit, moved
        moved = steps.predictor_corrector(active, now, tol)[:, 0]
    return taken, last


def follow(steps: Steps, active: Ints, tol: Floats, most: int = 5) -> Ints:
    """From the solutions of nearby problems to those of these, for as many as it works; how many steps, (active,).

    Newton's method at the final tau at once, two or three steps, as long as every mu and z changes by little of itself.
    A problem where that does not hold goes back to where it was.
    """
    taken = np.zeros(len(active), dtype=np.int64)
    here = np.arange(len(active))
    steps.keep(active)
    for step in range(most + 1):
        now = steps.measure(active)
        finite = np.isfinite(now[:, 0])
        done = (now[:, 0] < tol * now[:, 2]) & (now[:, 1] < 1e-7) | ~finite | (step == most)
        if not finite.all():
            steps.back(active[~finite])
        go = ~done
        if not go.any():
            break
        active, here, tol = active[go], here[go], tol[go]
        length = steps.centred(active, FINAL * tol / steps.cells)[:, 1]
        taken[here] = step + 1
        free = length > SHORT
        if not free.all():
            steps.back(active[~free])
            active, here, tol = active[free], here[free], tol[free]
            if not len(active):
                break
    return taken


def solve(steps: Steps, known: npt.NDArray[np.bool_], tol: Floats, enough: Floats, mu: Any) -> tuple[Floats, Ints]:
    """Bounds (P, 3) and how many steps they took (P,), with the mu (P, cells) that proves the upper ones.

    Where a problem is `known`, its point is the solution of a nearby one: it is followed; where that does not prove
    `enough`, it is a start inside; the last few start afresh. Iterates to `tol`; all relative to max(1, |value|).
    """
    bounds, taken = np.zeros((len(known), 3)), np.zeros(len(known), dtype=np.int64)
    rest = np.flatnonzero(known)
    if len(rest):
        taken[rest] += follow(steps, rest, tol[rest])
        steps.certify(rest, mu, bounds)
        for attempt in ("inside", "on"):
            rest = rest[~proved(bounds[rest], enough[rest])]
            if not len(rest):
                break
            if attempt == "inside":
                gap = np.nan_to_num(bounds[rest, 1] - bounds[rest, 0], nan=1.0).clip(1e-8, 1.0)
                steps.inside(rest, gap, np.minimum(MIXED * gap, 0.3))
            taken[rest] += newton(steps, rest, tol[rest], SOON if attempt == "inside" else 2 * SOON)
            steps.certify(rest, mu, bounds)
        rest = rest[~proved(bounds[rest], enough[rest])]
    rest = np.union1d(rest, np.flatnonzero(~known))
    if len(rest):
        steps.cold(rest)
        taken[rest] += newton(steps, rest, tol[rest])
        steps.certify(rest, mu, bounds)
    return bounds, taken


def proved(bounds: Floats, enough: Floats) -> npt.NDArray[np.bool_]:
    """Whether the bounds are that close."""
    return bounds[:, 1] - bounds[:, 0] <= enough * np.maximum(1.0, np.abs(bounds[:, 1]))
