"""A dual interior-point Newton method on the program of one component.

Unknowns y = (l, u) with q = softmax(l), and the pair mu, z > 0 with z -> slack(l, u). One step solves, with
r = slack - z, for

    mu z + z dmu + mu dz = tau - dz dmu,     dz = d slack + r,     A (mu + dmu) = b

and l -> log of mu(t|s), by the system of `condensed.py`. Mehrotra's predictor-corrector chooses tau.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from dissonance.problem import Array
from dissonance.solvers.condensed import Condensed
from dissonance.solvers.program import Program

OFF = 1e-7
"""How far a mu that has settled may be from its equations: agreeing clusters are made of it afterwards."""

PATIENCE = 20
"""Steps without a better iterate, after which rounding is all that there is left."""

ROUGH = 1e-3
"""What rounding alone may move mu by."""


@dataclass(frozen=True)
class Iterate:
    """Where an interior-point method stands: primal mu, slack z, dual l and u; `moved`: how far mu moved last."""

    mu: Array
    z: Array
    l: Array  # noqa: E741 - the letter of the formula
    u: Array
    steps: int = 0
    moved: float = np.inf


def cold(program: Program) -> Iterate:
    """A start that knows nothing but the tables: uniform clusters, unit slack."""
    counts = np.diff(program.offsets)
    mu = np.repeat(1.0 / counts, counts)
    return Iterate(mu, np.ones_like(mu), program.start, np.zeros(len(program.b)))


def warm(program: Program, near: Iterate, gap: float) -> Iterate:
    """A start near a solution whose bounds are `gap` apart: shifted inside, so that Newton's steps are long."""
    log_q = program.log_softmax(near.l)
    counts = np.diff(program.offsets)
    uniform = np.repeat(1.0 / counts, counts)
    gap = float(np.clip(gap, 1e-8, 1.0))
    mix = 0.3 * gap
    mu = (1 - mix) * np.maximum(near.mu, 0.0) + mix * uniform
    z = np.maximum(program.slack(log_q, near.u), 0.0) + gap / len(mu)
    return Iterate(mu, z, np.maximum(log_q, -60.0), near.u)


def newton(program: Program, start: Iterate, tol: float, *, settle: float = np.inf, steps: int = 100) -> Iterate:
    """Iterate until complementarity and both residuals are below `tol`: the proof is then as tight.

    `tol` is relative to max(1, |value|). Within 100 `tol`, it also stops when a step no longer helps. With `settle` it
    is mu that counts and not the proof: until a step moves it by less, or by no less than the one before for rounding.
    Gives up after `steps` steps, after PATIENCE of them that led nowhere, or when K is singular to working precision:
    the best iterate stands.
    """
    system = Condensed(program)
    mu, z, l, u = start.mu, start.z, start.l, start.u  # noqa: E741
    runaway = 1e7 * (1 + np.abs(program.c).max(initial=0.0))  # only contradictory hard arcs push u that far
    before = earlier = moved = least = np.inf
    best = start
    rounding = 1e-15 * np.abs(program.c).max(initial=1.0)
    for step in range(1, steps + 1):
        log_q = program.log_softmax(l)
        slack = program.slack(log_q, u)
        r = slack - z
        below = -np.minimum(np.minimum.reduceat(slack, program.offsets[:-1]), 0.0).sum()
        off = np.abs(program.A @ mu - program.b).sum()
        if np.abs(u).max(initial=0.0) > runaway:
            return Iterate(mu, z, l, u, step - 1, moved)
        merit, target = float(mu @ z + mu @ np.abs(r) + below), tol * max(1.0, abs(float(program.b @ u)))
        if settle < np.inf:
            done = moved < settle or ROUGH > moved > 0.5 * earlier
            done &= merit - below < target + rounding and off < OFF
        else:
            done = merit < target and off < max(tol, 1e-12 * len(mu))
            done |= merit < 100 * target and merit > 0.5 * before and off < 1e-8
        stand = Iterate(mu, z, l, u, step - 1, moved)
        if done:
            return stand
        if merit + off < least or settle < np.inf:
            least, best = merit + off, stand
        elif step - 1 > best.steps + PATIENCE:
            break
        before = merit
        try:
            here = system.at(mu, z, np.exp(log_q))
        except (LinAlgError, RuntimeError):  # singular to working precision
            break
        _, _, dz, mu_next = here.direction(np.zeros_like(mu), r)
        dmu = mu_next - mu
        gap = mu @ z / len(mu)
        ahead = (mu + _reach(mu, dmu) * dmu) @ (z + _reach(z, dz) * dz) / len(mu)
        tau = max((ahead / gap) ** 3 * gap, 0.1 * float(np.mean(mu * np.abs(r))))
        dl, du, dz, mu_next = here.direction(tau - np.clip(dz * dmu, -gap, gap), r)
        dmu = mu_next - mu
        if not (np.isfinite(du).all() and np.isfinite(dmu).all()):
            break
        primal = min(1.0, 0.99 * _reach(mu, dmu))
        dual = min(1.0, 0.99 * _reach(z, dz), 4 / max(4.0, float(np.abs(dl).max(initial=0.0))))
        mu, z = mu + primal * dmu, z + dual * dz
        earlier, moved = moved, primal * float(np.abs(dmu).sum())
        l, u = l + dual * dl, u + dual * du  # noqa: E741
    return best


SOFT = 1e-4
"""The least slack of a cell, in units of gamma, where mu is differentiated: less is all rounding."""


def limit(program: Program, twice: Program, at: Iterate) -> Array:
    """mu at gamma = 0 to first order, from a solution at the gamma of a program; `twice` is the same at 2 gamma.

    mu - gamma dmu/dgamma, by one Newton step: the slack at given l and u is linear in gamma.
    """
    log_q = program.log_softmax(at.l)
    change = program.slack(log_q, at.u) - twice.slack(log_q, at.u)
    z = np.maximum(at.z, SOFT * program.gamma)
    return Condensed(program).at(at.mu, z, np.exp(log_q)).direction(at.mu * z, change)[3]


def _reach(x: Array, dx: Array) -> float:
    """The longest step that keeps x + step dx >= 0, at most 1 / 0.99."""
    shrinking = dx < 0
    return min(1 / 0.99, float((x[shrinking] / -dx[shrinking]).min(initial=np.inf)))
