"""How many of N joint states are at every entry of every term, and what one more or one less costs.

    F = 1/N sum_a beta sum_(s,t) n(s,t) [ log n(s,t) - log n(s) - log p(t|s) ],      n: how many states are there

is the incompatibility of mu = 1/N at each state. Where a state goes from one entry to another only these two rows
change, so that F is known exactly, state by state, while states move. Rows may cost a squared error instead:

    F = 1/N sum_a [ beta (n(1) - p n)^2 / n + c n ],      n = n(0) + n(1): states at either entry of the row
"""

from __future__ import annotations

import numpy as np

from dissonance.compiled import compiled, expect
from dissonance.solvers.bounds.states import RegionTables, Sampler, States
from dissonance.solvers.bounds.terms import HARD, SOFT, Floats, Ints

BROKEN, FREE = -1, -2
"""What stands for an entry at a cell that breaks a rule, and at one that a rule allows."""

PRICE = 1e6
"""What a broken rule costs, times the largest beta."""

SECONDS = 2e-5
"""What looking at a term takes, roughly, if it is interpreted."""


@compiled
def count_entries(
    states: States, scope_at: Ints, scope: Ints, stride: Ints, table_at: Ints, entry: Ints, count: Ints
) -> None:
    """How many states are at each entry, added to `count`."""
    for t in range(len(scope_at) - 1):
        for n in range(states.shape[1]):
            cell = table_at[t]
            for i in range(scope_at[t], scope_at[t + 1]):
                cell += stride[i] * np.int64(states[scope[i], n])
            if entry[cell] >= 0:
                count[entry[cell]] += 1


@compiled
def square(ones: int, total: int, p: float) -> float:
    """(n(1) - p n)^2 / n, 0 without any"""
    return (ones - p * total) ** 2 / total if total > 0 else 0.0


@compiled
def price_square(first: int, last: int, total: int, count: Ints, tables: Floats, prices: Floats) -> None:
    """The same for squared errors. `tables`: beta, p, c, whether an entry is 1, and whether each state is at one of the
    two: n is the same for all then, and what is at 0 has no price."""
    ones = 0
    for e in range(first, last):
        if tables[3, e] == 1:
            ones += count[e]
    for e in range(first, last):
        beta, p, c, kind = tables[0, e], tables[1, e], tables[2, e], int(tables[3, e])
        moves = 0 if tables[4, e] == 1 else 1
        more = square(ones + kind, total + moves, p) - square(ones, total, p)
        less = square(ones, total, p) - square(ones - kind, total - moves, p)
        prices[0, e] = c * moves + beta * more
        prices[1, e] = c * moves + beta * less


@compiled
def price_row(first: int, last: int, total: int, count: Ints, step: Floats, tables: Floats, prices: Floats) -> None:
    """What one more state at each entry of a row costs (`prices` 0), and what one that is there costs (1)."""
    if len(tables) > 2:
        price_square(first, last, total, count, tables, prices)  # pyright: ignore[reportArgumentType]
        return
    for e in range(first, last):
        beta, log_p = tables[0, e], tables[1, e]
        prices[0, e] = beta * (step[count[e]] - step[total] - log_p)
        if count[e] > 0:
            prices[1, e] = beta * (step[count[e] - 1] - step[total - 1] - log_p)


@compiled
def put(
    before: int,
    after: int,
    row: Ints,
    row_at: Ints,
    count: Ints,
    total: Ints,
    step: Floats,
    tables: Floats,
    prices: Floats,
) -> None:
    """One state goes from an entry to another."""
    if before >= 0:
        count[before] -= 1
        total[row[before]] -= 1
    if after >= 0:
        count[after] += 1
        total[row[after]] += 1
    for e in (before, after):
        if e >= 0:
            r = row[e]
            price_row(row_at[r], row_at[r + 1], total[r], count, step, tables, prices)  # pyright: ignore[reportArgumentType]


class CellTally:
    """Of `states` (variables, N), the variables being those that are not made of others."""

    def __init__(self, sampler: Sampler, states: States) -> None:
        terms = [t for t in sampler.terms.terms if t.kind == SOFT or (t.entry < 0).any()]
        assert all(t.kind != HARD for t in terms)
        self.tables = RegionTables.of([[sampler.place[v] for v in t.scope] for t in terms], sampler.sizes)
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
        # an impossible entry has no cell: what it would cost does not matter
        self._numbers = self._tables(np.nan_to_num(np.concatenate(numbers, axis=1), neginf=0.0))
        self.broken = PRICE * float(self._numbers[0].max(initial=1.0))
        self.count(states)

    def _tables(self, numbers: Floats) -> Floats:
        """What prices are made of: beta and log p of every entry."""
        return numbers

    def count(self, states: States) -> None:
        """Begin anew with these states."""
        size = states.shape[1]
        n = np.arange(size + 2, dtype=np.float64)
        self._step = np.diff(n * np.log(np.maximum(n, 1.0)))
        self._count = np.zeros(len(self._row), dtype=np.int64)
        expect(SECONDS * size * len(self.tables.scope))
        count_entries(states, *self.tables.where, self._entry, self._count)
        self._total = np.bincount(self._row, self._count, len(self._row_at) - 1).astype(np.int64)
        self._prices = np.zeros((2, len(self._row)))
        for r in range(len(self._row_at) - 1):
            price_row(
                self._row_at[r],
                self._row_at[r + 1],
                self._total[r],
                self._count,
                self._step,
                self._numbers,
                self._prices,
            )

    @property
    def where(self) -> tuple[Ints | Floats, ...]:
        """As arguments: what is at each cell of the tables of terms, then what `put` needs."""
        kept = self._row, self._row_at, self._count, self._total, self._step, self._numbers, self._prices
        return *self.tables.where, self._entry, *kept
