"""Joint states on their way down: each is moved to where all of them together cost least.

Some variables of one state are drawn anew with chances e^(-N F / temperature), F the incompatibility of all N states,
all else as it is (`tally.py`). At the best mu all its states have the same price, so that there are no hills between
them; what keeps a state in its place are variables on which much depends, and those move with what depends on them
(`forest.py`).
"""

from __future__ import annotations

import numpy as np

from dissonance.bounds.blocks import Blocks, move_blocks
from dissonance.bounds.forest import move_forest, random_forest
from dissonance.bounds.states import Sampler, States
from dissonance.bounds.tally import SECONDS, CellTally
from dissonance.compiled import clock, expect

TEMPERATURE = 0.01
"""Times a large beta and the square of a cost's unit: enough to cross what is level, and next to nothing in cost."""

FORESTS = 8
"""Forests that are drawn for every time that all blocks are."""

AT_ONCE = 10_000_000
"""Terms that are looked at between two looks at the clock."""


class StateDescent:
    """States that go down: `states` (variables, N) of the variables that are not made of others."""

    def __init__(self, sampler: Sampler, states: States, generator: np.random.Generator) -> None:
        self.sampler, self.states, self.generator = sampler, states, generator
        self.tally = CellTally(sampler, states)
        self.blocks = Blocks.of(sampler, self.tally)
        self.sizes = np.array(sampler.sizes, dtype=np.int64)
        self.temperature = TEMPERATURE * sampler.terms.cost.unit**2

    def round(self, deadline: float = np.inf) -> None:
        """Move all blocks and some forests of every state, or those that there is time for, in place."""
        expect(SECONDS * self.states.shape[1] * (1 + FORESTS) * len(self.blocks.touch))
        self._move_blocks(deadline)
        for _ in range(FORESTS):
            self._move_forest(deadline)

    def _move_blocks(self, deadline: float) -> None:
        work = np.cumsum(np.diff(self.blocks.touch_at)) * self.states.shape[1] // AT_ONCE
        ends = np.append(np.flatnonzero(np.diff(work)) + 1, len(work)).tolist()
        for first, last in zip([0, *ends], ends, strict=False):
            if clock() > deadline:
                return
            move_blocks(self.states, first, last, self.blocks, self.tally.arrays, *self._chances)

    def _move_forest(self, deadline: float) -> None:
        order = self.generator.permutation(len(self.sizes)).tolist()
        forest = random_forest(self.tally.tables, self.tally.holding, order)
        part = max(1, AT_ONCE // max(1, len(forest.term)))
        for first in range(0, self.states.shape[1], part):
            if clock() > deadline:
                return
            last = min(first + part, self.states.shape[1])
            move_forest(self.states, first, last, self.sizes, forest, self.tally.arrays, *self._chances)

    @property
    def _chances(self) -> tuple[float, float, int]:
        """The temperature, what a broken rule costs, and a seed."""
        return self.temperature * self.sampler.scale, self.tally.broken, int(self.generator.integers(2**31))

    def double(self) -> None:
        """Each state twice: the same mu, which can be finer from now on."""
        self.states = np.concatenate([self.states, self.states], axis=1)
        self.tally.count(self.states)
