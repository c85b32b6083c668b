"""Components whose Euclidean variables are points: hard arcs give each finitely many values, and tables at these values
are all there is to solve.

A Euclidean variable becomes a finite one whose values are its points; an arc becomes the table of log p there (of
densities, where it is one: their mean score counts, and the entropy of points is left out). Points count as different
values even where they coincide. Where all is about the row of data at hand, each row is a problem of its own
(`by_row.py`); otherwise all of it is one problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.answer import Answer, Ints, Solver, added_up
from dissonance.arc import Arc, Theta
from dissonance.attended import Attended
from dissonance.cpds import CPD
from dissonance.distributions.samples import Samples
from dissonance.errors import CapabilityError, SizeError
from dissonance.problem import EPS, Batch, connected
from dissonance.proof import ProvedBounds
from dissonance.sampling.by_row import LARGEST, RowPool, RowsOfHardArcs, RowTables, settings
from dissonance.sampling.solver import SampledAnswer
from dissonance.solvers.exact import Newton
from dissonance.variables import Variable, cells


class TableAtPoints(CPD):
    """A table of log p at points."""

    def __init__(self, log_p: Tensor) -> None:
        super().__init__()
        self.register_buffer("log_p", log_p)

    def log_table(self) -> Tensor:
        """The logarithms."""
        return self.get_buffer("log_p")


@dataclass(frozen=True, eq=False)
class AtPointsAnswer(SampledAnswer):
    """The rows' values, added up: those of pools, or of what a finite solver found for each row."""

    at: RowTables = field(kw_only=True, repr=False)
    pool: RowPool | None = field(default=None, repr=False)
    each: Sequence[Sequence[Answer]] = field(default=(), repr=False)
    """The solutions of each row, if they are not pools."""

    @cached_property
    def mu(self) -> Samples:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Every joint value that has mass."""
        rows, free = self.at.rows, self.at.free
        if (size := len(rows) * cells(free)) > LARGEST:
            raise SizeError(f"mu has {size:.3g} cells at the points; at most {LARGEST} are listed.")
        given = self.pool.mu(self.at).detach() if self.pool else torch.stack([_joint(row, free) for row in self.each])
        joint = rows.weights.detach().reshape(-1, *[1] * len(free)) * given
        row, *index = torch.nonzero(joint > 0, as_tuple=True)
        values = {n: x.detach()[row if len(x) > 1 else torch.zeros_like(row)] for n, x in rows.values.items()}
        for v, i in zip(free, index, strict=True):
            values[v.name] = self.at.points[v.name].detach()[i] if v.name in self.at.points else i
        return Samples(self.part.variables, values, joint[(row, *index)])

    @property
    def exact(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the surrogate is the inconsistency itself."""
        return all(s.exact for row in self.each for s in row)

    @property
    def up_to_constant(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the entropy of points was left out."""
        return any(not v.is_finite for a in self.part.arcs if not a.hard for v in a.arc.targets)

    def surrogate(self, theta: Theta | None = None) -> Tensor:
        """The value as a function of theta, points included."""
        at = self.at
        if theta is not self.part.theta or not any(t.requires_grad for t in at.log_p.values()):
            at = _tables(self.part, theta)
        total = at.constant(self.part)
        if self.pool is not None:
            return total + numerics.expectation(at.rows.weights, self.pool.values(at))
        for r, row in enumerate(self.each):
            own = {f"{n}.log_p": t[r if len(t) > 1 else 0] for n, t in at.log_p.items()}
            w = at.rows.weights[r]
            for s in row:
                total = total + w.detach() * s.surrogate(own) + w * s.upper
        return total

    @torch.no_grad()
    def divergences(self) -> dict[str, float]:
        """KL of every soft arc at mu."""
        at, about_free = self.at, self.at.about_free(self.part)
        found = {a.name: float(at.divergence(a)) for a in self.part.arcs if not a.hard and a not in about_free}
        if self.pool is not None:
            return found | self.pool.divergences(at)
        for part in zip(*self.each, strict=True):  # in every row
            for a in part[0].part.arcs:
                if not a.hard:
                    m = torch.stack([s.mu.rows(a.arc.sources, a.arc.targets) for s in part])
                    each = numerics.divergence(m, at.log_p[a.name].reshape(-1, *m.shape[1:]))
                    found[a.name] = float(numerics.expectation(at.rows.weights, each))
        return found


@dataclass(frozen=True)
class AtPoints(Solver):
    """The reduction of a problem to the tables at the points that hard arcs make."""

    name = "at points"
    takes = needs = frozenset({"drawn"})
    reduces = True

    def fits(self, part: Batch) -> bool:
        """Whether hard arcs make points of every Euclidean variable, and no other hard arc is about these."""
        makers = _makers(part) if part.is_drawn and not part.varying else None
        if makers is None:
            return False
        others = [a for a in part.arcs if a.hard and a not in makers]
        return all(v.is_finite for a in others for v in a.arc.targets)

    def choose(self, part: Batch) -> list[tuple[Solver, Ints]]:
        """Return the reduction, and Newton's method for the tables that it leaves."""
        return super().choose(part) if part.is_drawn else Newton().choose(part)

    def reduce(self, part: Batch) -> tuple[list[Batch], Callable[[Sequence[Answer]], Answer]]:
        """Return what is left of every row, unless rows are pools; the rows' bounds add up."""
        if not self.fits(part):
            odd = next((v for v in part.variables if not v.is_finite), part.variables[0])
            raise CapabilityError(
                f"{odd.name} is {odd.domain}, and no hard arc makes points of it: give it a PointMass, a Function "
                "or Data with beta = inf."
            )
        at = _tables(part, part.theta)
        pool = RowPool.of(part, at)
        parts = [] if pool is not None else _components(part, at)

        def back(found: Sequence[Answer]) -> Answer:
            answers = iter(found)
            solved = [[next(answers) for _ in row] for row in parts]
            weights, constant = at.rows.weights.detach(), float(at.constant(part))
            if pool is not None:
                low = high = constant + float(numerics.expectation(weights, pool.values(at).detach()))
            else:
                bounds = [[sum(x.lower for x in row), sum(x.upper for x in row)] for row in solved]
                ends = torch.tensor(bounds, dtype=numerics.DTYPE).T
                low, high = (constant + float(numerics.expectation(weights, each)) for each in ends)
            known = added_up(found)
            known["method"] = tuple(sorted({*(["row by row"] if at.rows.values else []), *(s.solver for s in found)}))
            proved = part.proved(low, high, 8 * EPS * (1 + abs(constant) + at.size(part)))
            met = ProvedBounds(proved.lower, proved.upper, proved.blur, np.array([all(s.converged for s in found)]))
            return AtPointsAnswer(part, met, self.name, **known, at=at, pool=pool, each=solved)

        return [part for row in parts for part in row], back


def _joint(row: Sequence[Answer], free: Sequence[Variable]) -> Tensor:
    """mu of the free variables of a row, a product of independent parts."""
    found = torch.ones((), dtype=numerics.DTYPE)
    order = [v.name for s in row for v in s.part.variables]
    for s in row:
        part = s.mu.marginal(*(v.name for v in s.part.variables)).detach()
        found = found.reshape(*found.shape, *[1] * part.dim()) * part
    return found.permute([order.index(v.name) for v in free])


def _components(part: Batch, at: RowTables) -> list[list[Batch]]:
    """The connected parts of what is left of every row."""
    free = {v.name: v for v in at.free}
    each: dict[str, list[Attended]] = {}
    for a in at.about_free(part):
        sources, targets = ([free[n] for n in side if n in free] for side in (a.sources, a.targets))
        tables = at.log_p[a.name].detach()
        each[a.name] = [
            Attended(Arc(a.name, sources, targets, TableAtPoints(t)), t.numpy(force=True), a.beta, a.alpha)
            for t in tables
        ]
    every, gamma = list(each.values()), part.gamma.item()
    chosen = [[every[k] for k in numbers] for numbers in connected([row[0].scope for row in every])]
    seen = [{n for row in arcs for n in row[0].scope} for arcs in chosen]
    variables = [tuple(v for v in at.free if v.name in names) for names in seen]
    return [
        [
            Batch.of(vs, [row[r if len(row) > 1 else 0] for row in arcs], gamma)
            for vs, arcs in zip(variables, chosen, strict=True)
        ]
        for r in range(len(at.rows))
    ]


def _makers(part: Batch) -> list[Attended] | None:
    """Hard arcs that make points of the Euclidean variables, sources first; None if some variable has none."""
    loose = {v.name for v in part.variables if not v.is_finite}
    makers: list[Attended] = []
    candidates = [a for a in part.arcs if a.hard and a.arc.cpd.points]
    while loose:
        ready = (a for a in candidates if loose.isdisjoint(a.sources) and not loose.isdisjoint(a.targets))
        made = next(ready, None)
        if made is None or not loose.issuperset(v.name for v in made.arc.targets if not v.is_finite):
            return None
        makers.append(made)
        loose -= set(made.targets)
    return makers


def _settings(variables: tuple[Variable, ...], points: dict[str, Tensor]) -> tuple[list[int], list[Tensor]]:
    """How many values each variable has, and every joint setting, one tensor of values a variable."""
    sizes = [v.size if v.is_finite else len(points[v.name]) for v in variables]
    index = zip(variables, settings(sizes), strict=True)
    return sizes, [i if v.is_finite else points[v.name][i] for v, i in index]


def _tables(part: Batch, theta: Theta | None) -> RowTables:
    """The tables of its rows, or else those at all combinations of points."""
    makers = _makers(part)
    assert makers is not None
    if (rows := RowTables.of(part, makers, theta)) is not None:
        return rows
    points: dict[str, Tensor] = {}
    log_p = {a.name: _made(a, theta, points) for a in makers}
    for a in part.arcs:
        if a.name in log_p:
            continue
        if a.log_p.size:
            log_p[a.name] = a.arc.log_table(theta)
        elif a.arc.cpd.points and all(v.is_finite for v in a.arc.targets):
            log_p[a.name] = _made(a, theta, points)
        else:
            sizes, values = _settings(a.arc.scope, points)
            count = len(a.arc.sources)
            scores = a.arc.call("log_prob", theta, values[count:], values[:count])
            log_p[a.name] = scores.to(numerics.DTYPE).reshape(sizes)
    free = tuple(v if v.is_finite else Variable(v.name, len(points[v.name])) for v in part.variables)
    alone = RowsOfHardArcs({}, torch.ones(1, dtype=numerics.DTYPE), frozenset())
    return RowTables(alone, free, {name: t[None] for name, t in log_p.items()}, points)


def _made(a: Attended, theta: Theta | None, points: dict[str, Tensor]) -> Tensor:
    """log p of an arc that makes points; those of its Euclidean targets are added to `points`."""
    sizes, sources = _settings(a.arc.sources, points)
    drawn = a.arc.call("draw", theta, sources, 1, torch.Generator())
    rows, k = max(1, len(sources[0]) if sources else 1), drawn.weights.shape[1]
    where: list[Tensor] = []
    for v, values in zip(a.arc.targets, drawn.values, strict=True):
        flat = values.expand(rows, *values.shape[1:]).reshape(rows * k, *values.shape[2:])
        where.append(flat if v.is_finite else torch.arange(rows * k))
        sizes.append(v.size if v.is_finite else rows * k)
        if not v.is_finite:
            points[v.name] = flat
    p = torch.zeros([rows, *sizes[len(a.arc.sources) :]], dtype=numerics.DTYPE)
    row = torch.arange(rows).repeat_interleave(k)
    weights = drawn.weights.expand(rows, k).reshape(-1).to(numerics.DTYPE)
    return numerics.log(p.index_put((row, *where), weights, accumulate=True)).reshape(sizes)
