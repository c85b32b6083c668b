"""The lower bound by single joint states, where the cheapest of all of them can be found: constraint generation.

For any q with rows that sum to 1 the least price over all joint states, min_x sum_a beta log q/p at x, is a lower
bound. q is chosen to be best against the states that are known; the cheapest joint state at these prices (`oracle.py`:
branch and bound, proved) is the bound, and joins them. Exact in the end, whatever the treewidth, for as few variables
as branch and bound can search.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from dissonance import lbfgs
from dissonance.bounds.dual import softmin
from dissonance.bounds.oracle import cheapest
from dissonance.bounds.states import Sampler, States
from dissonance.bounds.terms import SOFT, Floats, Ints
from dissonance.costs import FlatRows, uphill
from dissonance.problem import EPS

STEPS = 60
"""Steps of L-BFGS after each state that is added."""

INWARD = 0.5
"""How far the prices that are asked about are from the best so far, towards those that are best on what is known."""

MOST = 512
"""States that are known at first."""


class Worlds:
    """Joint states that are known, and the bets that are best against them."""

    def __init__(self, sampler: Sampler, states: States) -> None:
        self.sampler, self.cost = sampler, sampler.terms.cost
        self.number = [k for k, t in enumerate(sampler.terms.terms) if t.kind == SOFT]
        self.terms = sampler.terms.soft
        sizes = [len(t.log_p) for t in self.terms]
        self.at = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.rows = FlatRows.wide(
            np.repeat([t.width for t in self.terms], [len(t.log_p) // t.width for t in self.terms])
        )
        self.beta = np.repeat([t.beta for t in self.terms], sizes)
        self.log_p = np.concatenate([t.log_p for t in self.terms])
        self.possible = np.isfinite(self.log_p) | (not self.cost.forbids)
        self.entries: list[Ints] = []
        for world in np.unique(states, axis=1).T[:MOST]:
            self.add(world)

    def add(self, world: States) -> None:
        """One more joint state that breaks no rule."""
        place, sizes = self.sampler.place, self.sampler.sizes
        found = []
        for k, t in enumerate(self.terms):
            cell = 0
            for v in t.scope:
                cell = cell * sizes[place[v]] + int(world[place[v]])
            found.append(self.at[k] + t.entry[cell])
        self.entries.append(np.array(found, dtype=np.int64))

    def log_q(self, z: Floats) -> Floats:
        """Return the bets of free numbers; of none on what is impossible."""
        return self.cost.bets(np.where(self.possible, z, -math.inf), self.rows)

    def gains(self, z: Floats) -> Floats:
        """The prices of every entry; 0 of impossible ones, at which no state is."""
        return np.where(self.possible, self.beta * self.cost.price(self.log_q(z), self.log_p, self.rows), 0.0)

    @property
    def known(self) -> sparse.csr_matrix:
        """Which entries each of the known states is at."""
        columns = np.concatenate(self.entries)
        rows = np.repeat(np.arange(len(self.entries)), len(self.terms))
        return sparse.csr_matrix((np.ones(len(columns)), (rows, columns)), (len(self.entries), len(self.log_p)))

    @property
    def start(self) -> Floats:
        """The point to start from: q = p."""
        return np.where(self.possible, self.cost.free(self.log_p), 0.0)

    def bets(self, z: Floats) -> dict[int, Floats]:
        """log q, by term."""
        log_q = self.log_q(z)
        return {k: log_q[self.at[i] : self.at[i + 1]] for i, k in enumerate(self.number)}

    def best(self, z: Floats, eps: float) -> Floats:
        """z whose least price over the known states, smoothed, is largest."""
        known = self.known
        back, first, one = known.T.tocsr(), np.zeros(1, dtype=np.int64), np.zeros(len(self.entries), dtype=np.int64)

        def at(z: Floats) -> tuple[float, Floats]:
            value, share = softmin(known @ self.gains(z), first, one, eps)
            return float(value[0]), uphill(self.beta * (back @ share), self.log_q(z), self.rows)

        least = None if self.cost.least == -math.inf else np.full(len(z), self.cost.least)
        return lbfgs.raised(at, z, None, least, maxiter=STEPS, maxcor=12)[0]

    def bounds(self, scale: float, seconds: float) -> Iterator[tuple[float, float, dict[int, Floats]]]:
        """Lower bounds, better or not, their rounding, and the bets of which they are the price; `seconds` a search."""
        centre, best, eps = self.start, -math.inf, 0.1 * scale
        while True:
            z = self.best(centre, eps)
            asked = z if best == -math.inf else centre + INWARD * (z - centre)
            gains = self.gains(asked)
            tables = [gains[self.at[k] : self.at[k + 1]] for k in range(len(self.terms))]
            found = cheapest(self.sampler, self.terms, tables, seconds)
            if found is None:
                return
            bound, world = found
            if bound > best:
                best, centre = bound, asked
            else:
                eps = max(0.9 * eps, 1e-5 * scale)
            if world is not None:
                self.add(world)
            yield bound, 64 * EPS * float(np.abs(gains).sum()), self.bets(asked)
