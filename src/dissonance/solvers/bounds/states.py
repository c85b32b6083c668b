"""The upper bound: joint states whose empirical distribution is a mu, and what it costs.

Any joint states make a distribution, whose marginals are counts: its incompatibility is an upper bound whatever the
treewidth, and wherever the states come from. They come from block Gibbs sampling of

    prod_r b_r^k_r        b: what the dual believes;  k_r = 1 - sum of k over the regions that contain r

which is the distribution that has these beliefs if regions hang together as a tree. A block is a variable, or the
variables of a region in which some cells are impossible. States that break a rule are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dissonance.compiled import compiled, expect
from dissonance.solvers.bounds.regions import Regions
from dissonance.solvers.bounds.terms import SOFT, Floats, Ints, Terms, grid

States = npt.NDArray[Any]

FORBIDDEN = -50.0
"""The logarithm that an impossible cell has while states are drawn."""

FEWEST = 1e-9
"""The least belief in a cell that is possible."""

BLOCK = 64
"""Cells of a region up to which its variables are drawn together, if some of its cells are impossible."""

KNOWN = 256
"""States of the variables around a block up to which its chances are kept in a sweep."""

SECONDS = 2e-5
"""What drawing a value takes, roughly, if it is interpreted."""


@compiled
def sweep(
    states: States,
    block_at: Ints,
    block: Ints,
    choice_at: Ints,
    choice: Ints,
    choice_count: Ints,
    touch_at: Ints,
    touch: Ints,
    shift_at: Ints,
    shifts: Ints,
    surroundings: Ints,
    around_at: Ints,
    around: Ints,
    around_stride: Ints,
    scope_at: Ints,
    scope: Ints,
    stride: Ints,
    table_at: Ints,
    logs: Floats,
    seed: int,
) -> None:
    """Draw every block once in every state, given the others: what its choices cost in the regions that it touches, of
    which the cells lie `shifts` apart. Where the variables around it have few states, each is looked at once, before
    anything is drawn."""
    most = np.max(choice_count)
    shares, known = np.empty((KNOWN, most)), np.zeros(KNOWN, dtype=np.bool_)
    number = states.shape[1]
    seen = np.zeros(number, dtype=np.int64)
    for b in range(len(block_at) - 1):
        first, width, choices, c = block_at[b], block_at[b + 1] - block_at[b], choice_count[b], choice_at[b]
        chance = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(b + 1) * np.uint64(0xBF58476D1CE4E5B9)
        few = surroundings[b] > 0
        seen[:] = 0
        if few:
            known[: surroundings[b]] = False
            for i in range(around_at[b], around_at[b + 1]):
                beside, step = states[around[i]], around_stride[i]
                for n in range(number):
                    seen[n] += step * np.int64(beside[n])
        for n in range(number):
            at = seen[n]
            weight = shares[at]
            if not (few and known[at]):
                known[at] = True
                for i in range(width):
                    states[block[first + i], n] = 0
                for k in range(choices):
                    weight[k] = 0.0
                shift = shift_at[b]
                for j in range(touch_at[b], touch_at[b + 1]):
                    r = touch[j]
                    cell = table_at[r]
                    for i in range(scope_at[r], scope_at[r + 1]):
                        cell += stride[i] * np.int64(states[scope[i], n])
                    for k in range(choices):
                        weight[k] += logs[cell + shifts[shift + k]]
                    shift += choices
                top = np.max(weight[:choices])
                whole = 0.0
                for k in range(choices):
                    whole += np.exp(weight[k] - top)
                    weight[k] = whole
                for k in range(choices):
                    weight[k] /= whole
            if few:
                continue
            chance ^= chance << np.uint64(13)
            chance ^= chance >> np.uint64(7)
            chance ^= chance << np.uint64(17)
            drawn = np.float64(chance >> np.uint64(11)) / 9007199254740992.0
            k = 0
            while k < choices - 1 and drawn >= weight[k]:
                k += 1
            for i in range(width):
                states[block[first + i], n] = choice[c + k * width + i]
        for n in range(number if few else 0):
            chance ^= chance << np.uint64(13)
            chance ^= chance >> np.uint64(7)
            chance ^= chance << np.uint64(17)
            drawn = np.float64(chance >> np.uint64(11)) / 9007199254740992.0
            k = 0
            for j in range(choices - 1):
                k += drawn >= shares[seen[n], j]
            for i in range(width):
                states[block[first + i], n] = choice[c + k * width + i]


@compiled
def count_cells(states: States, scope_at: Ints, scope: Ints, stride: Ints, table_at: Ints, found: Ints) -> None:
    """How often every cell of every table occurs, added to `found`."""
    for r in range(len(scope_at) - 1):
        for n in range(states.shape[1]):
            cell = table_at[r]
            for i in range(scope_at[r], scope_at[r + 1]):
                cell += stride[i] * np.int64(states[scope[i], n])
            found[cell] += 1


@compiled
def possible_states(
    states: States,
    scope_at: Ints,
    scope: Ints,
    stride: Ints,
    table_at: Ints,
    alive: npt.NDArray[np.bool_],
    fine: npt.NDArray[np.bool_],
) -> None:
    """Which states break no rule."""
    for n in range(states.shape[1]):
        for r in range(len(scope_at) - 1):
            cell = table_at[r]
            for i in range(scope_at[r], scope_at[r + 1]):
                cell += stride[i] * np.int64(states[scope[i], n])
            if not alive[cell]:
                fine[n] = False
                break


@dataclass(frozen=True)
class RegionTables:
    """Tables over variables, one after another: which variables, how far apart their values lie, where each begins."""

    scope_at: Ints
    scope: Ints
    stride: Ints
    table_at: Ints

    @classmethod
    def of(cls, scopes: Sequence[Sequence[int]], sizes: Sequence[int]) -> RegionTables:
        """Those of these scopes."""
        lengths = np.array([len(s) for s in scopes], dtype=np.int64)
        flat = np.array([v for s in scopes for v in s], dtype=np.int64)
        size = np.array(sizes, dtype=np.int64)[flat] if len(flat) else flat
        scope_at = np.concatenate([[0], np.cumsum(lengths)])
        stride = np.ones(len(flat), dtype=np.int64)
        cells = np.ones(len(scopes), dtype=np.int64)
        for back in range(int(lengths.max(initial=0))):  # the last variable changes fastest
            here = np.flatnonzero(lengths > back)
            at = scope_at[here + 1] - 1 - back
            stride[at] = cells[here]
            cells[here] *= size[at]
        return cls(scope_at, flat, stride, np.concatenate([[0], np.cumsum(cells)]))

    @property
    def where(self) -> tuple[Ints, Ints, Ints, Ints]:
        """As arguments."""
        return self.scope_at, self.scope, self.stride, self.table_at


class Sampler:
    """Chains of joint states over the variables that are not made of others."""

    def __init__(self, terms: Terms, regions: Regions) -> None:
        self.terms, self.regions = terms, regions
        self.base = terms.base
        self.place = {v: i for i, v in enumerate(self.base)}
        self.sizes = [terms.sizes[v] for v in self.base]
        scopes = [[self.place[v] for v in s] for s in regions.scopes]
        self.tables = RegionTables.of(scopes, self.sizes)
        alive = np.zeros(int(regions.dense_at[-1]), dtype=np.bool_)
        alive[regions.dense_at[regions.cell_region] + regions.cell] = True
        self.alive = alive
        self.dtype = np.uint8 if max(self.sizes, default=1) <= 256 else np.int32

    @cached_property
    def counting(self) -> Floats:
        """k of each region."""
        children = self.regions.children
        below: list[set[int]] = []
        for inner in children:  # few variables first
            below.append(set(inner).union(*(below[j] for j in inner)))
        found = np.ones(len(children))
        for i in range(len(children) - 1, -1, -1):
            for j in below[i]:
                found[j] -= found[i]
        return found

    @cached_property
    def blocks(self) -> tuple[Ints, ...]:
        """Blocks of variables, what values they may have together, and which regions these touch."""
        sizes, scopes = self.sizes, [s.tolist() for s in np.split(self.tables.scope, self.tables.scope_at[1:-1])]
        touched: list[list[int]] = [[] for _ in sizes]
        for r, s in enumerate(scopes):
            if self.counting[r] or not self._alive(r).all():
                for v in s:
                    touched[v].append(r)
        blocks: list[list[int]] = [[v] for v in range(len(sizes))]
        choices = [self._alive(r).nonzero()[0] for r in self.single]
        touch = [touched[v] for v in range(len(sizes))]
        for r, s in enumerate(scopes):
            alive = self._alive(r)
            if len(s) > 1 and not alive.all() and alive.sum() <= BLOCK:
                blocks.append(s)
                choices.append(grid(tuple(sizes[v] for v in s))[:, alive].T.ravel())
                touch.append(sorted({q for v in s for q in touched[v]}))
        counts = np.array([len(c) // len(b) for b, c in zip(blocks, choices, strict=True)], dtype=np.int64)
        shifts = [self._shifts(b, c, t) for b, c, t in zip(blocks, choices, touch, strict=True)]
        arrays = [_flat(lists) for lists in (blocks, choices, touch, shifts)]
        around = [sorted({u for r in t for u in scopes[r]} - set(b)) for b, t in zip(blocks, touch, strict=True)]
        states = [math.prod(sizes[u] for u in x) if len(x) < 16 else 0 for x in around]
        near = [x if 0 < n <= KNOWN else [] for x, n in zip(around, states, strict=True)]
        known = np.array([n if n <= KNOWN else 0 for n in states], dtype=np.int64)
        tables = RegionTables.of(near, sizes)
        where = known, tables.scope_at, tables.scope, tables.stride
        return *arrays[0], *arrays[1], counts, *arrays[2], *arrays[3], *where

    def _shifts(self, block: Sequence[int], choices: Ints, touched: Sequence[int]) -> list[int]:
        """By region and choice: how far the cell lies from the one with 0 for all of the block."""
        at, scope, stride = self.lists
        rows = np.asarray(choices).reshape(-1, len(block)).tolist()
        place = {v: i for i, v in enumerate(block)}
        found: list[int] = []
        for r in touched:
            steps = [(place[scope[i]], stride[i]) for i in range(at[r], at[r + 1]) if scope[i] in place]
            found += [sum(row[i] * step for i, step in steps) for row in rows]
        return found

    @cached_property
    def lists(self) -> tuple[list[int], list[int], list[int]]:
        """Where scopes begin, their variables, and how far apart their values lie."""
        return self.tables.scope_at.tolist(), self.tables.scope.tolist(), self.tables.stride.tolist()

    @cached_property
    def single(self) -> list[int]:
        """By variable, its own region."""
        number = {s: i for i, s in enumerate(self.regions.scopes)}
        return [number[(v,)] for v in self.base]

    def _alive(self, r: int) -> npt.NDArray[np.bool_]:
        return self.alive[self.regions.dense_at[r] : self.regions.dense_at[r + 1]]

    def logs(self, mass: Floats) -> Floats:
        """k log b of all cells, where b is the mass of those that are possible."""
        r = self.regions
        found = np.full(int(r.dense_at[-1]), FORBIDDEN)
        found[r.dense_at[r.cell_region] + r.cell] = self.counting[r.cell_region] * np.log(np.maximum(mass, FEWEST))
        return found

    def dense(self, mass: Floats) -> Floats:
        """The mass of all cells of all regions, 0 where nothing is possible."""
        r = self.regions
        found = np.zeros(int(r.dense_at[-1]))
        found[r.dense_at[r.cell_region] + r.cell] = mass
        return found

    def draw(self, states: States, logs: Floats, sweeps: int, seed: int) -> None:
        """So many sweeps over all blocks, in place."""
        expect(SECONDS * sweeps * states.size)
        for k in range(sweeps):
            sweep(states, *self.blocks, *self.tables.where, logs, seed + k)  # pyright: ignore[reportCallIssue]

    def possible(self, states: States) -> States:
        """Those that break no rule."""
        if self.alive.all():
            return states
        fine = np.ones(states.shape[1], dtype=np.bool_)
        possible_states(states, *self.tables.where, self.alive, fine)
        return np.ascontiguousarray(states[:, fine])

    @cached_property
    def _entries(self) -> tuple[Ints, Ints, Ints, Floats, Floats]:
        """By cell of each soft term: the cell of its region, and the entry; by entry: its row, beta, log p."""
        number = {s: i for i, s in enumerate(self.regions.scopes)}
        cells, entries, rows, betas, logs = [], [], [], [], []
        used = count = 0
        for t in self.terms.terms:
            if t.kind != SOFT:
                continue
            here = np.flatnonzero(t.entry >= 0)
            cells.append(here + self.regions.dense_at[number[t.scope]])
            entries.append(t.entry[here] + used)
            rows.append(np.arange(len(t.log_p)) // t.width + count)
            betas.append(np.full(len(t.log_p), t.beta))
            logs.append(t.log_p)
            used, count = used + len(t.log_p), count + len(t.log_p) // t.width
        none = [np.zeros(0, dtype=np.int64)]
        cell, entry, row = (np.concatenate(x or none) for x in (cells, entries, rows))
        beta, log_p = (np.concatenate(x or [np.zeros(0)]) for x in (betas, logs))
        return cell, entry, row, beta, log_p

    @cached_property
    def scale(self) -> float:
        """A large but not untypical beta."""
        return float(np.quantile(self._entries[3], 0.9)) if len(self._entries[3]) else 1.0

    @property
    def rows(self) -> int:
        """How many numbers the soft terms leave free, about: each costs 1/2N with N states."""
        _, _, row, _, _ = self._entries
        return len(row) - (int(row[-1]) + 1 if len(row) else 0)

    def counts(self, states: States) -> Floats:
        """How often each cell of each region occurs."""
        found = np.zeros(int(self.regions.dense_at[-1]), dtype=np.int64)
        expect(SECONDS * states.shape[1] * len(self.regions.scopes))
        count_cells(states, *self.tables.where, found)
        return found.astype(np.float64)

    def prices(self, counts: Floats, prior: float = 0.0) -> tuple[float, Floats]:
        """The incompatibility of the distribution with these counts, and beta log mu/p of all cells, added up over
        terms; `prior` is added to every count of an entry."""
        cell, entry, row, beta, log_p = self._entries
        if not len(row):
            return 0.0, np.zeros(len(counts))
        mass = np.bincount(entry, counts[cell], len(row)) + prior
        total = np.bincount(row, mass)[row]
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where(mass > 0, beta * (np.log(mass / total) - log_p), 0.0)
        total_gain = np.bincount(cell, gain[entry], len(counts)).astype(np.float64)
        return math.fsum(mass * gain), total_gain


def _flat(lists: Sequence[Sequence[int] | Ints]) -> tuple[Ints, Ints]:
    """Where each begins, and all of them."""
    at = np.concatenate([[0], np.cumsum([len(x) for x in lists])]).astype(np.int64)
    return at, np.concatenate([np.asarray(x, dtype=np.int64) for x in lists])
