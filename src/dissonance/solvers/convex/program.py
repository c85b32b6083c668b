"""Components on a junction tree as convex programs in their cluster marginals.

    minimise   c . mu + sum_k W_k m_k log(m_k / s_k)     m = mu(s,t), s = mu(s), for every mechanism; and gamma -H(mu)
    subject to neighbours that agree on their separator, roots of mass 1, hard arcs that hold, mu >= 0

c is -beta log p of the soft arcs (and -gamma alpha log p of hard ones) and W beta - gamma alpha, added up over the arcs
of one mechanism; gamma > 0 adds for every cluster the term gamma H(cluster | separator). Dual variables: l (log q,
every row of q sums to 1), d (separators; the mass at a root), lam (hard arcs), with

    slack = c + W l + sum_children d_c - d - (lam - sum_t p lam)  >= 0
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dissonance.compiled import expect
from dissonance.distributions.tree import Tree
from dissonance.problem import NOWHERE, Batch, Bools, Shape
from dissonance.solvers.convex.layout import HARD, SOFT, STRUCTURAL, Fronts, Ints, Layout, Scopes, fronts, numbering
from dissonance.solvers.convex.room import Offsets, offsets

Floats = npt.NDArray[np.float64]


class Numbers(NamedTuple):
    """The numbers of P problems: c (P, cells), W (P, terms), p (P, entries): hard tables, or a first guess of q."""

    c: Floats
    W: Floats
    p: Floats


SECONDS_PER_CELL = 1e-5
"""What numbering takes a cell, roughly, if it is interpreted; and so does finding out which cells are possible."""


@dataclass(frozen=True, eq=False)
class Structure:
    """What problems share that differ in their numbers only, zeros included: the tree, and what is numbered on it."""

    tree: Tree
    layout: Layout
    fronts: Fronts

    @cached_property
    def flat_layout(self) -> tuple[Ints, Offsets]:
        """The layout in one vector, and where everything begins; see `room.py`."""
        return offsets(self.layout, self.fronts)

    @cached_property
    def clusters(self) -> Ints:
        """The clusters, children first."""
        return np.arange(len(self.layout.parent) - 1, -1, -1)

    @cached_property
    def hard(self) -> bool:
        """Whether there are hard arcs."""
        return bool((self.layout.kind == HARD).any())

    @cached_property
    def softened(self) -> Structure:
        """The same with soft arcs in the place of hard ones."""
        layout = self.layout._replace(kind=np.where(self.layout.kind == HARD, SOFT, self.layout.kind))
        return Structure(self.tree, layout, fronts(layout))

    @cached_property
    def arc_of(self) -> Ints:
        """The arc of every table entry."""
        return owners(self.layout.table_at)

    @cached_property
    def term(self) -> Ints:
        """The term of every entry."""
        return owners(self.layout.entry_at[self.layout.row_at])

    @cached_property
    def kind(self) -> Ints:
        """What each entry is of."""
        return self.layout.kind[self.term]

    @cached_property
    def roots(self) -> Ints:
        """The unknown of the mass of every root."""
        return self.layout.unknown_at[:-1][self.layout.parent < 0]

    @cached_property
    def cell_of(self) -> Ints:
        """The cell of every item of `entry`."""
        return self._cells(owners(self.layout.term_at), self.layout.term_cell)

    @cached_property
    def cell_above(self) -> Ints:
        """The cell of every item of `above`."""
        return self._cells(self.layout.parent, self.layout.above_at)

    @cached_property
    def _cell(self) -> Ints:
        """The cell of every item of `arc_table`."""
        return self._cells(self.layout.home, self.layout.arc_cell)

    def _cells(self, clusters: Ints, at: Ints) -> Ints:
        """The cell of every item, where a run of them, each from `at` on, goes through all cells of a cluster."""
        return np.repeat(self.layout.cell_at[clusters] - at[:-1], np.diff(at)) + np.arange(at[-1])

    @cached_property
    def _costs(self) -> tuple[Ints, Ints, Ints]:
        """The parts of c: the number of the price of each, the table entry of its log p, its cell."""
        lay, price, entry, cells = self.layout, owners(self.layout.arc_cell), self.layout.arc_table, self._cell
        if self.hard:  # a soft arc whose mechanism is fixed pays for the hard arc's log p as well
            fixed = np.flatnonzero(~lay.hard[price] & lay.hard[lay.leader[price]])
            arc = price[fixed]
            there = lay.arc_table[lay.arc_cell[lay.leader[arc]] + fixed - lay.arc_cell[arc]]
            price = np.concatenate([price, arc + len(lay.home)])
            entry, cells = np.concatenate([entry, there]), np.concatenate([cells, cells[fixed]])
        return price, entry, cells

    def _prices(self, a: Batch) -> Floats:
        """What log p costs: of every arc's own; and, where there are hard arcs, of one's that fixes the mechanism."""
        if not self.hard:
            return -a.beta
        hard, structure = self.layout.hard, a.gamma[:, None] * a.alpha
        beta = np.where(hard, 0.0, a.beta)
        return np.concatenate([np.where(hard, -structure, -beta), np.where(hard, 0.0, beta - structure)], 1)

    def joint(self, mu: Floats) -> Floats:
        """mu(s,t) of every arc, (P, entries), of cells (P, cells)."""
        return _added(mu[:, self._cell], self.layout.arc_table, int(self.layout.table_at[-1]))

    def entry_sums(self, mu: Floats) -> Floats:
        """mu(s,t) of every entry of every term, (P, entries), of cells (P, cells)."""
        return _added(mu[:, self.cell_of], self.layout.entry, len(self.layout.row))

    def cell_sums(self, x: Floats) -> Floats:
        """What entries (P, entries) come to at every cell, (P, cells)."""
        return _added(x[:, self.layout.entry], self.cell_of, len(self.layout.own))

    def table_sums(self, x: Floats) -> Floats:
        """What table entries (P, entries) come to at every cell, (P, cells)."""
        return _added(x[:, self.layout.arc_table], self._cell, len(self.layout.own))

    def row_sums(self, x: Floats) -> Floats:
        """What the entries (P, entries) of a row come to, at each of them."""
        return np.add.reduceat(x, self.layout.entry_at[:-1], axis=1)[:, self.layout.row]

    def conditionals(self, mu: Floats, fallback: Floats) -> Floats:
        """mu(t|s) of every entry of every term, (P, entries), of cells (P, cells); the fallback where mu(s) is 0."""
        m = self.entry_sums(mu)
        total = self.row_sums(m)
        return np.divide(m, total, out=fallback.copy(), where=total > 0)

    @cached_property
    def _of_arcs(self) -> Ints | slice:
        """The entries of arcs; all of them without a copy."""
        return slice(None) if (self.layout.table >= 0).all() else np.flatnonzero(self.layout.table >= 0)

    def numbers(self, a: Batch) -> Numbers:
        """c, W and p; mechanisms of negative weight have W = 0."""
        lay = self.layout
        price, entry, cells = self._costs
        zero = a.log_p == -np.inf
        impossible = zero.any()
        logs = np.where(zero, 0.0, a.log_p) if impossible else a.log_p
        parts = self._prices(a)[:, price] * logs[:, entry]
        if impossible and (a.beta < 0).any():  # disbelief in the impossible
            parts[(zero & (a.beta < 0)[:, self.arc_of])[:, entry] & (price < len(lay.home))] = -np.inf
        p = np.ones((len(a.gamma), len(lay.row)))
        p[:, self._of_arcs] = np.exp(a.log_p[:, lay.table[self._of_arcs]])
        p = np.where(self.kind == SOFT, first_guess(p), p)
        if self.hard:  # rows of single precision sum to 1 only so far
            p = np.where(self.kind == HARD, p / self.row_sums(p), p)
        return Numbers(_added(parts, cells, len(lay.own)), np.maximum(self.weights(a), 0.0), p)

    @cached_property
    def _weighed(self) -> Ints:
        """The term to which an arc adds weight; one more than there are, if it adds to none."""
        lay = self.layout
        return np.where(lay.hard | (lay.term_of < 0), len(lay.kind), lay.term_of)

    def weights(self, a: Batch) -> Floats:
        """beta - gamma alpha of every term, added up over the soft arcs of its mechanism; gamma of a structural one."""
        kind = self.layout.kind
        found = _added(a.beta - a.gamma[:, None] * a.alpha, self._weighed, len(kind) + 1)[:, :-1]
        found[:, kind == STRUCTURAL] = a.gamma[:, None]
        return found

    def tables(self, mu: Floats) -> list[Tensor]:
        """One problem's cells (cells,) as a table a cluster, 0 where nothing can be."""
        flat = torch.from_numpy(mu)
        if self.tree.cells != len(mu):
            flat = torch.zeros(self.tree.cells, dtype=flat.dtype)
            flat[torch.from_numpy(self.places)] = torch.from_numpy(mu)
        found: list[Tensor] = []
        for run, (count, shape) in zip(flat.split(self._runs[1]), self._runs[0], strict=True):
            found += [run.view(shape)] if count == 1 else run.view(count, *shape).unbind()
        return found

    @cached_property
    def _runs(self) -> tuple[list[tuple[int, tuple[int, ...]]], list[int]]:
        """Neighbouring clusters of one shape: how many, and which; and their cells. Many are one operation."""
        runs = [(len(list(same)), shape) for shape, same in groupby(self.tree.shapes)]
        return runs, [count * math.prod(shape) for count, shape in runs]

    def flat(self, tables: Sequence[Tensor]) -> Floats:
        """The inverse of `tables`."""
        return torch.cat([t.detach().reshape(-1) for t in tables]).numpy()[self.places]

    @cached_property
    def places(self) -> Ints:
        """The place of each cell in the whole tables, one after another."""
        sizes = np.array([math.prod(s) for s in self.tree.shapes])
        return self.layout.full + np.repeat(np.cumsum(sizes) - sizes, np.diff(self.layout.cell_at))

    def spread_multipliers(self, y: Floats) -> Floats:
        """lambda(s, t) of every table entry, (P, entries), from y (P, entries): 0 where there is none."""
        found = np.zeros((len(y), int(self.layout.table_at[-1])))
        hard = np.flatnonzero(self.kind == HARD)
        found[:, self.layout.table[hard]] = y[:, hard]
        return found

    def y(self, at: Floats) -> Floats:
        """log q and lam (..., entries) of points (..., point)."""
        L = self.flat_layout[1]
        return at[..., 2 * L.cells : 2 * L.cells + L.entries]

    @cached_property
    def work(self) -> float:
        """Multiplications of one Newton step, roughly."""
        return float((self.fronts.size.astype(np.float64) ** 3).sum() / 3)

    @property
    def bytes(self) -> int:
        """What a solve of one problem holds."""
        I, L = self.flat_layout
        return 8 * (len(I) + L.width)


