"""What each cluster of a tree looks like, how clusters form fronts, and in which order all things are numbered.

Clusters with the same local picture (shape, mechanisms, hard arcs, separator) are numbered together: Python runs once
for a cluster only to say what it looks like.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dissonance.distributions.tree import Scope, Tree
from dissonance.solvers.structure import Ints
from dissonance.solvers.support import setting

Array = npt.NDArray[np.float64]
Arrow = tuple[Scope, Scope, bool]
"""(sources, targets, hard)."""

WHOLE = 4000
"""Up to this many cells a problem is one front, all clusters filled up to one size, unless that wastes too much."""

FILLED = 200_000
"""Pairs that never are too many."""

SHALLOW = 40
"""Up to this height a tree is eliminated height by height."""

DEEP = 6
"""In a taller tree, clusters from this height on are solved for together, by sparse factorisation."""

Role = tuple[Ints, int, int]
"""What an arrow (S, T) means inside a cluster: for every cell its entry (t running fastest), how many s, how many t."""


@dataclass(frozen=True)
class Look:
    """The local picture of a cluster: its own separator's state at every cell, its terms and its hard arcs."""

    shape: tuple[int, ...]
    own: Ints
    k: int
    terms: tuple[Role, ...]
    hard: tuple[Role, ...]

    @property
    def n(self) -> int:
        """Cells."""
        return len(self.own)

    @cached_property
    def t(self) -> int:
        """Soft entries."""
        return sum(rows * width for _, rows, width in self.terms)

    @cached_property
    def u(self) -> int:
        """Hard entries."""
        return sum(rows * width for _, rows, width in self.hard)

    def soft_parts(self, n: int, width: int) -> tuple[Array, Array]:
        """M and R of a front with so many cells and soft entries a cluster."""
        return _parts(n, self.terms, width)

    def hard_parts(self, n: int, width: int) -> tuple[Array, Array]:
        """A and S."""
        return _parts(n, self.hard, width)

    def hard_row(self, width: int) -> Ints:
        """The row of each of so many hard entries, numbered from 0; -1 where there is none."""
        sizes = [w for _, rows, w in self.hard for _ in range(rows)]
        found = np.full(width, -1, dtype=np.int64)
        found[: sum(sizes)] = np.repeat(np.arange(len(sizes)), sizes)
        return found


