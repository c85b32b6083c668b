"""How many of N joint states are at every entry of every term, and what one more or one less costs.

    F = 1/N sum_a beta sum_(s,t) n(s,t) [ log n(s,t) - log n(s) - log p(t|s) ],      n: how many states are there

is the incompatibility of mu = 1/N at each state. Where a state goes from one entry to another only these two rows
change, so that F is known exactly, state by state, while states move. Of squared errors, with n(s) for m:

    F = 1/N sum_a beta sum_s [ sum_t n(s,t)^2 / m - 2 sum_t p(t|s) n(s,t) + m sum_t p(t|s)^2 ] / 2
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dissonance.bounds.states import RegionTables, Sampler, States, concatenated_lists
from dissonance.bounds.terms import HARD, SOFT, Floats, Ints
from dissonance.compiled import compiled, expect

BROKEN, FREE = -1, -2
"""What stands for an entry at a cell that breaks a rule, and at one that a rule allows."""

PRICE = 1e6
"""What a broken rule costs, times the largest beta."""

SECONDS = 2e-5
"""What looking at a term takes, roughly, if it is interpreted."""


class EntryTally(NamedTuple):
    """Where the cells of each term lie, as `RegionTables` has it; the entry at each cell, the row of each entry and the
    entries of each row; how many states are at each entry and in each row; n log n - (n-1) log (n-1); beta and log p of
    each entry (`tables`; p of a `square`); what one more state at it costs, and what one that is there costs
    (`prices`)."""

    scope_at: Ints
    scope: Ints
    stride: Ints
    table_at: Ints
    entry: Ints
    row: Ints
    row_at: Ints
    counts: Ints
    totals: Ints
    step: Floats
    tables: Floats
    prices: Floats
    square: bool


@compiled
def count_entries(states: States, tally: EntryTally) -> None:
    """How many states are at each entry, added to its count."""
    scope_at, scope, stride = tally.scope_at, tally.scope, tally.stride
    for t in range(len(scope_at) - 1):
        for n in range(states.shape[1]):
            cell = tally.table_at[t]
            for i in range(scope_at[t], scope_at[t + 1]):
                cell += stride[i] * np.int64(states[scope[i], n])
            if tally.entry[cell] >= 0:
                tally.counts[tally.entry[cell]] += 1


@compiled
def price_row(r: int, tally: EntryTally) -> None:
    """The prices of the entries of a row."""
    first, last, total = tally.row_at[r], tally.row_at[r + 1], tally.totals[r]
    if not tally.square:
        step = tally.step
        for e in range(first, last):
            beta, log_p, count = tally.tables[0, e], tally.tables[1, e], tally.counts[e]
            tally.prices[0, e] = beta * (step[count] - step[total] - log_p)
            if count > 0:
                tally.prices[1, e] = beta * (step[count - 1] - step[total - 1] - log_p)
        return
    squares = p_squares = 0.0
    for e in range(first, last):
        squares += np.float64(tally.counts[e]) ** 2
        p_squares += tally.tables[1, e] ** 2
    for e in range(first, last):
        beta, p, count = 0.5 * tally.tables[0, e], tally.tables[1, e], tally.counts[e]
        now = squares / total if total > 0 else 0.0
        more = (squares + 2 * count + 1) / (total + 1)
        less = (squares - 2 * count + 1) / (total - 1) if total > 1 else 0.0
        tally.prices[0, e] = beta * (more - now - 2 * p + p_squares)
        tally.prices[1, e] = beta * (now - less - 2 * p + p_squares)


@compiled
def put(before: int, after: int, tally: EntryTally) -> None:
    """One state goes from an entry to another."""
    if before >= 0:
        tally.counts[before] -= 1
        tally.totals[tally.row[before]] -= 1
    if after >= 0:
        tally.counts[after] += 1
        tally.totals[tally.row[after]] += 1
    for e in (before, after):
        if e >= 0:
            price_row(tally.row[e], tally)


class CellTally:
    """Of `states` (variables, N), the variables being those that are not made of others."""

    def __init__(self, sampler: Sampler, states: States) -> None:
        terms = [t for t in sampler.terms.terms if t.kind == SOFT or (t.entry < 0).any()]
        assert all(t.kind != HARD for t in terms)
        scopes = [[sampler.place[v] for v in t.scope] for t in terms]
        self.tables = RegionTables.of(*concatenated_lists(scopes), sampler.sizes)
        self.holding: list[list[int]] = [[] for _ in sampler.sizes]
        for i, t in enumerate(terms):
            for v in t.scope:
                self.holding[sampler.place[v]].append(i)
        none = np.zeros(0, dtype=np.int64)
        entries, rows, numbers, used, count = [none], [none], [np.zeros((2, 0))], 0, 0
        for t in terms:
            soft = t.kind == SOFT
            entries.append(np.where(t.entry < 0, BROKEN, t.entry + used if soft else FREE))
            if soft:
                rows.append(np.arange(len(t.log_p)) // t.width + count)
                numbers.append(np.stack([np.full(len(t.log_p), t.beta), t.log_p]))
                used, count = used + len(t.log_p), count + len(t.log_p) // t.width
        self._entry, self._row = np.concatenate(entries), np.concatenate(rows)
        self._row_at = np.searchsorted(self._row, np.arange(count + 1))
        self._numbers = np.concatenate(numbers, axis=1)
        self._square = sampler.terms.cost.square
        # an impossible entry has no cell: what it would cost does not matter
        logs = self._numbers[1]
        self._numbers[1] = np.exp(logs) if self._square else np.nan_to_num(logs, neginf=0.0)
        self.broken = PRICE * float(self._numbers[0].max(initial=1.0))
        self.count(states)

    def count(self, states: States) -> None:
        """Begin anew with these states."""
        size = states.shape[1]
        n = np.arange(size + 2, dtype=np.float64)
        step, rows = np.diff(n * np.log(np.maximum(n, 1.0))), len(self._row_at) - 1
        count, total = np.zeros(len(self._row), dtype=np.int64), np.zeros(rows, dtype=np.int64)
        changing = count, total, step, self._numbers, np.zeros((2, len(self._row)))
        self.arrays = EntryTally(*self.tables.where, self._entry, self._row, self._row_at, *changing, self._square)
        expect(SECONDS * size * len(self.tables.scope))
        count_entries(states, self.arrays)
        total += np.bincount(self._row, count, rows).astype(np.int64)
        for r in range(rows):
            price_row(r, self.arrays)
