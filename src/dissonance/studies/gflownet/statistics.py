"""Medians, ranges, and how sure a ratio between paired runs is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles

import torch

RESAMPLED = 10_000
LEVEL = 0.95


@dataclass(frozen=True)
class Spread:
    """A median and an interquartile range; what is not a number is left out."""

    median: float
    iqr: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """That of these values."""
        known = [v for v in values if not math.isnan(v)]
        if not known:
            return cls(math.nan, math.nan)
        first, _, third = quantiles(known, n=4, method="inclusive") if len(known) > 1 else known * 3
        return cls(median(known), third - first)


@dataclass(frozen=True)
class Ratio:
    """How many times as large the first of two paired values is: geometric mean, and an interval by bootstrap."""

    mean: float
    low: float
    high: float
    smaller: int  # pairs in which the first is the smaller one
    pairs: int

    @classmethod
    def of(cls, logs: Sequence[float]) -> Ratio:
        """From the logarithm of the ratio in each pair; pairs are resampled, 95 % of the means lie in the interval."""
        smaller, count = sum(x < 0 for x in logs), len(logs)
        if count == 0:
            return cls(math.nan, math.nan, math.nan, 0, 0)
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randint(count, (RESAMPLED, count), generator=generator)
        means = torch.tensor(logs, dtype=torch.float64)[drawn].mean(1)
        ends = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=torch.float64)
        low, high = means.quantile(ends).tolist() if count > 1 else (math.nan, math.nan)
        return cls(math.exp(fmean(logs)), math.exp(low), math.exp(high), smaller, count)

    @property
    def verdict(self) -> str:
        """What the interval says: smaller, larger, or neither."""
        if self.high < 1:
            return "smaller"
        return "larger" if self.low > 1 else "unclear"
