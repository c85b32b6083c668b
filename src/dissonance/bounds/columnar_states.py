"""The upper bound of arcs in columns: chains of joint states, counted as they go; nothing is made for an arc.

Gibbs sampling of prod_a b_a^k_a prod_v b_v^k_v, where b is what the dual believes, k_a = 1 over how many arcs are about
the same variables, and k_v = 1 - sum of k_a over the arcs about v and others. Counts of all states drawn so far are the
marginals of their empirical distribution.
"""

from __future__ import annotations

import math

import numpy as np

from dissonance.bounds.columnar_dual import ColumnDual
from dissonance.bounds.gibbs import FORBIDDEN, KNOWN, LEAST_BELIEF, GibbsTables, sweep, tabulate
from dissonance.bounds.states import SECONDS, States, count_cells
from dissonance.bounds.terms import Floats, Ints
from dissonance.compiled import expect
from dissonance.problem import EPS
from dissonance.threads import side_by_side

CHAINS, PIECES = 256, 2
"""Chains in all, and the pieces of them that go side by side: the same whatever the number of threads."""


class ColumnStates:
    """Chains over all variables, and how often every cell of every arc and every value of every variable was seen."""

    def __init__(self, dual: ColumnDual, seed: int) -> None:
        self.dual, self.generator = dual, np.random.default_rng(seed)
        sizes, count = dual.sizes, len(dual.sizes)
        arcs = [len(c.scope) for c in dual.arcs]
        cells = [np.full(n, c.log_p[0].size) for n, c in zip(arcs, dual.arcs, strict=True)]
        lengths = np.concatenate([*(np.full(len(c.scope), len(c.sizes)) for c in dual.arcs), np.ones(count, np.int64)])
        self.scope_at: Ints = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.scope: Ints = np.concatenate([*(c.scope.ravel() for c in dual.arcs), np.arange(count)])
        strides = [np.tile(_strides(c.sizes), len(c.scope)) for c in dual.arcs]
        self.stride: Ints = np.concatenate([*strides, np.ones(count, np.int64)])
        self.table_at: Ints = np.concatenate([[0], np.cumsum(np.concatenate([*cells, sizes]))]).astype(np.int64)
        self.values_at = int(self.table_at[sum(arcs)])
        self.of_table: Ints = np.repeat(np.arange(len(lengths)), lengths)
        self.where = self.scope_at, self.scope, self.stride, self.table_at
        self.near = self._surroundings()
        self.states = self._start()
        self.weight = self._weights(sum(arcs), lengths)
        self.logs = np.zeros(int(self.table_at[-1]))
        self.chances = np.zeros(int(self.near.chance_at[-1]), dtype=np.uint32)
        self.seen = [np.zeros(len(self.logs), dtype=np.int64) for _ in self.states]
        self.drawn = 0

    def _weights(self, arcs: int, lengths: Ints) -> Floats:
        """k of each table."""
        kinds: list[Ints] = []
        for c in self.dual.arcs:
            key = np.sort(c.scope, 1)
            kinds.append(np.concatenate([np.full((len(key), 1), key.shape[1]), key], 1))
        found = np.ones(len(lengths))
        at = 0
        for width in {k.shape[1] for k in kinds}:  # arcs about the same variables may be in several columns
            which = [i for i, k in enumerate(kinds) if k.shape[1] == width]
            _, back, times = np.unique(
                np.concatenate([kinds[i] for i in which]), axis=0, return_inverse=True, return_counts=True
            )
            shares, at = 1 / times[back.ravel()], 0
            for i in which:
                first = sum(len(c.scope) for c in self.dual.arcs[:i])
                found[first : first + len(kinds[i])] = shares[at : at + len(kinds[i])]
                at += len(kinds[i])
        used = self.scope_at[arcs]
        found[arcs:] -= np.bincount(self.scope[:used], found[self.of_table[:used]], len(self.dual.sizes))
        return found

    def _surroundings(self) -> GibbsTables:
        """Of every variable: the tables it is in, how far apart its values lie there, the variables around it."""
        sizes, count = self.dual.sizes, len(self.dual.sizes)
        order = np.argsort(self.scope, kind="stable")
        touch_at, touch = np.searchsorted(self.scope[order], np.arange(count + 1)), self.of_table[order]
        around_at, around, stride, known = self._around(touch_at, touch)
        chance_at = np.concatenate([[0], np.cumsum(known * (sizes - 1))])
        return GibbsTables(sizes, touch_at, touch, self.stride[order], known, around_at, around, stride, chance_at)

    def _around(self, touch_at: Ints, touch: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """The variables around each, where they have few states together."""
        count, sizes = len(self.dual.sizes), self.dual.sizes
        lengths = np.diff(self.scope_at)[touch]
        owner = np.repeat(np.repeat(np.arange(count), np.diff(touch_at)), lengths)
        place = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        other = self.scope[np.repeat(self.scope_at[touch], lengths) + place]
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

    def _start(self) -> list[States]:
        dtype = np.uint8 if int(self.dual.sizes.max(initial=1)) <= 256 else np.int32
        shape = len(self.dual.sizes), CHAINS // PIECES
        return [(self.generator.random(shape) * self.dual.sizes[:, None]).astype(dtype) for _ in range(PIECES)]

    def believe(self, share: Floats) -> None:
        """Draw from what the dual believes: the `masses` of its arcs, and the share of each value of each variable."""
        flat = np.concatenate([*(m.ravel() for m in self.dual.masses), share])
        weight = np.repeat(self.weight, np.diff(self.table_at))
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

    def counts(self) -> Floats:
        """How often each cell was seen in the states that were counted."""
        return np.sum(self.seen, axis=0).astype(np.float64)

    def prices(self, counts: Floats) -> list[Floats]:
        """beta n(s,t) log (n(t|s)/p) of all entries, column by column, then of all values of all variables."""
        found, at, d = [], 0, self.dual
        with np.errstate(divide="ignore", invalid="ignore"):
            for c in d.arcs:
                mass = counts[at : at + c.log_p.size].reshape(c.log_p.shape)
                at += c.log_p.size
                gain = c.beta[:, None, None] * (np.log(mass / mass.sum(-1, keepdims=True)) - c.log_p)
                found.append(np.where(mass > 0, mass * gain, 0.0))
            mass = counts[at:]
            total = np.add.reduceat(mass, d.value_at[:-1])[d.variable]
            beta = d.own_beta[d.variable]
            gain = np.where(beta > 0, beta * (np.log(mass / total) - d.own_log), 0.0)
            found.append(np.where(mass > 0, mass * gain, 0.0))
        return found

    def incompatibility(self, counts: Floats, states: int) -> float:
        """That of the empirical distribution with these counts, and what rounding may have taken from it."""
        costs = self.prices(counts)
        if not all(np.isfinite(c).all() for c in costs):
            return math.inf
        value = math.fsum(float(c.sum()) for c in costs) / states
        size = sum(float(np.abs(c).sum()) for c in costs) / states
        return value + EPS * (
            64 * size + 16 * (float(self.dual.own_beta.sum()) + sum(float(c.beta.sum()) for c in self.dual.arcs))
        )


def _strides(sizes: tuple[int, ...]) -> Ints:
    return np.cumprod([1, *reversed(sizes)])[-2::-1].astype(np.int64)
