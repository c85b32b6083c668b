"""Which column each variable stands in: sources to the left of targets, as far as there is no cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

TIGHTENING = 8
"""How often every variable is moved towards its neighbours."""


@dataclass(frozen=True)
class Ends:
    """The names of an arc's sources and targets."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]


def ranks(names: Sequence[str], arcs: Mapping[str, Ends], most: int | None = None) -> dict[str, int]:
    """A column for each variable, from 0, such that few arcs point backwards and none stays in its column.

    Arcs that close a cycle point backwards, the first ones given forwards. Two variables that only a joint belief
    connects stand side by side. With `most` no more than so many stand in a column, at the price of more columns.
    """
    before: nx.DiGraph[str] = nx.DiGraph()
    before.add_nodes_from(names)
    pairs = [(s, t) for a in arcs.values() for s in a.sources for t in a.targets]
    joint = [a.targets for a in arcs.values() if not a.sources and len(a.targets) == 2]
    for s, t in (*pairs, *joint):
        if not before.has_edge(s, t) and not nx.has_path(before, t, s):
            before.add_edge(s, t)
    rank: dict[str, int] = {}
    room = _Room(len(names) if most is None else most)
    for v in nx.lexicographical_topological_sort(before, key=list(names).index):
        rank[v] = room.first(max((rank[u] + 1 for u in before.predecessors(v)), default=0))
    _tighten(before, rank, room)
    lowest = min(rank.values(), default=0)
    return {v: rank[v] - lowest for v in names}


class _Room:
    """How many more variables each column may have."""

    def __init__(self, most: int):
        self.most = most
        self.count: Counter[int] = Counter()

    def first(self, rank: int) -> int:
        """The first column from this one on that is not full, with one place fewer from now on."""
        while self.count[rank] >= self.most:
            rank += 1
        self.count[rank] += 1
        return rank

    def moved(self, old: int, new: int) -> bool:
        """Whether one may move from a column to another; if so it has."""
        if old == new or self.count[new] >= self.most:
            return False
        self.count[old] -= 1
        self.count[new] += 1
        return True


def _tighten(before: nx.DiGraph[str], rank: dict[str, int], room: _Room) -> None:
    """Move variables to where their arcs are short: to the median of their neighbours, between the nearest of them."""
    for _ in range(TIGHTENING):
        moved = False
        for v in reversed(list(rank)):
            left = [rank[u] for u in before.predecessors(v)]
            right = [rank[u] for u in before.successors(v)]
            low, high = max(left, default=-len(rank)) + 1, min(right, default=len(rank)) - 1
            wished = _median([*(r + 1 for r in left), *(r - 1 for r in right)], rank[v])
            wished = min(max(wished, low), high)
            if room.moved(rank[v], wished):
                moved, rank[v] = True, wished
        if not moved:
            return


def _median(values: Iterable[int], otherwise: int) -> int:
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] if ordered else otherwise
