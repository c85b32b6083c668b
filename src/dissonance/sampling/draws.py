"""How accurate an average over draws is: which samples are of one draw, and the standard error of what they add up to.

Samples come in rows (rows of data, values of finite variables: all of them are there, with their weights) and, within a
row, in draws that are independent of each other. A draw may have several samples, where finite variables that depend on
it take all their values. With x the sum of a draw's samples by weight and n draws in a row,

    Var = sum over rows  n/(n-1) sum over draws (x - mean of the row)^2

With a single draw in each row the mean of all rows takes the place of that of the row: the error is then too large, if
anything, because rows differ too. With a single draw in all it is not known: NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Units:
    """`count` draws in each of so many rows; `of`: the draw of every sample, unless there is one sample a draw."""

    rows: int
    count: int
    of: Tensor | None = None

    def repeated(self, k: int) -> Units:
        """Every sample k times over."""
        return self if k == 1 else replace(self, of=self.each.repeat_interleave(k))

    def take(self, kept: Tensor) -> Units:
        """The units of some of the samples."""
        return replace(self, of=self.each[kept])

    @property
    def each(self) -> Tensor:
        """The draw of every sample, counted row by row."""
        return torch.arange(self.rows * self.count) if self.of is None else self.of

    def summed(self, x: Tensor) -> Tensor:
        """(rows, count) of one number a sample."""
        if self.of is not None:
            x = x.new_zeros(self.rows * self.count).index_add_(0, self.of, x)
        return x.reshape(self.rows, self.count)


@dataclass(frozen=True)
class Tally:
    """Of every row, for draws of equal weight: how many there are, their weight in all, their mean, and the sum of
    squares about it. (rows,) each."""

    draws: Tensor
    weight: Tensor
    mean: Tensor
    squares: Tensor

    @classmethod
    def of(cls, units: Units, weights: Tensor, each: Tensor) -> Tally:
        """Of samples with these weights, `each` a number."""
        weight = units.summed(weights).double()
        counted = weight > 0
        draws = counted.sum(1)
        value = torch.where(counted, units.summed(weights * each).double() / torch.where(counted, weight, 1.0), 0.0)
        mean = value.sum(1) / draws.clamp(min=1)
        squares = torch.where(counted, (value - mean[:, None]).square(), 0.0).sum(1)
        return cls(draws, weight.sum(1), mean, squares)

    def and_then(self, other: Tally) -> Tally:
        """With more draws of the same rows."""
        draws = self.draws + other.draws
        total = draws.clamp(min=1)
        gap = other.mean - self.mean
        mean = self.mean + gap * other.draws / total
        squares = self.squares + other.squares + gap.square() * self.draws * other.draws / total
        return Tally(draws, self.weight, mean, squares)

    @property
    def error(self) -> float:
        """The standard error of the average."""
        several, single = self.draws > 1, self.draws == 1
        n = self.draws[several].double()
        variance = float((self.weight[several].square() * self.squares[several] / (n * (n - 1))).sum())
        alone = int(single.sum())
        if alone == 1:
            return math.nan
        if alone:
            weight, mean = self.weight[single], self.mean[single]
            middle = (weight * mean).sum() / weight.sum()
            variance += float((weight * (mean - middle)).square().sum()) * alone / (alone - 1)
        return math.sqrt(variance)
