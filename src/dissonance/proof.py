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
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

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
class TableRows:
    """Rows of the tables of A arcs, one arc after another: numbers of source and of target settings, (A,) each.

    `log_states`: log|V|, summed over all variables.
    """

    sources: Ints
    targets: Ints
    log_states: float

    @cached_property
    def log_targets(self) -> Floats:
        """log|T| of each arc."""
        return np.log(self.targets)

    @cached_property
    def first(self) -> Ints:
        """The first entry of each arc."""
        sizes = self.sources * self.targets
        return np.cumsum(sizes) - sizes

    def distributions(self, log_p: Floats) -> Bools:
        """Return which arcs have no row with a sum above 1, (P, A)."""
        width = np.repeat(self.targets, self.sources)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.add.reduceat(np.exp(log_p), np.cumsum(width) - width, axis=1)
            above = sums > 1 + ULPS * width
        return ~np.logical_or.reduceat(above, np.cumsum(self.sources) - self.sources, axis=1)


@dataclass(frozen=True, eq=False)
class Accuracy:
    """How well the numbers of P problems are known: weights beta and alpha (P, A), gamma (P,), tables (P, entries).

    `log_p`: None if all rows are known to be distributions; -inf where nothing can be. `densities`: whether there are
    densities in the place of tables, which round for themselves.
    """

    rows: TableRows
    log_p: Floats | None
    beta: Floats
    alpha: Floats
    gamma: Floats
    densities: bool = False

    @cached_property
    def hard(self) -> Bools:
        """Which arcs are hard, (P, A)."""
        return self.beta == math.inf

    @cached_property
    def soft(self) -> Floats:
        """beta of the soft arcs, (P, A); 0 of hard ones."""
        return np.where(self.hard, 0.0, self.beta)

    @cached_property
    def sizes(self) -> tuple[Floats, Floats]:
        """What is rounded whatever the value, and how much more than the value divergences may cost, (P,) each."""
        weight, logs = np.abs(self.soft), self.rows.log_targets
        size, beyond = weight @ (1 + logs), self._beyond
        if not self.gamma.any():
            return size, beyond
        alpha, gamma = np.abs(self.alpha), self.gamma
        entropy = gamma * (alpha @ logs + self.rows.log_states)
        return size + gamma * (1 + alpha.sum(1)) + entropy, beyond + entropy

    @cached_property
    def _beyond(self) -> Floats:
        """How far -log p is below 0 (of densities), and the cross-entropies of disbelief, which no value bounds."""
        found = np.zeros(len(self.gamma))
        if self.log_p is None or not self.log_p.size:
            return found
        if self.log_p.max() > 0:
            most = np.maximum.reduceat(self.log_p, self.rows.first, axis=1)
            found += 2 * (np.abs(self.soft) * np.maximum(most, 0.0)).sum(1)
        if self.soft.min() < 0:
            least = np.minimum.reduceat(np.where(np.isneginf(self.log_p), 0.0, self.log_p), self.rows.first, axis=1)
            found += 2 * (np.maximum(-self.soft, 0.0) * np.abs(least)).sum(1)
        return found

    @cached_property
    def floor(self) -> Floats:
        """What no mu costs less than, (P,): 0, or -inf where entropies, disbelief or densities may cost less."""
        plain = (self.gamma == 0) & (self.soft >= 0).all(1) & (not self.densities)
        if self.log_p is not None and self.log_p.size:
            plain &= ((self.soft == 0) | self.rows.distributions(self.log_p)).all(1)
        return np.where(plain, 0.0, -math.inf)

    def blur(self, value: Floats) -> Floats:
        """Return how far rounded numbers may move values near these, (P,)."""
        size, beyond = self.sizes
        cost = np.abs(np.where(np.isfinite(value), value, 0.0)) + beyond
        found = ULPS * (size + cost)
        if self.hard.any():
            found += EPS * self.hard.sum(1) * (cost + np.sqrt(2 * cost * np.abs(self.soft).sum(1)))
        return found


