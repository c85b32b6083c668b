"""Variables cut into blocks whose junction trees are small, with few terms across.

A block that is too large is cut in two where the second eigenvector of its Laplacian is: the weights are random, so
that every cut is another one. Variables of a term that must hold, or that rules out cells, stay together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from dissonance.bounds.terms import Floats, Ints
from dissonance.distributions.tree import Tree, decompose
from dissonance.reduced.dual import HARD, ReducedTerm

MOST_CELLS, LARGE = 2**17, 2**10
"""Cells of the junction tree of a block, and variables from which on blocks are smaller."""

MIDDLE = 0.3
"""The least share of a block that is cut off."""


@dataclass(frozen=True)
class CutBlock:
    """Some variables, and a junction tree of what terms have in them."""

    variables: tuple[str, ...]
    tree: Tree


def blocks_apart(
    sizes: Mapping[str, int], terms: Sequence[ReducedTerm], generator: np.random.Generator
) -> list[CutBlock] | None:
    """Blocks of all variables; None if some that stay together are too many."""
    names = list(sizes)
    number = {v: i for i, v in enumerate(names)}
    rigid = [t for t in terms if t.kind == HARD or np.isinf(t.cost).any()]
    group = _together([[number[v] for v in t.scope] for t in rigid], len(names))
    weights = generator.uniform(0.2, 1.0, len(terms))
    scopes = [[number[v] for v in t.scope] for t in terms]
    most = min(MOST_CELLS, int(MOST_CELLS * (LARGE / len(names)) ** 1.5))
    waiting, found = [np.arange(len(names))], list[CutBlock]()
    while waiting:
        block = waiting.pop()
        inside = set(block.tolist())
        parts = [tuple(names[v] for v in s if v in inside) for s in scopes]
        tree = decompose({names[v]: sizes[names[v]] for v in block.tolist()}, [p for p in parts if p])
        if tree.cells <= most:
            found.append(CutBlock(tuple(names[v] for v in block.tolist()), tree))
            continue
        halves = _halves(block, group, scopes, weights, generator)
        if halves is None:
            return None
        waiting += halves
    return found


def _together(scopes: Sequence[Sequence[int]], count: int) -> Ints:
    """The number of the group of each variable."""
    pairs = [(s[0], v) for s in scopes for v in s]
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    links = sparse.coo_matrix((np.ones(len(pairs)), (rows, columns)), (count, count))
    return csgraph.connected_components(links, directed=False)[1].astype(np.int64)


def _halves(
    block: Ints, group: Ints, scopes: Sequence[Sequence[int]], weights: Floats, generator: np.random.Generator
) -> list[Ints] | None:
    """Two parts of a block, or more if it does not hang together; None if all of it stays together."""
    groups, own = np.unique(group[block], return_inverse=True)
    count = len(groups)
    if count < 2:
        return None
    place = dict(zip(block.tolist(), own.tolist(), strict=True))
    links: dict[tuple[int, int], float] = {}
    for s, w in zip(scopes, weights.tolist(), strict=True):
        here = sorted({place[v] for v in s if v in place})
        for i, a in enumerate(here):
            for b in here[i + 1 :]:
                links[a, b] = links.get((a, b), 0.0) + w
    rows, columns = np.array(list(links), dtype=np.int64).reshape(-1, 2).T
    graph = sparse.coo_matrix((np.array(list(links.values())), (rows, columns)), (count, count))
    graph = (graph + graph.T).tocsr()
    parts, part = csgraph.connected_components(graph, directed=False)
    if parts == 1:
        part = _split(graph, generator)
    return [block[part[own] == k] for k in range(max(2, parts))]


def _split(graph: sparse.csr_matrix, generator: np.random.Generator) -> Ints:
    """Which side each node is on: the lightest cut along the second eigenvector that leaves neither side small."""
    degree = np.asarray(graph.sum(1)).ravel()
    count = len(degree)
    order = np.arange(count)
    if count > 8:
        shifted = sparse.diags(2 * degree.max() - degree) + graph
        start = generator.standard_normal(count)
        try:
            options: dict[str, Any] = {"which": "LA", "v0": start, "tol": 1e-4, "maxiter": 20 * count}
            values, vectors = eigsh(shifted, k=2, **options)
            order = np.argsort(vectors[:, np.argmin(values)], kind="stable")
        except ArpackNoConvergence:
            order = csgraph.breadth_first_order(graph, 0, return_predecessors=False)
    turn = np.empty(count, dtype=np.int64)
    turn[order] = np.arange(count)
    pairs: Any = sparse.triu(graph).tocoo()
    first, last = np.sort(np.stack([turn[pairs.row], turn[pairs.col]]), axis=0)
    across = np.zeros(count + 1)
    np.add.at(across, first + 1, pairs.data)
    np.add.at(across, last + 1, -pairs.data)
    across = np.cumsum(across)[:count]  # what is cut if so many come first
    low = max(1, int(MIDDLE * count))
    at = low + int(np.argmin(across[low : max(low + 1, count - low)]))
    return (turn >= at).astype(np.int64)
