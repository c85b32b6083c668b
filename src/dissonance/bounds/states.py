"""The upper bound: joint states whose empirical distribution is a mu, and what it costs.

Any joint states make a distribution, whose marginals are counts: its incompatibility is an upper bound whatever the
treewidth, and wherever the states come from. The first are drawn variable by variable from what the dual believes
(`spanning.py`), which is exact on trees; `descent.py` moves them. States that break a rule are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dissonance.bounds.regions import Regions
from dissonance.bounds.terms import Floats, Ints, Terms, grid
from dissonance.compiled import compiled, expect
from dissonance.costs import FlatRows

States = npt.NDArray[Any]

SECONDS = 2e-5
"""What drawing a value takes, roughly, if it is interpreted."""

SCANNED_CELLS = 8
"""Tables of up to so many cells are counted cell by cell, by vector instructions; larger ones state by state."""


@compiled
def count_cells(states: States, scope_at: Ints, scope: Ints, stride: Ints, table_at: Ints, found: Ints) -> None:
    """How often every cell of every table occurs, added to `found`."""
    cell = np.empty(states.shape[1], dtype=np.int32)
    for r in range(len(scope_at) - 1):
        cell[:] = 0
        for i in range(scope_at[r], scope_at[r + 1]):
            values, step = states[scope[i]], np.int32(stride[i])
            for n in range(len(cell)):
                cell[n] += step * np.int32(values[n])
        first, cells = table_at[r], table_at[r + 1] - table_at[r]
        if cells > SCANNED_CELLS:
            for n in range(len(cell)):
                found[first + cell[n]] += 1
        else:  # these loops become vector instructions
            for k in range(cells):
                times = np.int32(0)
                for n in range(len(cell)):
                    times += np.int32(cell[n] == k)
                found[first + k] += times


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


def concatenated_lists(lists: Sequence[Sequence[int] | Ints]) -> tuple[Ints, Ints]:
    """Return where each list begins, and where the last one ends; and all lists, one after another."""
    at = np.concatenate([[0], np.cumsum([len(x) for x in lists])]).astype(np.int64)
    return at, np.concatenate([np.zeros(0, dtype=np.int64), *(np.asarray(x, dtype=np.int64) for x in lists)])


@dataclass(frozen=True)
class RegionTables:
    """Tables over variables, one after another: which variables, how far apart their values lie, where each begins."""

    scope_at: Ints
    scope: Ints
    stride: Ints
    table_at: Ints

    @classmethod
    def of(cls, scope_at: Ints, scope: Ints, sizes: npt.ArrayLike) -> RegionTables:
        """Return tables over scopes that are concatenated; `sizes`: of all variables."""
        lengths, size = np.diff(scope_at), np.asarray(sizes, dtype=np.int64)[scope] if len(scope) else scope
        stride = np.ones(len(scope), dtype=np.int64)
        cells = np.ones(len(lengths), dtype=np.int64)
        for back in range(int(lengths.max(initial=0))):  # the last variable changes fastest
            here = np.flatnonzero(lengths > back)
            at = scope_at[here + 1] - 1 - back
            stride[at] = cells[here]
            cells[here] *= size[at]
        return cls(scope_at, scope, stride, np.concatenate([[0], np.cumsum(cells)]))

    @property
    def where(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Its arrays, in the order in which compiled functions take them."""
        return self.scope_at, self.scope, self.stride, self.table_at


class Sampler:
    """Chains of joint states over the variables that are not made of others."""

    def __init__(self, terms: Terms, regions: Regions) -> None:
        self.terms, self.regions = terms, regions
        self.base = terms.base
        self.place = {v: i for i, v in enumerate(self.base)}
        self.sizes = [terms.sizes[v] for v in self.base]
        self.scopes = [[self.place[v] for v in s] for s in regions.scopes]
        self.tables = RegionTables.of(*concatenated_lists(self.scopes), self.sizes)
        self.alive = regions.alive
        self.dtype = np.uint8 if max(self.sizes, default=1) <= 256 else np.int32

    def possible_values(self, r: int) -> Ints:
        """The values that the variables of a region may have together, (cells, variables)."""
        alive = self.alive[self.regions.dense_at[r] : self.regions.dense_at[r + 1]]
        return grid(tuple(self.sizes[v] for v in self.scopes[r]))[:, alive].T

    @cached_property
    def lists(self) -> tuple[list[int], list[int], list[int]]:
        """Where scopes begin, their variables, and how far apart their values lie."""
        return self.tables.scope_at.tolist(), self.tables.scope.tolist(), self.tables.stride.tolist()

    @cached_property
    def single(self) -> list[int]:
        """The region of each variable alone."""
        number = {s: i for i, s in enumerate(self.regions.scopes)}
        return [number[(v,)] for v in self.base]

    def dense(self, mass: Floats) -> Floats:
        """The mass of all cells of all regions, 0 where nothing is possible."""
        r = self.regions
        found = np.zeros(int(r.dense_at[-1]))
        found[r.dense_at[r.cell_region] + r.cell] = mass
        return found

    def possible(self, states: States) -> States:
        """Those that break no rule."""
        if self.alive.all():
            return states
        fine = np.ones(states.shape[1], dtype=np.bool_)
        possible_states(states, *self.tables.where, self.alive, fine)
        return np.ascontiguousarray(states[:, fine])

    @cached_property
    def _entries(self) -> tuple[Ints, Ints, FlatRows, Floats, Floats]:
        """By cell of each soft term: the cell of its region, and the entry; of the entries: rows, beta, log p."""
        number = {s: i for i, s in enumerate(self.regions.scopes)}
        none = np.zeros(0, dtype=np.int64)
        cells, entries, widths, betas, logs, used = [none], [none], [none], [np.zeros(0)], [np.zeros(0)], 0
        for t in self.terms.soft:
            here = np.flatnonzero(t.entry >= 0)
            cells.append(here + self.regions.dense_at[number[t.scope]])
            entries.append(t.entry[here] + used)
            widths.append(np.full(len(t.log_p) // t.width, t.width))
            betas.append(np.full(len(t.log_p), t.beta))
            logs.append(t.log_p)
            used += len(t.log_p)
        cell, entry, width = (np.concatenate(x) for x in (cells, entries, widths))
        return cell, entry, FlatRows.wide(width), np.concatenate(betas), np.concatenate(logs)

    @cached_property
    def scale(self) -> float:
        """A large but not untypical beta."""
        return float(np.quantile(self._entries[3], 0.9)) if len(self._entries[3]) else 1.0

    def counts(self, states: States) -> Floats:
        """How often each cell of each region occurs."""
        found = np.zeros(int(self.regions.dense_at[-1]), dtype=np.int64)
        expect(SECONDS * states.shape[1] * len(self.regions.scopes))
        count_cells(states, *self.tables.where, found)
        return found.astype(np.float64)

    def cost(self, states: States) -> float:
        """Return the cost of mu = 1/N at each of N states."""
        cell, entry, rows, beta, log_p = self._entries
        mass = np.bincount(entry, self.counts(states)[cell], len(beta)).astype(np.float64)
        return math.fsum(beta * self.terms.cost.value(mass, log_p, rows)) / states.shape[1]
