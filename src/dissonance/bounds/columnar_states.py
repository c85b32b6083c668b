"""The upper bound of arcs in columns: chains of joint states, counted as they go; nothing is made for an arc.

Gibbs sampling of prod_a b_a^k_a prod_v b_v^k_v, where b is what the dual believes, k_a = 1 over how many arcs are about
the same variables, and k_v = 1 - sum of k_a over the arcs about v and others. Counts of all states drawn so far are the
marginals of their empirical distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dissonance.bounds.columnar_dual import ColumnDual
from dissonance.bounds.gibbs import FORBIDDEN, KNOWN, LEAST_BELIEF, GibbsTables, sweep, tabulate
from dissonance.bounds.states import SECONDS, RegionTables, States, count_cells
from dissonance.bounds.terms import Floats, Ints
from dissonance.compiled import expect
from dissonance.costs import LOG_SCORE
from dissonance.problem import EPS
from dissonance.threads import side_by_side

CHAINS, PIECES = 256, 2
"""Chains in all, and the pieces of them that go side by side: the same whatever the number of threads."""


class ColumnStates:
    """Chains over all variables, and how often every cell of every arc and every value of every variable was seen."""

    def __init__(self, dual: ColumnDual, seed: int) -> None:
        self.dual, self.generator = dual, np.random.default_rng(seed)
        count, sizes = len(dual.sizes), dual.sizes
        scopes = [c.scope.ravel() for c in dual.arcs]
        lengths = np.concatenate([*(np.full(len(c.scope), len(c.sizes)) for c in dual.arcs), np.ones(count, np.int64)])
        scope_at = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.tables = RegionTables.of(scope_at, np.concatenate([*scopes, np.arange(count)]), sizes)
        self.of_table: Ints = np.repeat(np.arange(len(lengths)), lengths)
        self.where = self.tables.where
        self.near = self._surroundings()
        dtype = np.uint8 if int(sizes.max(initial=1)) <= 256 else np.int32
        shape = count, CHAINS // PIECES
        self.states: list[States] = [
            (self.generator.random(shape) * sizes[:, None]).astype(dtype) for _ in range(PIECES)
        ]
        self.weight = self._weights(sum(len(c.scope) for c in dual.arcs))
        cells = int(self.tables.table_at[-1])
        self.logs = np.zeros(cells)
        self.chances = np.zeros(int(self.near.chance_at[-1]), dtype=np.uint32)
        self.seen = [np.zeros(cells, dtype=np.int64) for _ in self.states]
        self.drawn = 0

    def _weights(self, arcs: int) -> Floats:
        """k of each table."""
        if not arcs:
            return np.ones(len(self.dual.sizes))
        sets = [np.sort(c.scope, 1) for c in self.dual.arcs]
        most = max(s.shape[1] for s in sets)
        alike = np.concatenate([np.pad(s, ((0, 0), (0, most - s.shape[1])), constant_values=-1) for s in sets])
        _, same, times = np.unique(alike, axis=0, return_inverse=True, return_counts=True)
        used = self.tables.scope_at[arcs]
        shares: Floats = np.divide(1, times[same.ravel()])
        taken = np.bincount(self.tables.scope[:used], shares[self.of_table[:used]], len(self.dual.sizes))
        return np.concatenate([shares, 1 - taken.astype(np.float64)])

    def _surroundings(self) -> GibbsTables:
        """Of every variable: the tables it is in, how far apart its values lie there, the variables around it."""
        sizes, count, tables = self.dual.sizes, len(self.dual.sizes), self.tables
        order = np.argsort(tables.scope, kind="stable")
        touch_at, touch = np.searchsorted(tables.scope[order], np.arange(count + 1)), self.of_table[order]
        around_at, around, stride, known = self._around(touch_at, touch)
        chance_at = np.concatenate([[0], np.cumsum(known * (sizes - 1))])
        return GibbsTables(sizes, touch_at, touch, tables.stride[order], known, around_at, around, stride, chance_at)

    def _around(self, touch_at: Ints, touch: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """The variables around each, where they have few states together."""
        count, sizes = len(self.dual.sizes), self.dual.sizes
        lengths = np.diff(self.tables.scope_at)[touch]
        owner = np.repeat(np.repeat(np.arange(count), np.diff(touch_at)), lengths)
        place = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        other = self.tables.scope[np.repeat(self.tables.scope_at[touch], lengths) + place]
        pairs = np.unique(owner[owner != other] * count + other[owner != other])
        owner, other = pairs // count, pairs % count
        states = np.bincount(owner, np.log(sizes[other]), count)
        few = (states <= math.log(KNOWN) + 1e-9) & (np.bincount(owner, minlength=count) > 0)
        owner, other = owner[few[owner]], other[few[owner]]
        around_at = np.searchsorted(owner, np.arange(count + 1))
        steps = np.log(sizes[other])
        before = np.cumsum(steps) - steps
        stride = np.rint(np.exp(before - before[np.minimum(around_at[owner], max(0, len(before) - 1))]))
        known = np.where(few, np.rint(np.exp(np.bincount(owner, steps, count))), 0)
        return around_at, other, stride.astype(np.int64), known.astype(np.int64)

    def believe(self, share: Floats) -> None:
        """Draw from what the dual believes: the `masses` of its arcs, and the share of each value of each variable."""
        flat = np.concatenate([*(m.ravel() for m in self.dual.masses), share])
        weight = np.repeat(self.weight, np.diff(self.tables.table_at))
        possible = np.concatenate([*(c.log_p.ravel() for c in self.dual.arcs), self.dual.own_log]) > -math.inf
        self.logs = np.where(possible, weight * np.log(np.maximum(flat, LEAST_BELIEF)), FORBIDDEN)
        expect(SECONDS * len(self.chances))
        tabulate(self.near, self.where, self.logs, self.chances)

    def draw(self, sweeps: int) -> None:
        """So many sweeps over all variables."""
        self._go(sweeps, False)

    def count(self, sweeps: int) -> None:
        """The same, and all states on the way are counted."""
        self._go(sweeps, True)
        self.drawn += CHAINS * sweeps

    def _go(self, sweeps: int, count: bool) -> None:
        expect(SECONDS * sweeps * CHAINS * len(self.dual.sizes))
        seeds = self.generator.integers(1, 2**32, (PIECES, sweeps)).tolist()

        def one(i: int) -> None:
            for seed in seeds[i]:
                sweep(self.states[i], self.near, self.where, self.logs, self.chances, seed)
                if count:
                    count_cells(self.states[i], *self.where, self.seen[i])

        side_by_side([lambda i=i: one(i) for i in range(PIECES)])

    def counts(self) -> list[Floats]:
        """How often each cell of each column, and each value of each variable, was seen in the states counted."""
        cells = [c.log_p.size for c in self.dual.arcs]
        return np.split(np.sum(self.seen, axis=0).astype(np.float64), np.cumsum(cells))

    def incompatibility(self, counts: Sequence[Floats]) -> tuple[float, float]:
        """That of the empirical distribution with these counts, and what rounding may have taken from it."""
        d, weight = self.dual, float(self.dual.own_beta.sum() + sum(c.beta.sum() for c in self.dual.arcs))
        costs = [c.contributions(n) for c, n in zip(d.arcs, counts, strict=False)]
        costs.append(d.own_beta[d.variable] * LOG_SCORE.value(counts[-1], d.own_log, d.by_variable))
        value = math.fsum(float(x.sum()) for x in costs) / self.drawn
        # entries that are negative add up to -beta at least, so that sizes are at most value + 2 beta
        return value, 64 * EPS * (value + 4 * weight)
