"""Costs of beliefs: what mu pays where it differs from p(t|s), entry by entry of a table.

    cost      paid by mu                                price of a bet q
    KL        sum mu(s,t) log mu(t|s)/p(t|s)            log q(t|s)/p(t|s)
    Brier     sum mu(s) 1/2 (mu(t|s) - p(t|s))^2        1/2 sum_u (1[u=t] - p(u|s))^2 - 1/2 sum_u (1[u=t] - q(u|s))^2

A price is linear in mu, and for any q it is a lower bound: E_mu[price] is what mu pays, less what mu would pay if q
stood in the place of p. They are equal at q = mu(t|s). (For KL the rows of q sum to at most 1; p need not.)

Tables are flat, (..., entries): the entries of a row stand together. `numerics.divergence` is KL for autograd.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FlatRows:
    """Rows of flat tables: the row `of` each entry, and the entry `at` which each row begins."""

    of: Ints
    at: Ints

    @classmethod
    def wide(cls, widths: npt.ArrayLike) -> FlatRows:
        """Return rows with these numbers of entries."""
        width = np.asarray(widths, dtype=np.int64).reshape(-1)
        return cls(np.repeat(np.arange(len(width)), width), np.cumsum(width) - width)

    def totals(self, x: Floats) -> Floats:
        """Return the sum of its row for every entry."""
        return np.add.reduceat(x, self.at, axis=-1)[..., self.of] if len(self.at) else x

    def shares(self, m: Floats) -> Floats:
        """Return mu(t|s) of mu(s,t): uniform in rows without mass."""
        mass = self.totals(m)
        return np.where(mass > 0, m, 1.0) / np.where(mass > 0, mass, self.totals(np.ones_like(m)))

    def log_softmax(self, z: Floats) -> Floats:
        """Return z - log sum e^z over its row, for every entry; some entry of each row is above -inf."""
        if not len(self.at):
            return z
        top = np.maximum.reduceat(z, self.at)[self.of]
        return z - top - np.log(np.add.reduceat(np.exp(z - top), self.at))[self.of]


class Cost(Protocol):
    """What mu pays for a belief, the linear bounds on that, and how to look for the best of these bounds.

    `name`: of the score that the cost comes from; `forbids`: whether p = 0 makes something impossible, or is a number
    like others; `square`: which of two formulas compiled functions take; `unit`: what mu pays, roughly, for a belief
    that is far off. The best bound is looked for over free numbers z >= `least`, in which E_mu[price] is concave.
    """

    name: str
    forbids: bool
    square: bool
    unit: float
    least: float

    def value(self, m: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        """Return what mu(s,t) pays, entry by entry."""
        ...

    def price(self, log_q: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        """Return the price of every entry: E_mu[price] is at most what mu pays."""
        ...

    def slope(self, m: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        """Return the derivative in log p of what mu(s,t) pays, mu held fixed."""
        ...

    def free(self, log_p: Floats) -> Floats:
        """Return the free numbers of the bets q = p."""
        ...

    def bets(self, z: Floats, rows: FlatRows) -> Floats:
        """Return log q of free numbers."""
        ...

    def size(self, log_q: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        """Return the sizes of the numbers that add up to prices: rounding is in ulps of these."""
        ...


class KL:
    """Divergence from p, in nats."""

    name = "log"
    forbids, square = True, False
    unit, least = 1.0, -math.inf

    def value(self, m: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        """mu(s,t) log mu(t|s)/p(t|s)"""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(m > 0, m * (np.log(m / rows.totals(m)) - log_p), 0.0)

    def price(self, log_q: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        """log q(t|s)/p(t|s)"""
        with np.errstate(invalid="ignore"):
            return log_q - log_p

    def slope(self, m: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        """-mu(s,t)"""
        return -m

    def free(self, log_p: Floats) -> Floats:
        """log p"""
        return log_p

    def bets(self, z: Floats, rows: FlatRows) -> Floats:
        """z - log sum e^z, row by row"""
        return rows.log_softmax(z)

    def size(self, log_q: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        """|log q| + |log p| + 1"""
        return np.abs(log_q) + np.abs(log_p) + 1


class Brier:
    """Half the squared error of p, summed over a row: of two entries, the squared error of either."""

    name = "brier"
    forbids, square = False, True
    unit, least = 0.1, 0.0

    def value(self, m: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        """mu(s) 1/2 (mu(t|s) - p(t|s))^2"""
        mass = rows.totals(m)
        off = m - np.exp(log_p) * mass
        return 0.5 * off * off / np.where(mass > 0, mass, 1.0)

    def price(self, log_q: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        """q(t|s) - p(t|s) - 1/2 sum_u (q(u|s)^2 - p(u|s)^2)"""
        q, p = np.exp(log_q), np.exp(log_p)
        return q - p - 0.5 * rows.totals((q - p) * (q + p))

    def slope(self, m: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        """p(t|s) (p(t|s) mu(s) - mu(s,t))"""
        p = np.exp(log_p)
        return p * (p * rows.totals(m) - m)

    def free(self, log_p: Floats) -> Floats:
        """p"""
        return np.exp(log_p)

    def bets(self, z: Floats, rows: FlatRows) -> Floats:
        """log z"""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(z, 0.0))

    def size(self, log_q: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        """1 + q + sum_u (q^2 + p^2)"""
        q = np.exp(log_q)
        return 1 + q + rows.totals(q * q + np.exp(2 * log_p))


LOG_SCORE, BRIER_SCORE = KL(), Brier()
"""The costs there are."""

SCORES: dict[str, Cost] = {c.name: c for c in (LOG_SCORE, BRIER_SCORE)}
"""The costs by the names of the scores that they come from."""


def uphill(m: Floats, log_q: Floats, rows: FlatRows) -> Floats:
    """Return the derivative of E_mu[price] in the free numbers of either cost: mu(s,t) - q(t|s) mu(s)."""
    return m - np.exp(log_q) * rows.totals(m)
