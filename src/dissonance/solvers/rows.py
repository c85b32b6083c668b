"""The rows of data that hard arcs make, and what the other arcs say of each: tables with an axis of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.attended import Attended
from dissonance.cpds import CPD
from dissonance.pdg import Arc, Theta
from dissonance.problem import Component
from dissonance.solvers.plan import UNASKED
from dissonance.variables import cells, shape

LARGEST = 2**24
"""Cells of the largest joint table that is listed as samples."""


class TableAtPoints(CPD):
    """A table of log p at points."""

    def __init__(self, log_p: Tensor) -> None:
        super().__init__()
        self.register_buffer("log_p", log_p)

    def log_table(self) -> Tensor:
        """The logarithms."""
        return self.get_buffer("log_p")


@dataclass(frozen=True)
class Rows:
    """The rows that hard arcs make: the values of their variables, (rows or 1, ...), and how much each row counts.

    `telling`: the variables whose value tells the row, since points count as different even where they coincide.
    """

    values: dict[str, Tensor]
    weights: Tensor
    telling: frozenset[str]

    @classmethod
    def made(cls, makers: Sequence[Attended], theta: Theta | None) -> Rows | None:
        """Those of hard arcs, sources first; None if there is no one list of rows behind all of them."""
        values: dict[str, Tensor] = {}
        telling: set[str] = set()
        weights: Tensor | None = None
        for a in makers:
            if not values.keys() >= set(a.sources):
                return None
            sources = alike([values[n] for n in a.sources])
            drawn = a.arc.call("draw", theta, sources, 1, UNASKED)
            rows, k = len(sources[0]) if sources else 1, drawn.weights.shape[1]
            if k > 1 and (rows > 1 or weights is not None):
                return None
            for v, x in zip(a.arc.targets, drawn.values, strict=True):
                values[v.name] = x.expand(rows, *x.shape[1:]).reshape(rows * k, *x.shape[2:])
                if not v.is_finite and (k > 1 or not telling.isdisjoint(a.sources)):
                    telling.add(v.name)
            weights = drawn.weights.reshape(-1).to(numerics.DTYPE) if k > 1 else weights
        return cls(values, torch.ones(1, dtype=numerics.DTYPE) if weights is None else weights, frozenset(telling))

    def __len__(self) -> int:
        return len(self.weights)

    def tell(self, names: Sequence[str]) -> bool:
        """Whether the values of these variables say which row it is."""
        return len(self) == 1 or not self.telling.isdisjoint(names)

    @cached_property
    def entropy(self) -> Tensor:
        """H of the rows."""
        return numerics.entropy(self.weights)

    def split(self, a: Attended) -> bool:
        """Whether what an arc costs is a sum over the rows, each about its own part of mu."""
        known = self.values.keys()
        if known >= set(a.scope):
            return not a.hard and (self.tell(a.sources) or (not a.sources and self.tell(a.targets)))
        function = a.hard and a.deterministic  # which holds if it does in every row
        return (function or self.tell(a.sources)) and known.isdisjoint(a.targets)

    def log_p(self, arc: Arc, theta: Theta | None) -> Tensor:
        """log p of an arc in every row over its free variables: (rows or 1, source sizes..., target sizes...)."""
        free = [v for v in arc.scope if v.name not in self.values]
        known = [v for v in arc.scope if v.name in self.values]
        if arc.cpd.can("log_table") and all(v.is_finite for v in arc.scope):
            table = arc.log_table(theta).permute([arc.scope.index(v) for v in (*known, *free)])
            return table[tuple(alike([self.values[v.name] for v in known]))] if known else table[None]
        at = dict(zip((v.name for v in known), alike([self.values[v.name] for v in known]), strict=True))
        rows = len(next(iter(at.values()))) if at else 1
        if list(arc.targets) == free and arc.cpd.can("draw"):  # all values of finite targets, from one look at a row
            drawn = arc.call("draw", theta, [at[v.name] for v in arc.sources], 1, UNASKED)
            index = torch.zeros_like(drawn.values[0])
            for v, x in zip(free, drawn.values, strict=True):
                index = index * v.size + x
            scores = numerics.log(drawn.weights) if drawn.score is None else drawn.score()
            everywhere = torch.full((rows, cells(free)), -math.inf, dtype=scores.dtype)
            found = everywhere.scatter(1, index.expand_as(scores), scores)
        else:
            one, each = torch.arange(1), (torch.arange(v.size) for v in free)
            settings = torch.cartesian_prod(one, *each).reshape(cells(free), -1)[:, 1:]
            at = {n: x.repeat_interleave(len(settings), 0) for n, x in at.items()}
            at |= {v.name: x.repeat(rows) for v, x in zip(free, settings.T, strict=True)}
            sources, targets = ([at[v.name] for v in side] for side in (arc.sources, arc.targets))
            found = arc.call("log_prob", theta, targets, sources)
        return found.to(numerics.DTYPE).reshape(-1, *shape(free))


def alike(values: Sequence[Tensor]) -> list[Tensor]:
    """Values with as many rows each: one that is the same in all rows is repeated."""
    rows = max((len(x) for x in values), default=1)
    return [x if len(x) == rows else x.expand(rows, *x.shape[1:]) for x in values]


@dataclass(frozen=True)
class RowTables:
    """The rows, and log p of every arc but the makers in each."""

    rows: Rows
    log_p: dict[str, Tensor]

    @classmethod
    def of(cls, component: Component, makers: Sequence[Attended], theta: Theta | None) -> RowTables | None:
        """At theta; None if the component does not come apart into rows."""
        rows = Rows.made(makers, theta)
        others = [a for a in component.arcs if a not in makers]
        if rows is None or not all(rows.split(a) for a in others):
            return None
        return cls(rows, {a.name: rows.log_p(a.arc, theta) for a in others})

    def constant(self, component: Component) -> Tensor:
        """What arcs cost that are about the variables of the rows alone, and the entropy of the rows."""
        total = -component.gamma * self.rows.entropy
        for a in component.arcs:
            if not a.hard and self.rows.values.keys() >= set(a.scope):
                total = total + numerics.scale(a.beta, self.divergence(a))
            if not a.sources and self.rows.tell(a.targets):
                total = total + component.gamma * a.alpha * self.rows.entropy
        return total

    def divergence(self, a: Attended) -> Tensor:
        """KL of an arc about the variables of the rows alone."""
        surprise = numerics.expectation(self.rows.weights, -self.log_p[a.name].expand(len(self.rows)))
        return surprise if a.sources else surprise - self.rows.entropy
