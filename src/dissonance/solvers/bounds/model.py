"""A model of joint states, fitted: from what the dual believes towards the mu that costs least.

Mirror descent over all joint distributions, mu(x) <- mu(x) e^(-rate price(x)), where price(x) = sum_a beta log mu/p at
x is the slope of the incompatibility, keeps the form of the model: prices are added up over terms, and so are the logs.
Marginals are counted from the states of many chains, which go on from where they were.
"""

from __future__ import annotations

import time

import numpy as np

from dissonance.solvers.bounds.spanning import SpanningOrder
from dissonance.solvers.bounds.states import States
from dissonance.solvers.bounds.terms import Floats

FEWEST, MOST, VALUES = 256, 4096, 5_000_000
"""The fewest and the most chains, and how many values they have together, if they can."""

BETWEEN = 2
"""Sweeps between two steps."""

RATE, SLOWER, LEAST = 0.2, 40.0, 0.01
"""The first rate, over a typical beta; the steps after which it is halved; the least, of the first, that is tried."""

FORGET, PRIOR = 0.5, 0.1
"""What is left of earlier counts after a step, and what is added to each count."""


class Model:
    """The chains, the logs of the regions' potentials, and what was counted lately."""

    def __init__(self, start: SpanningOrder, mass: Floats, generator: np.random.Generator) -> None:
        self.sampler, self.generator = (sampler := start.sampler), generator
        self.logs = sampler.logs(mass)
        self.chains = int(np.clip(VALUES // max(1, len(sampler.base)), FEWEST, MOST))
        self.states: States = start.states(self.chains, generator)
        self.seen = np.zeros(len(self.logs))
        self.rate, self.age = RATE / sampler.scale, 0
        self._before = self.logs, self.states.copy(), self.seen

    @property
    def stuck(self) -> bool:
        """Whether no rate was small enough."""
        return self.rate < LEAST * RATE / self.sampler.scale

    def fit(self, steps: int, deadline: float) -> None:
        """So many steps down the incompatibility, or those that there is time for."""
        self._before = self.logs, self.states.copy(), self.seen
        for _ in range(steps):
            if time.perf_counter() > deadline:
                return
            self.seen = FORGET * self.seen + self.sampler.counts(self.states)
            rate = self.rate / (1 + self.age / SLOWER)
            self.logs = self.logs - rate * self.sampler.prices(self.seen, PRIOR)[1]
            self.age += 1
            self._sweep(BETWEEN)

    def undo(self) -> None:
        """Go back to before the last steps, and be slower."""
        self.logs, self.states, self.seen = self._before
        self.rate /= 4

    def kept(self, count: int) -> States:
        """Some more sweeps of all chains, until there are so many states: those that break no rule."""
        found = []
        for _ in range(-(-count // self.chains)):
            self._sweep(1)
            found.append(self.states.copy())
        return self.sampler.possible(np.concatenate(found, axis=1))

    def _sweep(self, sweeps: int) -> None:
        self.sampler.draw(self.states, self.logs, sweeps, int(self.generator.integers(1, 2**40)))
