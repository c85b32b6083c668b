"""The structure of a problem apart from its numbers: which cells, entries and unknowns there are, and what meets what.

All numbers of a problem lie in four flat vectors, so that what a Newton step does costs a few tensor operations,
however many clusters there are:

    cells     mu, cluster by cluster
    soft      an entry (s, t) for every entropy term: the mechanisms and, with structure, (separator -> rest)
    hard      an entry (s, t) for every hard arc
    unknowns  a multiplier for every state of every separator (at a root: for its mass)

Only elimination looks at clusters one by one. Those of one size and height form a front and are eliminated together;
the clusters of a small problem are one front. What differs between the clusters of a front is data, not code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dissonance.distributions.tree import Tree
from dissonance.numerics import DTYPE

Ints = npt.NDArray[np.int64]

DENSE = 1 << 15
"""Up to this many entries an incidence is a dense matrix."""


@dataclass(frozen=True)
class Incidence:
    """Which of `n` things count, with which sign, in which of `k` sums: a sparse (n, k) matrix, dense where small."""

    thing: Tensor
    sum: Tensor
    sign: Tensor | None
    n: int
    k: int

    @cached_property
    def dense(self) -> Tensor | None:
        """The matrix, if small."""
        if self.n * self.k > DENSE:
            return None
        made = torch.zeros(self.n, self.k, dtype=DTYPE, device=self.thing.device)
        sign = made.new_ones(len(self.thing)) if self.sign is None else self.sign
        return made.index_put_((self.thing, self.sum), sign, accumulate=True)

    def sums(self, x: Tensor) -> Tensor:
        """(P, n) summed into (P, k)."""
        if self.dense is not None:
            return x @ self.dense
        terms = x.index_select(1, self.thing)
        terms = terms if self.sign is None else terms * self.sign
        return x.new_zeros(len(x), self.k).index_add_(1, self.sum, terms)

    def back(self, y: Tensor) -> Tensor:
        """(P, k) looked up, and added up, at every thing: the transpose."""
        if self.dense is not None:
            return y @ self.dense.T
        terms = y.index_select(1, self.sum)
        terms = terms if self.sign is None else terms * self.sign
        return y.new_zeros(len(y), self.n).index_add_(1, self.thing, terms)

    @cached_property
    def unsigned(self) -> Incidence:
        """The same with every sign positive."""
        return Incidence(self.thing, self.sum, None, self.n, self.k)

    def to(self, device: torch.device | str) -> Incidence:
        """The same on a device."""
        sign = None if self.sign is None else self.sign.to(device)
        return Incidence(self.thing.to(device), self.sum.to(device), sign, self.n, self.k)


@dataclass(frozen=True)
class Rows:
    """Entries (s, t) that share their s have one number in `row` (entries,)."""

    row: Tensor

    @cached_property
    def same(self) -> Tensor | None:
        """(entries, entries) 1 where two share a row, if small."""
        if len(self.row) ** 2 > DENSE:
            return None
        return (self.row[:, None] == self.row[None, :]).to(DTYPE)

    def total(self, x: Tensor) -> Tensor:
        """(P, entries): at every entry the sum over its row."""
        if self.same is not None:
            return x @ self.same
        return torch.zeros_like(x).index_add_(1, self.row, x).index_select(1, self.row)

    def to(self, device: torch.device | str) -> Rows:
        """The same on a device."""
        return Rows(self.row.to(device))


class Level(NamedTuple):
    """The separators at one depth: `cell` of a parent lies in `state` of a child's separator, and in state `own` of
    the parent's own. `cells` are the children's, `cells_state` their states of that separator."""

    cell: Tensor
    state: Tensor
    own: Tensor
    cells: Tensor
    cells_state: Tensor


@dataclass(frozen=True)
class Levels:
    """All levels one after another, from below the roots on: `meets` how many parent cells and `sizes` how many child
    cells there are at each."""

    all: Level
    meets: tuple[int, ...]
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[Level]:
        cuts = (self.meets,) * 3 + (self.sizes,) * 2
        return map(Level, *(x.split(n) for x, n in zip(self.all, cuts, strict=True)))

    def __reversed__(self) -> Iterator[Level]:
        return reversed(tuple(self))

    def to(self, device: torch.device | str) -> Levels:
        """The same on a device."""
        return Levels(Level(*(x.to(device) for x in self.all)), self.meets, self.sizes)


@dataclass(frozen=True)
class Front:
    """`count` clusters of n cells that are eliminated together, leaving k unknowns each.

    `X` (count, n, k) lays the unknowns over the cells. `soft` (count, t) and `hard` (count, u) are their entries (one
    past the end: none). `M` (count, n, t) says which cells lie in an entry and `R` which lie in its row; `A` and `S` do
    so for hard entries, whose rows are numbered in `hard_row` (count, u; -1: none). What a front leaves goes to the
    parents: cell `up_cell` takes from unknown `up_from` (a place among count * k), and pair `up_pair` of cells from the
    pair `up_from_pair` of unknowns.

    In a front of clusters of different sizes n is the largest, and `place` (cells,) says where in count * n cells are.
    """

    cells: slice
    pairs: slice
    count: int
    n: int
    unknowns: Tensor
    X: Tensor
    soft: Tensor
    M: Tensor
    R: Tensor
    hard: Tensor
    hard_row: Tensor
    A: Tensor
    S: Tensor
    up_cell: Tensor
    up_from: Tensor
    up_pair: Tensor
    up_from_pair: Tensor
    place: Tensor | None = None

    def gather(self, x: Tensor, missing: float = 0.0) -> Tensor:
        """(P, cells) by cluster, (P, count, n)."""
        if self.place is None:
            return x[:, self.cells].view(len(x), self.count, self.n)
        found = x.new_full((len(x), self.count * self.n), missing)
        found[:, self.place] = x
        return found.view(len(x), self.count, self.n)

    def scatter(self, x: Tensor, into: Tensor) -> None:
        """The inverse: write (P, count, n) into (P, cells)."""
        into[:, self.cells] = x.flatten(1) if self.place is None else x.flatten(1).index_select(1, self.place)

    def to(self, device: torch.device | str) -> Front:
        """The same on a device."""
        return replace(self, **{k: v.to(device) for k, v in vars(self).items() if isinstance(v, Tensor)})

    @cached_property
    def same(self) -> Tensor:
        """(count, u, u) 1 where two hard entries share a row."""
        row = self.hard_row
        return ((row[:, :, None] == row[:, None, :]) & (row >= 0)[:, None, :]).to(DTYPE)


@dataclass(frozen=True)
class Structure:
    """What problems of one shape share.

    `incidence` (cells; soft, hard, unknowns) has a minus where a child's separator lies in its parent; `arcs` (cells;
    table entries of the arcs, one arc after another) lays the arcs' tables over the cells. `fronts` go from the leaves
    to the roots; `spine` are the clusters of a small tree, or those of a deep one far from the leaves, with unknowns
    numbered apart, so that elimination in their order fills in nothing: `spine_unknowns` are these in that order,
    `spine_square` says where the fronts' pairs of unknowns go in a dense matrix, `spine_entry` in a sparse one by
    columns, of which `spine_rows`, `spine_starts`, `spine_diagonal` are the rows, starts of columns, and diagonal.
    """

    tree: Tree
    structural: bool
    incidence: Incidence
    rows: Rows
    hard_rows: Rows
    arcs: Incidence
    arc_of: Tensor  # (entries of arcs,) the arc
    is_hard: Tensor  # (arcs,)
    term_of: Tensor  # (arcs,) the term of its mechanism; one past the end: none
    term_at: Tensor  # (soft,) the term
    first: Tensor  # (soft,) the entry of the first arc of the mechanism; one past the end: (separator -> rest)
    hard_entry: Tensor  # (hard,) the entry of the arc
    fixed: Tensor  # (2, .) entries of soft arcs whose mechanism a hard arc fixes, and the entries of the hard one
    own: Tensor  # (cells,) the unknown of their own separator's state
    cluster: Tensor  # (cells,)
    roots: Tensor  # (unknowns,) 1 where it is for the mass of a root
    levels: Levels
    fronts: tuple[Front, ...]
    spine: tuple[Front, ...]
    spine_unknowns: Tensor
    spine_square: Tensor
    spine_entry: Tensor
    spine_rows: Tensor
    spine_starts: Tensor
    spine_diagonal: Tensor
    cell_at: Ints
    hard_at: Ints  # (arcs,) where the entries of a hard arc start

    @property
    def cells(self) -> int:
        """How many there are."""
        return self.incidence.n

    @cached_property
    def whole(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Of a small problem without hard arcs: which cells lie in a soft entry and in its row, (cells, soft) each, and
        the frame of its Newton system: the unknowns over the cells, and their transpose."""
        entry, same = self.incidence.dense, self.rows.same
        if entry is None or same is None or len(self.hard_entry):
            return None
        soft, _, X = entry.split([len(self.first), len(self.hard_entry), len(self.roots)], 1)
        n, size = self.cells, self.cells + len(self.roots)
        frame = X.new_zeros(size, size)
        frame[:n, n:], frame[n:, :n] = X, X.T
        return soft, soft @ same, frame

    @property
    def pairs(self) -> int:
        """How many pairs of cells there are inside fronts."""
        return max((f.pairs.stop for f in (*self.fronts, *self.spine)), default=0)

    def split(self, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(P, soft + hard + unknowns) as three."""
        soft, hard, _ = y.split([len(self.first), len(self.hard_entry), len(self.roots)], 1)
        return soft, hard, _

    def tables(self, mu: Tensor) -> list[Tensor]:
        """One problem's cells (cells,) as a table a cluster."""
        starts = self.cell_at.tolist()
        return [mu[a : a + math.prod(s)].reshape(s) for a, s in zip(starts, self.tree.shapes, strict=True)]

    def flat(self, tables: Sequence[Tensor]) -> Tensor:
        """The inverse of `tables`."""
        return torch.cat([tables[i].reshape(-1) for i in np.argsort(self.cell_at, kind="stable").tolist()])

    def to(self, device: torch.device | str) -> Structure:
        """The same with its index arrays on a device."""
        if self.own.device == torch.device(device):
            return self
        moved = {k: v.to(device) for k, v in vars(self).items() if isinstance(v, Tensor | Incidence | Rows | Levels)}
        fronts, spine = (tuple(x.to(device) for x in xs) for xs in (self.fronts, self.spine))
        return replace(self, **moved, fronts=fronts, spine=spine)
