"""mu* at gamma = 0: the limit of the minimisers as gamma -> 0+, from a small gamma, by the same Newton method.

Among the minimisers of OInc it minimises SDef. The minimiser mu_g of OInc + g SDef is within O(g) of it, and linear in
g near 0: extrapolate to mu_g - g dmu_g/dg. The slack at given l and d is linear in gamma, so that one more Newton step,
at the same point, for the change of the slack from gamma to 2 gamma, is the derivative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from dissonance.answer import Answer
from dissonance.problem import Batch
from dissonance.solvers.convex.hard import satisfied
from dissonance.solvers.convex.layout import STRUCTURAL, Bools
from dissonance.solvers.convex.program import Floats, Structure
from dissonance.solvers.convex.solve import agreeing, value
from dissonance.solvers.convex.support import structure_of
from dissonance.solvers.convex.work import Work
from dissonance.tolerances import FEASIBLE

GAMMA, LESS, MORE = 1e-7, 1e-8, 1e-6
"""The gamma at which mu* of gamma = 0 is looked for, and those to try where it is too large or lost in rounding; times
the least weight of an arc."""

CLOSE = 5e-4
"""How far off mu* may be without trying another gamma."""

WORSE = 1e-6
"""By how much, times the weights of the arcs, the incompatibility of mu* may exceed the upper bound."""

SETTLED = 1e-7
"""How far the last Newton step may move mu_g."""

CAUTION = 6.0
"""How much further rounding may move mu than it did in the last Newton step."""

SOFT = 1e-4
"""The least slack of a cell, in units of gamma, where mu is differentiated: less is all rounding."""


@dataclass(frozen=True)
class NearZero:
    """mu (P, cells) at gamma -> 0+ as it looks from a small gamma; how far that is from mu there, and how far rounding
    moves it (the largest total variation over the clusters), (P,). `start`: where to start for another gamma."""

    structure: Structure
    mu: Floats
    slope: Floats
    rounding: Floats
    start: Floats

    @property
    def error(self) -> Floats:
        """How far off it may be, (P,)."""
        return np.minimum(1.0, self.slope + CAUTION * self.rounding)


def select(solution: Answer) -> tuple[Sequence[Tensor], float]:
    """The gamma -> 0+ minimiser at gamma = 0, and how far off it may be (largest total variation over the clusters).

    Where that is large, gamma is too large for the least cost of a state without mass, or too small for the largest
    beta: another one is tried. If that does not help and what was found is no minimiser, it is the solution's own mu,
    which is one.
    """
    part, on = solution.part, solution.on
    assert on is not None
    found = near_zero(part, solution, GAMMA)
    if found.error[0] > CLOSE:
        gamma = MORE if CAUTION * found.rounding[0] > found.slope[0] else LESS
        other = near_zero(part, solution, gamma, found.start)
        found = min(found, other, key=lambda x: x.error[0])
    tables, error = found.structure.tables(found.mu[0]), float(found.error[0])
    doubtful = error > CLOSE or found.structure.hard
    soft = np.where(part.hard, 0.0, part.beta)
    if doubtful and _excess(solution, found) > WORSE * (1.0 + soft.sum()):
        apart = max(0.5 * float((a - b).abs().sum()) for a, b in zip(tables, on.tables, strict=True))
        return on.tables, min(1.0, error + apart)
    return tables, error


def _excess(solution: Answer, found: NearZero) -> float:
    """How much more than the upper bound, which another mu attains, the mu that was found costs: inf if it breaks hard
    arcs, and breaks them more than that one."""
    cost, _, broken = value(found.structure, found.structure.numbers(solution.part), found.mu[0])
    return math.inf if broken > max(FEASIBLE, float(np.max(solution.residual))) else cost - solution.upper


def near_zero(part: Batch, solution: Answer, gamma: float, start: Floats | None = None) -> NearZero:
    """mu* of a part from gamma times the least weight of its arcs."""
    assert solution.on is not None
    ratio = part.beta / np.maximum(1.0, part.alpha)
    least = ratio[(part.beta > 0) & ~part.hard].min(initial=math.inf)
    least = 1.0 if least == math.inf else float(least)
    curved = part.with_numbers(part.log_p, part.beta, part.alpha, np.array([gamma * least]))
    s = structure_of(curved, solution.on.tree)
    assert s is not None
    return extrapolate(s, curved, _start(s, solution) if start is None else start)


def _start(s: Structure, solution: Answer) -> Floats | None:
    """Where the gap of the solution was broad, (1, point), and in the terms that gamma > 0 adds mu(rest | separator).

    None if that is not known, or of other cells.
    """
    stopped = None if solution.on is None else solution.on.stopped
    if stopped is None or not stopped[1][0] > 0.0:
        return None
    flat, broad = stopped
    lay, structural = s.layout, s.kind == STRUCTURAL
    if not np.array_equal(flat.layout.full, lay.full) or len(flat.kind) != np.count_nonzero(~structural):
        return None
    mu = broad[: len(lay.own)]
    conditional = mu / np.bincount(lay.own, mu)[lay.own]
    y = np.empty(len(structural))
    y[~structural] = flat.y(broad)
    y[lay.entry[np.repeat(lay.kind == STRUCTURAL, np.diff(lay.term_cell))]] = np.log(conditional)
    return np.concatenate([broad[: 2 * len(mu)], y, broad[2 * len(mu) + len(flat.kind) :]])[None]


def extrapolate(s: Structure, arcs: Batch, start: Floats | None = None) -> NearZero:
    """mu at gamma -> 0+ of problems of one structure, from mu and its derivative at their gamma."""
    numbers, twice = s.numbers(arcs), s.numbers(arcs.with_numbers(arcs.log_p, arcs.beta, arcs.alpha, 2 * arcs.gamma))
    work = Work(s, numbers)
    moved, start = work.settle(1e-6 * arcs.gamma, SETTLED, 100, start)
    first = _agreeing(s, numbers.p, work.mu)
    ahead = work.derivative(twice, SOFT * arcs.gamma)
    lost: Bools = ~np.isfinite(ahead).all(axis=1)
    mu = _agreeing(s, numbers.p, np.where(lost[:, None], first, ahead))
    away = np.add.reduceat(np.abs(mu - first), s.layout.cell_at[:-1], axis=1)
    return NearZero(s, mu, 0.5 * away.max(1, initial=0.0), np.where(lost, 1.0, moved), start)


def _agreeing(s: Structure, p: Floats, mu: Floats) -> Floats:
    """Clusters that agree with each other and with the hard arcs."""
    found = agreeing(s, mu)
    return satisfied(s, p, found) if s.hard else found
