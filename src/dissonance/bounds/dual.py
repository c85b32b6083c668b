"""The lower bound: regions that are made to agree by multipliers.

    D = sum_r min_rows [ -beta log sum_t p(t|s) e^(-L(s,t)/beta) ],   L(s,t) = min over the cells of that entry of
        (multipliers of the ties of r to regions inside it) - (those of the ties to r) + sum of beta log q/p of its
        terms but the main one + what is linear in mu (at gamma > 0).

For another cost than KL no term is the main one: a region's part of D is the least L, with other prices (`costs.py`).

For all multipliers and all q whose rows sum to 1, D is at most the inconsistency: see docs/bounds.md. The minima are
smoothed at a temperature while D is raised, by L-BFGS; the bound itself is not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from dissonance import lbfgs
from dissonance.bounds.regions import Regions
from dissonance.bounds.terms import Floats, Ints
from dissonance.compiled import clock
from dissonance.costs import uphill
from dissonance.problem import EPS

EXACT = 1e-30
"""The temperature at which smoothed minima are minima."""

GIVEN_UP = 1e-11
"""What is taken from a bound for every unit of a multiplier of a hard arc, whose table is rounded."""


class SmoothedDual(ABC):
    """A lower bound D(x), concave, with minima that are smoothed at a temperature while it is raised."""

    least: Floats | None = None
    """Lower ends of what x may be; None if there are none."""

    pairs = 12
    """Pairs of steps and gradients that L-BFGS keeps."""

    @abstractmethod
    def smoothed(self, x: Floats, eps: float) -> tuple[float, Floats, Floats]:
        """D with minima smoothed, which is no more than D; its gradient; and the mass that it is."""

    @abstractmethod
    def blur(self, x: Floats) -> float:
        """Return what rounding may have added to D."""

    def certified(self, x: Floats) -> tuple[float, float]:
        """D, and what rounding may have added."""
        return self.smoothed(x, EXACT)[0], self.blur(x)

    def raised(
        self, x: Floats, eps: float, steps: int, deadline: float = np.inf, seen: Callable[[], None] | None = None
    ) -> tuple[Floats, int]:
        """x after so many steps up the smoothed D, or those that there is time for; and how many there were."""

        def check() -> None:
            if seen is not None:
                seen()
            if clock() > deadline:
                raise StopIteration

        options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": self.pairs, "ftol": 1e-10, "gtol": 1e-9}
        return lbfgs.raised(lambda x: self.smoothed(x, eps)[:2], x, check, self.least, **options)


class RelaxedDual(SmoothedDual):
    """D of some regions, at x: multipliers, then the free numbers of bets q."""

    def __init__(self, regions: Regions) -> None:
        self.r = regions
        self.count = regions.multipliers
        self.size = self.count + len(regions.others.log_p)
        cells, entries, rows = len(regions.cell), len(regions.entry_at), len(regions.row_at)
        self.of_entry = np.repeat(np.arange(entries), np.diff(np.append(regions.entry_at, cells)))
        self.of_row = np.repeat(np.arange(rows), np.diff(np.append(regions.row_at, entries)))
        self.of_region = np.repeat(np.arange(len(regions.region_at)), np.diff(np.append(regions.region_at, rows)))
        self.alone = entries == cells
        self.back = regions.ties.T.tocsr()
        self.priced_back = regions.priced.T.tocsr()
        if regions.cost.least > -np.inf:
            self.least = np.repeat([-np.inf, regions.cost.least], [self.count, self.size - self.count])

    @property
    def start(self) -> Floats:
        """q = p: D is 0 there if p has its mass on what is possible, and no less than it should be otherwise."""
        return np.concatenate([np.zeros(self.count), self.r.cost.free(self.r.others.log_p)])

    def _log_q(self, x: Floats) -> Floats:
        return self.r.cost.bets(x[self.count :], self.r.others.rows)

    def _costs(self, x: Floats, log_q: Floats) -> Floats:
        r, o = self.r, self.r.others
        found = r.linear + r.ties @ x[: self.count]
        return found + r.priced @ r.cost.price(log_q, o.log_p, o.rows) if len(log_q) else found

    def smoothed(self, x: Floats, eps: float) -> tuple[float, Floats, Floats]:
        """D with minima smoothed, its gradient, and the mass of cells that it is."""
        r = self.r
        log_q = self._log_q(x)
        costs = self._costs(x, log_q)
        least, share = (costs, None) if self.alone else softmin(costs, r.entry_at, self.of_entry, eps)
        scaled = r.log_p - least / r.beta[self.of_row]
        top = np.maximum.reduceat(scaled, r.row_at)
        part = np.exp(scaled - top[self.of_row])
        total = np.add.reduceat(part, r.row_at)
        values = -r.beta * (top + np.log(total))
        worst, weight = softmin(values, r.region_at, self.of_region, eps)
        mass = (weight / total)[self.of_row] * part
        if share is not None:
            mass = mass[self.of_entry] * share
        gradient = np.empty(self.size)
        gradient[: self.count] = self.back @ mass
        if len(log_q):
            gradient[self.count :] = uphill(self.priced_back @ mass, log_q, r.others.rows)
        return float(worst.sum()), gradient, mass

    def bets(self, x: Floats) -> tuple[Floats, Ints, Ints]:
        """Return log q of the entries that are possible; which term each is of, and which of its entries it is.

        The price of every joint state, sum_a beta log q/p for KL, is at least `certified`.
        """
        r = self.r
        log_q = self._log_q(x)
        least = np.minimum.reduceat(self._costs(x, log_q), r.entry_at)
        scaled = r.log_p - least / r.beta[self.of_row]
        top = np.maximum.reduceat(scaled, r.row_at)
        total = top + np.log(np.add.reduceat(np.exp(scaled - top[self.of_row]), r.row_at))
        main = r.term >= 0
        found = (scaled - total[self.of_row])[main], log_q
        terms, entries = (r.term[main], r.others.term), (r.entry[main], r.others.entry)
        return np.concatenate(found), np.concatenate(terms), np.concatenate(entries)

    def blur(self, x: Floats) -> float:
        """Return 64 ulps of all that is added up, region by region, and what rounded tables of hard arcs may move."""
        r, log_q = self.r, self._log_q(x)
        size = np.abs(r.linear) + abs(r.ties) @ np.abs(x[: self.count])
        if len(log_q):
            size += r.priced @ r.cost.size(log_q, r.others.log_p, r.others.rows)
        tables = np.maximum.reduceat(r.beta[self.of_row] * (2 * np.abs(r.log_p) + 1), r.row_at[r.region_at])
        spread = 2 * np.maximum.reduceat(size, self._first) + tables
        return 64 * EPS * float(spread.sum()) + GIVEN_UP * float(np.abs(x[r.hard]).sum())

    @property
    def _first(self) -> Ints:
        """The first cell of each region."""
        return self.r.entry_at[self.r.row_at[self.r.region_at]]

    def contradictory(self, x: Floats) -> bool:
        """Whether the multipliers prove that hard arcs contradict each other.

        -beta log sum_t p e^(-tL/beta) >= t min L, so that D at t times the multipliers, and q = p, is at least t times
        the sum over regions of the least cost: where that is positive D has no bound.
        """
        r = self.r
        if not len(r.hard) or not np.any(x[r.hard]):
            return False
        multipliers = x[: self.count] / np.abs(x[: self.count]).max()
        least = np.minimum.reduceat(r.ties @ multipliers, self._first)
        size = np.maximum.reduceat(abs(r.ties) @ np.abs(multipliers), self._first)
        unsure = 32 * EPS * float(size.sum()) + GIVEN_UP * float(np.abs(multipliers[r.hard]).sum())
        return float(least.sum()) > unsure


def softmin(values: Floats, at: Ints, group: Ints, eps: float) -> tuple[Floats, Floats]:
    """-eps log sum e^(-value/eps) of each group, and the share of each value."""
    low = np.minimum.reduceat(values, at)
    part = np.exp((low[group] - values) / eps)
    total = np.add.reduceat(part, at)
    return low - eps * np.log(total), part / total[group]
