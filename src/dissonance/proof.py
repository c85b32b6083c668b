"""Proved bounds: one rule that turns what a solver computed into lower and upper bounds, widened by rounding.

A solver returns two numbers and the `blur` of its own arithmetic. The numbers that it was given are rounded as well: p
is a quotient of counts, log p and the weights are the nearest floats. For a distribution mu and arcs a, rounding log p
by ULPS (1 + |log p|) moves the incompatibility by at most

    ULPS sum_a beta_a E_mu[1 + |log p_a|]  <=  ULPS (sum_a beta_a (1 + log|T_a|) + sum_a beta_a KL_a),

because E_mu[-log p_a] = KL_a + H_mu(T_a | S_a). At the best mu, sum_a beta_a KL_a is at most the value itself, plus
gamma log|V| for what entropies may take from it. So the bound needs no mu. Hard arcs round mu instead, each cell by one
ulp for each arc, which moves sum_a beta_a KL_a by at most an ulp of sum_a beta_a E_mu|log mu/p_a|, where
E_mu|log mu/p| <= KL + sqrt(2 KL).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dissonance.tolerances import ROUNDING
from dissonance.variables import Variable

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

EPS = float(np.finfo(np.float64).eps)

ULPS = 8 * EPS
"""Rounding of log p, absolute and relative, and of weights: those that cancel up to this part of their sizes are 0."""

CROSSED = 1e-10
"""Part of max(1, |upper|) by which bounds may cross before the upper one is given up: mu is not what it seems."""


@dataclass(frozen=True, eq=False)
class Accuracy:
    """Rounding of the numbers of P problems, (P,) each, and the value that no mu is below.

    `size`: what is rounded whatever the value, in units of ULPS; `beyond`: how much more than the value the divergences
    may cost; `weight`: sum of beta over the soft arcs; `hard`: number of hard arcs; `floor`: 0, or -inf.
    """

    size: Floats
    beyond: Floats
    weight: Floats
    hard: Floats
    floor: Floats

    def blur(self, value: Floats) -> Floats:
        """Return how far rounded numbers may move values near these, (P,)."""
        cost = np.where(np.isfinite(value), np.abs(value), 0.0) + self.beyond
        return ULPS * (self.size + cost) + EPS * self.hard * (cost + np.sqrt(2 * cost * self.weight))

    def take(self, some: Ints | slice) -> Accuracy:
        """Return the accuracy of some of the problems."""
        return Accuracy(*(x[some] for x in vars(self).values()))


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows of the tables of A arcs, one arc after another.

    `at` (R,): where each row begins; `width` (R,): its length; `first` (A,): the first row of each arc; `log_targets`
    (A,): log|T|; `log_states`: log|V|, summed over all variables.
    """

    at: Ints
    width: Ints
    first: Ints
    log_targets: Floats
    log_states: float

    @classmethod
    def of(cls, rows: Ints, widths: Ints, log_states: float) -> TableRows:
        """Return the rows of tables with so many rows of such widths, (A,) each."""
        width = np.repeat(widths, rows)
        return cls(np.cumsum(width) - width, width, np.cumsum(rows) - rows, np.log(widths), log_states)

    def accuracy(
        self, log_p: Floats | None, beta: Floats, alpha: Floats, gamma: Floats, alive: Ints | None = None
    ) -> Accuracy:
        """Return the accuracy of problems with tables (P, entries), beta and alpha (P, A), gamma (P,).

        `log_p`: None if all rows are known to be distributions; `alive`: entries that can carry mass, if not all can.
        """
        hard = beta == math.inf
        soft = np.where(hard, 0.0, beta)
        weight, entropy = np.abs(soft), np.abs(alpha) * gamma[:, None]
        size = (weight + entropy) @ (1 + self.log_targets) + gamma * (1 + self.log_states)
        beyond = entropy @ self.log_targets + gamma * self.log_states
        plain = (gamma == 0) & (soft >= 0).all(1)
        if log_p is not None and len(self.at):
            off, normal, gain = self._sums(log_p, soft, alive)
            size, beyond, plain = size + (weight * off).sum(1) / ULPS, beyond + gain, plain & normal
        return Accuracy(size, beyond, weight.sum(1), hard.sum(1).astype(np.float64), np.where(plain, 0.0, -math.inf))

    def _sums(self, log_p: Floats, soft: Floats, alive: Ints | None) -> tuple[Floats, Bools, Floats]:
        """Return how far rows that are distributions are from a sum of 1, (P, A); whether no soft row has a sum above
        1, (P,); and how far soft arcs can cost less than 0, or disbelief more than its share, (P,)."""
        logs = log_p
        if alive is not None:
            logs = np.full_like(log_p, -math.inf)
            logs[:, alive] = log_p[:, alive]
        with np.errstate(over="ignore", invalid="ignore"):
            off = np.add.reduceat(np.exp(logs), self.at, axis=1) - 1
            near = np.where(np.abs(off) <= ULPS * self.width, np.abs(off), 0.0)
            above = np.maximum.reduceat(off > ULPS * self.width, self.first, axis=1)
        gain = np.zeros(len(soft))
        entry = self.at[self.first]
        if logs.max() > 0:  # densities: -log p may be negative
            gain += 2 * (np.abs(soft) * np.maximum(np.maximum.reduceat(logs, entry, axis=1), 0.0)).sum(1)
        if soft.min() < 0:  # nothing bounds the cross-entropy of disbelief but its largest entry
            largest = np.maximum.reduceat(np.where(np.isfinite(logs), np.abs(logs), 0.0), entry, axis=1)
            gain += 2 * (np.where(soft < 0, -soft, 0.0) * largest).sum(1)
        return np.maximum.reduceat(near, self.first, axis=1), ~(above & (soft != 0)).any(1), gain


