"""Regions: the sets of variables that are looked at together, and how each of them is tied to those inside it.

There is a region for the scope of every term, for what two of them have in common, for every variable, and for whatever
is added to look at more at once. A region is tied to the largest regions inside it: a multiplier for every cell of the
smaller one. All of it lies in flat arrays: the cells of a region one after another, sorted by the entry of its main
term, entries by rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import sparse

from dissonance.bounds.terms import HARD, LINEAR, SOFT, Floats, Ints, Scope, SmallTerm, Terms, projected_cells
from dissonance.costs import Cost, FlatRows

Bools = npt.NDArray[np.bool_]


def closed_under_intersection(scopes: Iterable[Scope], base: Iterable[int]) -> list[Scope]:
    """The scopes, what any two have in common, and single variables; those with few variables first."""
    found = dict.fromkeys([*((v,) for v in base), *scopes])
    wide = [s for s in found if len(s) > 2]
    by_variable: dict[int, list[Scope]] = {}
    for s in found:
        if len(s) > 1:
            for v in s:
                by_variable.setdefault(v, []).append(s)
    for s in wide:
        shared = Counter(other for v in s for other in by_variable[v] if other is not s)
        inside = set(s)
        for other, count in shared.items():
            if 1 < count < min(len(s), len(other)):
                found.setdefault(tuple(v for v in other if v in inside))
    return sorted(found, key=len)


def largest_inside(scopes: Sequence[Scope]) -> list[list[int]]:
    """By region, the largest regions inside it."""
    number = {s: i for i, s in enumerate(scopes)}
    by_variable: dict[int, list[int]] = {}
    for i, s in enumerate(scopes):
        if len(s) > 1:
            for v in s:
                by_variable.setdefault(v, []).append(i)
    found: list[list[int]] = []
    for i, s in enumerate(scopes):
        if len(s) < 2:
            found.append([])
            continue
        if len(s) == 2:
            found.append([number[(v,)] for v in s])
            continue
        counts = Counter(j for v in s for j in by_variable[v] if j != i)
        smaller = sorted((j for j, n in counts.items() if n == len(scopes[j])), key=lambda j: -len(scopes[j]))
        largest: list[int] = []
        for j in smaller:
            if not any(set(scopes[j]) < set(scopes[k]) for k in largest):
                largest.append(j)
        covered = {v for j in largest for v in scopes[j]}
        found.append(largest + [number[(v,)] for v in s if v not in covered])
    return found


@dataclass(frozen=True)
class Regions:
    """Cells that are possible, in the order (region, entry of its main term); entries of one row, and rows of one
    region, stand together. The cost of cells is `linear` + `ties` @ multipliers + `priced` @ (prices of the other
    terms). Only KL has main terms: with one, the least over all mu of a region is a closed form.

    `cell`: the number of every cell among all cells of its region, `cell_at` where regions begin, also among all cells
    (`dense_at`). `entry_at`, `row_at`, `region_at`: where the cells of an entry, the entries of a row, the rows of a
    region begin. `log_p` of entries and `beta` of rows are those of the main term; 0 and 1 where there is none.
    `term` and `entry`: which main term an entry is of, and which of its entries it is.
    """

    scopes: list[Scope]
    children: list[list[int]]
    dense_at: Ints
    cell: Ints
    cell_region: Ints
    entry_at: Ints
    row_at: Ints
    region_at: Ints
    log_p: Floats
    beta: Floats
    term: Ints
    entry: Ints
    linear: Floats
    ties: sparse.csr_matrix
    priced: sparse.csr_matrix
    others: Others
    cost: Cost
    hard: Ints
    tie: Ints
    tie_at: dict[tuple[Scope, Scope], int]
    empty: bool

    @cached_property
    def parents(self) -> list[bool]:
        """Which regions are inside others."""
        found = [False] * len(self.scopes)
        for inner in self.children:
            for j in inner:
                found[j] = True
        return found

    @cached_property
    def alive(self) -> Bools:
        """Which of all cells are possible."""
        found = np.zeros(int(self.dense_at[-1]), dtype=np.bool_)
        found[self.dense_at[self.cell_region] + self.cell] = True
        return found

    @property
    def multipliers(self) -> int:
        """How many there are."""
        return len(self.tie) + len(self.hard)


@dataclass(frozen=True)
class Others:
    """Entries of the soft terms that are not the main one of their region: log p, rows, which term and entry it is."""

    log_p: Floats
    rows: FlatRows
    term: Ints
    entry: Ints

    @property
    def keys(self) -> Iterable[tuple[int, int]]:
        """Term and entry of each."""
        return zip(self.term.tolist(), self.entry.tolist(), strict=True)


def regions_of(terms: Terms, more: Iterable[Scope] = ()) -> Regions:
    """The regions of terms, and `more` that are looked at beside them."""
    scopes = closed_under_intersection([*(t.scope for t in terms.terms), *more], terms.base)
    children = largest_inside(scopes)
    number = {s: i for i, s in enumerate(scopes)}
    shapes = [tuple(terms.sizes[v] for v in s) for s in scopes]
    dense = np.array([math.prod(x) for x in shapes], dtype=np.int64)
    dense_at = np.concatenate([[0], np.cumsum(dense)])
    alive = np.ones(int(dense_at[-1]), dtype=np.bool_)
    for t in terms.terms:
        if (t.entry < 0).any():
            at = int(dense_at[number[t.scope]])
            alive[at : at + len(t.entry)] &= t.entry >= 0
    links = _links(scopes, children, shapes, dense_at)
    alive = _supported(alive, links)
    return _assemble(scopes, children, dense_at, alive, links, terms, number)


@dataclass(frozen=True)
class _Links:
    """A cell of a region, the cell of one inside it that it belongs to, and the multiplier of that cell in this tie."""

    cell: Ints
    below: Ints
    tie: Ints
    count: int
    tie_at: dict[tuple[Scope, Scope], int]


def _links(
    scopes: Sequence[Scope], children: Sequence[Sequence[int]], shapes: Sequence[tuple[int, ...]], dense_at: Ints
) -> _Links:
    own, below, ties, count = [], [], [], 0
    tie_at: dict[tuple[Scope, Scope], int] = {}
    at, size = dense_at.tolist(), np.diff(dense_at).tolist()
    ranges = {n: np.arange(n, dtype=np.int64) for n in set(size)}
    for i, inner in enumerate(children):
        place = {v: k for k, v in enumerate(scopes[i])} if inner else {}
        for j in inner:
            part = projected_cells(shapes[i], tuple(place[v] for v in scopes[j]))
            own.append(ranges[size[i]] + at[i])
            below.append(part + at[j])
            ties.append(part + count)
            tie_at[scopes[i], scopes[j]] = count
            count += size[j]
    cell, inner_cell, tie = (np.concatenate(x) if x else np.zeros(0, dtype=np.int64) for x in (own, below, ties))
    return _Links(cell, inner_cell, tie, count, tie_at)


def _supported(alive: Bools, links: _Links) -> Bools:
    """The cells that are possible if every region agrees with those inside it."""
    while not alive.all():
        seen = np.zeros(links.count, dtype=np.bool_)
        seen[links.tie[alive[links.cell]]] = True
        left = alive.copy()
        left[links.below[~seen[links.tie]]] = False
        left[links.cell[~left[links.below]]] = False
        if (left == alive).all():
            break
        alive = left
    return alive


def _shared_out(terms: Sequence[SmallTerm], number: dict[Scope, int], cost: Cost) -> tuple[dict[int, int], list[int]]:
    """Return the main term of each region, the one with the largest beta; and the other soft terms."""
    main: dict[int, int] = {}
    if cost.square:
        return main, [k for k, t in enumerate(terms) if t.kind == SOFT]
    others: list[int] = []
    for k, t in enumerate(terms):
        if t.kind == SOFT:
            r = number[t.scope]
            if r in main:
                smaller, main[r] = (k, main[r]) if t.beta <= terms[main[r]].beta else (main[r], k)
                others.append(smaller)
            else:
                main[r] = k
    return main, others


def _assemble(
    scopes: list[Scope],
    children: list[list[int]],
    dense_at: Ints,
    alive: Bools,
    links: _Links,
    every: Terms,
    number: dict[Scope, int],
) -> Regions:
    terms, cost = every.terms, every.cost
    main, second = _shared_out(terms, number, cost)
    count = len(scopes)
    # entries of main terms, and for a region without one a single entry
    widths = np.ones(count, dtype=np.int64)
    entry = np.zeros(len(alive), dtype=np.int64)
    tables, table_at, beta = [], np.zeros(count, dtype=np.int64), np.ones(count)
    used, which = 1, np.full(count, -1, dtype=np.int64)
    tables.append(np.zeros(1))
    for r, k in main.items():
        t, which[r] = terms[k], k
        entry[dense_at[r] : dense_at[r + 1]] = t.entry
        widths[r], table_at[r], beta[r] = t.width, used, t.beta
        tables.append(t.log_p)
        used += len(t.log_p)
    flat = np.concatenate(tables)
    region = np.repeat(np.arange(count), np.diff(dense_at))
    kept = np.flatnonzero(alive)
    kept = kept[np.lexsort((entry[kept], region[kept]))]
    cell_region, cell_entry = region[kept], entry[kept]
    entry_at = _starts(cell_region, cell_entry)
    e_region, e_entry = cell_region[entry_at], cell_entry[entry_at]
    e_row = e_entry // widths[e_region]
    row_at = _starts(e_region, e_row)
    r_region = e_region[row_at]
    region_at = _starts(r_region, np.zeros_like(r_region))
    place = np.full(len(alive), -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    # multipliers: those of ties, then those of hard arcs
    both = alive[links.cell] & alive[links.below]
    cells, below, ties = place[links.cell[both]], links.below[both], links.tie[both]
    known, ties = np.unique(ties, return_inverse=True)
    first = np.zeros(len(known), dtype=np.int64)
    first[ties] = place[below]
    parts = [
        (cells, ties, np.ones(len(cells))),
        (first, np.arange(len(known)), -np.ones(len(known))),
    ]
    columns = len(known)
    for t in (t for t in terms if t.kind == HARD):
        part, columns = _multiplied(t, place[dense_at[number[t.scope]] + np.arange(len(t.entry))], columns)
        parts.append(part)
    shape = len(kept), columns
    rows, cols, data = (np.concatenate(x) for x in zip(*parts, strict=True))
    return Regions(
        scopes,
        children,
        dense_at,
        kept - dense_at[cell_region],
        cell_region,
        entry_at,
        row_at,
        region_at,
        flat[table_at[e_region] + e_entry],
        beta[r_region],
        which[e_region],
        e_entry,
        _linear(terms, dense_at, number)[kept],
        sparse.csr_matrix((data, (rows, cols)), shape=shape),
        *_others(every, second, place, dense_at, number, len(kept)),
        cost,
        np.arange(len(known), columns),
        known,
        links.tie_at,
        bool(len(region_at) < count),
    )


def _linear(terms: Sequence[SmallTerm], dense_at: Ints, number: dict[Scope, int]) -> Floats:
    """What all cells cost by terms that are linear in mu."""
    found = np.zeros(int(dense_at[-1]))
    for t in terms:
        if t.kind == LINEAR:
            at = int(dense_at[number[t.scope]])
            found[at : at + len(t.entry)] += t.log_p[t.entry]
    return found


def carried(x: Floats, old: Regions, new: Regions) -> Floats:
    """A dual point of other regions with the same terms: the multipliers of ties that are in both, 0 of others.

    Where larger regions rule out more, bets on fewer entries are left.
    """
    held = dict(zip(old.tie.tolist(), x.tolist(), strict=False))
    found = np.zeros(len(new.tie))
    back = {at: key for key, at in new.tie_at.items()}
    starts = np.array(sorted(back), dtype=np.int64)
    which = np.searchsorted(starts, new.tie, side="right") - 1
    for i, (tie, start) in enumerate(zip(new.tie.tolist(), starts[which].tolist() if len(starts) else [], strict=True)):
        before = old.tie_at.get(back[start])
        if before is not None:
            found[i] = held.get(before + tie - start, 0.0)
    ahead, place = old.multipliers, {key: i for i, key in enumerate(old.others.keys)}
    return np.concatenate([found, x[len(old.tie) : ahead], x[[ahead + place[key] for key in new.others.keys]]])


def _starts(*keys: Ints) -> Ints:
    """Where a new key begins in sorted ones."""
    if not len(keys[0]):
        return np.zeros(0, dtype=np.int64)
    new = np.any([np.diff(k) != 0 for k in keys], axis=0)
    return np.concatenate([[0], np.flatnonzero(new) + 1])


def _multiplied(t: SmallTerm, place: Ints, columns: int) -> tuple[tuple[Ints, Ints, Floats], int]:
    """lam(s,t) - sum_t p(t|s) lam(s,t) at the cells of a hard arc: 0 on average if the arc holds."""
    here = place >= 0
    cells, entry = place[here], t.entry[here]
    p = np.exp(t.log_p).reshape(-1, t.width)
    rows = [cells, np.repeat(cells, t.width)]
    row = entry // t.width
    cols = [columns + entry, columns + (row[:, None] * t.width + np.arange(t.width)).ravel()]
    data = [np.ones(len(cells)), -p[row].ravel()]
    return (np.concatenate(rows), np.concatenate(cols), np.concatenate(data)), columns + len(t.log_p)


def _others(
    every: Terms, second: Sequence[int], place: Ints, dense_at: Ints, number: dict[Scope, int], cells: int
) -> tuple[sparse.csr_matrix, Others]:
    """Return beta at the cells of the terms that are not main ones, by entry; and these entries."""
    none = np.zeros(0, dtype=np.int64)
    rows, cols, whose, entries, widths, used = [none], [none], [none], [none], [none], 0
    for k in second:
        t = every.terms[k]
        where = place[dense_at[number[t.scope]] + np.arange(len(t.entry))]
        here = where >= 0
        # no q for what cannot be; but a squared error counts p there too
        kept = np.unique(t.entry[here]) if every.cost.forbids else np.arange(len(t.log_p))
        rows.append(where[here])
        cols.append(used + np.searchsorted(kept, t.entry[here]))
        whose.append(np.full(len(kept), k))
        entries.append(kept)
        widths.append(np.unique(kept // t.width, return_counts=True)[1])
        used += len(kept)
    cell, column, term, entry, width = (np.concatenate(x) for x in (rows, cols, whose, entries, widths))
    beta = np.array([t.beta for t in every.terms])
    logs = [every.terms[k].log_p[e] for k, e in zip(second, entries[1:], strict=True)]
    matrix = sparse.csr_matrix((beta[term][column], (cell, column)), (cells, used))
    return matrix, Others(np.concatenate(logs or [np.zeros(0)]), FlatRows.wide(width), term, entry)
