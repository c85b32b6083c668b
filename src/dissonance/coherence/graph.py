"""Beliefs about events as a PDG: arcs that define indicators, and arcs that hold the beliefs.

An event over one yes/no variable needs nothing. Any other gets an indicator, a variable named by its expression that a
deterministic arc defines; a wide one is broken at its operator, its parts counted one after another, so that clusters
stay small. P(E | G) = p is an arc from the indicator of G to the variable "E and G, G without E, or not G", with rows
(p, 1-p, 0) where G holds and (0, 0, 1) where not: that row costs nothing, so that the belief is silent there. A range
[l, u] is an arc with a free source of two values more, which says l or u: mu may mix the two as it likes, so that
anything between them is free, and by convexity of the divergence nothing cheaper than the nearer end is found beyond.

A deterministic arc costs nothing where it holds, and rules out the rest whatever its beta > 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dissonance.arc import Arc
from dissonance.coherence.beliefs import Belief, BeliefError, GivenBeliefs, as_beliefs
from dissonance.coherence.events import NO, NONE, YES, Count, Event, Is, conjunction, leaves, negation, text_of, truth
from dissonance.errors import suggest
from dissonance.focus import Attention
from dissonance.pdg import PDG
from dissonance.variables import Variable, cells, shape

Ints = npt.NDArray[np.int64]
OTHER = "other"

SMALL = 16
"""Worlds of the variables of an event up to which one arc defines it."""


@dataclass(frozen=True)
class Literal:
    """A variable has one of the values at some places."""

    variable: Variable
    places: frozenset[int]


@dataclass(frozen=True)
class HeldBelief:
    """The arc of a belief, and where its table says that the event holds, and that it does not: a row for each end of
    a range. What else the table has is 1 where the belief is silent, 0 at others."""

    arc: Arc
    yes: tuple[int, ...]
    no: tuple[int, ...]


class PossibleWorlds(NamedTuple):
    """The worlds that facts allow; whether each belief (B, worlds) comes true there, and whether it is asked for."""

    values: list[tuple[str, ...]]
    true: npt.NDArray[np.bool_]
    asked: npt.NDArray[np.bool_]


class Graph:
    """What beliefs are made of: variables, arcs that define (`facts` among them), and the arc of every other belief."""

    def __init__(self, beliefs: Sequence[Belief], variables: Iterable[Variable] = ()) -> None:
        self.beliefs = tuple(beliefs)
        self.named = domains(beliefs, variables)
        self._order = {name: i for i, name in enumerate(self.named)}
        self._made: dict[object, Variable] = {}
        self._names = set(self.named)
        self._arcs: set[str] = set()
        self.facts: list[Arc] = []
        self.held: list[HeldBelief] = []
        for b in beliefs:
            if b.is_fact:
                self._assert(b)
        for b in beliefs:
            if not b.is_fact:
                self.held.append(self._hold(b))

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """All of them, those that were made after those that were named."""
        return tuple((self.named | {v.name: v for a in self._every for v in a.scope}).values())

    @property
    def _every(self) -> list[Arc]:
        return [*self.facts, *(h.arc for h in self.held)]

    @cached_property
    def pdg(self) -> PDG:
        """All the arcs; with beta = 1 all beliefs are believed alike."""
        return PDG(*self._every, variables=self.named.values())

    @cached_property
    def attention(self) -> Attention:
        """The confidence in each belief; arcs that define are hard."""
        beta = {a.name: math.inf for a in self.facts}
        said = (b for b in self.beliefs if not b.is_fact)
        beta |= {h.arc.name: b.beta for h, b in zip(self.held, said, strict=True)}
        return Attention.only(beta)

    @cached_property
    def possible_worlds(self) -> PossibleWorlds:
        """All of them: few variables only."""
        scope, said = tuple(self.named.values()), [b for b in self.beliefs if not b.is_fact]
        here, count = worlds(scope), cells(scope)
        facts = [truth(b.fact, here)[0] for b in self.beliefs if b.is_fact]
        fine = np.flatnonzero(np.logical_and.reduce([np.ones(count, dtype=np.bool_), *facts]))
        true, asked = np.ones((2, len(said), len(fine)), dtype=np.bool_)
        for k, b in enumerate(said):
            true[k] = np.broadcast_to(truth(b.target, here)[0], count)[fine]
            if b.source is not None:
                asked[k] = np.broadcast_to(truth(b.source, here)[0], count)[fine]
        values = [here[v.name][fine].tolist() for v in scope]
        return PossibleWorlds(list(zip(*values, strict=True)), true, asked)

    # -- events ----------------------------------------------------------------------------------------------------

    def literal(self, event: Event) -> Literal:
        """The event as values of one variable, which is made if there is none."""
        scope = self._scope(event)
        if len(scope) > 1 and cells(scope) > SMALL:
            assert isinstance(event, Count)
            if len(event.parts) > 1:
                return self._counted(event)
            part = self.literal(*event.parts)
            others = frozenset(range(part.variable.size)) - part.places
            return Literal(part.variable, part.places if 1 in event.allowed else others)
        holds = np.broadcast_to(truth(event, worlds(scope))[0], cells(scope))
        if len(scope) == 1:
            return Literal(scope[0], frozenset(np.flatnonzero(holds).tolist()))
        turned = bool(holds[0])  # an event and its negation share an indicator
        name = text_of(negation(event) if turned else event)
        made = self._function(name, scope, (NO, YES), (holds != turned).astype(np.int64))
        return Literal(made, frozenset({0 if turned else 1}))

    def _scope(self, event: Event) -> tuple[Variable, ...]:
        found = sorted({leaf.variable for leaf in leaves(event)}, key=self._order.__getitem__)
        return tuple(self.named[name] for name in found)

    def _function(self, name: str, scope: tuple[Variable, ...], values: tuple[str, ...], at: Ints) -> Variable:
        """The variable that has, in every world of a scope, the value at a place; it is made once."""
        key = tuple(v.name for v in scope), values, at.tobytes()
        if key not in self._made:
            made = self._made[key] = self._new(name, values)
            self.facts.append(Arc(self._arc(name), scope, made, np.eye(len(values))[at].reshape(*shape(scope), -1)))
        return self._made[key]

    def _new(self, name: str, values: Sequence[str]) -> Variable:
        while name in self._names:
            name += "'"
        self._names.add(name)
        return Variable(name, values)

    def _arc(self, name: str) -> str:
        made, n = name, 1
        while made in self._arcs:
            n += 1
            made = f"{name} ({n})"
        self._arcs.add(made)
        return made

    def _counted(self, event: Count) -> Literal:
        """A wide event: its parts are counted one after another, as far as it matters how many there were."""
        parts = [self.literal(p) for p in event.parts]
        left, states = len(parts), [event.allowed]  # how many more parts must hold
        before, whole = None, text_of(event)
        for k, part in enumerate(parts):
            left -= 1
            after: list[frozenset[int]] = []
            at: list[int] = []
            for state, hit in product(states, (False, True)):
                rest = frozenset(n - hit for n in state if 0 <= n - hit <= left)
                if rest not in after:
                    after.append(rest)
                at.append(after.index(rest))
            so_far = f"{whole} [{k + 1}]" if left else whole
            hits = np.isin(np.arange(part.variable.size), list(part.places)).astype(np.int64)
            moves = np.array(at).reshape(len(states), 2)[:, hits]  # (states, values)
            scope = (part.variable,) if before is None else (before, part.variable)
            before, states = self._function(so_far, scope, tuple(map(str, range(len(after)))), moves.ravel()), after
        assert before is not None
        return Literal(before, frozenset(i for i, s in enumerate(states) if s == NONE))

    def _indicator(self, literal: Literal, name: str) -> Literal:
        """The same with a variable of two values."""
        v, places = literal.variable, literal.places
        if v.size == 2 and len(places) == 1:
            return literal
        at = np.isin(np.arange(v.size), list(places)).astype(np.int64)
        return Literal(self._function(name, (v,), (NO, YES), at), frozenset({1}))

    # -- beliefs ---------------------------------------------------------------------------------------------------

    def _assert(self, belief: Belief) -> None:
        event = belief.fact
        literal = self._indicator(self.literal(event), text_of(event))
        only = np.eye(literal.variable.size)[min(literal.places)]
        self.facts.append(Arc(self._arc(belief.label), (), literal.variable, only))

    def _hold(self, belief: Belief) -> HeldBelief:
        """The arc of a belief."""
        free = (self._new(f"which end: {belief.label}", ("low", "high")),) if isinstance(belief.p, tuple) else ()
        ends = max(1, 2 * len(free))
        if belief.source is None:
            literal = self._indicator(self.literal(belief.target), text_of(belief.target))
            sources, target, (yes,) = free, literal.variable, literal.places
            places = (yes,), (1 - yes,), ()
        else:
            given = self._indicator(self.literal(belief.source), text_of(belief.source))
            target = self._called_off(belief.target, belief.source)
            sources, (on,) = (given.variable, *free), given.places
            row = 3 * ends
            silent = tuple((1 - on) * row + 3 * i + 2 for i in range(ends))
            places = (on * row,), (on * row + 1,), silent
        width = target.size
        yes, no = (tuple(x + width * i for i in range(ends)) for (x,) in places[:2])
        table = np.zeros(cells((*sources, target)))
        table[list(places[2])] = 1.0
        table[list(yes)], table[list(no)] = (belief.low, belief.high)[-ends:], (1 - belief.low, 1 - belief.high)[-ends:]
        arc = Arc(self._arc(belief.label), sources, target, table.reshape(*shape(sources), width))
        return HeldBelief(arc, yes, no)

    def _called_off(self, event: Event, given: Event) -> Variable:
        """The variable that says: the event, given that; not the event, given that; or not given."""
        name, values = f"{text_of(event)} | {text_of(given)}", (YES, NO, "called off")
        both = conjunction(event, given)
        scope = self._scope(both)
        if cells(scope) <= SMALL:
            here = worlds(scope)
            inside, holds = (np.broadcast_to(truth(e, here)[0], cells(scope)) for e in (given, event))
        else:
            parts = [self.literal(e) for e in (event, given)]
            scope = tuple(dict.fromkeys(x.variable for x in parts))
            where = dict(zip(scope, np.indices(shape(scope)).reshape(len(scope), -1), strict=True))
            holds, inside = (np.isin(where[x.variable], list(x.places)) for x in parts)
        return self._function(name, scope, values, np.where(inside, np.where(holds, 0, 1), 2))


def worlds(scope: Sequence[Variable]) -> dict[str, npt.NDArray[np.object_]]:
    """All worlds of some variables: the value of each in each, the last changing fastest."""
    at = np.indices(shape(scope)).reshape(len(scope), -1)
    return {v.name: np.array(v.finite.labels, dtype=object)[i] for v, i in zip(scope, at, strict=True)}


def domains(beliefs: Iterable[Belief], variables: Iterable[Variable] = ()) -> dict[str, Variable]:
    """The variables of beliefs: those given; no and yes where names stand alone; else the values that a fact lists, or
    that are mentioned, and `other`."""
    known = {v.name: v for v in variables}
    mentioned: dict[str, dict[str, bool]] = {}  # values, and whether they stand for a name alone
    listed: dict[str, tuple[str, ...]] = {}
    beliefs = list(beliefs)
    for b in beliefs:
        if b.is_fact and not b.given and isinstance(b.target, Is) and not b.target.plain:
            listed.setdefault(b.target.variable, b.target.values)
        for leaf in _leaves(b):
            there = mentioned.setdefault(leaf.variable, {})
            there.update({x: leaf.plain or there.get(x, False) for x in leaf.values})
    found = {name: known.get(name) or Variable(name, _values(x, listed.get(name))) for name, x in mentioned.items()}
    found = {name: Variable(name, [str(x) for x in v.finite.labels]) for name, v in found.items()}
    for i, b in enumerate(beliefs):
        for leaf in _leaves(b):
            labels = [str(x) for x in found[leaf.variable].finite.labels]
            for value in leaf.values:
                if value not in labels:
                    name = leaf.variable
                    what = f"{name!r} is no yes/no variable: say {name}=" if leaf.plain else f"no value {name}={value}"
                    raise BeliefError(i, f"{what}.{suggest(value, labels)}")
    return found


def _leaves(belief: Belief) -> list[Is]:
    return [x for e in (belief.target, belief.source) if e is not None for x in leaves(e)]


def _values(mentioned: dict[str, bool], listed: tuple[str, ...] | None) -> Sequence[str]:
    if any(mentioned.values()) or not mentioned.keys() - {NO, YES}:
        return NO, YES
    if listed is not None and len(listed) > 1:
        return listed
    return list(dict.fromkeys([*mentioned, OTHER]))


def graph(beliefs: GivenBeliefs, variables: Iterable[Variable] = ()) -> Graph:
    """The graph of beliefs."""
    return Graph(as_beliefs(beliefs), variables)
