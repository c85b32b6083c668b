"""Problems whose neighbours were solved: from these solutions on, and afresh where that does not lead to a proof."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from dissonance.solvers.base import State
from dissonance.solvers.batch import Batch
from dissonance.solvers.bounds import Bounds, certify
from dissonance.solvers.interior import cold, follow, interior, uniform, warm

SOON = 6
"""Newton steps after which a problem may stop as soon as it is proved well enough: few are left by then."""

MIXED = 10.0
"""How much of the uniform distribution a start inside takes in, times the gap."""


def solve_nearby(batch: Batch, near: State, tol: Tensor, enough: Tensor) -> tuple[State, Bounds]:
    """States and their proofs, from the solutions `near` of nearby problems.

    Iterate to `tol` (P,), but accept what is proved to `enough` (P,); both are relative to max(1, |value|). Most
    solutions can be followed; others start inside, near the old solution; the last few start afresh.
    """
    near = replace(near, steps=torch.zeros_like(near.steps))
    state = follow(batch, near, tol)
    bounds = certify(batch, state)
    for attempt, steps in (("inside", SOON), ("on", 2 * SOON), ("cold", 60)):
        far = ~(bounds.gap <= enough * bounds.upper.abs().clamp(min=1.0))
        if not far.any():
            break
        some = batch.take(far)
        if attempt == "inside":
            start = _inside(some, near.take(far))
        else:
            start = cold(some) if attempt == "cold" else state.take(far)
        before = state.steps[far]
        found = interior(some, replace(start, steps=before), tol[far], steps=steps)
        state.put(far, found)
        bounds.put(far, certify(some, found))
    return state, bounds


def _inside(batch: Batch, near: State) -> State:
    """A warm start with more of the uniform distribution mixed in: a cell that had nearly no mass, but is about to need
    some, would take dozens of steps to get it."""
    gap = certify(batch, near).gap
    mix = (MIXED * gap).clamp(max=0.3)[:, None]
    mu = (1 - mix) * near.mu.clamp(min=0.0) + mix * uniform(batch)
    return replace(warm(batch, near, gap), mu=batch.masked(mu, 0.0))
