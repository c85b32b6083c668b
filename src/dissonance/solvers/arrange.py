"""Laying a problem out: from a tree and its arcs to a `Structure`.

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
import torch
from torch import Tensor

from dissonance.distributions.tree import Scope, Tree
from dissonance.numerics import DTYPE
from dissonance.problem import uncollected
from dissonance.solvers.structure import Front, Incidence, Ints, Level, Levels, Rows, Structure
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
        self.cell_at, self.unknown_at, self.soft_at, self.hard_at = (_starts(x, order) for x in (n, k, t, u))
        self.pair_at = _starts(n * n, order)
        self.term_at = _starts(self.each([len(x.terms) for x in self.pictures]), order)
        self.entry_at = _starts(np.array([self.entries(a) for a in arcs], dtype=np.int64), np.arange(len(arcs)))

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
        return list(_classes(keys).values())

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


def _starts(sizes: Ints, order: Ints) -> Ints:
    """Where things of these sizes start when they stand in this order."""
    found = np.zeros(len(sizes), dtype=np.int64)
    found[order] = np.cumsum(sizes[order]) - sizes[order]
    return found


def _classes(keys: Iterable[object]) -> dict[Any, Ints]:
    """Positions by key; those of key None are left out."""
    found: dict[object, list[int]] = {}
    for i, key in enumerate(keys):
        if key is not None:
            found.setdefault(key, []).append(i)
    return {key: np.array(at, dtype=np.int64) for key, at in found.items()}


def _joined(arrays: Sequence[Ints]) -> Tensor:
    return torch.from_numpy(np.concatenate([np.zeros(0, dtype=np.int64), *(x.reshape(-1) for x in arrays)]))


def _tensor(x: npt.NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(x))


@uncollected()
def arrange(tree: Tree, arcs: Sequence[Arrow], structural: bool, many: bool = False) -> Structure:
    """Number everything; every arrow lives in the smallest cluster that holds it. `many`: for large batches."""
    lay = Layout(tree, arcs, structural, many)
    N, D, T, U = (int(x.sum()) for x in (lay.n, lay.k, lay.t, lay.u))
    Q = sum(map(lay.entries, arcs))
    own, cluster = np.zeros(N, dtype=np.int64), np.zeros(N, dtype=np.int64)
    row, hard_row = np.zeros(T, dtype=np.int64), np.zeros(U, dtype=np.int64)
    term_at, first, hard_entry = np.zeros(T, dtype=np.int64), np.full(T, Q), np.zeros(U, dtype=np.int64)
    terms = int(lay.each([len(x.terms) for x in lay.pictures]).sum())
    term_of, hard_at = np.full(len(arcs), terms), np.full(len(arcs), -1)
    plus: list[tuple[Ints, Ints]] = []
    for number, ids in _classes(lay.look.tolist()).items():
        look = lay.pictures[number]
        cells = lay.cell_at[ids][:, None] + np.arange(look.n)
        own[cells] = lay.unknown_at[ids][:, None] + look.own
        cluster[cells] = ids[:, None]
        plus.append((cells, T + U + own[cells]))
        begin = lay.soft_at[ids]
        for which, (cell, rows, width) in enumerate(look.terms):
            plus.append((cells, begin[:, None] + cell))
            entries = begin[:, None] + np.arange(rows * width)
            row[entries] = entries[:, :1] + np.arange(rows * width) // width
            term_at[entries] = (lay.term_at[ids] + which)[:, None]
            if which < len(lay.terms[ids[0]]):
                j = np.array([lay.terms[i][which] for i in ids.tolist()])
                first[entries] = lay.entry_at[j][:, None] + np.arange(rows * width)
                term_of[j] = lay.term_at[ids] + which
            begin = begin + rows * width
        begin = lay.hard_at[ids]
        for which, (cell, rows, width) in enumerate(look.hard):
            plus.append((cells, T + begin[:, None] + cell))
            entries = begin[:, None] + np.arange(rows * width)
            hard_row[entries] = entries[:, :1] + np.arange(rows * width) // width
            j = np.array([lay.hard[i][which] for i in ids.tolist()])
            hard_entry[entries] = lay.entry_at[j][:, None] + np.arange(rows * width)
            hard_at[j] = begin
            begin = begin + rows * width
    links = _links(lay)
    minus = [(cells, T + U + lay.unknown_at[c][:, None] + above) for c, cells, above in links]
    ends = [_joined([pair[side] for pair in (*plus, *minus)]) for side in (0, 1)]
    sign = torch.ones(len(ends[0]), dtype=DTYPE)
    sign[sum(x[0].size for x in plus) :] = -1.0
    leader = np.array(lay.leader, dtype=np.int64)
    is_hard = np.array([hard for _, _, hard in arcs], dtype=np.bool_)
    roots = np.zeros(D)
    roots[lay.unknown_at[lay.parent < 0]] = 1.0
    spine, spine_unknowns = _spine(lay, links, (T, U))
    spine_square, spine_entry, spine_rows, spine_starts, spine_diagonal = _sparse(spine, len(spine_unknowns))
    return Structure(
        tree,
        structural,
        Incidence(ends[0], ends[1], sign, N, T + U + D),
        rows=Rows(_tensor(row)),
        hard_rows=Rows(_tensor(hard_row)),
        arcs=_tables(lay, N, Q),
        arc_of=_tensor(np.repeat(np.arange(len(arcs)), [lay.entries(a) for a in arcs])),
        is_hard=_tensor(is_hard),
        term_of=_tensor(np.where(is_hard | is_hard[leader], terms, term_of[leader])),
        term_at=_tensor(term_at),
        first=_tensor(first),
        hard_entry=_tensor(hard_entry),
        fixed=_fixed(lay, is_hard),
        own=_tensor(own),
        cluster=_tensor(cluster),
        roots=_tensor(roots),
        levels=_levels(lay, links, own),
        fronts=_fronts(lay, links, (T, U)),
        spine=spine,
        spine_unknowns=spine_unknowns,
        spine_square=spine_square,
        spine_entry=spine_entry,
        spine_rows=spine_rows,
        spine_starts=spine_starts,
        spine_diagonal=spine_diagonal,
        cell_at=lay.cell_at,
        hard_at=hard_at,
    )


Link = tuple[Ints, Ints, Ints]
"""Children, their parents' cells (children, n), and the state of the child's separator at each of these (n,)."""


def _links(lay: Layout) -> list[Link]:
    def hang(c: int, p: int) -> object:
        return None if p < 0 else (lay.tree.shapes[p], lay.axes(p, lay.tree.separators[c]))

    found: list[Link] = []
    for (shape, axes), c in _classes(hang(c, p) for c, p in enumerate(lay.tree.parent)).items():
        cells = lay.cell_at[lay.parent[c]][:, None] + np.arange(math.prod(shape))
        found.append((c, cells, setting(shape, axes)))
    return found


def _tables(lay: Layout, N: int, Q: int) -> Incidence:
    """Which entry of which arc each cell lies in."""
    cells: list[Ints] = []
    entries: list[Ints] = []
    homes = np.array(lay.home, dtype=np.int64)

    def place(j: int) -> object:
        s, t = lay.sides(lay.home[j], j)
        return lay.tree.shapes[lay.home[j]], (*s, *t)

    for (shape, axes), j in _classes(place(j) for j in range(len(lay.arcs))).items():
        at = lay.cell_at[homes[j]][:, None] + np.arange(math.prod(shape))
        cells.append(at)
        entries.append(lay.entry_at[j][:, None] + setting(shape, axes))
    return Incidence(_joined(cells), _joined(entries), None, N, Q)


def _fixed(lay: Layout, is_hard: npt.NDArray[np.bool_]) -> Tensor:
    pairs: list[Ints] = []
    for j, lead in enumerate(lay.leader):
        if is_hard[lead] and not is_hard[j]:
            home = lay.home[j]
            mine, other = (sum(lay.sides(home, x), ()) for x in (j, lead))
            shape = lay.tree.shapes[home]
            entry = np.zeros(lay.entries(lay.arcs[j]), dtype=np.int64)
            entry[setting(shape, mine)] = setting(shape, other)
            pairs.append(np.stack([lay.entry_at[j] + np.arange(len(entry)), lay.entry_at[lead] + entry]))
    return _tensor(np.concatenate([np.zeros((2, 0), dtype=np.int64), *pairs], 1))


def _levels(lay: Layout, links: Sequence[Link], own: Ints) -> Levels:
    """The links sorted by the children's depth."""
    none = np.zeros(0, dtype=np.int64)
    cell = np.concatenate([none, *(x.reshape(-1) for _, x, _ in links)])
    state = np.concatenate([none, *((lay.unknown_at[c][:, None] + above).reshape(-1) for c, _, above in links)])
    depth = np.concatenate([none, *(np.repeat(lay.depth[c], len(above)) for c, _, above in links)])
    clusters = np.repeat(np.arange(len(lay.n)), lay.n)
    cells = lay.cell_at[clusters] + np.arange(len(own)) - np.repeat(np.cumsum(lay.n) - lay.n, lay.n)
    below = np.flatnonzero(lay.depth[clusters] > 0)
    below = below[np.argsort(lay.depth[clusters[below]], kind="stable")]
    meets = np.bincount(depth, minlength=1)[1:]
    sizes = np.bincount(lay.depth[clusters[below]], minlength=1)[1:]
    order = np.argsort(depth, kind="stable")
    cell, state, cells = cell[order], state[order], cells[below]
    together = Level(*map(_tensor, (cell, state, own[cell], cells, own[cells])))
    return Levels(together, tuple(meets.tolist()), tuple(sizes.tolist()))


