"""The plan of message passing on a junction forest: which clusters go together, which cells meet which messages."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dissonance.distributions.tree import Tree

Index = npt.NDArray[np.int64]

SMALL = 1024
"""Cells up to which walks over tables are remembered."""


@dataclass(frozen=True)
class LevelGroup:
    """Clusters of one level and one shape, one after another: (clusters, separator states, states of the rest).

    Their parents are of one size too: each separator state has as many `others` there.
    """

    clusters: tuple[int, ...]
    rows: slice
    states: int
    rest: int
    others: int
    spread: tuple[Any, ...]
    """For each child in turn: which of the messages of the level below meets each cell."""
    places: tuple[Any, ...]
    """For each child in turn: which clusters of the level below these children are."""
    collect: Any
    """The cells of the level above that add up to each separator state, state by state; None at the roots."""


class Levels:
    """The clusters of a tree by level and shape.

    Cells are numbered as `rows`: group by group, cluster i from `start[i]` on, in C order of `scopes[i]`, which has
    the separator's variables first, so that a message is a sum over the last axis.
    """

    def __init__(self, tree: Tree, device: torch.device | str = "cpu") -> None:
        self.tree = tree
        self.device = torch.device(device)
        self.cells = [prod(s) for s in tree.shapes]
        self.scopes = [(*s, *(v for v in c if v not in s)) for c, s in zip(tree.clusters, tree.separators, strict=True)]
        self.start = [0] * len(self.cells)
        self._children: list[list[int]] = [[] for _ in self.cells]
        for i, p in enumerate(tree.parent):
            if p >= 0:
                self._children[p].append(i)
        self.most_children = max(map(len, self._children), default=0)
        self.groups = self._plan()

    @cached_property
    def numpy(self) -> tuple[tuple[LevelGroup, ...], ...]:
        """The same groups with indices for numpy."""

        def plain(g: LevelGroup) -> LevelGroup:
            collect = None if g.collect is None else intp(g.collect)
            return replace(g, spread=tuple(map(intp, g.spread)), places=tuple(map(intp, g.places)), collect=collect)

        return tuple(tuple(map(plain, level)) for level in self.groups)

    def order(self) -> Index:
        """For each row, its cell in the plain layout: clusters in the tree's order, each in C order of its own axes."""
        order = np.empty(sum(self.cells), dtype=np.int64)
        first = 0
        for i, cluster in enumerate(self.tree.clusters):
            where = slice(self.start[i], self.start[i] + self.cells[i])
            order[where] = first + walk(self.scopes[i], cluster, self.tree.sizes)
            first += self.cells[i]
        return order

    def home(self, scope: Sequence[str]) -> int:
        """The smallest cluster that contains a scope."""
        home = self.tree.home(scope)
        assert home is not None
        return home

    def index(self, parts: Sequence[Index]) -> Tensor:
        """Rows to select, on this plan's device."""
        return torch.from_numpy(np.concatenate(parts).astype(np.int32)).to(self.device)

    def _plan(self) -> tuple[tuple[LevelGroup, ...], ...]:
        tree, cells, children = self.tree, self.cells, self._children
        states = [prod(tree.sizes[v] for v in s) for s in tree.separators]
        depth = [0] * len(cells)
        shapes: list[dict[tuple[int, ...], list[int]]] = []
        for i, p in enumerate(tree.parent):
            depth[i] = depth[p] + 1 if p >= 0 else 0
            if depth[i] == len(shapes):
                shapes.append({})
            shape = states[i], cells[i], len(children[i]), cells[p] if p >= 0 else 0
            shapes[depth[i]].setdefault(shape, []).append(i)
        in_level, message, place = [0] * len(cells), [0] * len(cells), [0] * len(cells)
        row = 0
        for level in shapes:
            top, sent = row, 0
            for number, i in enumerate(i for members in level.values() for i in members):
                self.start[i], in_level[i], message[i], place[i] = row, row - top, sent, number
                row, sent = row + cells[i], sent + states[i]

        def spread(i: int, child: int) -> Index:
            return message[child] + walk(self.scopes[i], tree.separators[child], tree.sizes)

        def collect(i: int) -> Index:
            above, separator = self.scopes[tree.parent[i]], tree.separators[i]
            rest = (v for v in above if v not in separator)
            return in_level[tree.parent[i]] + walk((*separator, *rest), above, tree.sizes)

        def group(members: Sequence[int]) -> LevelGroup:
            i, last = members[0], members[-1]
            ranks = range(len(children[i]))
            return LevelGroup(
                tuple(members),
                slice(self.start[i], self.start[last] + cells[last]),
                states[i],
                cells[i] // states[i],
                cells[tree.parent[i]] // states[i] if depth[i] else 0,
                tuple(self.index([spread(j, children[j][r]) for j in members]) for r in ranks),
                tuple(self.index([np.array([place[children[j][r]] for j in members])]) for r in ranks),
                self.index([collect(j) for j in members]) if depth[i] else None,
            )

        return tuple(tuple(group(members) for members in level.values()) for level in shapes)


def intp(index: Tensor) -> Index:
    """An index as numpy likes it best."""
    return index.cpu().numpy().astype(np.intp)


def strides(scope: Sequence[Hashable], sizes: Mapping[Any, int]) -> dict[Hashable, int]:
    """How far apart the values of each variable are in a table over a scope."""
    found: dict[Hashable, int] = {}
    step = 1
    for v in reversed(scope):
        found[v] = step
        step *= sizes[v]
    return found


def walk(scope: Sequence[Hashable], table: Sequence[Hashable], sizes: Mapping[Any, int]) -> Index:
    """For every setting of a scope, in C order, the cell of a table over (some of) its variables. Not to be changed."""
    stride = strides(table, sizes)
    shape, steps = tuple([sizes[v] for v in scope]), tuple([stride.get(v, 0) for v in scope])
    return _small_walk(shape, steps) if prod(shape) <= SMALL else _walk(shape, steps)


def _walk(shape: tuple[int, ...], steps: tuple[int, ...]) -> Index:
    found = np.zeros(1, dtype=np.int64)
    for size, step in zip(shape, steps, strict=True):
        found = (found[:, None] + step * np.arange(size)).reshape(-1)
    return found


@lru_cache(maxsize=1024)
def _small_walk(shape: tuple[int, ...], steps: tuple[int, ...]) -> Index:
    """Many small clusters look alike."""
    found = _walk(shape, steps)
    found.flags.writeable = False
    return found
