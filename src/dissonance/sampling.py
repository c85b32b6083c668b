"""How a component is averaged over samples, whatever its parameters: what is drawn, in which order, and what is scored.

    value = sum_soft beta_a E_mu[-log p_a] + sum_a (gamma alpha_a - [soft] beta_a) H(T_a|S_a) - gamma H(X)

The entropies are collected by the set of variables they are about, so that densities are asked for only where the
weights do not cancel. H of a set that the hard arcs make by themselves is the sum of E[-log q] over these arcs.
Sample-dependent attention puts beta_a w_a(x) in the place of beta_a.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.attended import Attended
from dissonance.cpds.base import Drawn
from dissonance.distributions.samples import Samples
from dissonance.errors import CapabilityError, DissonanceError, suggest
from dissonance.pdg import Arc, Theta
from dissonance.problem import Component
from dissonance.variables import Variable, cells

Names = frozenset[str]

CANCEL = "Entropies cancel where gamma alpha = beta, or against another arc to the same variables with minus that beta."

UNASKED = torch.Generator()
"""What cpds that do not draw at random are given."""

DOT_LENGTH = 4096
"""Up to so many samples are averaged by a dot product, which is fast; for more its rounding error is too large."""


@dataclass(frozen=True)
class Estimate:
    """A value (a scalar that depends on theta), the samples of mu it is an average over, the scores of these that it
    adds up, each with its weight, and whether an infinite or constant entropy of points was left out."""

    value: Tensor
    mu: Samples
    parts: Sequence[tuple[float, Tensor]]
    random: bool
    up_to_constant: bool

    @cached_property
    def error(self) -> float:
        """The standard error, 0 if nothing was drawn at random.

        It is that of independent samples: on the safe side where rows of data, all of which are there, differ.
        """
        if not self.random:
            return 0.0
        with torch.no_grad():
            each = torch.zeros_like(self.mu.weights)
            for weight, score in self.parts:
                each = each + weight * score
            return float((self.mu.weights * (each - self.value)).square().sum().sqrt())


@dataclass(frozen=True)
class _Entropy:
    """H of a set of variables: of finite ones by a table, of others by E[-log q] of the hard arcs that make them.

    `why` it is needed; `refused` if it is not known; `left_out` if it has that of points.
    """

    finite: tuple[str, ...] = ()
    makers: tuple[str, ...] = ()
    why: str = ""
    refused: bool = False
    left_out: bool = False


@dataclass(frozen=True)
class Plan:
    """Hard arcs to draw from, sources first; soft arcs to score; sets of variables whose entropy is counted, with the
    weight of each (those of sample-dependent attention come on top).

    It depends on theta only through the tables among the arcs: `holds` says whether it is still the same.
    """

    variables: tuple[Variable, ...]
    arcs: tuple[Attended, ...]
    makers: tuple[Attended, ...]
    weights: dict[Names, float]
    entropies: dict[Names, _Entropy]

    @classmethod
    def of(cls, component: Component, makers: tuple[Attended, ...]) -> Plan:
        """The plan for hard arcs that make mu."""
        for a in component.arcs:
            if a.hard and a not in makers:
                raise CapabilityError(f"{a.arc} is a second hard belief about its targets, which samples cannot check.")
        for a in makers:
            if not a.log_p.size and not a.arc.cpd.can("draw"):
                raise CapabilityError(
                    f"{a.arc} is hard, but {type(a.arc.cpd).__name__} cannot be drawn from: "
                    "give it a `draw`, or a finite beta."
                )
        varying = [frozenset(names) for a in component.arcs if a.varying for names in (a.scope, a.sources) if names]
        every = {n: _entropy(component, makers, n) for n in (*component.entropies, *varying)}
        return cls(component.variables, component.arcs, makers, component.entropies, every)

    @cached_property
    def soft(self) -> tuple[Attended, ...]:
        """The arcs that are scored."""
        return tuple(a for a in self.arcs if not a.hard and a.beta != 0)

    @cached_property
    def random(self) -> bool:
        """Whether anything is drawn at random."""
        return any(not (a.arc.cpd.points or all(v.is_finite for v in a.arc.targets)) for a in self.makers)

    @cached_property
    def _scored(self) -> Names:
        """The hard arcs that are scored at their own draws, whatever the sample-dependent attention."""
        return frozenset(maker for names in self.weights for maker in self.entropies[names].makers)

    @cached_property
    def _by_name(self) -> dict[str, Arc]:
        return {a.name: a.arc for a in self.arcs}

    @cached_property
    def _tables(self) -> tuple[Attended, ...]:
        return tuple(a for a in self.arcs if a.log_p.size)

    def holds(self, theta: Theta) -> bool:
        """Whether the tables that theta moves are functions of their sources as far as they were."""
        for a in self._tables:
            if a.arc.holds(theta):
                log_p = a.arc.log_table(theta).detach().cpu().numpy()
                if bool(((log_p == 0) | np.isneginf(log_p)).all()) != a.deterministic:
                    return False
        return True

    def estimate(self, theta: Theta | None, count: int, seed: int) -> Estimate:
        """Draw, score, average."""
        mu, scores = self._draw(theta, count, torch.Generator().manual_seed(seed) if self.random else UNASKED)
        seen = _Seen(self._by_name, mu, theta)
        weights: dict[Names, float | Tensor] = dict(self.weights)
        parts: list[tuple[float, Tensor]] = []
        for a in self.soft:
            if a.varying is None:
                parts.append((a.beta, seen.surprisal(a.name)))
                continue
            weight = a.beta * seen.weight(a)
            parts.append((1.0, weight * seen.surprisal(a.name)))
            for names, part in ((frozenset(a.scope), -weight), (frozenset(a.sources), weight)):
                weights[names] = weights.get(names, 0.0) + part
        constant = 0.0
        for names, weight in weights.items():
            if not names or (isinstance(weight, Tensor) and bool((weight == 0).all())):
                continue
            for x in self._log_mu(self.entropies[names], mu, scores, theta):
                parts.append((1.0, -weight * x) if isinstance(weight, Tensor) else (-weight, x))
            if self.entropies[names].left_out:
                constant += float((mu.weights * weight).detach().sum()) if isinstance(weight, Tensor) else weight
        value: Tensor | None = None
        for weight, x in parts:
            part = _average(mu.weights if weight == 1.0 else weight * mu.weights, x)
            value = part if value is None else value + part
        value = torch.zeros((), dtype=mu.weights.dtype) if value is None else value
        return Estimate(value, mu, parts, self.random, constant != 0)

    @torch.no_grad()
    def divergences(self, found: Estimate) -> dict[str, float]:
        """KL of every soft arc at the samples, without the entropy of points; NaN where attention depends on the sample
        or it takes the density of a hard arc, which may have moved since."""
        each: dict[str, float] = {}
        for a, (_, surprise) in zip(self.soft, found.parts, strict=False):
            kl = float(_average(found.mu.weights, surprise.detach())) if a.varying is None else math.nan
            for sign, names in ((-1, a.scope), (1, a.sources)):
                kl += sign * self._known_entropy(frozenset(names), found.mu) if names else 0.0
            each[a.name] = kl
        return each

    def _known_entropy(self, names: Names, mu: Samples) -> float:
        """H without that of points, as tables have it; NaN if it takes a density."""
        entropy = _entropy(self, self.makers, names)
        makers = [a for a in self.makers if a.name in entropy.makers]
        if entropy.refused or not all(a.log_p.size for a in makers):
            return math.nan
        total = float(numerics.entropy(mu.marginal(*entropy.finite))) if entropy.finite else 0.0
        for a in makers:
            scores = torch.from_numpy(a.log_p)[tuple(mu.values[n] for n in a.scope)]
            total -= float((mu.weights * scores).sum())
        return total

    def _log_mu(
        self, entropy: _Entropy, mu: Samples, scores: dict[str, Tensor], theta: Theta | None
    ) -> Iterator[Tensor]:
        """log mu of the variables at every sample, in parts that add up."""
        if entropy.refused:
            raise CapabilityError(entropy.why)
        if entropy.finite:
            at = mu.marginal(*entropy.finite)[tuple(mu.values[n] for n in entropy.finite)]
            yield numerics.log(at).to(mu.weights.dtype)
        for a in self.makers:
            if a.name in entropy.makers:
                try:
                    yield scores[a.name] if a.name in scores else -surprisal(a.arc, mu, theta)
                except CapabilityError as error:
                    raise CapabilityError(f"{entropy.why}, but {a.arc}: {error} {CANCEL}") from None

    def _draw(self, theta: Theta | None, count: int, generator: torch.Generator) -> tuple[Samples, dict[str, Tensor]]:
        """Samples, and log q, (M,) each, of the arcs that know it from drawing and are scored."""
        values: dict[str, Tensor] = {}
        scores: dict[str, Tensor] = {}
        weights: Tensor | None = None
        for a in self.makers:
            sources = [values[n] for n in a.sources]
            if a.log_p.size:
                drawn = _all(a.arc, theta, sources)
            else:
                drawn = a.arc.call("draw", theta, sources, count, generator)
            rows, k = 1 if weights is None else weights.shape[0], drawn.weights.shape[1]
            if k > 1 and values:
                values = {n: v.repeat_interleave(k, 0) for n, v in values.items()}
                scores = {n: v.repeat_interleave(k, 0) for n, v in scores.items()}
            for n, v in zip(a.targets, drawn.values, strict=True):
                values[n] = _spread(v, rows)
            if a.name in self._scored and drawn.score is not None:
                scores[a.name] = _spread(drawn.score(), rows)
            grown: Tensor = (drawn.weights if weights is None else weights[:, None] * drawn.weights).reshape(-1)
            if a.log_p.size and bool((grown == 0).any()):  # what is impossible costs nothing, whatever it would cost
                kept = grown != 0
                grown = grown[kept]
                values, scores = ({n: v[kept] for n, v in x.items()} for x in (values, scores))
            weights = grown
        return Samples(self.variables, values, torch.ones(1) if weights is None else weights), scores

    def not_a_number(self, mu: Samples, theta: Theta | None) -> str:
        """Which arc made the inconsistency NaN."""
        for a in self.soft:
            odd = int(torch.isnan(surprisal(a.arc, mu, theta)).sum())
            if odd:
                return (
                    f"{a.arc}: log p is not a number at {odd} of {len(mu)} samples. Look for parameters or data that "
                    "are not finite; if they grew so, lower chi."
                )
        return "the inconsistency is not a number: arcs of infinite cost are believed and disbelieved together."


class _Seen:
    """The samples of a component, and what its arcs say of them, asked once."""

    def __init__(self, arcs: Mapping[str, Arc], mu: Samples, theta: Theta | None) -> None:
        self.values, self.weights = mu.values, mu.weights
        self._arcs, self._mu, self._theta = arcs, mu, theta
        self._known: dict[str, Tensor] = {}

    def surprisal(self, name: str) -> Tensor:
        """-log p_a(t | s) at each sample."""
        if name not in self._known:
            if name not in self._arcs:
                near = suggest(name, self._arcs)
                raise DissonanceError(f"attention looks at an arc {name!r} that is not attended.{near}")
            self._known[name] = surprisal(self._arcs[name], self._mu, self._theta)
        return self._known[name]

    def log_prob(self, arc: str) -> Tensor:
        """log p_a(t | s) at each sample."""
        return -self.surprisal(arc)

    def weight(self, a: Attended) -> Tensor:
        """w(x) of an arc at each sample."""
        assert a.varying is not None
        found = a.varying.weight(self)
        if found.shape != self.weights.shape:
            raise DissonanceError(
                f"{a.arc}: {len(self.weights)} samples need a weight each, found {tuple(found.shape)}."
            )
        return found.detach() if a.varying.held else found


def surprisal(arc: Arc, mu: Samples, theta: Theta | None) -> Tensor:
    """-log p(t|s) at every sample."""
    sources, targets = ([mu.values[v.name] for v in side] for side in (arc.sources, arc.targets))
    return arc.call("surprisal", theta, targets, sources)


def _average(weights: Tensor, x: Tensor) -> Tensor:
    if weights.dtype == x.dtype and weights.shape == x.shape and x.shape[0] <= DOT_LENGTH:
        return weights.dot(x)
    return (weights * x).sum()


def _spread(x: Tensor, rows: int) -> Tensor:
    """(rows or 1, k, ...) as (rows k, ...)."""
    if rows == 1:
        return x[0]
    return (x if len(x) == rows else x.expand(rows, *x.shape[1:])).reshape(-1, *x.shape[2:])


def _all(arc: Arc, theta: Theta | None, sources: list[Tensor]) -> Drawn:
    """Every setting of finite targets."""
    p = arc.log_table(theta).exp().reshape(cells(arc.sources), cells(arc.targets))
    row = torch.zeros(len(sources[0]) if sources else 1, dtype=torch.long)
    for v, s in zip(arc.sources, sources, strict=True):
        row = row * v.size + s
    settings = torch.cartesian_prod(*(torch.arange(v.size) for v in arc.targets)).reshape(p.shape[1], -1)
    return Drawn(tuple(x.expand(len(row), -1) for x in settings.T), p[row])


def _points(component: Component | Plan, makers: Sequence[Attended]) -> Names:
    """The variables that only points make, from nothing or from finite variables: their entropy is left out."""
    found = {v.name for v in component.variables if v.is_finite}
    made: set[str] = set()
    for a in makers:
        if a.arc.cpd.points and found.issuperset(a.sources):
            found |= set(a.targets)
            made |= set(a.targets)
    return frozenset(made)


def _entropy(component: Component | Plan, makers: Sequence[Attended], names: Names) -> _Entropy:
    """H(A), by a table if A is finite, else by the hard arcs that make it."""
    inside = tuple(v for v in component.variables if v.name in names)
    if all(v.is_finite for v in inside):
        return _Entropy(finite=tuple(v.name for v in inside))
    points = _points(component, makers)
    rest = names - points
    known = names  # a point tells which setting of finite variables made it
    for a in makers:
        if a.arc.cpd.points and not names.isdisjoint(a.targets) and all(v.is_finite for v in a.arc.sources):
            known = known.union(a.sources)
    parts = [a for a in makers if rest.issuperset(a.targets)]
    made = frozenset(t for a in parts for t in a.targets)
    odd = next((a for a in component.arcs if not a.hard and names in (frozenset(a.scope), frozenset(a.sources))), None)
    what = f"the entropy of ({', '.join(sorted(names))}) is needed{f' for {odd.arc}' if odd else ''}"
    if made == rest and all(known.issuperset(a.sources) for a in parts):
        return _Entropy(makers=tuple(a.name for a in parts), why=what, left_out=bool(names & points))
    why = (
        f"{what}, and no hard arcs make these variables by themselves: they have no density. Have gamma alpha = beta "
        "for that arc, or make it an arc to all the variables that depend on each other."
    )
    return _Entropy(why=why, refused=True)