def _fronts(lay: Layout, links: Sequence[Link], sizes: tuple[int, int]) -> tuple[Front, ...]:
    front = np.full(len(lay.look), -1)
    place = np.zeros(len(lay.look), dtype=np.int64)
    for number, ids in enumerate(lay.raked):
        front[ids] = number
        place[ids] = np.arange(len(ids))
    up: list[list[tuple[Ints, ...]]] = [[] for _ in lay.raked]
    for c, cells, above in links:
        for number in np.unique(front[c]).tolist():
            if number < 0:
                continue
            here = front[c] == number
            k = int(lay.k[c[0]])
            at, p = place[c[here]], lay.parent[c[here]]
            n = len(above)
            pairs = lay.pair_at[p][:, None] + np.arange(n * n)
            square = (above[:, None] * k + above[None, :]).reshape(-1)
            up[number].append((cells[here], at[:, None] * k + above, pairs, at[:, None] * (k * k) + square))
    found: list[Front] = []
    for ids, mine in zip(lay.raked, up, strict=True):
        n, k = int(lay.n[ids[0]]), int(lay.k[ids[0]])
        own = np.stack([lay.pictures[x].own for x in lay.look[ids]])
        X = torch.nn.functional.one_hot(_tensor(own), k).to(DTYPE)
        unknowns = lay.unknown_at[ids][:, None] + np.arange(k)
        found.append(_front(lay, ids, n, X, unknowns, sizes, [_joined([x[side] for x in mine]) for side in range(4)]))
    return tuple(found)


