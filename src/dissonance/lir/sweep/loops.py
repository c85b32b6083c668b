"""The loops behind neighbourhoods, compiled: which arcs a focus has, how it is laid out, which foci do not touch.

Lists of lists are two arrays: where each list begins, and all of them one after another. Functions that make one are
called twice, first to count (`fill` False) and then to fill in.
"""

from __future__ import annotations

import numpy as np

from dissonance.compiled import compiled


@compiled
def fill_inside(sets_at, sets, home_at, home, scope_at, scopes, variables, begins, found, fill):  # type: ignore[no-untyped-def]
    """The arcs whose scope lies within each set of variables; `home`: the arcs by one of their variables."""
    stamp = np.full(variables, -1, dtype=np.int64)
    n = 0
    for f in range(len(sets_at) - 1):
        for i in range(sets_at[f], sets_at[f + 1]):
            stamp[sets[i]] = f
        for i in range(sets_at[f], sets_at[f + 1]):
            for j in range(home_at[sets[i]], home_at[sets[i] + 1]):
                a, within = home[j], True
                for k in range(scope_at[a], scope_at[a + 1]):
                    within = within and stamp[scopes[k]] == f
                if within:
                    if fill:
                        found[n] = a
                    n += 1
        begins[f + 1] = n
    return n


@compiled
def fill_stars(around_at, around, scope_at, scopes, variables, closed, begins, found, fill):  # type: ignore[no-untyped-def]
    """The arcs at each variable; `closed`: and those about one of its neighbours alone."""
    stamp = np.full(variables, -1, dtype=np.int64)
    n = 0
    for v in range(variables):
        stamp[v] = v
        for i in range(around_at[v], around_at[v + 1]):
            if fill:
                found[n] = around[i]
            n += 1
        if closed:
            for i in range(around_at[v], around_at[v + 1]):
                for k in range(scope_at[around[i]], scope_at[around[i] + 1]):
                    u = scopes[k]
                    if stamp[u] != v:
                        stamp[u] = v
                        for j in range(around_at[u], around_at[u + 1]):
                            a = around[j]
                            if scope_at[a + 1] - scope_at[a] == 1:
                                if fill:
                                    found[n] = a
                                n += 1
        begins[v + 1] = n
    return n


@compiled
def fill_blocks(arcs, around_at, around, scope_at, scopes, sizes, most, cells, begins, found, fill):  # type: ignore[no-untyped-def]
    """Connected sets of at most `most` variables and `cells` joint settings, until each of the arcs lies in one.

    A set begins with the scope of an arc that lies in none yet, and grows by the arcs at its variables, in order.
    """
    covered = np.zeros(len(scope_at) - 1, dtype=np.bool_)
    stamp = np.full(len(sizes), -1, dtype=np.int64)
    block = np.zeros(max(most, 64), dtype=np.int64)
    n = 0
    count = 0
    for first in arcs:
        if covered[first]:
            continue
        size, room = 0, cells
        for k in range(scope_at[first], scope_at[first + 1]):
            block[size] = scopes[k]
            stamp[scopes[k]] = count
            room //= sizes[scopes[k]]
            size += 1
        i = 0
        while i < size:
            v = block[i]
            for j in range(around_at[v], around_at[v + 1]):
                a, new, needed = around[j], 0, 1
                if covered[a]:
                    continue
                for k in range(scope_at[a], scope_at[a + 1]):
                    if stamp[scopes[k]] != count:
                        new += 1
                        needed *= sizes[scopes[k]]
                if size + new <= most and needed <= room:
                    for k in range(scope_at[a], scope_at[a + 1]):
                        u = scopes[k]
                        if stamp[u] != count:
                            stamp[u] = count
                            block[size] = u
                            size += 1
                    room //= needed
            i += 1
        for i in range(size):
            v = block[i]
            if fill:
                found[n + i] = v
            for j in range(around_at[v], around_at[v + 1]):
                within = True
                for k in range(scope_at[around[j]], scope_at[around[j] + 1]):
                    within = within and stamp[scopes[k]] == count
                if within:
                    covered[around[j]] = True
        n += size
        count += 1
        if fill:
            begins[count] = n
    return count, n