def first_guess(p: Any) -> Any:
    """Where q of a soft arc begins: near its table, and away from 0."""
    return 0.9 * p + 0.05


def owners(at: Ints) -> Ints:
    """The block of every item, where blocks begin at `at`."""
    return np.repeat(np.arange(len(at) - 1), at[1:] - at[:-1])


def _added(items: Floats, to: Ints, n: int) -> Floats:
    """Items (P, items) added up to n sums, (P, n); `to`: which of them each adds to."""
    count = len(items)
    places = to if count == 1 else (to + n * np.arange(count)[:, None]).ravel()
    return np.bincount(places, items.ravel(), count * n).astype(np.float64, copy=False).reshape(count, n)


_RECENT: dict[object, Structure] = {}
_lock = threading.Lock()
MOST_STRUCTURES, MOST_CELLS = 256, 1_000_000
"""How many structures are kept for the next solve, and how many cells they may have together."""


def structure(shape: Shape, tree: Tree, hard: Bools, structural: bool, alive: Bools = NOWHERE) -> Structure:
    """Return the structure of problems of a pattern on a tree that have this support (empty: all cells).

    The structures that were used last are remembered.
    """
    key = shape.key, tree.clusters, hard.tobytes(), structural, alive.tobytes()
    with _lock:
        found = _RECENT.pop(key, None)
    if found is None:
        found = new_structure(shape, tree, hard, structural, alive)
    with _lock:
        _RECENT[key] = found
        cells = sum(len(x.layout.own) for x in _RECENT.values())
        while len(_RECENT) > 1 and (len(_RECENT) > MOST_STRUCTURES or cells > MOST_CELLS):
            cells -= len(_RECENT.pop(next(iter(_RECENT))).layout.own)
    return found


def new_structure(shape: Shape, tree: Tree, hard: Bools, structural: bool, alive: Bools = NOWHERE) -> Structure:
    """Return a structure that is made anew and not remembered."""
    expect(SECONDS_PER_CELL * tree.cells)
    _, size, cluster_at, cluster, parent = tree.arrays
    home = tree.numbered_homes(shape.scopes)
    scopes = Scopes(size, cluster_at, cluster, parent, *shape.scopes, shape.sources, hard, home)
    layout = numbering(scopes, alive, structural)
    return Structure(tree, layout, fronts(layout))


def forget_structures() -> None:
    """Remember no structure."""
    with _lock:
        _RECENT.clear()


@dataclass(frozen=True)
class Program:
    """P problems of one structure."""

    structure: Structure
    numbers: Numbers

    def __len__(self) -> int:
        return len(self.numbers.c)

    def take(self, some: slice) -> Program:
        """Some of the problems, on the same memory."""
        return Program(self.structure, Numbers(*(x[some] for x in self.numbers)))
