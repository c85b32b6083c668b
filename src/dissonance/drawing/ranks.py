"""Which column each variable stands in: sources to the left of targets, as far as there is no cycle."""

from __future__ import annotations

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


def ranks(names: Sequence[str], arcs: Mapping[str, Ends]) -> dict[str, int]:
    """A column for each variable, from 0, such that few arcs point backwards and none stays in its column.

    Arcs that close a cycle point backwards, the first ones given forwards. Two variables that only a joint belief
    connects stand side by side.
    """
    before: nx.DiGraph[str] = nx.DiGraph()
    before.add_nodes_from(names)
    pairs = [(s, t) for a in arcs.values() for s in a.sources for t in a.targets]
    joint = [a.targets for a in arcs.values() if not a.sources and len(a.targets) == 2]
    for s, t in (*pairs, *joint):
        if not before.has_edge(s, t) and not nx.has_path(before, t, s):
            before.add_edge(s, t)
    rank: dict[str, int] = {}
    for v in nx.lexicographical_topological_sort(before, key=list(names).index):
        rank[v] = max((rank[u] + 1 for u in before.predecessors(v)), default=0)
    _tighten(before, rank)
    lowest = min(rank.values(), default=0)
    return {v: rank[v] - lowest for v in names}


def _tighten(before: nx.DiGraph[str], rank: dict[str, int]) -> None:
    """Move variables to where their arcs are short: to the median of their neighbours, between the nearest of them."""
    for _ in range(TIGHTENING):
        moved = False
        for v in reversed(list(rank)):
            left = [rank[u] for u in before.predecessors(v)]
            right = [rank[u] for u in before.successors(v)]
            low, high = max(left, default=-len(rank)) + 1, min(right, default=len(rank)) - 1
            wished = _median([*(r + 1 for r in left), *(r - 1 for r in right)], rank[v])
            wished = min(max(wished, low), high)
            moved |= wished != rank[v]
            rank[v] = wished
        if not moved:
            return


def _median(values: Iterable[int], otherwise: int) -> int:
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] if ordered else otherwise