def _front(
    lay: Layout, ids: Ints, n: int, X: Tensor, unknowns: Ints, sizes: tuple[int, int], up: Sequence[Tensor]
) -> Front:
    T, U = sizes
    begin, pair = int(lay.cell_at[ids[0]]), int(lay.pair_at[ids[0]])
    looks, which = np.unique(lay.look[ids], return_inverse=True)
    pictures = [lay.pictures[x] for x in looks]

    def entries(at: Ints, size: Ints, none: int) -> Ints:
        wide = int(size[ids].max(initial=0))
        x = np.arange(wide)
        return np.where(x < size[ids][:, None], at[ids][:, None] + x, none)

    soft, hard = entries(lay.soft_at, lay.t, T), entries(lay.hard_at, lay.u, U)
    M, R = (np.stack(x)[which] for x in zip(*(p.soft_parts(n, soft.shape[1]) for p in pictures), strict=True))
    A, S = (np.stack(x)[which] for x in zip(*(p.hard_parts(n, hard.shape[1]) for p in pictures), strict=True))
    cells = int(lay.n[ids].sum())
    place = np.concatenate([i * n + np.arange(size) for i, size in enumerate(lay.n[ids].tolist())])
    return Front(
        slice(begin, begin + cells),
        slice(pair, pair + n * n * len(ids)),
        len(ids),
        n,
        _tensor(unknowns),
        X,
        *map(_tensor, (soft, M, R, hard, A, S)),
        *up,
        place=None if cells == n * len(ids) else _tensor(place),
    )


