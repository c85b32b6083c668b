"""The arcs of a component as terms over few variables: without those that deterministic arcs define.

A variable that a deterministic arc makes of others is no variable of its own: wherever it is mentioned, the variables
it is made of are. So an event of forecasts is a set of cells of the variables it is about, and no two states differ in
it alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from dissonance.attended import Attended
from dissonance.costs import LOG_SCORE, Cost, Floats, Ints
from dissonance.problem import Batch

Scope = tuple[int, ...]

WIDE = 4096
"""Cells of a scope up to which a defined variable is put in terms of others; above, it stays a variable."""

SOFT, HARD, RULE, LINEAR = 0, 1, 2, 3


@dataclass(frozen=True)
class SmallTerm:
    """Arcs of one mechanism: which entry (s, t) of their table every cell of the scope is, -1 where none is possible.

    `log_p` (entries,) is the mean of their logarithms, weighted by beta; `beta` the sum; a RULE has neither: all it
    does is to make cells impossible. Of a LINEAR one `log_p` is what the entries cost, and beta is 0. `arcs`: their
    places among those of the component.
    """

    scope: Scope
    entry: Ints
    kind: int
    width: int
    log_p: Floats
    beta: float
    arcs: tuple[int, ...]


@dataclass(frozen=True)
class Terms:
    """Terms over variables (numbers); the value of each variable that is made of others, at the cells of a scope.

    `cost`: of the soft terms.
    """

    sizes: tuple[int, ...]
    terms: list[SmallTerm]
    made: dict[int, tuple[Scope, Ints]]
    cost: Cost = LOG_SCORE

    @property
    def soft(self) -> list[SmallTerm]:
        """The terms that mu pays for."""
        return [t for t in self.terms if t.kind == SOFT]

    @property
    def base(self) -> list[int]:
        """The variables that are not made of others."""
        return [v for v in range(len(self.sizes)) if v not in self.made]


@cache
def grid(shape: tuple[int, ...]) -> Ints:
    """The cells of a table, (axes, cells), the last axis changing fastest."""
    return np.indices(shape, dtype=np.int64).reshape(len(shape), math.prod(shape))


def places(shape: tuple[int, ...], at: Sequence[Ints]) -> Ints | int:
    """Where cells lie in a table of this shape."""
    found: Ints | int = 0
    for size, x in zip(shape, at, strict=True):
        found = found * size + x
    return found


@cache
def projected_cells(shape: tuple[int, ...], axes: tuple[int, ...]) -> Ints:
    """The cell of the table over some axes, in this order, that each cell belongs to."""
    cells = grid(shape)
    found = places(tuple(shape[i] for i in axes), [cells[i] for i in axes])
    return np.broadcast_to(np.asarray(found, dtype=np.int64), (math.prod(shape),))


class Making:
    """Variables in terms of those they are made of."""

    def __init__(self, sizes: tuple[int, ...], rules: dict[int, tuple[Scope, Ints]]) -> None:
        self.sizes, self.rules = sizes, rules
        self.made: dict[int, tuple[Scope, Ints]] = {}
        for v in rules:
            self._make(v)

    def _make(self, v: int) -> None:
        """Sources first, without recursion: chains of definitions may be long."""
        waiting = [v]
        while waiting:
            u = waiting[-1]
            if u in self.made or u not in self.rules:
                waiting.pop()
                continue
            sources, values = self.rules[u]
            before = [s for s in sources if s in self.rules and s not in self.made]
            if before:
                waiting += before
                continue
            scope = self.scope(sources)
            if math.prod(self.sizes[s] for s in scope) > WIDE:
                del self.rules[u]
            else:
                self.made[u] = scope, values[self.at(sources, scope)]
            waiting.pop()

    def scope(self, variables: Scope) -> Scope:
        """What some variables are made of."""
        return tuple(sorted({b for v in variables for b in (self.made[v][0] if v in self.made else (v,))}))

    def at(self, variables: Scope, scope: Scope) -> Ints:
        """The cell of the table over `variables` that each cell of the scope they are made of is."""
        shape = tuple(self.sizes[v] for v in scope)
        if variables and not any(v in self.made for v in variables) and len(set(variables)) == len(variables):
            return projected_cells(shape, tuple(scope.index(v) for v in variables))
        values = []
        for v in variables:
            own, value = self.made[v] if v in self.made else ((v,), np.arange(self.sizes[v]))
            values.append(value[projected_cells(shape, tuple(scope.index(b) for b in own))])
        flat = places(tuple(self.sizes[v] for v in variables), values)
        return np.broadcast_to(np.asarray(flat, dtype=np.int64), (math.prod(shape),))


def made_variables(component: Batch, cost: Cost = LOG_SCORE) -> tuple[Making, set[int]]:
    """Return the variables that deterministic arcs make of others, and these arcs."""
    number = {name: i for i, name in enumerate(component.sizes)}
    sizes = tuple(component.sizes.values())
    scopes = [tuple(number[v] for v in a.scope) for a in component.arcs]
    forbidding = [k for k, a in enumerate(component.arcs) if a.hard or (cost.forbids and a.beta > 0)]
    defining = _definitions(component.arcs, scopes, forbidding)
    rules = {
        scopes[k][-1]: (scopes[k][:-1], np.exp(a.log_p).reshape(-1, sizes[scopes[k][-1]]).argmax(1))
        for k in defining
        for a in (component.arcs[k],)
    }
    making = Making(sizes, rules)
    return making, {k for k in defining if scopes[k][-1] in making.made}


def terms_of(component: Batch, cost: Cost = LOG_SCORE) -> Terms:
    """Return the terms of a component at gamma = 0 whose beta are not negative; `cost`: of its soft arcs."""
    number = {name: i for i, name in enumerate(component.sizes)}
    sizes = tuple(component.sizes.values())
    scopes = [tuple(number[v] for v in a.scope) for a in component.arcs]
    making, gone = made_variables(component, cost)
    pooled: dict[tuple[Scope, int, int], list[int]] = {}
    for k, a in enumerate(component.arcs):
        if k not in gone and a.beta > 0:
            pooled.setdefault((scopes[k], len(a.sources), k if a.hard or cost.square else -1), []).append(k)
    found = [
        _term(making, scope, count, tuple(some), [component.arcs[k] for k in some], cost)
        for (scope, count, _), some in pooled.items()
    ]
    return Terms(sizes, found, making.made, cost)


def _term(
    making: Making, variables: Scope, sources: int, which: tuple[int, ...], arcs: Sequence[Attended], cost: Cost
) -> SmallTerm:
    scope = making.scope(variables)
    entry = making.at(variables, scope)
    width = math.prod(making.sizes[v] for v in variables[sources:])
    beta, log_p = arcs[0].beta, arcs[0].log_p.ravel()
    if len(arcs) > 1:
        beta = math.fsum(a.beta for a in arcs)
        log_p = np.sum([a.beta / beta * a.log_p.ravel() for a in arcs], axis=0)
    possible = log_p > -math.inf
    if possible.all() or not (cost.forbids or beta == math.inf):
        return SmallTerm(scope, entry, HARD if beta == math.inf else SOFT, width, log_p, beta, which)
    kind = RULE if not log_p[possible].any() else HARD if beta == math.inf else SOFT
    return SmallTerm(scope, np.where(possible[entry], entry, -1), kind, width, log_p, beta, which)


def _definitions(arcs: Sequence[Attended], scopes: Sequence[Scope], some: Sequence[int]) -> list[int]:
    """Return deterministic arcs among some, to one target each, no two to the same one, that do not go in circles."""
    found: dict[int, int] = {}
    for k in some:
        a, target = arcs[k], scopes[k][-1]
        may = len(a.targets) == 1 and target not in found and _one_hot(a)
        if may and not _reaches(scopes[k][:-1], target, found, scopes):
            found[target] = k
    return list(found.values())


def _one_hot(a: Attended) -> bool:
    return (bool(np.isneginf(a.log_p).any()) and a.deterministic) or a.log_p.shape[-1:] == (1,)


def _reaches(start: Scope, target: int, found: dict[int, int], scopes: Sequence[Scope]) -> bool:
    waiting, seen = list(start), set(start)
    while waiting:
        v = waiting.pop()
        if v == target:
            return True
        if v in found:
            new = set(scopes[found[v]][:-1]) - seen
            seen |= new
            waiting += new
    return False