@compiled
def in_common_order(foci_at, foci, centre, scope_at, scopes, kind, variables, seen_at, seen, sign):  # type: ignore[no-untyped-def]
    """Put the arcs of each focus in an order in which foci of one shape look alike, number its variables in the order
    in which they are met, and sign its shape.

    The centre, if there is one (>= 0), is variable 0. Arcs of several variables come first, the widest before, then by
    kind; then those of one variable, in the order of the variables.
    """
    local = np.full(variables, -1, dtype=np.int64)
    n = 0
    for f in range(len(foci_at) - 1):
        begin, end = foci_at[f], foci_at[f + 1]
        if centre[f] >= 0:
            seen[n] = centre[f]
            local[centre[f]] = 0
            n += 1
        for stage in range(2):
            for i in range(begin + 1, end):  # insertion sort: foci are small
                a, j = foci[i], i
                while j > begin:
                    b = foci[j - 1]
                    wa, wb = scope_at[a + 1] - scope_at[a], scope_at[b + 1] - scope_at[b]
                    ka, kb = 0, 0
                    if stage == 0:
                        if wa == wb and wa > 1 and kind[a] == kind[b]:
                            for k in range(wa):
                                if scopes[scope_at[a] + k] == centre[f]:
                                    ka = k
                                if scopes[scope_at[b] + k] == centre[f]:
                                    kb = k
                    elif wa == 1 and wb == 1:
                        ka, kb = local[scopes[scope_at[a]]], local[scopes[scope_at[b]]]
                    before = wa > wb
                    if wa == wb:
                        if stage == 1 and wa == 1:
                            before = ka < kb or (ka == kb and (kind[a] < kind[b] or (kind[a] == kind[b] and a < b)))
                        elif stage == 0:
                            before = kind[a] < kind[b] or (kind[a] == kind[b] and (ka < kb or (ka == kb and a < b)))
                        else:
                            before = False
                    if not before:
                        break
                    foci[j] = b
                    j -= 1
                foci[j] = a
            if stage == 0:
                for i in range(begin, end):
                    for k in range(scope_at[foci[i]], scope_at[foci[i] + 1]):
                        if local[scopes[k]] < 0:
                            local[scopes[k]] = n - seen_at[f]
                            seen[n] = scopes[k]
                            n += 1
        s = np.uint64(1469598103934665603)
        for i in range(begin, end):
            s = (s ^ np.uint64(kind[foci[i]] + 1)) * np.uint64(1099511628211)
            for k in range(scope_at[foci[i]], scope_at[foci[i] + 1]):
                s = (s ^ np.uint64(local[scopes[k]] + 1000003)) * np.uint64(1099511628211)
        sign[f] = s
        for i in range(seen_at[f], n):
            local[seen[i]] = -1
        seen_at[f + 1] = n
    return n


@compiled
def colours(foci_at, foci, arcs, found):  # type: ignore[no-untyped-def]
    """The least colour of each focus, in order, that no focus before it with an arc in common has; how many there are.

    An arc keeps the colours it was given as the bits of a word; foci that need more than these begin the next word.
    """
    given = np.zeros(arcs, dtype=np.uint64)
    least = 0
    left = len(foci_at) - 1
    most = 0
    found[:] = -1
    one = np.uint64(1)
    while left > 0:
        given[:] = 0
        for f in range(len(foci_at) - 1):
            if found[f] >= 0:
                continue
            taken = np.uint64(0)
            for i in range(foci_at[f], foci_at[f + 1]):
                taken |= given[foci[i]]
            for c in range(63):
                if not (taken >> np.uint64(c)) & one:
                    found[f] = least + c
                    most = max(most, least + c + 1)
                    left -= 1
                    for i in range(foci_at[f], foci_at[f + 1]):
                        given[foci[i]] |= one << np.uint64(c)
                    break
        least += 63
    return most
