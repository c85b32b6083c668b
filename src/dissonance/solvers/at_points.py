"""Components whose Euclidean variables are points: hard arcs give each finitely many values, and tables at these values
are all there is to solve.

A Euclidean variable becomes a finite one whose values are its points; an arc becomes the table of log p there (of
densities, where it is one: their mean score counts, and the entropy of points is left out). Points count as different
values even where they coincide.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Arc, Theta
from dissonance.attended import Attended
from dissonance.distributions.samples import Samples
from dissonance.errors import CapabilityError, SizeError
from dissonance.problem import Component
from dissonance.scores import arc_divergence
from dissonance.solvers.base import Solution, Solver
from dissonance.solvers.by_row import LARGEST, TableAtPoints, by_row
from dissonance.solvers.exact import Newton
from dissonance.solvers.sampled import SampledSolution
from dissonance.variables import Variable, cells


@dataclass(frozen=True)
class _Tables:
    """The points of the Euclidean variables (k, dim), and log p of every arc over (sources..., targets...)."""

    points: dict[str, Tensor]
    log_p: dict[str, Tensor]


@dataclass(frozen=True)
class AtPointsSolution(SampledSolution):
    """What a finite solver found for the tables at the points."""

    finite: Solution | None = field(default=None, repr=False)
    at: _Tables | None = field(default=None, repr=False)

    @cached_property
    def mu(self) -> Samples:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Every joint value that has mass."""
        assert self.finite is not None and self.at is not None
        reduced = self.finite.component.variables
        if cells(reduced) > LARGEST:
            raise SizeError(f"mu has {cells(reduced):.3g} cells at the points; at most {LARGEST} are listed.")
        joint = self.finite.mu.marginal(*(v.name for v in reduced)).detach()
        where = torch.nonzero(joint > 0, as_tuple=True)
        values: dict[str, Tensor] = {}
        for v, index in zip(self.component.variables, where, strict=True):
            values[v.name] = index if v.is_finite else self.at.points[v.name].detach()[index]
        return Samples(self.component.variables, values, joint[where])

    @property
    def exact(self) -> bool:
        """The surrogate is the inconsistency itself."""
        return self.finite is not None and self.finite.exact

    def surrogate(self, theta: Theta | None = None) -> Tensor:
        """The tables as functions of theta, points included; from there on it is the finite solver's."""
        assert self.finite is not None and self.at is not None
        live = theta is self.component.theta and any(t.requires_grad for t in self.at.log_p.values())
        at = self.at if live else _tables(self.component, theta)
        return self.finite.surrogate({f"{n}.log_p": t for n, t in at.log_p.items()})

    @torch.no_grad()
    def divergences(self) -> dict[str, float]:
        """KL of every soft arc at mu, by the tables at the points."""
        assert self.finite is not None
        soft = [a.arc for a in self.finite.component.arcs if not a.hard]
        return {a.name: float(arc_divergence(self.finite.mu, a)) for a in soft}


@dataclass(frozen=True)
class AtPoints(Solver):
    """Tables at the points that hard arcs make, solved by `solver`."""

    name = "at points"

    takes = needs = frozenset({"drawn"})

    solver: Solver = field(default_factory=Newton)

    def fits(self, component: Component) -> bool:
        """Whether hard arcs make points of every Euclidean variable, and no other hard arc is about these."""
        makers = _makers(component) if component.is_drawn and not component.varies else None
        if makers is None:
            return False
        others = [a for a in component.arcs if a.hard and a not in makers]
        return all(v.is_finite for a in others for v in a.arc.targets)

    def solve(self, component: Component) -> Solution:
        """The finite component's bounds."""
        if not component.is_drawn:
            return self.solver.solve(component)
        if not self.fits(component):
            odd = next(v for v in component.variables if not v.is_finite)
            raise CapabilityError(
                f"{odd.name} is {odd.domain}, and no hard arc makes points of it: give it a PointMass, a Function "
                "or Data with beta = inf."
            )
        apart = by_row(component, tuple(_makers(component) or ()), self.solver, self.name)
        if apart is not None:
            return apart
        at = _tables(component, component.theta)
        reduced = _reduced(component, at)
        found = self.solver.solve(reduced)
        return AtPointsSolution(
            component,
            found.lower,
            found.upper,
            self.name,
            found.converged,
            steps=found.steps,
            method=found.solver,
            up_to_constant=any(not v.is_finite for a in component.arcs if not a.hard for v in a.arc.targets),
            finite=found,
            at=at,
        )


def _makers(component: Component) -> list[Attended] | None:
    """Hard arcs that make points of the Euclidean variables, sources first; None if some variable has none."""
    loose = {v.name for v in component.variables if not v.is_finite}
    makers: list[Attended] = []
    candidates = [a for a in component.arcs if a.hard and a.arc.cpd.points]
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
    if not sizes:
        return [], []
    grid = torch.meshgrid(*(torch.arange(n) for n in sizes), indexing="ij")
    index = [g.reshape(-1) for g in grid]
    return sizes, [i if v.is_finite else points[v.name][i] for v, i in zip(variables, index, strict=True)]


def _tables(component: Component, theta: Theta | None) -> _Tables:
    points: dict[str, Tensor] = {}
    log_p: dict[str, Tensor] = {}
    makers = _makers(component)
    assert makers is not None
    for a in makers:
        log_p[a.name] = _made(a, theta, points)
    for a in component.arcs:
        if a.name in log_p:
            continue
        if a.log_p.size:
            log_p[a.name] = a.arc.log_table(theta)
            continue
        if a.arc.cpd.points and all(v.is_finite for v in a.arc.targets):
            log_p[a.name] = _made(a, theta, points)
            continue
        sizes, values = _settings(a.arc.scope, points)
        count = len(a.arc.sources)
        scores = a.arc.call("log_prob", theta, values[count:], values[:count])
        log_p[a.name] = scores.to(numerics.DTYPE).reshape(sizes)
    return _Tables(points, log_p)


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


def _reduced(component: Component, at: _Tables) -> Component:
    """The component with points in place of its Euclidean variables."""
    stand = {v.name: v if v.is_finite else Variable(v.name, len(at.points[v.name])) for v in component.variables}
    arcs: list[Attended] = []
    for a in component.arcs:
        table = at.log_p[a.name].detach()
        sources, targets = ([stand[v.name] for v in side] for side in (a.arc.sources, a.arc.targets))
        arc = Arc(a.name, sources, targets, TableAtPoints(table))
        arcs.append(Attended(arc, table.cpu().numpy(), a.beta, a.alpha))
    return Component(tuple(stand.values()), tuple(arcs), component.gamma)
