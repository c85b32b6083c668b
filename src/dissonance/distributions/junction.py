"""Junction forests of graphs and where scopes live in them, compiled: variables are numbers, lists of lists are flat.

Row i of a flat list is `flat[at[i] : at[i + 1]]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dissonance.compiled import compiled
from dissonance.distributions.min_fill import eliminate

Index = Any
"""An array of int64; compiled functions know the types of their arguments."""


def junction_forest(size: Index, scope_at: Index, scope: Index) -> tuple[Index, Index, Index]:
    """Clusters (a flat list) and the parent of each, parents first, for the graph in which every scope is a clique.

    A cluster has its variables in the order of their elimination.
    """
    return clique_forest(*eliminate(size, *neighbours(len(size), scope_at, scope)))


@compiled
def neighbours(variables: int, scope_at: Index, scope: Index) -> tuple[Index, Index]:
    """Who shares a scope with each variable, in ascending order."""
    in_at, inside = transposed(variables, scope_at, scope)
    at, last = np.zeros(variables + 1, np.int64), np.zeros(variables, np.int64)
    end, found = at, at
    for writing in (False, True):
        if writing:
            for v in range(variables):
                at[v + 1] += at[v]
            end, found = at.copy(), np.empty(at[variables], np.int64)
        for v in range(variables):
            seen = v + 1 if writing else -v - 1
            for j in inside[in_at[v] : in_at[v + 1]]:
                for u in scope[scope_at[j] : scope_at[j + 1]]:
                    if u != v and last[u] != seen:
                        last[u] = seen
                        if writing:
                            found[end[u]] = v
                            end[u] += 1
                        else:
                            at[u + 1] += 1
    return at, found


@compiled
def clique_forest(order: Index, clique_at: Index, clique: Index) -> tuple[Index, Index, Index]:
    """The cliques of an elimination as a junction forest; one that lies inside another is left out."""
    n = len(order)
    length = clique_at[1:] - clique_at[:-1]
    position, found = np.empty(n, np.int64), np.empty(len(clique), np.int64)
    for i in range(n):
        position[order[i]] = i
    for k in range(len(clique)):
        found[k] = position[clique[k]]
    up, stands = np.arange(n), np.arange(n)  # where a clique hangs, and who stands for it
    whole = n
    for i in range(n):
        _sort(found[clique_at[i] : clique_at[i + 1]])
        up[i] = found[clique_at[i] + 1] if length[i] > 1 else -1
        if length[i] == 0:
            whole = min(whole, i - 1)
            stands[i] = whole
    for i in range(n):  # a clique that equals a child's separator lies inside that child: let the child stand for it
        p = up[i]
        if p >= 0 and length[i] - 1 == length[p] and stands[p] == p:
            stands[p] = i
    for i in range(n):
        stands[i] = stands[stands[i]]  # the first stands for itself, and the earlier ones are done
    kept, parent, many = np.empty(n, np.int64), np.empty(n, np.int64), 0
    for i in range(n):
        if stands[i] == i:
            p = up[i]
            while p >= 0 and stands[p] == i:  # the cliques i stands for hang where the last of them hung
                p = up[p]
            kept[many], parent[many] = i, stands[p] if p >= 0 else -1
            many += 1
    return _top_down(order, clique_at, found, kept[:many], parent[:many])


@compiled
def _levels(n: int, kept: Index, parent: Index) -> Index:
    """The places of the kept cliques, level by level from the roots."""
    child_at, child = transposed(n + 1, np.arange(len(kept) + 1), parent + 1)  # the roots hang below number 0
    queue, end = np.empty(len(kept), np.int64), 0
    for k in range(-1, len(kept)):
        above = kept[queue[k]] if k >= 0 else -1
        for j in child[child_at[above + 1] : child_at[above + 2]]:
            queue[end] = j
            end += 1
    return queue


@compiled
def _branches(n: int, kept: Index, parent: Index) -> Index:
    """The places of the kept cliques, parents before children and every branch together: what is worked out one after
    another, from the leaves up or from the roots down, is close in memory then."""
    child_at, child = transposed(n + 1, np.arange(len(kept) + 1), parent + 1)
    found, waiting, end = np.empty(len(kept), np.int64), np.empty(len(kept) + 1, np.int64), 0
    count, above = 0, -1
    while True:
        for j in child[child_at[above + 1] : child_at[above + 2]]:
            waiting[end] = j
            end += 1
        if end == 0:
            return found
        end -= 1
        found[count] = waiting[end]
        above = kept[waiting[end]]
        count += 1


@compiled
def _centred(n: int, kept: Index, parent: Index) -> Index:
    """The parents where every tree hangs at its centre: no branch has more than half of it, so they can be shared out.

    A long chain is half as deep then, and two threads eliminate it from both ends.
    """
    queue, weight, place = _levels(n, kept, parent), np.ones(n, np.int64), np.empty(n, np.int64)
    for j in queue[::-1]:
        place[kept[j]] = j
        if parent[j] >= 0:
            weight[parent[j]] += weight[kept[j]]
    whole, hangs = weight.copy(), parent.copy()
    for j in queue:
        i, p = kept[j], parent[j]
        if p >= 0:
            whole[i] = whole[p]
        if 2 * weight[i] > whole[i] and p >= 0:  # the centre is below its parent: turn that round
            hangs[place[p]] = i
            hangs[j] = -1
    return hangs


@compiled
def _top_down(order: Index, clique_at: Index, clique: Index, kept: Index, parent: Index) -> tuple[Index, Index, Index]:
    """The kept cliques, numbered branch by branch from the roots, which are in the middle."""
    n, clusters = len(order), len(kept)
    parent = _centred(n, kept, parent)
    queue, number = _branches(n, kept, parent), np.empty(n, np.int64)
    for k in range(clusters):
        number[kept[queue[k]]] = k
    at, hangs = np.zeros(clusters + 1, np.int64), np.empty(clusters, np.int64)
    for k in range(clusters):
        i, p = kept[queue[k]], parent[queue[k]]
        at[k + 1] = at[k] + clique_at[i + 1] - clique_at[i]
        hangs[k] = number[p] if p >= 0 else -1
    cluster = np.empty(at[clusters], np.int64)
    for k in range(clusters):
        first = clique_at[kept[queue[k]]]
        for i in range(at[k + 1] - at[k]):
            cluster[at[k] + i] = order[clique[first + i]]
    return at, cluster, hangs


@compiled
def homes(size: Index, cluster_at: Index, cluster: Index, scope_at: Index, scope: Index) -> Index:
    """The smallest cluster that contains each scope, the first of these; -1 if none does, and 0 for an empty scope."""
    n, clusters = len(size), len(cluster_at) - 1
    in_at, inside = transposed(n, cluster_at, cluster)
    cells = np.ones(clusters)
    for i in range(clusters):
        for u in cluster[cluster_at[i] : cluster_at[i + 1]]:
            cells[i] *= size[u]
    found, mark = np.empty(len(scope_at) - 1, np.int64), np.zeros(n, np.int64)
    for j in range(len(found)):
        rare, asked, found[j] = -1, 0, -1
        for u in scope[scope_at[j] : scope_at[j + 1]]:
            if u < 0:
                asked = n + 1  # no variable of the tree
            elif mark[u] <= j:
                mark[u] = j + 1
                asked += 1
                if rare < 0 or in_at[u + 1] - in_at[u] < in_at[rare + 1] - in_at[rare]:
                    rare = u
        if asked == 0:
            found[j] = 0
        if rare < 0:
            continue
        for i in inside[in_at[rare] : in_at[rare + 1]]:
            if found[j] < 0 or cells[i] < cells[found[j]]:
                met = 0
                for u in cluster[cluster_at[i] : cluster_at[i + 1]]:
                    met += mark[u] > j
                if met == asked:
                    found[j] = i
    return found


@compiled
def transposed(rows: int, at: Index, flat: Index) -> tuple[Index, Index]:
    """For each number below `rows`, the lists that it is in, in their order."""
    to = np.zeros(rows + 1, np.int64)
    for x in flat:
        to[x + 1] += 1
    for x in range(rows):
        to[x + 1] += to[x]
    end, found = to.copy(), np.empty(len(flat), np.int64)
    for i in range(len(at) - 1):
        for x in flat[at[i] : at[i + 1]]:
            found[end[x]] = i
            end[x] += 1
    return to, found


@compiled
def _sort(row: Index) -> None:
    """In place; for a few numbers, or many that are almost in order."""
    for i in range(1, len(row)):
        x, j = row[i], i
        while j > 0 and row[j - 1] > x:
            row[j] = row[j - 1]
            j -= 1
        row[j] = x
