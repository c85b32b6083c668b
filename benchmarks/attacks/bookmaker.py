"""The gain that is certain from bets against beliefs, over all worlds one by one: bounds that are proved by arithmetic.

    minimise over mu   sum_b beta_b D(mu(E_b | G_b); [l_b, h_b]) mu(G_b),     hard beliefs: l <= mu(E | G) <= h

with D the divergence KL(m : p) + KL(1 - m : 1 - p) or the square (m - p)^2 from the nearest p of the range. Clarabel
proposes mu and bets; *upper* is the cost of mu, *lower* what the bets win in the worst world, whatever they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

clarabel: Any = import_module("clarabel")

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Claim(NamedTuple):
    """The probability of an event given another lies in [low, high]; both events as truth values, world by world."""

    event: Bools
    given: Bools
    low: float
    high: float
    beta: float

    @property
    def hard(self) -> bool:
        """Whether it is insisted on."""
        return self.beta == math.inf


class Proved(NamedTuple):
    """Bounds on the certain gain, both infinite where no mu satisfies the hard claims."""

    lower: float
    upper: float


def acceptable(claim: Claim, score: str, if_true: float, if_false: float) -> float:
    """By how much a bet wins too much by the claim itself, relative to what it wins and loses; at most 0 if it is fair.

    A bet is fair if its mean is at most beta D at every probability of the event.
    """
    sizes = [abs(x) for x in (if_true, if_false) if math.isfinite(x)]
    unit = 1.0 + max(sizes, default=0.0)
    if claim.beta == 0:
        return max(if_true, if_false)
    ends = claim.low, claim.high
    if claim.hard:
        return max(_mean(p, if_true, if_false) for p in ends) / unit
    if score == "log":
        won = [math.exp(min(x / claim.beta, 700.0)) if x < math.inf else math.inf for x in (if_true, if_false)]
        return max(_mean(p, *won) for p in ends) - 1.0
    tilt = (if_true - if_false) / (2 * claim.beta)
    places = [0.0, 1.0, *ends, *(min(max(p + tilt, 0.0), 1.0) for p in ends)]
    off = [max(claim.low - x, x - claim.high, 0.0) for x in places]
    return max(_mean(x, if_true, if_false) - claim.beta * d**2 for x, d in zip(places, off, strict=True)) / unit


def _mean(p: float, if_true: float, if_false: float) -> float:
    """The mean of a bet, with 0 times inf = 0; a loss without end outweighs a gain without end."""
    parts = [q * x for q, x in ((p, if_true), (1 - p, if_false)) if q > 0]
    return -math.inf if -math.inf in parts else math.fsum(parts)


def bounds(claims: Sequence[Claim], worlds: Bools, score: str) -> Proved:
    """Bounds on what is certain to be gained from some claims, where `worlds` are possible."""
    left = _left(claims, worlds, score)
    if not left.any():
        return Proved(math.inf, math.inf)
    some = [c._replace(event=c.event[left], given=c.given[left]) for c in claims if c.beta > 0]
    some = [c for c in some if c.given.any()]
    return _Problem(some, int(left.sum()), score).solve()


def _left(claims: Sequence[Claim], worlds: Bools, score: str) -> Bools:
    """The worlds that no claim takes for impossible; a hard one does so where what else it insists on is gone."""
    left = worlds.copy()
    for c in claims:
        if c.beta > 0 and (score == "log" or c.hard):
            left &= ~(c.given & (c.event if c.high == 0 else ~c.event if c.low == 1 else np.zeros_like(left)))
    while True:
        before = left.copy()
        for c in claims:
            here = left & c.given
            if c.hard and ((c.low > 0 and not (here & c.event).any()) or (c.high < 1 and not (here & ~c.event).any())):
                left &= ~c.given
        if (left == before).all():
            return left


class _Problem:
    def __init__(self, claims: Sequence[Claim], count: int, score: str) -> None:
        self.claims, self.count, self.log = claims, count, score == "log"
        self.yes, self.given = (
            np.array([getattr(c, x) for c in claims], dtype=np.float64).reshape(len(claims), count)
            for x in ("event", "given")
        )
        self.yes = self.yes * self.given

    def solve(self) -> Proved:
        """The bounds that Clarabel's last iterate proves."""
        soft = [b for b, c in enumerate(self.claims) if not c.hard]
        hard = [b for b, c in enumerate(self.claims) if c.hard]
        size, each = self.count + 3 * len(soft), 6 if self.log else 3
        cost = np.zeros(size)
        equal, positive, cones = [self._wide(np.ones(self.count), size)], list[Floats](), list[Floats]()
        for b in hard:
            c = self.claims[b]
            below, above = (self._wide(self.yes[b] - p * self.given[b], size) for p in (c.low, c.high))
            equal += [below] if c.low == c.high else []
            positive += [below, -above] if c.low < c.high else []
        for k, b in enumerate(soft):
            c, at = self.claims[b], self.count + 3 * k
            y, t, u = np.eye(size)[at : at + 3]
            m, s = self._wide(self.yes[b], size), self._wide(self.given[b], size)
            cost[at + 1 : at + 3] = c.beta
            if c.low == c.high:
                equal.append(y - c.low * s)
            else:
                positive += [y - c.low * s, c.high * s - y]
            cones += [-t, m, y, -u, s - m, s - y] if self.log else [t + s, t - s, 2 * (m - y)]
            if not self.log:
                equal.append(u)
        positive = [*np.eye(size)[: self.count], *positive]
        A: Any = sparse.csc_matrix(np.array([*equal, *(-row for row in positive), *(-row for row in cones)]))
        b = np.zeros(A.shape[0])
        b[0] = 1.0
        kind: list[Any] = [clarabel.ZeroConeT(len(equal)), clarabel.NonnegativeConeT(len(positive))]
        kind += [clarabel.ExponentialConeT() if self.log else clarabel.SecondOrderConeT(3)] * (len(cones) // 3)
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.max_threads = False, 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
        found = clarabel.DefaultSolver(sparse.csc_matrix((size, size)), cost, A, b, kind, settings).solve()
        x, z = np.array(found.x), np.array(found.z)
        gain = np.zeros((len(self.claims), 2))
        one, two, at = 1, len(equal) + self.count, len(equal) + len(positive)
        for b in hard:
            c = self.claims[b]
            if c.low == c.high:
                gain[b] = z[one] * (np.arange(2) - c.low)
                one += 1
            else:
                gain[b] = -z[two] * (np.arange(2) - c.low) + z[two + 1] * (np.arange(2) - c.high)
                two += 2
        for k, b in enumerate(soft):
            gain[b] = self._bet(self.claims[b], z[at + each * k : at + each * (k + 1)])
        only = gain * np.array([c.hard for c in self.claims])[:, None]
        if self._worst(only) > 1e-7 * (1e-300 + np.abs(only).max(initial=0.0)):
            return Proved(math.inf, math.inf)  # bets on hard claims alone win, and any multiple of them
        return Proved(max(0.0, self._worst(gain)), self._cost(x[: self.count], gain))

    def _wide(self, row: Floats, size: int) -> Floats:
        return np.r_[row, np.zeros(size - self.count)]

    def _bet(self, c: Claim, dual: Floats) -> Floats:
        """What a fair bet on a soft claim wins if its event is false, and if it is true."""
        if self.log:
            ratio = np.maximum(dual[[5, 2]], 1e-12)
            top = max((1 - p) * ratio[0] + p * ratio[1] for p in (c.low, c.high))
            return np.asarray(c.beta * np.log(ratio / top), dtype=np.float64)
        weight = dual[0] + dual[1]
        tilt = -dual[2] / weight if weight > 0 else 0.0
        p = c.high if tilt > 0 else c.low
        return np.asarray(c.beta * (2 * tilt * (np.arange(2) - p) - tilt**2), dtype=np.float64)

    def _worst(self, gain: Floats) -> float:
        """What bets win in the worst world that is left."""
        no, yes = gain.T
        won = yes @ self.yes + no @ (self.given - self.yes)
        return float(won.min() - 1e-15 * np.abs(gain).sum())

    def _cost(self, mu: Floats, gain: Floats) -> float:
        """The cost of a mu, and the price of what it misses of hard claims."""
        mu = np.maximum(mu, 0.0)
        mu = mu / mu.sum()
        total = 0.0
        for c, yes, given, bet in zip(self.claims, self.yes @ mu, self.given @ mu, gain, strict=True):
            low, high = c.low * given, c.high * given
            if c.hard:
                total += float(np.ptp(bet)) * max(low - yes, yes - high, 0.0)
                continue
            near = min(max(yes, low), high)
            if self.log:
                parts = (yes, near), (given - yes, given - near)
                total += c.beta * sum(m * math.log(m / p) if p > 0 else math.inf for m, p in parts if m > 0)
            elif given > 0:
                total += c.beta * (yes - near) ** 2 / given
        return total
