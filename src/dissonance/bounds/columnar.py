"""A bracket for PDGs of very many arcs in columns, at gamma = 0: in arrays, without an object for any arc."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dissonance.bounds.columnar_dual import ColumnDual
from dissonance.bounds.columnar_states import ColumnStates
from dissonance.bounds.terms import Floats
from dissonance.columns import ColumnarPDG
from dissonance.compiled import clock
from dissonance.errors import CapabilityError
from dissonance.pdg import PDG
from dissonance.proof import Accuracy, ProvedBounds, TableRows
from dissonance.timed import TimedBounds

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


MANY = 20_000
"""Arcs from which on the whole is bounded column by column, if it is no tree."""


def tangled(pdg: ColumnarPDG) -> bool:
    """Whether there are so many arcs, about so many more pairs or sets of variables than there are variables, that no
    junction tree is near: then it is not looked for."""
    if len(pdg) < MANY:
        return False
    several = [np.sort(c.scopes, 1) for c in pdg.columns if c.scopes.shape[1] > 1]
    return sum(len(np.unique(s, axis=0)) for s in several) > 1.25 * len(pdg.sizes)


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
    tables = [np.ascontiguousarray(c.log_p.numpy()) for c in pdg.columns] if log_p is None else log_p
    dual = ColumnDual(pdg, tables, weights)
    scale = float(np.median(weights[weights > 0])) if (weights > 0).any() else 1.0
    run = _Narrowing(dual, ColumnStates(dual, seed), seconds, tol)
    with run.interruptible():
        run.believe(scale)
        run.count()
    lower, upper, _ = ProvedBounds.proved(_accuracy(tables, weights), run.lower, run.upper, tol=math.inf).one
    return ColumnBracket(lower, upper, run.kept, run.seconds, run.contributions([len(c) for c in pdg.columns]))


def _accuracy(tables: Sequence[Floats], beta: Floats) -> Accuracy:
    """Return how well tables (arcs, source settings, target settings), column by column, and weights are known."""
    rows, widths = (np.repeat([x.shape[k] for x in tables], [len(x) for x in tables]) for k in (1, 2))
    flat = np.concatenate([x.ravel() for x in tables] or [np.zeros(0)])[None]
    return Accuracy(TableRows(rows, widths, 0.0), flat, beta[None], np.zeros((1, len(beta))), np.zeros(1))


class _Narrowing(TimedBounds):
    """The bounds so far, and the counts of the `kept` joint states that attain the upper one."""

    lower, kept = 0.0, 0

    def __init__(self, dual: ColumnDual, states: ColumnStates, seconds: float, tol: float) -> None:
        super().__init__(seconds, tol)
        self.dual, self.states = dual, states
        self.counts: Sequence[Floats] = ()

    @property
    def usable(self) -> bool:
        """Whether joint states have been counted: there is an upper bound only then."""
        return self.kept > 0

    def believe(self, scale: float) -> None:
        """Raise the lower bound; joint states are drawn from what the dual believes on the way."""
        x = np.zeros(self.dual.size)
        for t in TEMPERATURES:
            deadline = self.began + (BELIEFS if t >= BELIEVED else LOWER) * self.limit
            x, _ = self.dual.raised(x, t * scale, STEPS, deadline)
            self.rise(*self.dual.certified(x))
            if t == TEMPERATURES[0] or (t >= BELIEVED and clock() < deadline):
                self.states.believe(self.dual.smoothed(x, t * scale)[2])
            self.tell()

    def count(self) -> None:
        """Lower the upper bound, until there is no more time or the gap is small."""
        self.states.draw(BEFORE)
        sweeps = 0
        while sweeps < FEWEST or not self.late:
            self.states.count(1)
            sweeps += 1
            if sweeps & (sweeps - 1) == 0 or sweeps % 16 == 0:
                counts = self.states.counts()
                if self.fall(*self.states.incompatibility(counts)) or not self.kept:
                    self.counts, self.kept = counts, self.states.drawn
                self.tell()
                if self.close():
                    break

    def contributions(self, sizes: Sequence[int]) -> tuple[Floats, ...]:
        """Return beta KL of every arc at the empirical distribution, by column of these sizes."""
        found, seen = [np.zeros(n) for n in sizes], [c.values(self.dual.value_at) for c in self.dual.alone]
        masses = [*self.counts[:-1], *(self.counts[-1][v] for v in seen)]
        for c, mass in zip([*self.dual.arcs, *self.dual.alone], masses, strict=True):
            found[c.which][c.rows] = np.maximum(0.0, c.contributions(mass) / self.kept)
        return tuple(found)
