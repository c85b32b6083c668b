"""Tree decompositions: min-fill elimination and the junction forest it induces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from math import log10, prod
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dissonance.compiled import expect
from dissonance.errors import SizeError

Scope = tuple[str, ...]
Index = npt.NDArray[np.int64]
T = TypeVar("T")

MOST = 10**100
"""Numbers of cells from here on are reported as this many or more."""


SECONDS, SECONDS_AT_HOME = 4e-5, 1e-5
"""What an arc or a variable takes, roughly, if elimination is interpreted; and what finding the home of an arc does."""


class Lists(NamedTuple):
    """Lists of variables as numbers, one after another: list i is `flat[at[i] : at[i + 1]]`."""

    at: Index
    flat: Index

    @classmethod
    def of(cls, lists: Sequence[Sequence[str]], number: Callable[[str], int]) -> Lists:
        """Those of named variables."""
        at = np.array([0, *accumulate(map(len, lists))], dtype=np.int64)
        return cls(at, np.array(list(map(number, chain.from_iterable(lists))), dtype=np.int64))

    def named(self, names: Sequence[T]) -> tuple[tuple[T, ...], ...]:
        """What the numbers stand for, list by list."""
        every = tuple(map(names.__getitem__, self.flat.tolist()))
        return tuple(map(every.__getitem__, map(slice, self.at[:-1].tolist(), self.at[1:].tolist())))


class Arrays(NamedTuple):
    """A forest as numbers: variable i is `order[i]`, cluster c is `cluster[cluster_at[c] : cluster_at[c + 1]]`."""

    order: Scope
    size: Index
    cluster_at: Index
    cluster: Index
    parent: Index


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
        found: list[Scope] = []
        last, shared = -1, set[str]()
        for c, p in zip(self.clusters, self.parent, strict=True):
            if p != last:  # siblings mostly stand together
                last, shared = p, set(self.clusters[p]) if p >= 0 else set[str]()
            found.append(tuple([v for v in c if v in shared]))
        return tuple(found)

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each cluster's table."""
        _, size, at, cluster, _ = self.arrays
        return Lists(at, cluster).named(size.tolist())

    @cached_property
    def arrays(self) -> Arrays:
        """The same forest as numbers."""
        order = tuple(self.sizes)
        size = np.array(list(self.sizes.values()), dtype=np.int64)
        clusters = Lists.of(self.clusters, _places(order).__getitem__)
        return Arrays(order, size, *clusters, np.array(self.parent, dtype=np.int64))

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

    def homes(self, scopes: Sequence[Sequence[str]]) -> Index:
        """The same for many scopes at once; -1 where no cluster contains one."""
        place = _places(self.sizes)
        return self.numbered_homes(Lists.of(scopes, lambda v: place.get(v, -1)))

    def numbered_homes(self, scopes: Lists) -> Index:
        """The same for numbers; -1 stands for what is no variable of the tree."""
        from dissonance.distributions import junction

        _, size, at, cluster, _ = self.arrays
        expect(SECONDS_AT_HOME * len(scopes.at))
        return junction.homes(size, at, cluster, *scopes)

    @cached_property
    def cells(self) -> int:
        """How many numbers the cluster tables hold together; 10^100 if they are more."""
        return min(sum(map(prod, self.shapes)), MOST)

    @property
    def counted(self) -> str:
        """The number of cells as one writes it: a power of ten where it is no number for a machine."""
        return f"{self.cells:.3g}" if self.cells < MOST else f"10^{log10(sum(map(prod, self.shapes))):.0f}"

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


def check_bytes(
    tree: Tree,
    need: int,
    budget: int,
    what: str = "the attended part",
    instead: str = "Attend to fewer arcs (set beta to 0), or give the solver a larger budget.",
) -> None:
    """Raise SizeError if something that needs so many bytes would not fit, and say what to do instead."""
    if need > budget:
        size = f"about {_bytes(need)}" if tree.cells < MOST else "which no machine holds"
        raise SizeError(
            f"{what} has treewidth {tree.treewidth} (a cluster of {tree.treewidth + 1} variables) and needs "
            f"{tree.counted} table cells, {size}; the budget is {_bytes(budget)}. {instead}"
        )


def _bytes(n: int) -> str:
    if n >= 2**70:
        return f"10^{log10(n):.0f} bytes"
    size = float(n)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} EiB"


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

    Ties go to the smaller table, then to the variable that comes first. An elimination that takes long, at cliques
    whose tables no machine could hold, is given up: what is left becomes one cluster, which solvers refuse by its size.
    The forests made last are remembered: the same PDG is asked about again and again, with other numbers.
    """
    return decompose_numbered(sizes, Lists.of(tuple(scopes), _places(sizes).__getitem__))


def decompose_numbered(sizes: Mapping[str, int], scopes: Lists) -> Tree:
    """The same for scopes that are numbers."""
    return _decomposed(tuple(sizes.items()), scopes.at.tobytes(), scopes.flat.tobytes())


@lru_cache(maxsize=32)
def _decomposed(pairs: tuple[tuple[str, int], ...], scope_at: bytes, scope: bytes) -> Tree:
    from dissonance.distributions import junction

    sizes = dict(pairs)
    order = tuple(sizes)
    size = np.array(list(sizes.values()), dtype=np.int64)
    scopes = [np.frombuffer(x, dtype=np.int64).copy() for x in (scope_at, scope)]
    expect(SECONDS * (len(size) + len(scopes[0])))
    at, cluster, parent = junction.junction_forest(size, *scopes)
    tree = Tree(sizes, Lists(at, cluster).named(order), tuple(parent.tolist()))
    tree.__dict__["arrays"] = Arrays(order, size, at, cluster, parent)  # known already
    return tree


def forget_trees() -> None:
    """Remember no forest."""
    _decomposed.cache_clear()


def _places(names: Iterable[str]) -> dict[str, int]:
    return {v: i for i, v in enumerate(names)}
