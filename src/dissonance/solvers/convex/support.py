"""Which cells of the cluster tables can carry mass at all."""

from __future__ import annotations

import math

import numpy as np

from dissonance.compiled import compiled, expect
from dissonance.distributions.tree import Tree, single
from dissonance.problem import NOWHERE, Batch
from dissonance.solvers.convex.layout import HARD, Bools, Layout
from dissonance.solvers.convex.program import SECONDS_PER_CELL, Structure, structure


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


def structure_of(part: Batch, tree: Tree) -> Structure | None:
    """Return the structure of the problems of a pattern on a tree; None if nothing can carry mass in them.

    Batches over the same arcs remember the structures of their patterns.
    """
    hard, structural = part.hard[0], bool(part.gamma[0] > 0)
    key = tree.clusters, hard.tobytes(), structural, part.dead.tobytes()

    def make() -> Structure | None:
        alive, possible = possible_cells(part, tree) if len(part.dead) or part.facts else (NOWHERE, True)
        return structure(part.shape, tree, hard, structural, NOWHERE if alive.all() else alive) if possible else None

    return part.remembered(key, make)


def possible_cells(part: Batch, tree: Tree) -> tuple[Bools, bool]:
    """Return which cells of a tree can carry mass in the problems of a pattern, facts included, and whether any can."""
    hard = np.concatenate([part.hard[0], np.zeros(len(part.facts), dtype=np.bool_)])
    whole = structure(part.ruled, tree, hard, bool(part.gamma[0] > 0))
    expect(SECONDS_PER_CELL * tree.cells)
    return support(whole.layout, np.concatenate([part.impossible, part.ruled_out]))


MOST_TOGETHER = 1 << 14
"""Joint states of variables up to which all of them may be one cluster."""


def tree_of(part: Batch) -> Tree:
    """Return the junction tree of arcs and facts; a single cluster, if facts leave no more cells there."""

    def make() -> Tree:
        if math.prod(part.sizes.values()) > MOST_TOGETHER:
            return part.tree
        none = np.zeros_like(part.beta[:1])
        plain = part.with_numbers(np.zeros_like(part.log_p[:1]), none, none, np.zeros(1))
        return min(single(part.sizes), part.tree, key=lambda x: possible_cells(plain, x)[0].sum())

    return part.remembered("tree", make)
