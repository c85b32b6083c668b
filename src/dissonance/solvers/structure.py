"""The structure of a problem apart from its numbers: which cells, terms and separators there are, and where.

Clusters with the same local picture (shape, mechanisms, hard arcs, separator) form a group and are handled together,
for all problems of a batch at once. Groups are cut into blocks by height in the tree, so that a pass from the leaves to
the roots costs a few tensor operations a height, not a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dissonance.distributions.tree import Scope, Tree
from dissonance.numerics import DTYPE
from dissonance.solvers.support import settings

Arrow = tuple[Scope, Scope]
"""(sources, targets)."""

SHALLOW = 40
"""Up to this height a tree is eliminated height by height."""

DEEP = 6
"""In a taller tree, clusters from this height on are solved for together, by sparse factorisation."""


@dataclass(frozen=True)
class Role:
    """What an arrow (S, T) means inside a cluster: for every cell the index of its (s, t), t running fastest."""

    cell: Tensor  # (n,)
    rows: int
    width: int

    @cached_property
    def sums(self) -> Tensor:
        """(n, rows * width): sums cells into (s, t)."""
        return torch.nn.functional.one_hot(self.cell, self.rows * self.width).to(DTYPE)

    @cached_property
    def row_sums(self) -> Tensor:
        """(n, rows): sums cells into s."""
        return torch.nn.functional.one_hot(self.cell // self.width, self.rows).to(DTYPE)

    @cached_property
    def pairs(self) -> Tensor:
        """(n, n): where a pair of cells stands in a flat (rows, width, width); one past the end for different rows."""
        row, t = self.cell // self.width, self.cell % self.width
        same = (row[:, None] * self.width + t[:, None]) * self.width + t[None, :]
        return torch.where(row[:, None] == row[None, :], same, self.rows * self.width**2)

    def collect(self, cells: Tensor) -> Tensor:
        """(..., n) cells summed into (..., rows, width)."""
        return (cells @ self.sums).unflatten(-1, (self.rows, self.width))

    def spread(self, table: Tensor) -> Tensor:
        """(..., rows, width) looked up at every cell, (..., n)."""
        return table.flatten(-2)[..., self.cell]


@dataclass(frozen=True)
class Group:
    """Clusters that look alike: `cells` (count, n) are their cells in mu, row by row.

    `terms` are the entropy terms: the mechanisms at home here, then, with structure, (separator -> rest).
    """

    cells: Tensor
    separator: Role
    terms: tuple[Role, ...]
    hard: tuple[Role, ...]

    @property
    def count(self) -> int:
        """How many clusters."""
        return self.cells.shape[0]

    @property
    def size(self) -> int:
        """Cells a cluster."""
        return self.cells.shape[1]


@dataclass(frozen=True)
class Block:
    """Members of a group, at one height, whose parents look alike; `above` is each parent cell's separator state."""

    group: int
    members: Tensor
    height: int
    parent_group: int  # -1: these are roots
    parents: Tensor
    above: Tensor


@dataclass(frozen=True)
class Spine:
    """Members of a group high up in a deep tree, with children that hang alike.

    Such clusters are not eliminated one height after another: what their separators ask of each other is one sparse
    system. `X` (n, k) lays a cluster's own separator, then minus its spine children's, over its cells; `unknowns`
    (members, k) says which unknowns of the system these are.
    """

    group: int
    members: Tensor
    X: Tensor
    unknowns: Tensor