@dataclass(frozen=True, eq=False)
class Bounds:
    """Proved bounds of P problems, (P,) each; `blur`: the rounding of the problems' numbers that is in them.

    `met`: whether they are within the tolerance of each other, beside what rounding leaves open.
    """

    lower: Floats
    upper: Floats
    blur: Floats
    met: Bools

    @classmethod
    def proved(
        cls,
        accuracy: Accuracy,
        low: npt.ArrayLike,
        high: npt.ArrayLike,
        blur: npt.ArrayLike = 0.0,
        *,
        tol: float,
        broken: npt.ArrayLike = 0.0,
        within: float = ROUNDING,
        contradicted: npt.ArrayLike = False,
    ) -> Bounds:
        """Return the bounds that a solver's numbers `low` and `high` prove.

        `blur`: what the solver's own rounding may have done to both; `tol`: the gap that is aimed at, relative to
        max(1, |upper|); `broken`: how far mu is from hard arcs, which must hold `within` this for an upper bound;
        `contradicted`: whether hard arcs exclude each other, which makes both bounds infinite.
        """
        low, high = (np.atleast_1d(np.asarray(x, dtype=np.float64)) for x in (low, high))
        high = np.where(np.less_equal(broken, within), high, math.inf)
        rounding = accuracy.blur(np.where(np.isfinite(high), high, low))
        lower, upper = ordered(np.maximum(low - blur - rounding, accuracy.floor), high + blur + rounding)
        lower, upper = (np.where(contradicted | (low == math.inf), math.inf, x) for x in (lower, upper))
        return cls(lower, upper, rounding, close(lower, upper, tol, rounding))

    @classmethod
    def entropy(cls, variables: Iterable[Variable], gamma: npt.ArrayLike) -> Bounds:
        """Return bounds of -gamma sum log|V| over variables that no arc mentions; V is infinite if Euclidean."""
        gamma = np.atleast_1d(np.asarray(gamma, dtype=np.float64))
        each = [math.log(v.size) if v.is_finite else math.inf for v in variables]
        with np.errstate(invalid="ignore"):
            value = np.where(gamma > 0, -gamma * math.fsum(each), 0.0)
            blur = np.where(np.isfinite(value), 2 * EPS * np.abs(value), 0.0)  # of the logarithms, and of the product
        return cls(value - blur, value + blur, blur, np.ones(len(gamma), dtype=np.bool_))

    def plus(self, *others: Bounds) -> Bounds:
        """Return bounds of the sum of components: they add up, and the sum is rounded; +inf anywhere is +inf."""
        parts = [self, *(x for x in others if x.lower.any() or x.upper.any())]
        if len(parts) == 1:
            return self
        lower, upper = _added([x.lower for x in parts], -1.0), _added([x.upper for x in parts], 1.0)
        blur, met = (np.stack([getattr(x, name) for x in parts]) for name in ("blur", "met"))
        return Bounds(lower, upper, blur.sum(0), met.all(0))

    def take(self, some: Ints | slice) -> Bounds:
        """Return the bounds of some of the problems."""
        return Bounds(*(x[some] for x in vars(self).values()))

    @classmethod
    def of(cls, lower: float, upper: float, met: bool) -> Bounds:
        """Return the bounds of one problem that were proved before."""
        return cls(*(np.array([x]) for x in (lower, upper, 0.0)), np.array([met]))

    @property
    def one(self) -> tuple[float, float, bool]:
        """Lower bound, upper bound and whether they meet, of a single problem."""
        return float(self.lower[0]), float(self.upper[0]), bool(self.met[0])


def close(lower: Floats, upper: Floats, tol: float, blur: npt.ArrayLike = 0.0) -> Bools:
    """Return where bounds meet: within `tol` max(1, |upper|) of each other, beside `blur` on both sides."""
    with np.errstate(invalid="ignore"):
        near = upper - lower - 2 * np.asarray(blur) <= tol * np.maximum(1.0, np.abs(upper))
    return (lower == upper) | (near & np.isfinite(upper))


def ordered(lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return bounds in order; where they cross by more than rounding mu proves nothing, and no upper bound is left."""
    with np.errstate(invalid="ignore"):
        crossed = lower - upper > CROSSED * np.maximum(1.0, np.abs(upper))
    return np.minimum(lower, upper), np.where(crossed, math.inf, np.maximum(lower, upper))


def _added(parts: Sequence[Floats], outwards: float) -> Floats:
    each = np.stack(parts)  # (components, P)
    with np.errstate(invalid="ignore"):
        total = np.where((each == math.inf).any(0), math.inf, each.sum(0))
        rounded = EPS * np.maximum((each != 0).sum(0) - 1, 0) * np.abs(each).sum(0)
        return np.where(np.isfinite(total), total + outwards * rounded, total)