def _parts(n: int, roles: Sequence[Role], width: int) -> tuple[Array, Array]:
    in_entry, in_row = np.zeros((n, width)), np.zeros((n, width))
    begin = 0
    for cell, rows, w in roles:
        x = np.arange(len(cell))
        in_entry[x, begin + cell] = 1.0
        in_row[x[:, None], begin + (cell // w * w)[:, None] + np.arange(w)] = 1.0
        begin += rows * w
    return in_entry, in_row


class Layout:
    """What each cluster of a tree looks like, and in which order all things are numbered."""

    def __init__(self, tree: Tree, arcs: Sequence[Arrow], structural: bool, many: bool) -> None:
        self.tree, self.arcs, self.structural, self.many = tree, arcs, structural, many
        self.parent = np.array(tree.parent, dtype=np.int64)
        self.where = [dict(zip(c, range(len(c)), strict=True)) for c in tree.clusters]
        self.home = [_home(tree, a) for a in arcs]
        self.mechanisms()
        self.looks()
        self.heights()
        n, k, t, u = (self.each([getattr(x, name) for x in self.pictures]) for name in ("n", "k", "t", "u"))
        self.n, self.k, self.t, self.u = n, k, t, u
        self.raked, self.spine = self.fronts()
        order = np.concatenate([*self.raked, *self.spine])
        self.cell_at, self.unknown_at, self.soft_at, self.hard_at = (starts(x, order) for x in (n, k, t, u))
        self.pair_at = starts(n * n, order)
        self.term_at = starts(self.each([len(x.terms) for x in self.pictures]), order)
        self.entry_at = starts(np.array([self.entries(a) for a in arcs], dtype=np.int64), np.arange(len(arcs)))

    def each(self, by_picture: Sequence[int]) -> Ints:
        """A number a picture as a number a cluster."""
        return np.array(by_picture, dtype=np.int64)[self.look]

    def entries(self, arc: Arrow) -> int:
        """How many entries its table has."""
        return math.prod(self.tree.sizes[v] for side in arc[:2] for v in side)

    def axes(self, cluster: int, scope: Scope) -> tuple[int, ...]:
        """Where a scope lies in a cluster."""
        where = self.where[cluster]
        return tuple(where[v] for v in scope)

    def sides(self, cluster: int, j: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Where the sources and targets of arc j lie."""
        return self.axes(cluster, self.arcs[j][0]), self.axes(cluster, self.arcs[j][1])

    def mechanisms(self) -> None:
        """`leader[j]`: the arc whose entries stand for arc j's mechanism; a hard one if there is one.

        `terms[i]` and `hard[i]`: the leaders and the hard arcs at home in cluster i.
        """
        hard: dict[object, int] = {}
        soft: dict[object, int] = {}
        keys = [(frozenset(s), frozenset(t)) for s, t, _ in self.arcs]
        for j, key in enumerate(keys):
            (hard if self.arcs[j][2] else soft).setdefault(key, j)
        self.leader = [j if self.arcs[j][2] else hard.get(key, soft[key]) for j, key in enumerate(keys)]
        self.terms: list[list[int]] = [[] for _ in self.tree.clusters]
        self.hard: list[list[int]] = [[] for _ in self.tree.clusters]
        for j, (lead, home) in enumerate(zip(self.leader, self.home, strict=True)):
            if self.arcs[j][2]:
                self.hard[home].append(j)
            elif lead == j:
                self.terms[home].append(j)

    def looks(self) -> None:
        """`look[i]` numbers the picture of cluster i in `pictures`."""
        known: dict[object, int] = {}
        self.pictures: list[Look] = []
        look: list[int] = []
        for i, shape in enumerate(self.tree.shapes):
            for mine in (self.terms[i], self.hard[i]):
                if len(mine) > 1:
                    mine.sort(key=lambda j, i=i: self.sides(i, j))
            key = (
                shape,
                self.axes(i, self.tree.separators[i]),
                tuple([self.sides(i, j) for j in self.terms[i]]),
                tuple([self.sides(i, j) for j in self.hard[i]]),
            )
            if key not in known:
                known[key] = len(self.pictures)
                self.pictures.append(self._picture(*key))
            look.append(known[key])
        self.look = np.array(look, dtype=np.int64)

    def _picture(self, shape: tuple[int, ...], separator: tuple[int, ...], soft: Any, hard: Any) -> Look:
        def role(sources: tuple[int, ...], targets: tuple[int, ...]) -> Role:
            rows, width = (math.prod(shape[a] for a in side) for side in (sources, targets))
            return setting(shape, (*sources, *targets)), rows, width

        rest = tuple(a for a in range(len(shape)) if a not in separator)
        terms = [role(s, t) for s, t in soft] + ([role(separator, rest)] if self.structural else [])
        k = math.prod(shape[a] for a in separator)
        return Look(shape, setting(shape, separator), k, tuple(terms), tuple(role(s, t) for s, t in hard))

    def heights(self) -> None:
        """Heights count from the leaves, depths from the roots."""
        parent = self.tree.parent
        height, depth = [0] * len(parent), [0] * len(parent)
        for i in reversed(range(len(parent))):
            if (p := parent[i]) >= 0 and height[p] <= height[i]:
                height[p] = height[i] + 1
        for i, p in enumerate(parent):
            if p >= 0:
                depth[i] = depth[p] + 1
        self.height, self.depth = np.array(height, dtype=np.int64), np.array(depth, dtype=np.int64)

    def below(self, inside: npt.NDArray[np.bool_]) -> Ints:
        """How many unknowns the children of each cluster have, counting children inside only."""
        found = np.zeros(len(self.look), dtype=np.int64)
        hang = inside & (self.parent >= 0)
        np.add.at(found, self.parent[hang], self.k[hang])
        return found

    def wastes(self) -> bool:
        """Whether filling all clusters up to one size would make too many pairs of cells or unknowns."""
        both = (self.n, self.k + self.below(np.ones(len(self.look), dtype=np.bool_)))
        filled = [len(x) * int(x.max()) ** 2 for x in both]
        return any(many > max(FILLED, 4 * int((x * x).sum())) for many, x in zip(filled, both, strict=True))

    def alike(self) -> list[Ints]:
        """Clusters by size: in a large batch filling them up costs more than it saves."""
        width = self.k + self.below(np.ones(len(self.look), dtype=np.bool_))
        keys = zip(self.n.tolist(), width.tolist(), _rounded(self.t).tolist(), _rounded(self.u).tolist(), strict=True)
        return list(classes(keys).values())

    def fronts(self) -> tuple[list[Ints], list[Ints]]:
        """Clusters by front, from the leaves to the roots; those of a deep tree's spine apart."""
        count = len(self.look)
        if self.n.sum() <= WHOLE and not self.wastes():
            return [], self.alike() if self.many else [np.arange(count)]
        deep = self.height >= DEEP if self.height.max() > SHALLOW else np.zeros(count, dtype=np.bool_)
        level = np.where(deep, self.height.max() + 1, self.height)
        sizes = [_rounded(self.t), _rounded(self.u), np.where(deep, self.below(deep), 0)]
        key = np.stack([level, self.n, self.k, *sizes])
        order = np.lexsort(key[::-1])
        cuts = np.flatnonzero((np.diff(key[:, order]) != 0).any(0)) + 1
        parts = np.split(order, cuts)
        return [x for x in parts if not deep[x[0]]], [x for x in parts if deep[x[0]]]


def _rounded(x: Ints) -> Ints:
    """Up to a power of two, so that clusters of about the same size share a front."""
    return np.where(x > 0, 2 ** np.ceil(np.log2(np.maximum(x, 1))), 0).astype(np.int64)


def _home(tree: Tree, arc: Arrow) -> int:
    home = tree.home((*arc[0], *arc[1]))
    assert home is not None
    return home


def starts(sizes: Ints, order: Ints) -> Ints:
    """Where things of these sizes start when they stand in this order."""
    found = np.zeros(len(sizes), dtype=np.int64)
    found[order] = np.cumsum(sizes[order]) - sizes[order]
    return found


def classes(keys: Iterable[object]) -> dict[Any, Ints]:
    """Positions by key; those of key None are left out."""
    found: dict[object, list[int]] = {}
    for i, key in enumerate(keys):
        if key is not None:
            found.setdefault(key, []).append(i)
    return {key: np.array(at, dtype=np.int64) for key, at in found.items()}
