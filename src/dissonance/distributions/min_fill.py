"""Min-fill elimination, compiled: variables are numbers, and lists of lists are flat.

Row i of a flat list is `flat[at[i] : at[i + 1]]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dissonance.compiled import compiled

Index = Any
"""An array of int64; compiled functions know the types of their arguments."""

Numbers = Any
"""An array of float64."""

EXACT = 2.0**53
"""Cells up to which tables are told apart exactly; larger ones, which no machine holds, by their logarithm."""

PATIENCE = 3 * 10**7
"""Steps after which an elimination that has come to tables beyond EXACT is given up: about a second."""


@compiled
def eliminate(size: Index, near_at: Index, near: Index) -> tuple[Index, Index, Index]:
    """An order, and the clique each elimination makes: the variable, then its neighbours then.

    Next is who adds the fewest edges, then who makes the smallest table, then who comes first. How many edges that is
    is kept up to date edge by edge, in a heap, so that sparse graphs take near-linear time whatever the degrees of
    their hubs. Where it is given up, the rest is the clique of the first of them; the cliques of the others are empty.
    """
    n = len(size)
    at, degree = near_at[:-1].copy(), near_at[1:] - near_at[:-1]
    used, room = degree.copy(), degree.copy()  # entries of each list, dead ones too, and how many it has room for
    pool, end = near.copy(), len(near)
    bits = np.log2(size.astype(np.float64))
    weight, table = bits.copy(), np.empty(n)
    for v in range(n):
        for u in near[near_at[v] : near_at[v + 1]]:
            weight[v] += bits[u]
    fill = _missing(near_at, near)
    alive = np.ones(n, np.bool_)
    for v in range(n):
        table[v] = _cells(v, size, weight, alive, pool, at, used)
    key, key_table = fill.copy(), table.copy()
    heap, place = np.arange(n), np.arange(n)
    for v in range(n):
        _settle(heap, place, v + 1, key, key_table, v)
    order, clique_at = np.empty(n, np.int64), np.zeros(n + 1, np.int64)
    clique = np.empty(4 * n, np.int64)
    changed, stamp = np.empty(n, np.int64), np.zeros(n, np.int64)
    work = 0
    for done in range(n):
        v = heap[0]
        if table[v] > EXACT and work > PATIENCE:
            clique = _longer(clique, clique_at[done], n)
            to = done
            for u in range(n):
                if alive[u]:
                    order[to] = u
                    clique[clique_at[done] + to - done] = u
                    to += 1
                    clique_at[to] = clique_at[done] + n - done
            break
        left = n - done - 1
        heap[0] = heap[left]
        place[heap[0]] = 0
        _settle(heap, place, left, key, key_table, heap[0])
        alive[v] = False
        order[done] = v
        first, k = clique_at[done], degree[v] + 1
        if first + k > len(clique):
            clique = _longer(clique, first, len(clique) + k)
        clique[first] = v
        stop = first + 1
        for u in pool[at[v] : at[v] + used[v]]:
            if alive[u]:
                clique[stop] = u
                stop += 1
        clique_at[done + 1] = stop
        around = clique[first + 1 : stop]
        count = 0
        for u in around:
            stamp[u] = done + 1
            changed[count] = u
            count += 1
        if fill[v]:
            for i in range(len(around)):
                a = around[i]
                work += len(around)
                for b in around[i + 1 :]:
                    if _among(pool, at[a], used[a], b):
                        continue
                    few, many = (a, b) if used[a] < used[b] else (b, a)
                    shared = 1  # v
                    for x in pool[at[few] : at[few] + used[few]]:
                        if alive[x] and _among(pool, at[many], used[many], x):
                            shared += 1
                            fill[x] -= 1
                            if stamp[x] <= done:
                                stamp[x] = done + 1
                                changed[count] = x
                                count += 1
                    work += used[few]
                    for x, y in ((a, b), (b, a)):
                        fill[x] += degree[x] - shared
                        degree[x] += 1
                        weight[x] += bits[y]
                        if table[x] <= EXACT:
                            table[x] *= size[y]
                        pool, end = _insert(pool, end, at, used, room, x, y)
        for u in around:
            fill[u] -= degree[u] - len(around)
            degree[u] -= 1
            weight[u] -= bits[v]
            if used[u] > 2 * degree[u] + 8:
                _tidy(pool, at, used, u, alive)
            if table[u] <= EXACT:
                table[u] //= size[v]
            else:
                table[u] = _cells(u, size, weight, alive, pool, at, used)
        for u in changed[:count]:
            key[u], key_table[u] = fill[u], table[u]
            _settle(heap, place, left, key, key_table, u)
    return order, clique_at, clique[: clique_at[n]]


@compiled
def _missing(near_at: Index, near: Index) -> Index:
    """How many pairs of neighbours of each variable are not neighbours of each other."""
    degree = near_at[1:] - near_at[:-1]
    fill = degree * (degree - 1) // 2
    for a in range(len(degree)):
        for b in near[near_at[a] : near_at[a + 1]]:
            if a < b:
                few, many = (a, b) if degree[a] < degree[b] else (b, a)
                for x in near[near_at[few] : near_at[few + 1]]:
                    if _among(near, near_at[many], degree[many], x):
                        fill[x] -= 1
    return fill


@compiled
def _cells(v: int, size: Index, weight: Numbers, alive: Any, pool: Index, at: Index, used: Index) -> float:
    """The size of the table of v and its neighbours, or a larger number that grows with it where it is beyond EXACT."""
    if weight[v] > 54:
        return EXACT * weight[v]
    found = float(size[v])
    for u in pool[at[v] : at[v] + used[v]]:
        if alive[u]:
            found *= size[u]
    return found if found <= EXACT else EXACT * weight[v]


@compiled
def _among(pool: Index, start: int, length: int, x: int) -> bool:
    """Whether x is in an ascending list."""
    low, high = start, start + length
    while low < high:
        middle = (low + high) // 2
        if pool[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low < start + length and pool[low] == x


@compiled
def _longer(flat: Index, end: int, more: int) -> Index:
    """A copy up to the end, with room for more."""
    found = np.empty(end + more, np.int64)
    for i in range(end):
        found[i] = flat[i]
    return found


@compiled
def _insert(pool: Index, end: int, at: Index, used: Index, room: Index, v: int, x: int) -> tuple[Index, int]:
    """x into the ascending list of v, which moves to the end of the pool where it has no room."""
    start, length = at[v], used[v]
    if length == room[v]:
        room[v] = 2 * length + 4
        if end + room[v] > len(pool):
            pool = _longer(pool, end, len(pool) + room[v])
        for i in range(length):
            pool[end + i] = pool[start + i]
        start = at[v] = end
        end += room[v]
    i = start + length
    while i > start and pool[i - 1] > x:
        pool[i] = pool[i - 1]
        i -= 1
    pool[i] = x
    used[v] = length + 1
    return pool, end


@compiled
def _tidy(pool: Index, at: Index, used: Index, v: int, alive: Any) -> None:
    """The list of v without the dead."""
    to = at[v]
    for x in pool[at[v] : at[v] + used[v]]:
        if alive[x]:
            pool[to] = x
            to += 1
    used[v] = to - at[v]


@compiled
def _before(key: Index, table: Numbers, a: int, b: int) -> bool:
    if key[a] != key[b]:
        return key[a] < key[b]
    return table[a] < table[b] or (table[a] == table[b] and a < b)


@compiled
def _settle(heap: Index, place: Index, count: int, key: Index, table: Numbers, v: int) -> None:
    """Move v to where its key belongs in a heap that is in order but for v."""
    i = place[v]
    while i > 0 and _before(key, table, v, heap[(i - 1) // 2]):
        heap[i] = heap[(i - 1) // 2]
        place[heap[i]] = i
        i = (i - 1) // 2
    while 2 * i + 1 < count:
        child = 2 * i + 1
        if child + 1 < count and _before(key, table, heap[child + 1], heap[child]):
            child += 1
        if _before(key, table, v, heap[child]):
            break
        heap[i] = heap[child]
        place[heap[i]] = i
        i = child
    heap[i] = v
    place[v] = i
