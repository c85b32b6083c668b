"""Components whose mu is made by hard arcs that can be drawn from: nothing is left to optimise, only to average.

    value = sum_soft beta_a E_mu[-log p_a] + sum_a (gamma alpha_a - [soft] beta_a) H(T_a|S_a) - gamma H(X)

The entropies are collected by the set of variables they are about, so that densities are asked for only where the
weights do not cancel. H of a set that the hard arcs make by themselves is the sum of E[-log q] over these arcs.
Attention that varies puts beta_a w_a(x) in the place of beta_a, sample by sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.cpds import CPD
from dissonance.cpds.base import Drawn
from dissonance.distributions.samples import Samples
from dissonance.errors import CapabilityError, DissonanceError, suggest
from dissonance.pdg import Arc, Theta
from dissonance.problem import Attended, Component
from dissonance.solvers.base import Solution
from dissonance.variables import cells

Names = frozenset[str]

CANCEL = "Entropies cancel where gamma alpha = beta, or against another arc to the same variables with minus that beta."


@dataclass(frozen=True)
class Estimate:
    """A value (a scalar that depends on theta), its standard error (0 if nothing was drawn at random), the samples of
    mu it is an average over, and whether an infinite or constant entropy of points was left out.

    The error is that of independent samples: on the safe side where rows of data, all of which are there, differ.
    """

    value: Tensor
    error: float
    mu: Samples
    up_to_constant: bool


@dataclass(frozen=True)
class SampledSolution(Solution):
    """An average over samples of the one mu that the hard arcs allow; `error` is its standard error."""

    estimate: Estimate | None = field(default=None, repr=False)
    error: float = 0.0
    up_to_constant: bool = False
    asked: Sampled | None = field(default=None, repr=False)

    @cached_property
    def mu(self) -> Samples:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The samples."""
        assert self.estimate is not None
        return self.estimate.mu

    def surrogate(self, theta: Theta | None = None) -> Tensor:
        """The average as a function of theta, samples included: the same draws again."""
        assert self.asked is not None and self.estimate is not None
        if theta is self.component.theta and self.estimate.value.requires_grad:
            return self.estimate.value
        return self.asked.estimate(self.component, theta).value


