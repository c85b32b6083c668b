"""Laying a problem out: from a tree and its arcs to a `Structure`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dissonance.distributions.tree import Tree
from dissonance.numerics import DTYPE
from dissonance.problem import uncollected
from dissonance.solvers.layout import Arrow, Layout, classes, starts
from dissonance.solvers.structure import Front, Incidence, Ints, Level, Levels, Rows, Structure
from dissonance.solvers.support import setting


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
    for number, ids in classes(lay.look.tolist()).items():
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
    for (shape, axes), c in classes(hang(c, p) for c, p in enumerate(lay.tree.parent)).items():
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

    for (shape, axes), j in classes(place(j) for j in range(len(lay.arcs))).items():
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
    hard_row = np.stack([p.hard_row(hard.shape[1]) for p in pictures])[which]
    cells = int(lay.n[ids].sum())
    place = np.concatenate([i * n + np.arange(size) for i, size in enumerate(lay.n[ids].tolist())])
    return Front(
        slice(begin, begin + cells),
        slice(pair, pair + n * n * len(ids)),
        len(ids),
        n,
        _tensor(unknowns),
        X,
        *map(_tensor, (soft, M, R, hard, hard_row, A, S)),
        *up,
        place=None if cells == n * len(ids) else _tensor(place),
    )


def _spine(lay: Layout, links: Sequence[Link], sizes: tuple[int, int]) -> tuple[tuple[Front, ...], Tensor]:
    """Fronts with their own separator's unknowns and, with a minus, their spine children's."""
    if not lay.spine:
        return (), torch.zeros(0, dtype=torch.long)
    inside = np.sort(np.concatenate(lay.spine))[::-1]  # parents come first in a tree, so this is leaves first
    number = np.full(int(lay.k.sum()), -1)
    unknowns = np.repeat(lay.unknown_at[inside] - starts(lay.k[inside], np.arange(len(inside))), lay.k[inside])
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
        for (look, *hang), place in classes(keys).items():
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
