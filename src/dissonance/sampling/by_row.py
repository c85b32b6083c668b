"""Points row by row: where every arc is about the row of data at hand, mu given the row is a problem of its own.

    inconsistency = constant + sum_r w_r v_r,      v_r = the inconsistency of what the arcs say of row r

Let T be the settings of a row's free variables that hard functions among them allow. Where each soft belief is about
targets that tell all of T apart, a row is a logarithmic opinion pool,

    v_r = -W log sum_t prod_a p_a(t|r)^(beta_a/W),      W = sum_a beta_a + gamma (1 - sum_a alpha_a) > 0

and all rows are one tensor. Others are solved one by one, as a batch of parts that differ in their numbers only
(`at_points.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Arc, Theta
from dissonance.attended import Attended
from dissonance.problem import Batch
from dissonance.sampling.plan import UNASKED
from dissonance.tolerances import HEAVY
from dissonance.variables import Variable, cells, shape

LARGEST = 2**24
"""Cells of the largest joint table that is listed as samples."""


@dataclass(frozen=True)
class RowsOfHardArcs:
    """The rows that hard arcs make: the values of their variables, (rows or 1, ...), and how much each row counts.

    `telling`: the variables whose value tells the row, since points count as different even where they coincide.
    """

    values: dict[str, Tensor]
    weights: Tensor
    telling: frozenset[str]

    @classmethod
    def made(cls, makers: Sequence[Attended], theta: Theta | None) -> RowsOfHardArcs | None:
        """Those of hard arcs, sources first; None if there is no one list of rows behind all of them."""
        values: dict[str, Tensor] = {}
        telling: set[str] = set()
        weights: Tensor | None = None
        for a in makers:
            if not values.keys() >= set(a.sources):
                return None
            sources = with_equal_rows([values[n] for n in a.sources])
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
        """The entropy H of the distribution over the rows."""
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
            return table[tuple(with_equal_rows([self.values[v.name] for v in known]))] if known else table[None]
        at = dict(zip((v.name for v in known), with_equal_rows([self.values[v.name] for v in known]), strict=True))
        rows = len(next(iter(at.values()))) if at else 1
        if list(arc.targets) == free and arc.cpd.can("draw"):  # all values of finite targets, from one look at a row
            drawn = arc.call("draw", theta, [at[v.name] for v in arc.sources], 1, UNASKED)
            index = _number(drawn.values, shape(free))
            scores = numerics.log(drawn.weights) if drawn.score is None else drawn.score()
            everywhere = torch.full((rows, cells(free)), -math.inf, dtype=scores.dtype)
            found = everywhere.scatter(1, index.expand_as(scores), scores)
        else:
            at = {n: x.repeat_interleave(cells(free), 0) for n, x in at.items()}
            at |= {v.name: x.repeat(rows) for v, x in zip(free, settings(shape(free)), strict=True)}
            sources, targets = ([at[v.name] for v in side] for side in (arc.sources, arc.targets))
            found = arc.call("log_prob", theta, targets, sources)
        return found.to(numerics.DTYPE).reshape(-1, *shape(free))


def with_equal_rows(values: Sequence[Tensor]) -> list[Tensor]:
    """Values with as many rows each: one that is the same in all rows is repeated."""
    rows = max((len(x) for x in values), default=1)
    return [x if len(x) == rows else x.expand(rows, *x.shape[1:]) for x in values]


@dataclass(frozen=True)
class RowTables:
    """Rows, the variables that they leave free, and log p of the arcs in each row, (rows or 1, free sizes...).

    Without a list of rows behind all arcs there is one row, without values: Euclidean variables are free, and have
    finitely many values there, their `points`.
    """

    rows: RowsOfHardArcs
    free: tuple[Variable, ...]
    log_p: dict[str, Tensor]
    points: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, part: Batch, makers: Sequence[Attended], theta: Theta | None) -> RowTables | None:
        """Those of the rows that hard arcs make; None if the part does not come apart into rows."""
        rows = RowsOfHardArcs.made(makers, theta)
        others = [a for a in part.arcs if a not in makers]
        if rows is None or not all(rows.split(a) for a in others):
            return None
        free = tuple(v for v in part.variables if v.name not in rows.values)
        return cls(rows, free, {a.name: rows.log_p(a.arc, theta) for a in others})

    def about_free(self, part: Batch) -> list[Attended]:
        """The arcs about variables that the rows leave open."""
        return [a for a in part.arcs if not self.rows.values.keys() >= set(a.scope)]

    def constant(self, part: Batch) -> Tensor:
        """What arcs cost that are about the variables of the rows alone, and the entropy of the rows."""
        total = -part.gamma.item() * self.rows.entropy
        for a in part.arcs:
            if not a.hard and self.rows.values.keys() >= set(a.scope):
                total = total + numerics.scale(a.beta, self.divergence(a))
            if not a.sources and self.rows.tell(a.targets):
                total = total + part.gamma.item() * a.alpha * self.rows.entropy
        return total

    def divergence(self, a: Attended) -> Tensor:
        """KL of an arc about the variables of the rows alone."""
        surprise = numerics.expectation(self.rows.weights, -self.log_p[a.name].expand(len(self.rows)))
        return surprise if a.sources else surprise - self.rows.entropy

    def size(self, part: Batch) -> float:
        """How large the finite logarithms are that rows add up."""
        soft = [(a.beta, self.log_p[a.name].detach()) for a in part.arcs if not a.hard]
        return sum(beta * float(x.nan_to_num(0.0, 0.0, 0.0).abs().max()) for beta, x in soft)


@dataclass(frozen=True)
class RowPool:
    """Rows that are opinion pools: W, the soft arcs, and their targets at the settings T, numbered as in their tables.

    `place`: T among all settings of the free variables, of the sizes `sizes`.
    """

    weight: float
    arcs: tuple[Attended, ...]
    targets: tuple[Tensor, ...]
    place: Tensor
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, part: Batch, at: RowTables) -> RowPool | None:
        """The pools that the arcs make of rows; None if they do not."""
        free = at.free
        if cells(free) > LARGEST:
            return None
        arcs = at.about_free(part)
        soft, hard = ([a for a in arcs if a.hard == fixed] for fixed in (False, True))
        beta, alpha = (sum(x) for x in ([a.beta for a in soft], [a.alpha for a in soft]))
        total = beta + part.gamma.item() * (1 - alpha) if free else 1.0
        names = {v.name for v in free}
        if not (
            all(0 <= a.beta <= HEAVY and names.isdisjoint(a.sources) for a in soft)
            and all(a.deterministic and a.log_p.size and names.issuperset(a.scope) for a in hard)
            and total > (beta + part.gamma.item() * (1 + abs(alpha))) / HEAVY
        ):
            return None
        value = dict(zip((v.name for v in free), settings(shape(free)), strict=True))
        kept = torch.ones(cells(free), dtype=torch.bool)
        for a in hard:
            kept &= torch.from_numpy(a.log_p)[tuple(value[n] for n in a.scope)] == 0
        targets = [_number([value[v.name][kept] for v in a.arc.targets], shape(a.arc.targets)) for a in soft]
        if not kept.any() or any(len(x.unique()) < len(x) for x in targets):
            return None
        return cls(total, tuple(soft), tuple(targets), kept.nonzero()[:, 0], shape(free))

    def scores(self, at: RowTables) -> Tensor:
        """sum_a beta_a/W log p_a, (rows, T)."""
        total = torch.zeros((len(at.rows), len(self.place)), dtype=numerics.DTYPE)
        for a, index in zip(self.arcs, self.targets, strict=True):
            log_p = at.log_p[a.name]
            total = total + numerics.scale(a.beta / self.weight, log_p.reshape(len(log_p), -1)[:, index])
        return total

    def divergences(self, at: RowTables) -> dict[str, float]:
        """KL of every soft arc, on average over the rows."""
        mu = at.rows.weights[:, None] * torch.softmax(self.scores(at), 1)
        found: dict[str, float] = {}
        for a, index in zip(self.arcs, self.targets, strict=True):
            log_p = at.log_p[a.name]
            each = numerics.divergence(mu[:, None], log_p.reshape(len(log_p), 1, -1)[..., index])
            found[a.name] = float(each.sum())
        return found

    def values(self, at: RowTables) -> Tensor:
        """The value v of every row."""
        return -self.weight * torch.logsumexp(self.scores(at), 1)

    def mu(self, at: RowTables) -> Tensor:
        """mu of the free variables in every row, (rows, sizes...)."""
        found = torch.zeros((len(at.rows), math.prod(self.sizes)), dtype=numerics.DTYPE)
        found[:, self.place] = torch.softmax(self.scores(at), 1)
        return found.reshape(-1, *self.sizes)


def settings(sizes: Sequence[int]) -> Sequence[Tensor]:
    """Every joint setting of variables of these sizes, a tensor of values a variable, the last variable fastest."""
    return torch.ones(tuple(sizes), dtype=torch.bool).nonzero(as_tuple=True) if sizes else ()


def _number(index: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    """Joint settings of variables as numbers, the last variable fastest."""
    found = torch.zeros_like(index[0])
    for i, size in zip(index, sizes, strict=True):
        found = found * size + i
    return found
