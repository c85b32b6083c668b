"""Medians, ranges, and how sure a ratio between paired runs is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import torch
from torch import Tensor

RESAMPLED = 10_000
LEVEL = 0.95
LEAST = 1e-12
"""A distance that is smaller counts as this, to have a logarithm."""


@dataclass(frozen=True)
class MedianSpread:
    """A median and an interquartile range; what is not a number is left out."""

    median: float
    iqr: float

    @classmethod
    def of(cls, values: Sequence[float]) -> MedianSpread:
        """That of these values."""
        known = [v for v in values if not math.isnan(v)]
        if not known:
            return cls(math.nan, math.nan)
        return cls(median(known), _quantile(known, 0.75) - _quantile(known, 0.25))


@dataclass(frozen=True)
class Interval:
    """A ratio or a difference, and where 95 % of those lie that resampling gives."""

    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """What the interval of a ratio says: smaller, larger, or neither."""
        if self.high < 1:
            return "smaller"
        return "larger" if self.low > 1 else "unclear"

    @classmethod
    def between(cls, first: Sequence[float], second: Sequence[float], of: Callable[[Tensor], Tensor]) -> Interval:
        """The ratio of a statistic of two samples, `of` a tensor's last axis; each is resampled by itself."""
        if not first or not second:
            return cls(math.nan, math.nan, math.nan)
        generator = torch.Generator().manual_seed(0)
        values = [torch.tensor(x, dtype=torch.float64).clamp(min=LEAST) for x in (first, second)]
        drawn = [v[torch.randint(len(v), (RESAMPLED, len(v)), generator=generator)] for v in values]
        low, high = (of(drawn[0]) / of(drawn[1])).quantile(_ends()).tolist()
        return cls((of(values[0]) / of(values[1])).item(), low, high)

    @classmethod
    def over(cls, rows: Sequence[Sequence[float]], of: Callable[[Tensor], Tensor]) -> Interval:
        """A statistic `of` rows (..., rows, columns), which are resampled whole; one row alone has no interval."""
        if not rows:
            return cls(math.nan, math.nan, math.nan)
        values = torch.tensor(rows, dtype=torch.float64)
        generator = torch.Generator().manual_seed(0)
        drawn = values[torch.randint(len(values), (RESAMPLED, len(values)), generator=generator)]
        low, high = of(drawn).quantile(_ends()).tolist() if len(values) > 1 else (math.nan, math.nan)
        return Interval(of(values).item(), low, high)


@dataclass(frozen=True)
class Ratio(Interval):
    """How many times as large the first of two paired values is: geometric mean, and an interval by bootstrap."""

    smaller: int  # pairs in which the first is the smaller one
    pairs: int

    @classmethod
    def of(cls, logs: Sequence[float]) -> Ratio:
        """From the logarithm of the ratio in each pair; pairs are resampled."""
        smaller, count = sum(x < 0 for x in logs), len(logs)
        if count == 0:
            return cls(math.nan, math.nan, math.nan, 0, 0)
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randint(count, (RESAMPLED, count), generator=generator)
        means = torch.tensor(logs, dtype=torch.float64)[drawn].mean(1)
        low, high = means.quantile(_ends()).tolist() if count > 1 else (math.nan, math.nan)
        return cls(math.exp(fmean(logs)), math.exp(low), math.exp(high), smaller, count)


def _quantile(values: Sequence[float], q: float) -> float:
    """Interpolated between the values beside it, of which one may be infinite."""
    ordered, place = sorted(values), q * (len(values) - 1)
    below, part = int(place), place % 1
    return ordered[below] if part == 0 else (1 - part) * ordered[below] + part * ordered[below + 1]


def _ends() -> Tensor:
    return torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=torch.float64)
