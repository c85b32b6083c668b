"""What one run of the study came to, and what a group of runs came to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

CONSISTENT = 1e-6
"""Up to what initial inconsistency, in nats, there is nothing to resolve: the percentage would be noise."""


@dataclass(frozen=True)
class StrategyOutcome:
    """One run: one PDG, one strategy. Inconsistencies are in nats; traces start before the first timestep.

    `initial` and `final` are what the solver of the study saw; the bounds are certified whatever the solver. `seconds`
    is an equal share of what the steps of its batch took, in which the runs of all strategies are solved together.
    """

    structure: str
    strategy: str
    replicate: int
    initial: float
    final: float
    initial_lower: float
    initial_upper: float
    final_lower: float
    final_upper: float
    tv_mu: float
    inconsistency: tuple[float, ...]
    tv_theta: tuple[float, ...]
    solves: int
    solver_steps: int
    seconds: float

    @property
    def resolution_percent(self) -> float:
        """How much of the initial inconsistency is gone, as the solver saw it; NaN if there was none."""
        return _resolved(self.initial, self.final)

    @property
    def exact_resolution_percent(self) -> float:
        """The same between certified values."""
        return _resolved(self.initial_upper, self.final_upper)

    @property
    def rate_percent(self) -> float:
        """The rate of reduction: what is resolved on average over the timesteps. 100 % is all of it at once."""
        first, *later = self.inconsistency
        return _resolved(first, fmean(later)) if later else math.nan


def _resolved(initial: float, final: float) -> float:
    return 100 * (initial - final) / initial if initial > CONSISTENT else math.nan


@dataclass(frozen=True)
class MeanSpread:
    """Mean and standard deviation of the numbers that are there."""

    mean: float
    sd: float

    @classmethod
    def of(cls, numbers: Iterable[float]) -> MeanSpread:
        """Of some numbers, NaN left out."""
        there = [x for x in numbers if not math.isnan(x)]
        return cls(fmean(there) if there else math.nan, stdev(there) if len(there) > 1 else math.nan)


@dataclass(frozen=True)
class OutcomeGroup:
    """The runs of a strategy on one structure, or on all of them."""

    structure: str
    strategy: str
    runs: Sequence[StrategyOutcome]

    def spread(self, measure: str | Callable[[StrategyOutcome], float]) -> MeanSpread:
        """Mean and standard deviation over the runs."""
        read = (lambda o: getattr(o, measure)) if isinstance(measure, str) else measure
        return MeanSpread.of(read(o) for o in self.runs)

    @property
    def pooled_percent(self) -> float:
        """How much of the inconsistency of all runs together is gone."""
        return _resolved(sum(o.initial for o in self.runs), sum(o.final for o in self.runs))

    @property
    def pooled_exact_percent(self) -> float:
        """The same between certified values."""
        return _resolved(sum(o.initial_upper for o in self.runs), sum(o.final_upper for o in self.runs))

    @property
    def pooled_rate_percent(self) -> float:
        """The rate of reduction of the inconsistency of all runs together."""
        first, *later = (sum(step) for step in zip(*(o.inconsistency for o in self.runs), strict=True))
        return _resolved(first, fmean(later)) if later else math.nan

    def curve(self, trace: str) -> list[MeanSpread]:
        """Mean and standard deviation at every timestep."""
        return [MeanSpread.of(step) for step in zip(*(getattr(o, trace) for o in self.runs), strict=True)]


ALL = "all"
"""The name of the group of all structures."""


def groups(outcomes: Sequence[StrategyOutcome]) -> list[OutcomeGroup]:
    """By structure and strategy in the order of the runs, and at the end every strategy on all structures."""
    strategies = list(dict.fromkeys(o.strategy for o in outcomes))
    names = list(dict.fromkeys(o.structure for o in outcomes))
    return [
        OutcomeGroup(name, s, [o for o in outcomes if o.strategy == s and name in (o.structure, ALL)])
        for name in (*names, ALL)
        for s in strategies
    ]