@dataclass(frozen=True)
class Sampled:
    """Hard acyclic arcs make mu: by `count` samples of each arc that has a density, by all values of one that is finite
    or points. The same `seed` draws the same samples."""

    count: int = 1
    seed: int = 0

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "sampled"

    def solve(self, component: Component) -> Solution:
        """The average; its bounds are the value itself, and it counts as converged only if nothing was random."""
        found = self.estimate(component, component.theta)
        value = float(found.value.detach())
        if math.isnan(value):
            raise DissonanceError(_not_a_number(component, found.mu))
        return SampledSolution(
            component,
            value,
            value,
            self.name,
            converged=found.error == 0.0,
            estimate=found,
            error=found.error,
            up_to_constant=found.up_to_constant,
            asked=self,
        )

    def estimate(self, component: Component, theta: Theta | None) -> Estimate:
        """Draw, score, average."""
        makers = component.pinned
        if makers is None:
            raise CapabilityError(_not_pinned(component))
        for a in component.arcs:
            if a.hard and a not in makers:
                raise CapabilityError(f"{a.arc} is a second hard belief about its targets, which samples cannot check.")
        mu, random = self._draw(component, makers, theta)
        seen = _Seen(component, mu, theta)
        each = torch.zeros_like(mu.weights)
        entropies: dict[Names, float | Tensor] = dict(component.entropies)
        for a in component.arcs:
            if not a.hard and a.beta != 0:
                weight = a.beta if a.varying is None else a.beta * seen.weight(a)
                each = each - weight * seen.log_prob(a.name)
                if a.varying is not None:
                    for names, part in ((frozenset(a.scope), -weight), (frozenset(a.sources), weight)):
                        entropies[names] = entropies.get(names, 0.0) + part
        constant = 0.0
        for names, weight in entropies.items():
            if names and not (isinstance(weight, Tensor) and bool((weight == 0).all())):
                part, left_out = _surprisal(component, makers, names, mu, theta)
                each = each if part is None else each + weight * part
                if left_out:
                    constant += float((mu.weights * weight).detach().sum())
        value = (mu.weights * each).sum()
        spread = mu.weights.detach() * (each.detach() - value.detach())
        return Estimate(value, float(spread.square().sum().sqrt()) if random else 0.0, mu, constant != 0)

    def _some(self, arc: Arc, theta: Theta | None, sources: list[Tensor], generator: torch.Generator) -> Drawn:
        if type(arc.cpd).draw is CPD.draw:
            raise CapabilityError(
                f"{arc} is hard, but {type(arc.cpd).__name__} cannot be drawn from: give it a `draw`, or a finite beta."
            )
        return arc.call("draw", theta, sources, self.count, generator)

    def _draw(self, component: Component, makers: tuple[Attended, ...], theta: Theta | None) -> tuple[Samples, bool]:
        generator = torch.Generator().manual_seed(self.seed)
        values: dict[str, Tensor] = {}
        weights = torch.ones(1)
        random = False
        for a in makers:
            sources = [values[n] for n in a.sources]
            drawn = _all(a.arc, theta, sources) if a.log_p.size else self._some(a.arc, theta, sources, generator)
            k = drawn.weights.shape[1]
            grown = (weights[:, None] * drawn.weights).reshape(-1)
            if k > 1:
                values = {n: v.repeat_interleave(k, 0) for n, v in values.items()}
            for n, v in zip(a.targets, drawn.values, strict=True):
                v = v if len(v) == len(weights) else v.expand(len(weights), *v.shape[1:])
                values[n] = v.reshape(-1, *v.shape[2:])
            weights = grown
            if a.log_p.size and bool((weights == 0).any()):  # what is impossible costs nothing, whatever it would cost
                kept = weights != 0
                weights, values = weights[kept], {n: v[kept] for n, v in values.items()}
            random |= not (a.arc.cpd.points or all(v.is_finite for v in a.arc.targets))
        return Samples(component.variables, values, weights), random


class _Seen:
    """The samples of a component, and what its arcs say of them, asked once."""

    def __init__(self, component: Component, mu: Samples, theta: Theta | None) -> None:
        self.values, self.weights = mu.values, mu.weights
        self._mu, self._theta = mu, theta
        self._arcs = {a.name: a.arc for a in component.arcs}
        self._known: dict[str, Tensor] = {}

    def log_prob(self, arc: str) -> Tensor:
        """log p_a(t | s) at each sample."""
        if arc not in self._known:
            if arc not in self._arcs:
                raise DissonanceError(
                    f"attention looks at an arc {arc!r} that is not attended.{suggest(arc, self._arcs)}"
                )
            self._known[arc] = _log_prob(self._arcs[arc], self._mu, self._theta)
        return self._known[arc]

    def weight(self, a: Attended) -> Tensor:
        """w(x) of an arc at each sample."""
        assert a.varying is not None
        found = a.varying.weight(self)
        if found.shape != self.weights.shape:
            raise DissonanceError(
                f"{a.arc}: {len(self.weights)} samples need a weight each, found {tuple(found.shape)}."
            )
        return found.detach() if a.varying.held else found


def _all(arc: Arc, theta: Theta | None, sources: list[Tensor]) -> Drawn:
    """Every setting of finite targets."""
    p = arc.log_table(theta).exp().reshape(cells(arc.sources), cells(arc.targets))
    row = torch.zeros(len(sources[0]) if sources else 1, dtype=torch.long)
    for v, s in zip(arc.sources, sources, strict=True):
        row = row * v.size + s
    settings = torch.cartesian_prod(*(torch.arange(v.size) for v in arc.targets)).reshape(p.shape[1], -1)
    return Drawn(tuple(x.expand(len(row), -1) for x in settings.T), p[row])


