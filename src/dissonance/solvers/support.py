"""Which cells of the cluster tables can carry mass at all."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dissonance.distributions.tree import Scope, Tree
from dissonance.problem import Attended, Component

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@lru_cache(maxsize=4096)
def setting(shape: tuple[int, ...], axes: tuple[int, ...]) -> Ints:
    """For every cell of a table, the flat index of its setting of some axes, in that order."""
    sizes = [shape[i] for i in axes]
    strides = np.array([math.prod(sizes[i + 1 :]) for i in range(len(axes))], dtype=np.int64)
    grid = np.indices(shape, dtype=np.int64).reshape(len(shape), -1)
    return strides @ grid[list(axes)] if axes else np.zeros(math.prod(shape), dtype=np.int64)


def settings(tree: Tree, cluster: int, scope: Scope) -> Ints:
    """For every cell of a cluster, the flat index of its setting of a scope inside it."""
    inside = tree.clusters[cluster]
    return setting(tree.shapes[cluster], tuple(inside.index(v) for v in scope))


def supports(component: Component, tree: Tree) -> list[Ints] | None:
    """The cells of each cluster that some joint state of positive probability uses; None if there are none.

    A cell goes when an arc with beta > 0 gives it probability 0; when a neighbour has nothing to match it; or when it
    sets the sources of a hard arc so that some value the arc insists on is gone.
    """
    alive = [np.ones(math.prod(s), dtype=np.bool_) for s in tree.shapes]
    hard: list[tuple[int, Attended]] = []
    zeros = False
    for a in component.arcs:
        if a.beta > 0:
            i = tree.home(a.scope)
            assert i is not None
            possible = a.log_p.reshape(-1) > -np.inf
            if a.hard:
                hard.append((i, a))
            if not possible.all():
                zeros = True
                alive[i] &= possible[settings(tree, i, a.scope)]
    while zeros:
        _agree(tree, alive)
        zeros = any([_insist(tree, i, a, alive[i]) for i, a in hard])
    if not all(x.any() for x in alive):
        return None
    return [np.flatnonzero(x) for x in alive]


def _agree(tree: Tree, alive: list[Bools]) -> None:
    """Make neighbours agree on their separators: up the tree, then down."""
    order = [i for i, p in enumerate(tree.parent) if p >= 0]
    for children, upward in ((reversed(order), True), (order, False)):
        for i in children:
            p, scope = tree.parent[i], tree.separators[i]
            giver, taker = (i, p) if upward else (p, i)
            seen = np.zeros(math.prod(tree.sizes[v] for v in scope), dtype=np.bool_)
            seen[settings(tree, giver, scope)[alive[giver]]] = True
            alive[taker] &= seen[settings(tree, taker, scope)]


def _insist(tree: Tree, cluster: int, arc: Attended, alive: Bools) -> bool:
    """Drop source settings of which a hard arc wants a dead value; returns whether anything was dropped."""
    width = math.prod(tree.sizes[t] for t in arc.targets)
    where = settings(tree, cluster, arc.scope)
    live = np.zeros(arc.log_p.size, dtype=np.bool_)
    live[where[alive]] = True
    wanted = np.greater(arc.log_p.reshape(-1), -np.inf)
    broken: Bools = np.any((wanted & ~live).reshape(-1, width), axis=1)
    doomed = alive & broken[where // width]
    alive[doomed] = False
    return bool(doomed.any())