@dataclass(frozen=True, eq=False)
class ProvedBounds:
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
        blur: float | Floats = 0.0,
        *,
        tol: float,
        broken: float | Floats = 0.0,
        within: float = ROUNDING,
        contradicted: Bools | None = None,
    ) -> ProvedBounds:
        """Return the bounds that a solver's numbers `low` and `high` prove.

        `blur`: what the solver's own rounding may have done to both; `tol`: the gap that is aimed at, relative to
        max(1, |upper|); `broken`: how far mu is from hard arcs, which must hold `within` this for an upper bound;
        `contradicted`: whether hard arcs exclude each other, which makes both bounds infinite.
        """
        low, high = (np.asarray(x, dtype=np.float64).reshape(-1) for x in (low, high))
        high = np.where(np.less_equal(broken, within), high, math.inf)
        rounding = accuracy.blur(np.where(np.isfinite(high), high, low))
        lower, upper = low - (blur + rounding), high + (blur + rounding)
        if (lower < 0).any():
            lower = np.maximum(lower, accuracy.floor)
        if not (lower <= upper).all():
            lower, upper = uncrossed(lower, upper)
        infinite = low == math.inf if contradicted is None else contradicted | (low == math.inf)
        if infinite.any():
            lower, upper = (np.where(infinite, math.inf, x) for x in (lower, upper))
        return cls(lower, upper, rounding, meeting(lower, upper, tol, rounding))

    @classmethod
    def entropy(cls, variables: Iterable[Variable], gamma: npt.ArrayLike) -> ProvedBounds:
        """Return bounds of -gamma sum log|V| over variables that no arc mentions; V is infinite if Euclidean."""
        gamma = np.atleast_1d(np.asarray(gamma, dtype=np.float64))
        each = [math.log(v.size) if v.is_finite else math.inf for v in variables]
        with np.errstate(invalid="ignore"):
            value = np.where(gamma > 0, -gamma * math.fsum(each), 0.0)
            blur = np.where(np.isfinite(value), 2 * EPS * np.abs(value), 0.0)  # of the logarithms, and of the product
        return cls(value - blur, value + blur, blur, np.ones(len(gamma), dtype=np.bool_))

    @classmethod
    def infinite(cls, count: int, value: float = math.inf) -> ProvedBounds:
        """Return bounds of problems whose beliefs contradict each other outright."""
        return cls(np.full(count, value), np.full(count, value), np.zeros(count), np.ones(count, dtype=np.bool_))

    def plus(self, *others: ProvedBounds) -> ProvedBounds:
        """Return bounds of the sum; where all but one are 0, nothing is rounded."""
        every = self, *others
        if len(every) == 1:
            return self

        def total(name: str, outwards: float) -> Floats:
            columns = np.stack([getattr(x, name) for x in every], axis=1)  # (P, parts)
            return np.array([summed(row, outwards) for row in columns.tolist()])

        lower, upper = total("lower", -math.inf), total("upper", math.inf)
        blur, met = sum(x.blur for x in every), np.logical_and.reduce([x.met for x in every])
        return ProvedBounds(lower, upper, np.asarray(blur), met)

    def put(self, where: Ints, other: ProvedBounds) -> None:
        """Overwrite the bounds of some of the problems, in place."""
        for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True):
            mine[where] = theirs

    def take(self, some: Ints | slice) -> ProvedBounds:
        """Return the bounds of some of the problems."""
        return ProvedBounds(self.lower[some], self.upper[some], self.blur[some], self.met[some])

    def within(self, tol: float) -> Bools:
        """Return which bounds are within `tol` max(1, |upper|) of each other, beside what rounding leaves open."""
        return meeting(self.lower, self.upper, tol, self.blur)

    @property
    def one(self) -> tuple[float, float, bool]:
        """Lower bound, upper bound and whether they meet, of a single problem."""
        return float(self.lower[0]), float(self.upper[0]), bool(self.met[0])


def meeting(lower: Floats | float, upper: Floats | float, tol: float, blur: Floats | float = 0.0) -> Bools:
    """Return where bounds meet: within `tol` max(1, |upper|) of each other, beside `blur` on both sides."""
    with np.errstate(invalid="ignore"):
        near = upper - lower <= tol * np.maximum(1.0, np.abs(upper)) + 2 * blur
    return (lower == upper) | (near & np.isfinite(upper))


def uncrossed(lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return bounds in order; where they cross by more than rounding mu proves nothing, and no upper bound is left."""
    with np.errstate(invalid="ignore"):
        crossed = lower - upper > CROSSED * np.maximum(1.0, np.abs(upper))
    return np.minimum(lower, upper), np.where(crossed, math.inf, np.maximum(lower, upper))


def summed(bounds: Iterable[float], outwards: float) -> float:
    """Return the sum of bounds of parts, rounded outwards; +inf is a contradiction, whatever the others are."""
    held = [x for x in bounds if x]
    if math.inf in held:
        return math.inf
    if len(held) < 2 or -math.inf in held:
        return sum(held)
    return math.nextafter(math.fsum(held), outwards)
