"""Which cells of the cluster tables can carry mass at all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dissonance.compiled import compiled, expect
from dissonance.distributions.tree import Tree
from dissonance.problem import Shape
from dissonance.solvers.convex.layout import HARD, Bools, Ints, Layout
from dissonance.solvers.convex.program import EVERY, SECONDS_PER_CELL, Arcs, Structure, structure


@compiled
def support(lay: Layout, dead: Bools) -> tuple[Bools, bool]:
    """The cells of whole tables that some joint state of positive probability uses, and whether there is such a state.

    `dead` (entries of the arcs' tables): probability 0 by an arc with beta > 0. A cell goes when an arc says so; when a
    neighbour has nothing to match it; or when it sets the sources of a hard arc so that some value the arc insists on
    is gone.
    """
    C = len(lay.parent)
    alive = np.ones(len(lay.own), dtype=np.bool_)
    for a in range(len(lay.home)):
        shift = lay.arc_cell[a] - lay.cell_at[lay.home[a]]
        for i in range(lay.cell_at[lay.home[a]], lay.cell_at[lay.home[a] + 1]):
            if dead[lay.arc_table[shift + i]]:
                alive[i] = False
    changed = True
    while changed:
        seen = np.zeros(lay.unknown_at[C], dtype=np.bool_)
        for k in range(C - 1, -1, -1):  # up: a parent's cell needs a child's
            for j in range(lay.child_at[k], lay.child_at[k + 1]):
                shift = lay.above_at[lay.child[j]] - lay.cell_at[k]
                for i in range(lay.cell_at[k], lay.cell_at[k + 1]):
                    alive[i] &= seen[lay.above[shift + i]]
            for i in range(lay.cell_at[k], lay.cell_at[k + 1]):
                seen[lay.own[i]] |= alive[i]
        for u in range(len(seen)):
            seen[u] = False
        for k in range(C):  # down: a child's cell needs a parent's
            for i in range(lay.cell_at[k], lay.cell_at[k + 1]):
                alive[i] &= lay.parent[k] < 0 or seen[lay.own[i]]
            for j in range(lay.child_at[k], lay.child_at[k + 1]):
                shift = lay.above_at[lay.child[j]] - lay.cell_at[k]
                for i in range(lay.cell_at[k], lay.cell_at[k + 1]):
                    seen[lay.above[shift + i]] |= alive[i]
        changed = False
        found, broken = np.zeros(len(lay.row), dtype=np.bool_), np.zeros(len(lay.entry_at) - 1, dtype=np.bool_)
        for k in range(C):
            for t in range(lay.term_at[k], lay.term_at[k + 1]):
                if lay.kind[t] != HARD:
                    continue
                shift = lay.term_cell[t] - lay.cell_at[k]
                for i in range(lay.cell_at[k], lay.cell_at[k + 1]):
                    found[lay.entry[shift + i]] |= alive[i]
                for r in range(lay.row_at[t], lay.row_at[t + 1]):
                    for e in range(lay.entry_at[r], lay.entry_at[r + 1]):
                        broken[r] |= not found[e] and not dead[lay.table[e]]
                for i in range(lay.cell_at[k], lay.cell_at[k + 1]):
                    if alive[i] and broken[lay.row[lay.entry[shift + i]]]:
                        alive[i] = False
                        changed = True
    for k in range(C):
        some = False
        for i in range(lay.cell_at[k], lay.cell_at[k + 1]):
            some |= alive[i]
        if not some:
            return alive, False
    return alive, True


def by_support(shape: Shape, tree: Tree, a: Arcs) -> Iterator[tuple[Structure | None, Ints]]:
    """Problems that are alike, by what can carry mass: their structure (None: nothing can) and which they are."""
    whole = structure(shape, tree)
    zero = a.log_p == -np.inf
    if not zero.any():
        yield whole, np.arange(len(a.log_p))
        return
    dead = zero & (a.beta > 0)[:, whole.arc_of]
    groups: dict[bytes, list[int]] = {}
    for k, row in enumerate(np.packbits(dead, axis=1)):
        groups.setdefault(row.tobytes(), []).append(k)
    for some in groups.values():
        first = dead[some[0]]
        expect(SECONDS_PER_CELL * tree.cells)
        alive, possible = support(whole.layout, first) if first.any() else (EVERY, True)
        if not possible:
            yield None, np.array(some)
        else:
            yield whole if alive.all() else structure(shape, tree, alive), np.array(some)
