"""One large problem at gamma = 0 on few of its cells: mass is found on hardly any of those that could carry some.

What is solved on some of the cells is an upper bound for all. Its q prices every world, beta log q/p added up over the
arcs, and the cheapest world of all is a lower bound: one min-sum pass over the tree, up and down, which also says of
every cell how cheap the cheapest world through it is. Cells of worlds that are cheaper than the upper bound are added,
and so on. Cells up to some price are always those of whole worlds, so that clusters can agree on them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dissonance.problem import Batch, Bools
from dissonance.proof import meeting
from dissonance.solvers.convex.certificate import EPS
from dissonance.solvers.convex.layout import Ints
from dissonance.solvers.convex.program import Floats, Program, Structure, new_structure
from dissonance.solvers.convex.solve import solve

LARGE = 1e9
"""Multiplications of a Newton step above which this is quicker than all the cells at once."""

FIRST, MORE, LAST = 3000, 2500, 300
"""Cells to begin with, to add in a round, and to add in one of the last."""

ROUGH, NEAR, ROUNDS = 6e-5, 1e-3, 60
"""The relative gap to which a round is solved; the one from which on it is solved to the end; and how many rounds."""

SELDOM = -20.0
"""The least log q: an entry that no cell has yet is as good as impossible, and its worlds are the next to come."""


@dataclass(frozen=True)
class Narrow:
    """Bounds, mu(s,t) of the arcs (entries of tables,) and y = log q (entries of the structure,) of one problem."""

    lower: float
    upper: float
    joint: Floats
    y: Floats
    steps: int


class Narrowing:
    """Problems of a pattern without hard arcs, and their structure."""

    def __init__(self, part: Batch, whole: Structure) -> None:
        self.part, self.whole = part, whole

    @cached_property
    def _clusters(self) -> list[tuple[slice, Ints]]:
        """The cells and the children of every cluster."""
        lay = self.whole.layout
        return [
            (slice(lay.cell_at[k], lay.cell_at[k + 1]), lay.child[lay.child_at[k] : lay.child_at[k + 1]])
            for k in range(len(lay.parent))
        ]

    def prices(self, c: Floats, weights: Floats, y: Floats) -> Floats:
        """c + W log q of every cell."""
        return c + self.whole.cell_sums((weights[self.whole.term] * y)[None])[0]

    def cheapest(self, price: Floats) -> tuple[float, Floats]:
        """The price of the cheapest world, less what rounding may have added; and by how much the cheapest world
        through each cell is dearer, (cells,)."""
        lay, up, best = self.whole.layout, price.copy(), np.full(int(self.whole.layout.unknown_at[-1]), math.inf)
        size = 0.0
        for k in range(len(lay.parent) - 1, -1, -1):
            cells, children = self._clusters[k]
            size += float(np.abs(price[cells]).max())
            for j in children:
                up[cells] += best[lay.above[lay.above_at[j] : lay.above_at[j + 1]]]
            np.minimum.at(best, lay.own[cells], up[cells])
        total, excess = 0.0, np.empty_like(up)
        for k, (cells, _) in enumerate(self._clusters):
            first, own = lay.unknown_at[k], lay.own[cells]
            if lay.parent[k] < 0:
                total += float(best[first])
                excess[cells] = up[cells] - best[first]
                continue
            state = np.full(int(lay.unknown_at[k + 1] - first), math.inf)
            above = lay.above[lay.above_at[k] : lay.above_at[k + 1]] - first
            np.minimum.at(state, above, excess[self._clusters[lay.parent[k]][0]])
            excess[cells] = up[cells] - best[own] + state[own - first]
        return total - len(lay.parent) * EPS * size, excess

    def solve(self, a: Batch, tol: float) -> Narrow:
        """Solve one problem to `tol`, relative to max(1, value)."""
        s = self.whole
        numbers = s.numbers(a)
        c, weights = numbers.c[0], numbers.W[0]
        work, part = self._first
        lower, upper, steps = -math.inf, math.inf, 0
        found = Narrow(lower, upper, np.zeros(0), np.zeros(0), 0)
        for _ in range(ROUNDS):
            program, near = Program(part, part.numbers(a)), None
            for gap in (ROUGH, 1e-2 * tol):
                outcome = solve(program, np.full(1, gap), np.full(1, gap), near)
                near, steps = outcome.at, steps + int(outcome.steps[0])
                y = self._spread(part, part.y(outcome.at)[0])
                value, excess = self.cheapest(self.prices(c, weights, y))
                high = float(outcome.bounds[0, 1])
                upper = min(upper, high)
                if value > lower:
                    lower = value
                    found = Narrow(lower, upper, part.joint(outcome.mu)[0], y, steps)
                if high - value > NEAR * max(1.0, high):
                    break
            if meeting(lower, upper, tol):
                break
            room = high - value
            new = (excess < room) & ~work
            if not new.any():
                break
            count = min(int(new.sum()), MORE if room > NEAR * max(1.0, high) else LAST)
            work = work | ((excess <= np.partition(excess[new], count - 1)[count - 1]) & (excess < room))
            part = self._part(work)
        return Narrow(found.lower, upper, found.joint, found.y, steps)

    @cached_property
    def _first(self) -> tuple[Bools, Structure]:
        """The cells that every problem begins with, those on the cheapest worlds at random prices; the structure with
        them."""
        lay = self.whole.layout
        chance = np.random.default_rng(0).normal(size=len(lay.row))
        dear = self.cheapest(self.prices(np.zeros(len(lay.own)), np.ones(len(lay.term_cell) - 1), chance))[1]
        work = dear <= np.partition(dear, min(FIRST, len(dear)) - 1)[min(FIRST, len(dear)) - 1]
        return work, self._part(work)

    def _part(self, work: Bools) -> Structure:
        """The structure with some of its cells."""
        alive = np.zeros(self.whole.tree.cells, dtype=np.bool_)
        alive[self.whole.places[work]] = True
        return new_structure(self.part.shape, self.whole.tree, self.part.hard[0], False, alive)

    def _spread(self, part: Structure, y: Floats) -> Floats:
        """log q of all entries from those of a part, every row of q summing to 1."""
        every = np.full(int(self.whole.layout.table_at[-1]), SELDOM)
        every[part.layout.table] = np.maximum(y, SELDOM)
        found = every[self.whole.layout.table]
        return found - np.log(self.whole.row_sums(np.exp(found)[None])[0])
