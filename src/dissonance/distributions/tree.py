"""Tree decompositions: min-fill elimination and the junction forest it induces."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

Scope = tuple[str, ...]


@dataclass(frozen=True)
class Tree:
    """A junction forest. Clusters are sets of variables, every parent stands before its children.

    The separator of a cluster is what it shares with its parent; a root has parent -1 and an empty separator. The
    running intersection property holds: the clusters that contain a variable form a subtree.
    """

    sizes: Mapping[str, int]
    clusters: tuple[Scope, ...]
    parent: tuple[int, ...]

    @cached_property
    def separators(self) -> tuple[Scope, ...]:
        """The variables each cluster shares with its parent, in the cluster's order."""
        shared = (set(self.clusters[p]) if p >= 0 else set[str]() for p in self.parent)
        return tuple(tuple(v for v in c if v in s) for c, s in zip(self.clusters, shared, strict=True))

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each cluster's table."""
        return tuple(tuple(self.sizes[v] for v in c) for c in self.clusters)

    @cached_property
    def _homes(self) -> dict[str, list[int]]:
        homes: dict[str, list[int]] = {}
        for i, c in enumerate(self.clusters):
            for v in c:
                homes.setdefault(v, []).append(i)
        return homes

    def home(self, scope: Iterable[str]) -> int | None:
        """The smallest cluster that contains the scope, or None."""
        scope = set(scope)
        if not scope:
            return 0
        fewest = min((self._homes.get(v, []) for v in scope), key=len)
        fits = [i for i in fewest if scope.issubset(self.clusters[i])]
        return min(fits, key=lambda i: prod(self.shapes[i]), default=None)

    @property
    def cells(self) -> int:
        """How many numbers the cluster tables hold together."""
        return sum(prod(s) for s in self.shapes)

    @property
    def treewidth(self) -> int:
        """Variables in the largest cluster, less one."""
        return max((len(c) for c in self.clusters), default=0) - 1


def forest(trees: Sequence[Tree]) -> Tree:
    """Many trees side by side."""
    sizes: dict[str, int] = {}
    clusters: list[Scope] = []
    parent: list[int] = []
    for t in trees:
        n = len(clusters)
        sizes |= t.sizes
        clusters += t.clusters
        parent += [p + n if p >= 0 else -1 for p in t.parent]
    return Tree(sizes, tuple(clusters), tuple(parent))


def single(sizes: Mapping[str, int]) -> Tree:
    """One cluster with every variable: the dense joint."""
    return Tree(dict(sizes), (tuple(sizes),), (-1,))


def coarsened(tree: Tree, cells: int) -> Tree:
    """The same forest with clusters merged into their parents while the union has at most so many cells.

    Fewer clusters mean fewer messages; tiny tables cost next to nothing.
    """
    scopes = [dict.fromkeys(c) for c in tree.clusters]
    into = list(range(len(scopes)))

    def alive(i: int) -> int:
        while i >= 0 and into[i] != i:
            i = into[i]
        return i

    for i in reversed(range(len(scopes))):
        p = tree.parent[i]
        if p >= 0 and prod(tree.sizes[v] for v in scopes[p] | scopes[i]) <= cells:
            scopes[p] |= scopes[i]
            into[i] = p
    kept = [i for i in range(len(scopes)) if into[i] == i]
    number = {i: k for k, i in enumerate(kept)} | {-1: -1}
    return Tree(tree.sizes, tuple(tuple(scopes[i]) for i in kept), tuple(number[alive(tree.parent[i])] for i in kept))


def decompose(sizes: Mapping[str, int], scopes: Iterable[Scope]) -> Tree:
    """The junction forest of a min-fill elimination of the graph in which every scope is a clique.

    The forests made last are remembered: the same PDG is asked about again and again, with other numbers.
    """
    return _decomposed(tuple(sizes.items()), tuple(scopes))


