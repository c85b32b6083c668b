"""Which larger regions help most: short cycles of variables, and unions of what was added.

Where what the dual believes of the regions inside a set of variables is what some joint distribution has, looking at
the set as a whole gains nothing; the further it is from that, the more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from dissonance.bounds.regions import Regions
from dissonance.bounds.terms import Floats, Scope, Terms, projected_cells
from dissonance.compiled import clock

MOST_CELLS = 1024
"""Cells of a region that is added."""

MOST_ASKED = 5000
"""Sets of variables that are looked at."""

FITS, CLOSE = 30, 0.02
"""Rounds of fitting, and how far beliefs may be from a joint distribution's to count as such."""

LONGEST = 6
"""Variables of a cycle that is looked for where there is no shorter one."""


def candidates(regions: Regions, added: Sequence[Scope]) -> list[Scope]:
    """Cycles of three and four variables, the shortest through any two neighbours, and unions of those added."""
    near: dict[int, set[int]] = {}
    for s in regions.scopes:
        for v in s:
            if len(s) > 1:
                near.setdefault(v, set()).update(s)
    for v, them in near.items():
        them.discard(v)
    known = set(regions.scopes)
    found = {tuple(sorted(c)) for c in islice(_cycles(near), MOST_ASKED)} | set(islice(_unions(added), MOST_ASKED))
    return sorted(c for c in found if c not in known)[:MOST_ASKED]


def _cycles(near: dict[int, set[int]]) -> Iterable[set[int]]:
    for u, them in near.items():
        for a in them:
            short = False
            if a > u:
                for w in near[a] & them:
                    short = True
                    yield {u, a, w}
                for b in them:
                    if b != a:
                        for w in near[a] & near[b] - {u}:
                            short = True
                            yield {u, a, b, w}
                if not short:
                    yield from _around(near, u, a)


def _around(near: dict[int, set[int]], u: int, a: int) -> Iterable[set[int]]:
    """The variables of a shortest path from u to a other than the direct one, if it is short."""
    before: dict[int, int] = {u: u}
    edge = [u]
    for _ in range(LONGEST - 1):
        reached = []
        for v in edge:
            for w in near[v]:
                if w not in before and (v, w) != (u, a):
                    before[w] = v
                    reached.append(w)
        if a in before:
            path = {a}
            while a != u:
                a = before[a]
                path.add(a)
            yield path
            return
        edge = reached


def _unions(added: Sequence[Scope]) -> Iterable[Scope]:
    by_variable: dict[int, list[Scope]] = {}
    for s in added:
        for v in s:
            by_variable.setdefault(v, []).append(s)
    for s in added:
        for other in {o for v in s for o in by_variable[v]}:
            if other > s and len(set(s) & set(other)) > 1:
                yield tuple(sorted({*s, *other}))


def mismatch(
    terms: Terms, regions: Regions, mass: Floats, scopes: Sequence[Scope], deadline: float = math.inf
) -> Floats:
    """How far what is believed of the regions inside each set of variables is from what some joint distribution has:
    what is left of it after iterative proportional fitting; 0 of those that there is no time for."""
    dense = np.zeros(int(regions.dense_at[-1]))
    dense[regions.dense_at[regions.cell_region] + regions.cell] = mass
    by_variable: dict[int, list[int]] = {}
    for i, s in enumerate(regions.scopes):
        for v in s:
            if len(s) > 1:
                by_variable.setdefault(v, []).append(i)
    found = np.zeros(len(scopes))
    for k, scope in enumerate(scopes):
        if clock() > deadline:
            break
        shape, place = tuple(terms.sizes[v] for v in scope), {v: i for i, v in enumerate(scope)}
        parts = []
        for i in sorted({i for v in scope for i in by_variable[v]}):
            s = regions.scopes[i]
            if all(v in place for v in s):
                wanted = dense[regions.dense_at[i] : regions.dense_at[i + 1]]
                parts.append((projected_cells(shape, tuple(place[v] for v in s)), wanted))
        joint, off = np.full(math.prod(shape), 1.0 / math.prod(shape)), 0.0
        for _ in range(FITS):
            off = 0.0
            for at, wanted in parts:
                now = np.bincount(at, joint, len(wanted))
                off += float(np.abs(now - wanted).sum())
                joint *= (wanted / np.maximum(now, 1e-300))[at]
            if off < 1e-3:
                break
        found[k] = off
    return found


def helpful(
    terms: Terms, regions: Regions, mass: Floats, added: Sequence[Scope], most: int, deadline: float = math.inf
) -> list[Scope]:
    """Up to so many cells of sets of variables that are furthest from agreeing, none that is close to it."""
    asked = [s for s in candidates(regions, added) if math.prod(terms.sizes[v] for v in s) <= MOST_CELLS]
    off = mismatch(terms, regions, mass, asked, deadline)
    chosen: list[Scope] = []
    for k in np.argsort(-off, kind="stable"):
        most -= math.prod(terms.sizes[v] for v in asked[k])
        if most < 0 or off[k] <= CLOSE:
            break
        chosen.append(asked[k])
    return chosen
