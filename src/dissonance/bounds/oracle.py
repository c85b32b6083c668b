"""The cheapest of all joint states, by branch and bound: pytoulbar2, an optional extra."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from dissonance.bounds.states import Sampler, States
from dissonance.bounds.terms import Floats, Scope, SmallTerm

EXTRA = "pip install 'dissonance[search]'"
"""What to do for there to be one."""

DIGITS = 7
"""Decimals of a cost: the rest is rounded, and given up."""


def installed() -> bool:
    """Whether there is a branch and bound to ask."""
    return find_spec("pytoulbar2") is not None


def cheapest(
    sampler: Sampler, terms: Sequence[SmallTerm], gains: Sequence[Floats], seconds: float
) -> tuple[float, States | None] | None:
    """A lower bound on what every joint state costs, and a state that costs about that; None if nothing was proved.

    A cell that breaks a rule costs more than any state that breaks none.
    """
    import pytoulbar2

    costs: dict[Scope, Floats] = {}
    spread = math.fsum(float(np.abs(g).max(initial=0.0)) for g in gains) + 1.0
    for t, gain in zip(terms, gains, strict=True):
        own = np.where(t.entry >= 0, gain[t.entry], 0.0)
        costs[t.scope] = costs.get(t.scope, 0.0) + own
    for t in sampler.terms.terms:
        if (t.entry < 0).any():
            costs[t.scope] = costs.get(t.scope, np.zeros(len(t.entry))) + np.where(t.entry < 0, 2 * spread, 0.0)
    problem: Any = pytoulbar2.CFN(resolution=DIGITS, verbose=-1)
    for v, size in enumerate(sampler.sizes):
        problem.AddVariable(f"x{v}", range(size))
    for scope, cost in costs.items():
        problem.AddFunction([sampler.place[v] for v in scope], cost.tolist())
    found = problem.Solve(timeLimit=max(1, math.ceil(seconds)))
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT))  # the search has put its own in its place
    bound = float(problem.GetDDualBound()) if found is None or problem.Limit else float(found[1])
    bound -= len(costs) * 10.0**-DIGITS
    if not math.isfinite(bound) or abs(bound) > 4 * spread:
        return None
    world = None if found is None else np.array(found[0][: len(sampler.sizes)], dtype=sampler.dtype)[:, None]
    return bound, None if world is None or not sampler.possible(world).shape[1] else world[:, 0]
