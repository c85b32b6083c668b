"""A bracket for PDGs of very many arcs in columns, at gamma = 0: in arrays, without an object for any arc."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dissonance.columns import ColumnarPDG
from dissonance.errors import CapabilityError
from dissonance.pdg import PDG
from dissonance.solvers.base import QUICK
from dissonance.solvers.bounds.columnar_dual import ColumnDual
from dissonance.solvers.bounds.columnar_states import ColumnStates
from dissonance.solvers.bounds.terms import Floats

_log = logging.getLogger(__name__)

TEMPERATURES = 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001
"""At which minima are smoothed, times a typical beta."""

STEPS = 25
"""Steps of L-BFGS at each."""

BELIEVED = 0.01
"""The temperature down to which joint states are drawn from what the dual believes: below it rows get mass or none."""

BEFORE = 8
"""Sweeps over all variables before states are counted."""

BELIEFS, LOWER = 0.35, 0.5
"""The part of the time after which beliefs, and then the lower bound, are as good as they get."""

FEWEST = 4
"""Sweeps whose states are counted, at least."""


@dataclass(frozen=True)
class ColumnBracket:
    """lower <= inconsistency <= upper, proved. `contributions`: beta KL of each arc at the mu of the upper bound, one
    array a column, which add up to `upper` (but for rounding); `states`: how many joint states that mu has."""

    lower: float
    upper: float
    states: int
    seconds: float
    contributions: tuple[Floats, ...] = field(repr=False)

    @property
    def gap(self) -> float:
        """upper - lower, relative to max(1, upper)."""
        return (self.upper - self.lower) / max(1.0, self.upper) if self.upper < math.inf else math.inf


def bracket(
    pdg: PDG,
    beta: Floats | None = None,
    *,
    seconds: float = 60.0,
    tol: float = 1e-3,
    seed: int = 0,
    log_p: Sequence[Floats] | None = None,
) -> ColumnBracket:
    """Bounds of the inconsistency at gamma = 0 of a PDG in columns, whatever its size and treewidth.

    `beta`: of every arc, 0 <= beta < inf (by default its own); `seconds`: when it stops, after a first bracket; `tol`:
    the relative gap at which it stops; `log_p` replaces the tables. The lower bound looks at one arc at a time: it is
    exact on trees, and `solver="bounds"` is narrower where cycles matter and arcs are fewer.
    """
    pdg = ColumnarPDG.of(pdg)
    weights = np.concatenate([c.beta for c in pdg.columns]) if beta is None else np.asarray(beta, dtype=np.float64)
    if not ((weights >= 0) & (weights < math.inf)).all():
        raise CapabilityError('bracket() is for 0 <= beta < inf; hard arcs and disbelief: solver="bounds", or "auto".')
    began = time.perf_counter()
    tables = [np.ascontiguousarray(c.log_p.numpy()) for c in pdg.columns] if log_p is None else log_p
    dual = ColumnDual(pdg, tables, weights)
    scale = float(np.median(weights[weights > 0])) if (weights > 0).any() else 1.0
    states = ColumnStates(dual, seed)
    lower, x = 0.0, np.zeros(dual.size)
    for t in TEMPERATURES:
        deadline = began + (BELIEFS if t >= BELIEVED else LOWER) * seconds
        x = dual.raised(x, t * scale, STEPS, deadline)
        lower = max(lower, dual.certified(x))
        if t == TEMPERATURES[0] or (t >= BELIEVED and time.perf_counter() < deadline):
            states.believe(dual.smoothed(x, t * scale)[2])
        _tell(began, lower, math.inf)
    states.draw(BEFORE)
    counts, upper, kept, sweeps = np.zeros(0), math.inf, 0, 0
    while sweeps < FEWEST or time.perf_counter() - began < seconds:
        states.count(1)
        sweeps += 1
        if sweeps & (sweeps - 1) == 0 or sweeps % 16 == 0:
            now = states.counts()
            value = states.incompatibility(now, states.drawn)
            if value < upper or not kept:
                counts, upper, kept = now, value, states.drawn
            _tell(began, lower, upper)
            if upper - lower <= tol * max(1.0, upper):
                break
    contributions = _contributions(pdg, dual, states, counts, kept)
    return ColumnBracket(lower, max(lower, upper), kept, time.perf_counter() - began, contributions)


def _tell(began: float, lower: float, upper: float) -> None:
    seconds = time.perf_counter() - began
    if seconds > QUICK:
        _log.info("between %.6g and %.6g after %.3g s", lower, upper, seconds)


def _contributions(
    pdg: ColumnarPDG, dual: ColumnDual, states: ColumnStates, counts: Floats, total: int
) -> tuple[Floats, ...]:
    """beta KL of every arc at the empirical distribution."""
    found = [np.zeros(len(c)) for c in pdg.columns]
    costs = states.prices(counts)
    for c, cost in zip(dual.arcs, costs, strict=False):
        found[c.which][c.rows] = cost.sum((1, 2)) / total
    mass = counts[states.values_at :] / total
    for k, rows, v, table, weight in dual.own:
        m = mass[dual.value_at[v][:, None] + np.arange(table.shape[1])]
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = np.where(m > 0, m * (np.log(m) - table), 0.0)
        found[k][rows] = weight * cost.sum(1)
    return tuple(np.maximum(x, 0.0) for x in found)
