"""The numbering of a program: which cells, entries and unknowns there are, and what meets what.

Everything lies in flat vectors, cluster by cluster, parents before children:

    cells     the supported cells of every cluster's table
    entries   an (s, t) for every term: the mechanisms of soft arcs, hard arcs, and (separator -> rest) where gamma > 0
    unknowns  a multiplier for every supported state of every separator (at a root: for its mass)

Cells, entries and states without support are not there at all: what can carry no mass is left out before anything is
numbered. The entries of a row (of one s) stand together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dissonance.compiled import compiled

Ints = Any
"""An array of int64; compiled functions know the types of their arguments."""
Floats = Any
"""An array of float64."""
Rows = Any
"""(problems, numbers)"""
Bools = Any
"""An array of truth values."""

ZERO: Any = np.int64(0)
"""0 as an argument of a compiled function: for a literal, Numba would compile that function once more."""

SOFT, HARD, STRUCTURAL = 0, 1, 2
"""Kinds of terms."""


class Scopes(NamedTuple):
    """A tree and the arcs on it, as numbers: variables, clusters (flat, with starts), arcs (sources, then targets)."""

    size: Ints
    cluster_at: Ints
    cluster: Ints
    parent: Ints
    arc_at: Ints
    arc: Ints
    sources: Ints
    hard: Bools
    home: Ints


class Layout(NamedTuple):
    """The numbers of everything; see the module.

    `own` (cells,) is the unknown of a cell's own separator state. `above`, from `above_at[c]` on, has for every cell of
    the parent of c the unknown of its state of c's separator. Terms `term_at[k]` to `term_at[k+1]` live in cluster k;
    term t has rows `row_at[t]` to `row_at[t+1]`, row r the entries `entry_at[r]` to `entry_at[r+1]`; `entry`, from
    `term_cell[t]` on, has the entry of every cell of its cluster. `table` (entries,) is the place of an entry among
    the arcs' tables (-1: structural); `arc_table`, from `arc_cell[a]` on, has for every cell of an arc's home the place
    of its (s, t) there. `full` (cells,) is the number of a cell in its cluster's whole table. `leader`: the arc that
    stands for the term of an arc's mechanism: the hard one that fixes it, or the first soft one.
    """

    parent: Ints
    cell_at: Ints
    full: Ints
    unknown_at: Ints
    own: Ints
    child_at: Ints
    child: Ints
    above_at: Ints
    above: Ints
    term_at: Ints
    kind: Ints
    term_cell: Ints
    entry: Ints
    row_at: Ints
    entry_at: Ints
    row: Ints
    table: Ints
    term_of: Ints
    home: Ints
    hard: Bools
    leader: Ints
    arc_cell: Ints
    arc_table: Ints
    table_at: Ints


@compiled
def leaders(s: Scopes) -> Ints:
    """The leader of every arc; a hard one leads itself."""
    A = len(s.home)
    found, last, before = np.arange(A), np.full(len(s.parent), -1), np.full(A, -1)  # those that lead others, by home
    for fixing in (True, False):
        for a in range(A):
            if s.hard[a] == fixing:
                b = last[s.home[a]]
                while b >= 0 and not _same_mechanism(s.arc_at, s.arc, s.sources, a, b):
                    b = before[b]
                if b < 0:
                    before[a], last[s.home[a]] = last[s.home[a]], a
                elif not fixing:
                    found[a] = b
    return found


@compiled
def _same_mechanism(arc_at: Ints, arc: Ints, sources: Ints, a: Any, b: Any) -> bool:
    """Whether two arcs have the same sources and the same targets, in whatever order."""
    if sources[a] != sources[b] or arc_at[a + 1] - arc_at[a] != arc_at[b + 1] - arc_at[b]:
        return False
    for i in range(arc_at[a], arc_at[a + 1]):
        is_source, found = i < arc_at[a] + sources[a], False
        for j in range(arc_at[b], arc_at[b + 1]):
            found |= arc[i] == arc[j] and is_source == (j < arc_at[b] + sources[b])
        if not found:
            return False
    return True


@compiled
def _settings(size: Ints, cluster: Ints, scope: Ints, cells: Ints) -> tuple[Ints, int]:
    """For some cells of a cluster the flat number of their setting of a scope, and how many settings there are."""
    found, total = np.zeros(len(cells), dtype=np.int64), 1
    for i in range(len(scope) - 1, -1, -1):
        stride = 1
        for j in range(len(cluster) - 1, -1, -1):
            if cluster[j] == scope[i]:
                n = size[scope[i]]
                for x in range(len(cells)):
                    found[x] += cells[x] // stride % n * total
            stride *= size[cluster[j]]
        total *= size[scope[i]]
    return found, total


@compiled
def _numbered(found: Ints, total: Any, mark: Ints) -> int:
    """Number the settings that occur in ascending order, in `mark`; returns how many do. Others are -1."""
    for i in range(total):
        mark[i] = -1
    for x in found:
        mark[x] = 0
    count = 0
    for i in range(total):
        if mark[i] == 0:
            mark[i] = count
            count += 1
    return count


@compiled
def numbering(s: Scopes, alive: Bools, structural: bool) -> Layout:
    """Number everything; `alive` (cells of the whole tables): which can carry mass, empty if all can."""
    C, A, leader = len(s.parent), len(s.home), leaders(s)
    whole, cell_at, widest = np.ones(C, dtype=np.int64), np.zeros(C + 1, dtype=np.int64), 1
    for k in range(C):
        for j in range(s.cluster_at[k], s.cluster_at[k + 1]):
            whole[k] *= s.size[s.cluster[j]]
        widest = max(widest, whole[k])
    full = np.empty(whole.sum(), dtype=np.int64)
    start = at = 0
    for k in range(C):
        for x in range(whole[k]):
            if not len(alive) or alive[start + x]:
                full[at] = x
                at += 1
        start += whole[k]
        cell_at[k + 1] = at
    full = full[:at].copy()
    # children, and the cells of their parents
    child_at, above_at = np.zeros(C + 1, dtype=np.int64), np.zeros(C + 1, dtype=np.int64)
    for k in range(C):
        p = s.parent[k]
        above_at[k + 1] = above_at[k]
        if p >= 0:
            child_at[p + 1] += 1
            above_at[k + 1] += cell_at[p + 1] - cell_at[p]
    for k in range(C):
        child_at[k + 1] += child_at[k]
    child, filled = np.empty(child_at[C], dtype=np.int64), child_at.copy()
    for k in range(C):
        p = s.parent[k]
        if p >= 0:
            child[filled[p]] = k
            filled[p] += 1
    # separators
    mark, shared = np.empty(widest, dtype=np.int64), np.empty(len(s.size), dtype=np.int64)
    own, above = np.zeros(cell_at[C], dtype=np.int64), np.zeros(above_at[C], dtype=np.int64)
    unknown_at = np.zeros(C + 1, dtype=np.int64)
    for k in range(C):
        p, count, a, base = s.parent[k], ZERO, cell_at[k], unknown_at[k]
        mine = s.cluster[s.cluster_at[k] : s.cluster_at[k + 1]]
        theirs = s.cluster[s.cluster_at[p] : s.cluster_at[p + 1]] if p >= 0 else s.cluster[:0]
        for i in mine:
            for j in theirs:
                if i == j:
                    shared[count] = i
                    count += 1
        found, total = _settings(s.size, mine, shared[:count], full[a : cell_at[k + 1]])
        unknown_at[k + 1] = base + _numbered(found, total, mark)
        for x in range(len(found)):
            own[a + x] = base + mark[found[x]]
        if p >= 0:
            found, total = _settings(s.size, theirs, shared[:count], full[cell_at[p] : cell_at[p + 1]])
            for x in range(len(found)):
                above[above_at[k] + x] = base + mark[found[x]]
    # where arcs and terms begin
    table_at, arc_cell = np.zeros(A + 1, dtype=np.int64), np.zeros(A + 1, dtype=np.int64)
    term_at, term_of = np.zeros(C + 1, dtype=np.int64), np.full(A, -1)
    for a in range(A):
        cells, k = 1, s.home[a]
        for j in range(s.arc_at[a], s.arc_at[a + 1]):
            cells *= s.size[s.arc[j]]
        table_at[a + 1] = table_at[a] + cells
        arc_cell[a + 1] = arc_cell[a] + cell_at[k + 1] - cell_at[k]
        term_at[k + 1] += leader[a] == a
    for k in range(C):
        term_at[k + 1] += term_at[k] + structural
    T = term_at[C]
    kind, lead, term_cell = np.full(T, STRUCTURAL), np.full(T, -1), np.zeros(T + 1, dtype=np.int64)
    filled = term_at.copy()
    for a in range(A):
        if leader[a] == a:
            t = filled[s.home[a]]
            filled[s.home[a]] += 1
            kind[t] = HARD if s.hard[a] else SOFT
            lead[t] = a
            term_of[a] = t
    for a in range(A):
        if not s.hard[a]:
            term_of[a] = -1 if s.hard[leader[a]] else term_of[leader[a]]
    for k in range(C):
        for t in range(term_at[k], term_at[k + 1]):
            term_cell[t + 1] = term_cell[t] + cell_at[k + 1] - cell_at[k]
    # the places of cells in the arcs' tables
    arc_table = np.empty(arc_cell[A], dtype=np.int64)
    for a in range(A):
        k = s.home[a]
        cluster, scope = s.cluster[s.cluster_at[k] : s.cluster_at[k + 1]], s.arc[s.arc_at[a] : s.arc_at[a + 1]]
        found, total = _settings(s.size, cluster, scope, full[cell_at[k] : cell_at[k + 1]])
        for x in range(len(found)):
            arc_table[arc_cell[a] + x] = table_at[a] + found[x]
    # entries and rows
    entry, row_at = np.empty(term_cell[T], dtype=np.int64), np.zeros(T + 1, dtype=np.int64)
    table, row = np.full(term_cell[T], -1), np.empty(term_cell[T], dtype=np.int64)
    entries = rows = 0
    for k in range(C):
        for t in range(term_at[k], term_at[k + 1]):
            a, first, n = lead[t], term_cell[t], term_cell[t + 1] - term_cell[t]
            if a < 0:  # an entry a cell, by separator state
                states = unknown_at[k + 1] - unknown_at[k]
                for i in range(states):
                    mark[i] = 0
                for i in range(n):
                    mark[own[cell_at[k] + i] - unknown_at[k]] += 1
                at = entries
                for i in range(states):
                    count = mark[i]
                    mark[i] = at
                    for e in range(at, at + count):
                        row[e] = rows + i
                    at += count
                for i in range(n):
                    state = own[cell_at[k] + i] - unknown_at[k]
                    entry[first + i] = mark[state]
                    mark[state] += 1
                entries += n
                rows += states
            else:
                width, total = 1, table_at[a + 1] - table_at[a]
                for j in range(s.arc_at[a] + s.sources[a], s.arc_at[a + 1]):
                    width *= s.size[s.arc[j]]
                count = _numbered(arc_table[arc_cell[a] : arc_cell[a + 1]] - table_at[a], total, mark)
                last = -1
                for x in range(total):
                    if mark[x] >= 0:
                        rows += last >= 0 and x // width != last
                        last = x // width
                        row[entries + mark[x]] = rows
                        table[entries + mark[x]] = table_at[a] + x
                for i in range(n):
                    entry[first + i] = entries + mark[arc_table[arc_cell[a] + i] - table_at[a]]
                rows += 1
                entries += count
            row_at[t + 1] = rows
    entry_at = np.zeros(rows + 1, dtype=np.int64)
    for e in range(entries):
        entry_at[row[e] + 1] = e + 1
    return Layout(
        s.parent,
        cell_at,
        full,
        unknown_at,
        own,
        child_at,
        child,
        above_at,
        above,
        term_at,
        kind,
        term_cell,
        entry,
        row_at,
        entry_at,
        row[:entries].copy(),
        table[:entries].copy(),
        term_of,
        s.home,
        s.hard,
        leader,
        arc_cell,
        arc_table,
        table_at,
    )


BY_CELLS, GIVEN, BY_MULTIPLIERS = range(3)
"""Ways to eliminate a cluster; see `elimination.py`."""

WIDE = 64
"""Cells above which a cluster is eliminated by its multipliers, if these are fewer."""

FEWER = 0.8
"""How many multipliers a cell there may be at most for that."""


class Fronts(NamedTuple):
    """How each cluster is eliminated. `way`; `size` (clusters,) of its front, of which the last are its separator's
    states; `absorbed`: the term in P (-1: none); `front_at`, `vector_at`, `message_at`: where matrices begin. Of a
    front by cells only the rows that are eliminated are kept, each from the diagonal on."""

    way: Ints
    size: Ints
    absorbed: Ints
    front_at: Ints
    vector_at: Ints
    message_at: Ints


@compiled
def fronts(lay: Layout) -> Fronts:
    """The cheaper way for each cluster; by multipliers from every hard arc up to its root."""
    C = len(lay.parent)
    way, size, absorbed = np.zeros(C, dtype=np.int64), np.zeros(C, dtype=np.int64), np.full(C, -1)
    front_at, vector_at, message_at = np.zeros(C + 1, np.int64), np.zeros(C + 1, np.int64), np.zeros(C + 1, np.int64)
    for k in range(C - 1, -1, -1):
        n, own = lay.cell_at[k + 1] - lay.cell_at[k], lay.unknown_at[k + 1] - lay.unknown_at[k]
        count, hard, other = own, way[k] == BY_MULTIPLIERS, -1
        for t in range(lay.term_at[k + 1] - 1, lay.term_at[k] - 1, -1):  # the structural one is the last
            entries = lay.entry_at[lay.row_at[t + 1]] - lay.entry_at[lay.row_at[t]]
            hard |= lay.kind[t] == HARD
            if entries == n and lay.kind[t] != HARD and absorbed[k] < 0:
                absorbed[k] = t
            else:
                count += entries
                if entries == n and absorbed[k] >= 0 and lay.kind[absorbed[k]] == STRUCTURAL:
                    other = t
        for j in range(lay.child_at[k], lay.child_at[k + 1]):
            c = lay.child[j]
            count += lay.unknown_at[c + 1] - lay.unknown_at[c]
        if other >= 0 and not hard:
            count += own - n
        if hard or (n > WIDE and count < FEWER * n):
            way[k] = BY_MULTIPLIERS
            if other >= 0 and not hard:
                way[k], absorbed[k] = GIVEN, other
        size[k] = n if way[k] == BY_CELLS else count
        if hard and lay.parent[k] >= 0:
            way[lay.parent[k]] = BY_MULTIPLIERS  # marks it: its turn comes later
    for k in range(C - 1, -1, -1):  # in the order of elimination: memory is quickest from one end to the other
        own = lay.unknown_at[k + 1] - lay.unknown_at[k]
        rows = size[k] - own if way[k] == BY_CELLS else size[k]
        front_at[k], vector_at[k], message_at[k] = front_at[C], vector_at[C], message_at[C]
        front_at[C] += size[k] * rows - (rows * (rows - 1) // 2 if way[k] == BY_CELLS else 0)
        vector_at[C] += size[k]
        message_at[C] += own * own
    return Fronts(way, size, absorbed, front_at, vector_at, message_at)
