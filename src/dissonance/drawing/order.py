"""In which order the elements of each column stand, so that few lines cross (median and transposition sweeps)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

SWEEPS = 24
MOST_LINKS = 4000
"""Beyond so many links between columns only a few sweeps are made."""

Columns = list[list[int]]


def ordered(columns: Columns, links: Sequence[tuple[int, int]]) -> Columns:
    """The columns (lists of elements) in an order with few crossings; a link joins neighbouring columns."""
    left: dict[int, list[int]] = {e: [] for c in columns for e in c}
    right: dict[int, list[int]] = {e: [] for c in columns for e in c}
    for u, v in links:
        right[u].append(v)
        left[v].append(u)
    best, fewest = columns, _count(columns, right)
    now = [list(c) for c in columns]
    for sweep in range(SWEEPS if len(links) <= MOST_LINKS else 4):
        if fewest == 0:
            break
        forwards = sweep % 2 == 0
        _sweep(now, left if forwards else right, forwards, equal_right=sweep % 4 > 1)
        if len(links) <= MOST_LINKS:
            _transpose(now, left, right)
        found = _count(now, right)
        if found < fewest:
            best, fewest = [list(c) for c in now], found
    return _balanced(best, left, right)


def _balanced(columns: Columns, left: Mapping[int, list[int]], right: Mapping[int, list[int]]) -> Columns:
    """Of orders with as few crossings, one that stands between the neighbours on both sides."""
    now = [list(c) for c in columns]
    where = _places(now)
    for i, column in enumerate(now):
        before, around = list(column), now[max(0, i - 1) : i + 2]
        sides = {e: sum(_mean([where[n] for n in side[e]], where[e]) for side in (left, right)) for e in column}
        fewest = _count(around, right)
        column.sort(key=lambda e: (round(sides[e], 6), where[e]))
        if _count(around, right) > fewest:
            column[:] = before
        where.update(_places([column]))
    return now


def _sweep(columns: Columns, neighbours: Mapping[int, list[int]], forwards: bool, equal_right: bool) -> None:
    """Sort each column by the mean place of the neighbours in the column before."""
    where = _places(columns)
    for column in columns if forwards else reversed(columns):
        key = {e: _mean([where[n] for n in neighbours[e]], where[e]) for e in column}
        turn = -1 if equal_right else 1
        column.sort(key=lambda e: (key[e], turn * where[e]))
        where.update((e, (i + 0.5) / len(column)) for i, e in enumerate(column))


def _places(columns: Columns) -> dict[int, float]:
    return {e: (i + 0.5) / len(c) for c in columns for i, e in enumerate(c)}


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _transpose(columns: Columns, left: Mapping[int, list[int]], right: Mapping[int, list[int]]) -> None:
    """Exchange neighbours in a column as long as that removes crossings."""
    where = {e: i for c in columns for i, e in enumerate(c)}
    for _ in range(4):
        better = False
        for column in columns:
            for i in range(len(column) - 1):
                u, v = column[i], column[i + 1]
                if _saved(left[u], left[v], where) + _saved(right[u], right[v], where) > 0:
                    column[i], column[i + 1] = v, u
                    where[u], where[v] = i + 1, i
                    better = True
        if not better:
            return


def _saved(upper: Sequence[int], lower: Sequence[int], where: Mapping[int, int]) -> int:
    """How many crossings of links on one side are saved if two elements, with these neighbours, change places."""
    saved = 0
    for a in upper:
        at = where[a]
        for b in lower:
            there = where[b]
            saved += (at > there) - (at < there)
    return saved


def crossings(columns: Columns, links: Sequence[tuple[int, int]]) -> int:
    """How many pairs of links between neighbouring columns cross."""
    right: dict[int, list[int]] = {e: [] for c in columns for e in c}
    for u, v in links:
        right[u].append(v)
    return _count(columns, right)


def _count(columns: Columns, right: Mapping[int, list[int]]) -> int:
    """The crossings between columns that follow each other."""
    where = {e: i for c in columns for i, e in enumerate(c)}
    count = 0
    for column in columns[:-1]:
        ends: list[int] = []
        for e in column:
            mine = sorted(where[n] for n in right[e])
            count += sum(len(ends) - bisect_left(ends, m + 1) for m in mine)
            for m in mine:
                insort(ends, m)
    return count