@dataclass(frozen=True)
class Structure:
    """What problems of one shape share. Places are (group, member, which term or hard arc).

    `blocks` go from the leaves to the roots; `links` are the same clusters regardless of height, for what can be done
    in any order; `spines` are the clusters above height `DEEP` in a deep tree (none in a shallow one).
    """

    tree: Tree
    groups: tuple[Group, ...]
    blocks: tuple[Block, ...]
    links: tuple[Block, ...]
    spines: tuple[Spine, ...]
    where: tuple[tuple[int, int], ...]
    mechanism_places: tuple[tuple[int, int, int], ...]
    hard_places: tuple[tuple[int, int, int], ...]
    offsets: np.ndarray[Any, np.dtype[np.int64]]
    structural: bool

    @property
    def cells(self) -> int:
        """How many cells mu has."""
        return int(self.offsets[-1])

    def split(self, x: Tensor) -> list[Tensor]:
        """(P, cells) by group: (P, count, n)."""
        return [x[:, g.cells] for g in self.groups]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The inverse of split."""
        out = parts[0].new_empty(len(parts[0]), self.cells)
        for g, x in zip(self.groups, parts, strict=True):
            out[:, g.cells] = x
        return out

    def above(self, block: Block, mu: Sequence[Tensor]) -> Tensor:
        """The parents' marginals on a block's separators, (P, members, states)."""
        states = self.groups[block.group].separator.rows
        parents = mu[block.parent_group][:, block.parents]
        return parents.new_zeros(*parents.shape[:2], states).index_add_(2, block.above, parents)

    def to_parents(self, block: Block, message: Tensor, mu: Sequence[Tensor]) -> None:
        """Add a message over a block's separators, (P, members, states), to the parents' cells."""
        if block.parent_group >= 0:
            mu[block.parent_group].index_add_(1, block.parents, message[..., block.above])

    def to(self, device: torch.device | str) -> Structure:
        """The same structure with its index arrays on a device."""

        def role(r: Role) -> Role:
            return Role(r.cell.to(device), r.rows, r.width)

        groups = (
            Group(g.cells.to(device), role(g.separator), tuple(map(role, g.terms)), tuple(map(role, g.hard)))
            for g in self.groups
        )

        def moved(blocks: Sequence[Block]) -> tuple[Block, ...]:
            return tuple(
                Block(b.group, b.members.to(device), b.height, b.parent_group, b.parents.to(device), b.above.to(device))
                for b in blocks
            )

        rest = (self.where, self.mechanism_places, self.hard_places, self.offsets, self.structural)
        spines = (Spine(x.group, x.members.to(device), x.X.to(device), x.unknowns.to(device)) for x in self.spines)
        return Structure(self.tree, tuple(groups), moved(self.blocks), moved(self.links), tuple(spines), *rest)


def arrange(tree: Tree, mechanisms: Sequence[Arrow], hard: Sequence[Arrow], structural: bool) -> Structure:
    """Sort the clusters of a tree into groups and blocks; every arrow lives in the smallest cluster that holds it."""
    soft_at, hard_at = _at_home(tree, mechanisms), _at_home(tree, hard)
    members: dict[object, list[int]] = {}
    for i, cluster in enumerate(tree.clusters):
        local = {v: k for k, v in enumerate(cluster)}

        def inside(arrow: Arrow, local: dict[str, int] = local) -> tuple[tuple[int, ...], ...]:
            return tuple(tuple(local[v] for v in side) for side in arrow)

        soft_at[i].sort(key=lambda j, inside=inside: inside(mechanisms[j]))
        hard_at[i].sort(key=lambda j, inside=inside: inside(hard[j]))
        picture = (
            tree.shapes[i],
            tuple(local[v] for v in tree.separators[i]),
            tuple(inside(mechanisms[j]) for j in soft_at[i]),
            tuple(inside(hard[j]) for j in hard_at[i]),
        )
        members.setdefault(picture, []).append(i)
    offsets = np.concatenate([[0], np.cumsum([math.prod(s) for s in tree.shapes])]).astype(np.int64)
    groups: list[Group] = []
    where = [(0, 0)] * len(tree.clusters)
    soft_places, hard_places = [(0, 0, 0)] * len(mechanisms), [(0, 0, 0)] * len(hard)
    for g, clusters in enumerate(members.values()):
        first = clusters[0]
        rest = tuple(v for v in tree.clusters[first] if v not in tree.separators[first])
        separator = _role(tree, first, (tree.separators[first], rest))
        terms = tuple(_role(tree, first, mechanisms[j]) for j in soft_at[first])
        cells = torch.from_numpy(offsets[clusters][:, None] + np.arange(math.prod(tree.shapes[first])))
        hard_roles = tuple(_role(tree, first, hard[j]) for j in hard_at[first])
        groups.append(Group(cells, separator, (*terms, separator) if structural else terms, hard_roles))
        for place, i in enumerate(clusters):
            where[i] = g, place
            for at, places in ((soft_at[i], soft_places), (hard_at[i], hard_places)):
                for which, j in enumerate(at):
                    places[j] = g, place, which
    height = _heights(tree)
    blocks, links = _blocks(tree, where, height), _blocks(tree, where, [0] * len(height))
    spines = _spines(tree, where, height, groups) if max(height, default=0) > SHALLOW else ()
    places = (tuple(where), tuple(soft_places), tuple(hard_places))
    return Structure(tree, tuple(groups), blocks, links, spines, *places, offsets, structural)


def _role(tree: Tree, cluster: int, arrow: Arrow) -> Role:
    cell = torch.from_numpy(settings(tree, cluster, (*arrow[0], *arrow[1])))
    return Role(cell, *(math.prod(tree.sizes[v] for v in side) for side in arrow))


def _at_home(tree: Tree, arrows: Sequence[Arrow]) -> list[list[int]]:
    """Which arrows live in each cluster."""
    at: list[list[int]] = [[] for _ in tree.clusters]
    for j, (s, t) in enumerate(arrows):
        home = tree.home((*s, *t))
        assert home is not None
        at[home].append(j)
    return at


def _heights(tree: Tree) -> list[int]:
    height = [0] * len(tree.clusters)
    for i in reversed(range(len(tree.clusters))):
        if (p := tree.parent[i]) >= 0:
            height[p] = max(height[p], height[i] + 1)
    return height


def _blocks(tree: Tree, where: Sequence[tuple[int, int]], height: Sequence[int]) -> tuple[Block, ...]:
    alike: dict[tuple[int, int, int, tuple[int, ...]], list[int]] = {}
    for i, p in enumerate(tree.parent):
        above = () if p < 0 else tuple(map(tree.clusters[p].index, tree.separators[i]))
        alike.setdefault((height[i], where[i][0], where[p][0] if p >= 0 else -1, above), []).append(i)
    blocks: list[Block] = []
    for (level, group, parent_group, _), clusters in sorted(alike.items(), key=lambda item: item[0][0]):
        p = tree.parent[clusters[0]]
        above = settings(tree, p, tree.separators[clusters[0]]) if p >= 0 else np.zeros(0, dtype=np.int64)
        own = torch.tensor([where[i][1] for i in clusters])
        parents = torch.tensor([where[tree.parent[i]][1] if p >= 0 else 0 for i in clusters])
        blocks.append(Block(group, own, level, parent_group, parents, torch.from_numpy(above)))
    return tuple(blocks)


def _spines(
    tree: Tree, where: Sequence[tuple[int, int]], height: Sequence[int], groups: Sequence[Group]
) -> tuple[Spine, ...]:
    """Unknowns are numbered from the leaves to the roots: eliminated in that order, they fill in nothing."""
    first: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    total = 0
    for i in reversed(range(len(tree.clusters))):
        if height[i] >= DEEP:
            first[i] = total
            total += groups[where[i][0]].separator.rows
            children.setdefault(tree.parent[i], []).append(i)
    alike: dict[object, list[int]] = {}
    for i in first:
        hang = sorted(tuple(map(tree.clusters[i].index, tree.separators[c])) for c in children.get(i, []))
        alike.setdefault((where[i][0], tuple(hang)), []).append(i)
    spines: list[Spine] = []
    for clusters in alike.values():
        columns, unknowns = [], []
        for i in clusters:
            inside = tree.clusters[i]
            hang = sorted(
                children.get(i, []), key=lambda c, inside=inside: tuple(map(inside.index, tree.separators[c]))
            )
            if i == clusters[0]:
                states = (torch.from_numpy(settings(tree, i, tree.separators[c])) for c in hang)
                columns = [
                    -torch.nn.functional.one_hot(x, groups[where[c][0]].separator.rows)
                    for x, c in zip(states, hang, strict=True)
                ]
            own = [(first[c], groups[where[c][0]].separator.rows) for c in (i, *hang)]
            unknowns.append(torch.cat([torch.arange(a, a + n) for a, n in own]))
        g = where[clusters[0]][0]
        X = torch.cat([groups[g].separator.row_sums, *(c.to(DTYPE) for c in columns)], 1)
        spines.append(Spine(g, torch.tensor([where[i][1] for i in clusters]), X, torch.stack(unknowns)))
    return tuple(spines)
