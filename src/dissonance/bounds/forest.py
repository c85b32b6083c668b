"""Forests of variables that are drawn together, given all others: from the leaves to the roots and back.

The terms of one state cost what they cost, and add up; where no term is about more than two variables of a set, and
those hang together as a forest, all of them are drawn at once with chances e^(-cost / temperature). So a variable that
much depends on moves with what depends on it, which no change of a few variables would do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dissonance.bounds.states import RegionTables, States
from dissonance.bounds.tally import BROKEN, EntryTally, put
from dissonance.bounds.terms import Ints
from dissonance.compiled import compiled


class Forest(NamedTuple):
    """Variables, each before its `parent` (-1: none); `term`: the terms about each of them that are about none of its
    children, and how far apart the values of the variable and of its parent lie in them."""

    variable: Ints
    parent: Ints
    term_at: Ints
    term: Ints
    own: Ints
    above: Ints


def random_forest(tables: RegionTables, holding: Sequence[Sequence[int]], order: Sequence[int]) -> Forest:
    """The first variables in this order that make a forest; `holding`: the terms about each variable."""
    at, scope, stride = (x.tolist() for x in (tables.scope_at, tables.scope, tables.stride))
    count = len(holding)
    tree = list(range(count))
    taken = [False] * count
    near: list[list[int]] = [[] for _ in range(count)]

    def root(v: int) -> int:
        while tree[v] != v:
            tree[v] = v = tree[tree[v]]
        return v

    for v in order:
        mine = {u for t in holding[v] for u in scope[at[t] : at[t + 1]] if taken[u]}
        roots = {root(u) for u in mine}
        if len(roots) < len(mine):
            continue
        taken[v] = True
        for u in roots:
            tree[u] = v
        for u in mine:
            near[u].append(v)
            near[v].append(u)
    parent, found = [-1] * count, []
    seen = [False] * count
    for v in order:
        if taken[v] and not seen[v]:
            seen[v], waiting = True, [v]
            for u in waiting:  # grows on the way
                for w in near[u]:
                    if not seen[w]:
                        seen[w], parent[w] = True, u
                        waiting.append(w)
            found += waiting
    found.reverse()
    term_at, term, own, above = [0], [], [], []
    done: set[int] = set()
    for v in found:
        for t in holding[v]:
            if t not in done:
                done.add(t)
                where = dict(zip(scope[at[t] : at[t + 1]], stride[at[t] : at[t + 1]], strict=True))
                term.append(t)
                own.append(where[v])
                above.append(where.get(parent[v], 0))
        term_at.append(len(term))
    lists = found, [parent[v] for v in found], term_at, term, own, above
    return Forest(*(np.array(x, dtype=np.int64) for x in lists))


@compiled
def move_forest(
    states: States,
    first: int,
    last: int,
    sizes: Ints,
    forest: Forest,
    tally: EntryTally,
    temperature: float,
    broken: float,
    seed: int,
) -> None:
    """Draw the forest anew in these states, given all else."""
    variable, parent, term_at, term, own, above = forest
    scope_at, scope, stride, table_at = tally.scope_at, tally.scope, tally.stride, tally.table_at
    entry, prices = tally.entry, tally.prices
    most, size = np.max(sizes), len(variable)
    cost = np.zeros((size, most, most))  # of a value of the variable, by that of its parent
    below = np.zeros((len(sizes), most))
    state, weight = np.empty(len(sizes), dtype=np.int64), np.empty(most)
    base, held = np.empty(len(term), dtype=np.int64), np.empty(len(term), dtype=np.int64)
    chance = np.uint64(seed + 1) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(first + 1) * np.uint64(0xBF58476D1CE4E5B9)
    for n in range(first, last):
        for v in range(len(sizes)):
            state[v] = states[v, n]
        for i in range(size):
            for k in range(sizes[variable[i]]):
                below[variable[i], k] = 0.0
        for i in range(size):
            v, u = variable[i], parent[i]
            wide, high = sizes[v], sizes[u] if u >= 0 else 1
            for k in range(wide):
                for h in range(high):
                    cost[i, k, h] = below[v, k]
            for j in range(term_at[i], term_at[i + 1]):
                t = term[j]
                cell = table_at[t]
                for x in range(scope_at[t], scope_at[t + 1]):
                    cell += stride[x] * state[scope[x]]
                e = entry[cell]
                held[j] = e
                cell -= own[j] * state[v]
                if above[j] > 0:
                    cell -= above[j] * state[u]
                base[j] = cell
                for k in range(wide):
                    for h in range(high if above[j] > 0 else 1):
                        other = entry[cell + own[j] * k + above[j] * h]
                        price = 0.0
                        if other >= 0:
                            price = prices[1, e] if other == e else prices[0, other]
                        elif other == BROKEN:
                            price = broken
                        if above[j] > 0:
                            cost[i, k, h] += price
                        else:
                            for g in range(high):
                                cost[i, k, g] += price
            if u >= 0:
                for h in range(high):
                    low = cost[i, 0, h]
                    for k in range(1, wide):
                        low = min(low, cost[i, k, h])
                    whole = 0.0
                    for k in range(wide):
                        whole += np.exp((low - cost[i, k, h]) / temperature)
                    below[u, h] += low - temperature * np.log(whole)
        for i in range(size - 1, -1, -1):
            v, u = variable[i], parent[i]
            h = state[u] if u >= 0 else 0
            low, whole = np.inf, 0.0
            for k in range(sizes[v]):
                low = min(low, cost[i, k, h])
            for k in range(sizes[v]):
                whole += np.exp((low - cost[i, k, h]) / temperature)
                weight[k] = whole
            chance ^= chance << np.uint64(13)
            chance ^= chance >> np.uint64(7)
            chance ^= chance << np.uint64(17)
            drawn = whole * np.float64(chance >> np.uint64(11)) / 9007199254740992.0
            k = 0
            while k < sizes[v] - 1 and drawn >= weight[k]:
                k += 1
            state[v] = k
        for i in range(size):
            v, u = variable[i], parent[i]
            states[v, n] = state[v]
            for j in range(term_at[i], term_at[i + 1]):
                e = held[j]
                cell = base[j] + own[j] * state[v]
                if above[j] > 0:
                    cell += above[j] * state[u]
                other = entry[cell]
                if other != e:
                    put(e, other, tally)  # pyright: ignore[reportArgumentType]