def _log_prob(arc: Arc, mu: Samples, theta: Theta | None) -> Tensor:
    sources, targets = ([mu.values[v.name] for v in side] for side in (arc.sources, arc.targets))
    return arc.call("log_prob", theta, targets, sources)


def _points(component: Component, makers: Sequence[Attended]) -> Names:
    """The variables that only points make, from nothing or from finite variables: their entropy is left out."""
    found = {v.name for v in component.variables if v.is_finite}
    made: set[str] = set()
    for a in makers:
        if a.arc.cpd.points and found.issuperset(a.sources):
            found |= set(a.targets)
            made |= set(a.targets)
    return frozenset(made)


def _surprisal(
    component: Component, makers: Sequence[Attended], names: Names, mu: Samples, theta: Theta | None
) -> tuple[Tensor | None, bool]:
    """-log mu(A) at every sample (None: nothing), and whether that of points was left out."""
    finite = [v for v in component.variables if v.name in names]
    if all(v.is_finite for v in finite):
        table = mu.marginal(*(v.name for v in finite))
        index = tuple(mu.values[v.name] for v in finite)
        return -numerics.log(table[index]).to(mu.weights.dtype), False
    points = _points(component, makers)
    rest = names - points
    known = names  # a point tells which setting of finite variables made it
    for a in makers:
        if a.arc.cpd.points and not names.isdisjoint(a.targets) and all(v.is_finite for v in a.arc.sources):
            known = known.union(a.sources)
    inside = [a for a in makers if rest.issuperset(a.targets)]
    made = frozenset(t for a in inside for t in a.targets)
    odd = next((a for a in component.arcs if not a.hard and names in (frozenset(a.scope), frozenset(a.sources))), None)
    what = f"the entropy of ({', '.join(sorted(names))}) is needed{f' for {odd.arc}' if odd else ''}"
    if made == rest and all(known.issuperset(a.sources) for a in inside):
        total: Tensor | None = None
        for a in inside:
            try:
                score = _log_prob(a.arc, mu, theta)
            except CapabilityError as error:
                raise CapabilityError(f"{what}, but {a.arc}: {error} {CANCEL}") from None
            total = -score if total is None else total - score
        return total, bool(names & points)
    raise CapabilityError(
        f"{what}, and no hard arcs make these variables by themselves: they have no density. Have gamma alpha = beta "
        "for that arc, or make it an arc to all the variables that depend on each other."
    )


def _not_a_number(component: Component, mu: Samples) -> str:
    """Which arc made the inconsistency NaN."""
    for a in component.arcs:
        if not a.hard and a.beta != 0:
            odd = int(torch.isnan(_log_prob(a.arc, mu, component.theta)).sum())
            if odd:
                return (
                    f"{a.arc}: log p is not a number at {odd} of {len(mu)} samples. Look for parameters or data that "
                    "are not finite; if they grew so, lower chi."
                )
    return "the inconsistency is not a number: arcs of infinite cost are believed and disbelieved together."


def _not_pinned(component: Component) -> str:
    made = {t for a in component.arcs if a.hard for t in a.targets}
    loose = [v for v in component.variables if v.name not in made]
    what = (
        f"no hard arc (beta = inf) makes {loose[0].name!r}"
        if loose
        else "the hard arcs form a cycle, or leave free how variables of one arc depend on each other"
    )
    varying = next((a.arc for a in component.arcs if a.varying is not None), None)
    if varying is not None:
        return f"the attention to {varying} varies, which needs acyclic hard arcs that make mu; {what}."
    odd = next((a.arc for a in component.arcs if a.log_p.size == 0), component.arcs[0].arc)
    domains = "; ".join(f"{v.name} is {v.domain}" for v in odd.scope if not v.is_finite)
    return (
        f"{odd} cannot be tabulated: {domains}. Unless all is linear-Gaussian, mu must be made by acyclic hard arcs "
        f"that can be drawn from; {what}. Make one hard, or set beta[{odd.name!r}] = 0 to leave the arc out."
    )