def _spine(lay: Layout, links: Sequence[Link], sizes: tuple[int, int]) -> tuple[tuple[Front, ...], Tensor]:
    """Fronts with their own separator's unknowns and, with a minus, their spine children's."""
    if not lay.spine:
        return (), torch.zeros(0, dtype=torch.long)
    inside = np.sort(np.concatenate(lay.spine))[::-1]  # parents come first in a tree, so this is leaves first
    number = np.full(int(lay.k.sum()), -1)
    unknowns = np.repeat(lay.unknown_at[inside] - _starts(lay.k[inside], np.arange(len(inside))), lay.k[inside])
    unknowns = unknowns + np.arange(len(unknowns))
    number[unknowns] = np.arange(len(unknowns))
    is_spine = np.zeros(len(lay.look), dtype=np.bool_)
    is_spine[inside] = True
    hangs: dict[int, list[tuple[int, int]]] = {}  # cluster: (which link, child)
    for which, (c, _, _) in enumerate(links):
        for i in c[is_spine[c]].tolist():
            hangs.setdefault(int(lay.parent[i]), []).append((which, i))
    none = (torch.zeros(0, dtype=torch.long),) * 4
    found: list[Front] = []
    below = lay.below(is_spine)
    for ids in lay.spine:
        children = [sorted(hangs.get(i, [])) for i in ids.tolist()]
        n, width = int(lay.n[ids].max()), int((lay.k + below)[ids].max())
        X = np.zeros((len(ids), n, width))
        mine = np.repeat(number[lay.unknown_at[ids]][:, None], width, 1)  # where there is no unknown, X is 0
        keys = ((look, *(which for which, _ in x)) for look, x in zip(lay.look[ids].tolist(), children, strict=True))
        for (look, *hang), place in _classes(keys).items():
            own = lay.pictures[look].own
            k, x = lay.pictures[look].k, np.arange(len(own))
            X[place[:, None], x, own] = 1.0
            mine[place, :k] = number[lay.unknown_at[ids[place]][:, None] + np.arange(k)]
            begin = k
            for slot, which in enumerate(hang):
                child = np.array([children[i][slot][1] for i in place.tolist()])
                wide = int(lay.k[child[0]])
                X[place[:, None], x, begin + links[which][2]] = -1.0
                mine[place, begin : begin + wide] = number[lay.unknown_at[child][:, None] + np.arange(wide)]
                begin += wide
        found.append(_front(lay, ids, n, _tensor(X), mine, sizes, none))
    return tuple(found), _tensor(unknowns)


def _sparse(spine: Sequence[Front], size: int) -> tuple[Tensor, ...]:
    """Where the fronts' pairs of unknowns go in a dense and in a sparse matrix; its rows, starts and diagonal."""
    keys: list[Ints] = []
    for f in spine:
        u = f.unknowns.numpy()
        keys.append((u[:, None, :] * size + u[:, :, None]).reshape(-1))
    square = np.concatenate([np.zeros(0, dtype=np.int64), *keys])
    known, entry = np.unique(square, return_inverse=True)
    column, row = known // max(size, 1), known % max(size, 1)
    starts = np.searchsorted(column, np.arange(size + 1))
    diagonal = np.flatnonzero(row == column)
    return tuple(map(_tensor, (square, entry, row.astype(np.int32), starts.astype(np.int32), diagonal)))