@lru_cache(maxsize=32)
def _decomposed(pairs: tuple[tuple[str, int], ...], scopes: tuple[Scope, ...]) -> Tree:
    sizes = dict(pairs)
    order, cliques = _eliminate(sizes, scopes)
    position = {v: i for i, v in enumerate(order)}
    up = [min((position[u] for u in c if u != v), default=-1) for v, c in zip(order, cliques, strict=True)]
    # A clique that equals a child's separator lies inside that child: let the child stand for it.
    stands_for = list(range(len(order)))
    for i, p in enumerate(up):
        if p >= 0 and len(cliques[i]) - 1 == len(cliques[p]) and stands_for[p] == p:
            stands_for[p] = i

    def representative(i: int) -> int:
        while stands_for[i] != i:
            i = stands_for[i]
        return i

    kept = [i for i in range(len(order)) if stands_for[i] == i]
    parents: dict[int, int] = {}
    for i in kept:
        p = up[i]
        while p >= 0 and representative(p) == i:  # the cliques i stands for hang where the last of them hung
            p = up[p]
        parents[i] = representative(p) if p >= 0 else -1
    return _top_down(sizes, kept, parents, cliques, position)


def forget() -> None:
    """Remember no forest."""
    _decomposed.cache_clear()


def _top_down(
    sizes: Mapping[str, int],
    kept: list[int],
    parents: Mapping[int, int],
    cliques: list[frozenset[str]],
    position: Mapping[str, int],
) -> Tree:
    """Number the kept cliques so that parents come first."""
    children: dict[int, list[int]] = {}
    for i in kept:
        children.setdefault(parents[i], []).append(i)
    ordered: list[int] = []
    frontier = children.get(-1, [])
    while frontier:
        ordered += frontier
        frontier = [c for i in frontier for c in children.get(i, [])]
    number = {i: k for k, i in enumerate(ordered)} | {-1: -1}
    clusters = tuple(tuple(sorted(cliques[i], key=position.__getitem__)) for i in ordered)
    return Tree(dict(sizes), clusters, tuple(number[parents[i]] for i in ordered))


def _eliminate(sizes: Mapping[str, int], scopes: Iterable[Scope]) -> tuple[list[str], list[frozenset[str]]]:
    """A min-fill order (ties: smaller resulting table) and the clique each elimination makes.

    How many edges each elimination would add is kept up to date edge by edge, in a heap, so that sparse graphs take
    near-linear time whatever the degrees of their hubs.
    """
    near: dict[str, set[str]] = {v: set() for v in sizes}
    for scope in scopes:
        for v in scope:
            near[v].update(scope)
    for v, neighbours in near.items():
        neighbours.discard(v)
    fill = {v: sum(len(n) - 1 - len(n & near[u]) for u in n) // 2 for v, n in near.items()}
    table = {v: prod(sizes[u] for u in n) * sizes[v] for v, n in near.items()}
    rank = {v: i for i, v in enumerate(near)}
    heap = [(fill[v], table[v], i, v) for v, i in rank.items()]
    heapq.heapify(heap)
    order: list[str] = []
    cliques: list[frozenset[str]] = []
    while heap:
        missing, cells, _, v = heapq.heappop(heap)
        if v not in near or (fill[v], table[v]) != (missing, cells):
            continue
        around = near.pop(v)
        order.append(v)
        cliques.append(frozenset({v, *around}))
        changed = set(around)
        if missing:
            for a, b in _strangers(around, near):
                common = near[a] & near[b]
                for w in common - {v}:
                    fill[w] -= 1
                for x, y in ((a, b), (b, a)):
                    fill[x] += len(near[x]) - len(common)
                    table[x] *= sizes[y]
                near[a].add(b)
                near[b].add(a)
                changed |= common
        for u in around:
            fill[u] -= len(near[u]) - len(around)
            table[u] //= sizes[v]
            near[u].discard(v)
        for u in changed - {v}:
            heapq.heappush(heap, (fill[u], table[u], rank[u], u))
    return order, cliques


def _strangers(around: set[str], near: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Pairs of neighbours that are not neighbours of each other, found one by one as edges are added."""
    left = sorted(around)
    for i, a in enumerate(left):
        for b in left[i + 1 :]:
            if b not in near[a]:
                yield a, b
