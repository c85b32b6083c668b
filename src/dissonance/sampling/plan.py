"""How a part is averaged over samples, whatever its parameters: what is drawn, in which order, and what is scored.

    value = sum_soft beta_a E_mu[-log p_a] + sum_a (gamma alpha_a - [soft] beta_a) H(T_a|S_a) - gamma H(X)

The entropies are collected by the set of variables they are about, so that densities are asked for only where the
weights do not cancel. H of a set that the hard arcs make by themselves is the sum of E[-log q] over these arcs.
Sample-dependent attention puts beta_a w_a(x) in the place of beta_a.

The first hard arc with a density is drawn from `count` times for each value of what comes before it (rows of data, all
values of finite variables), every later one once for each sample there is: draws are independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Arc, Theta
from dissonance.attended import Attended
from dissonance.cpds.base import Drawn
from dissonance.distributions.samples import Samples
from dissonance.errors import CapabilityError
from dissonance.problem import Batch
from dissonance.sampling.draws import Tally, Units
from dissonance.sampling.entropies import Entropy, Names, entropies, entropy_of
from dissonance.sampling.scored import ScoredSamples, average, surprisal
from dissonance.variables import Euclidean, Variable, cells

Tables = Mapping[tuple[str, ...], Tensor]
"""Probabilities of sets of finite variables."""

CANCEL = "Entropies cancel where gamma alpha = beta, or against another arc to the same variables with minus that beta."

UNASKED = torch.Generator()
"""What cpds that do not draw at random are given."""


@dataclass(eq=False)
class Estimate:
    """A value (a scalar that depends on theta), the samples of mu it is an average over, the scores of these that it
    adds up, each with its weight, and whether an infinite or constant entropy of points was left out.

    `tally`: what the standard error of several blocks of draws is made of; of one block it is made when asked for.
    """

    value: Tensor
    mu: Samples
    parts: Sequence[tuple[float, Tensor]]
    units: Units | None
    up_to_constant: bool
    tally: Tally | None = None

    @property
    def random(self) -> bool:
        """Whether anything was drawn at random."""
        return self.units is not None

    @cached_property
    def error(self) -> float:
        """The standard error: 0 if nothing was drawn at random, NaN if there is but one draw."""
        if self.units is None:
            return 0.0
        return (self.tally or self.tallied()).error

    @torch.no_grad()
    def tallied(self) -> Tally:
        """What its draws add up to, row by row."""
        assert self.units is not None
        each = torch.zeros_like(self.mu.weights)
        for weight, score in self.parts:
            each = each + weight * score
        return Tally.of(self.units, self.mu.weights, each)


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
    entropies: dict[Names, Entropy]

    @classmethod
    def of(cls, part: Batch, makers: tuple[Attended, ...]) -> Plan:
        """The plan for hard arcs that make mu."""
        for a in part.arcs:
            if a.hard and a not in makers:
                raise CapabilityError(f"{a.arc} is a second hard belief about its targets, which samples cannot check.")
        for a in makers:
            if not a.log_p.size and not a.arc.cpd.can("draw"):
                raise CapabilityError(
                    f"{a.arc} is hard, but {type(a.arc.cpd).__name__} cannot be drawn from: "
                    "give it a `draw`, or a finite beta."
                )
        varying = [frozenset(names) for a in part.arcs if a.varying for names in (a.scope, a.sources) if names]
        weights, every = entropies(part, makers, part.entropies)
        every |= {n: entropy_of(part, makers, n) for n in varying}
        return cls(part.variables, part.arcs, makers, weights, every)

    @cached_property
    def soft(self) -> tuple[Attended, ...]:
        """The arcs that are scored."""
        return tuple(a for a in self.arcs if not a.hard and a.beta != 0)

    @cached_property
    def random(self) -> frozenset[str]:
        """The hard arcs that are drawn from at random."""
        return frozenset(a.name for a in self.makers if is_random(a))

    @cached_property
    def _scored(self) -> Names:
        """The hard arcs that are scored at their own draws, whatever the sample-dependent attention."""
        return frozenset(maker for names in self.weights for maker in self.entropies[names].makers)

    @cached_property
    def _by_name(self) -> dict[str, Arc]:
        return {a.name: a.arc for a in self.arcs}

    @cached_property
    def tables(self) -> tuple[Attended, ...]:
        """The arcs that are tables."""
        return tuple(a for a in self.arcs if a.log_p.size)

    def holds(self, theta: Theta) -> bool:
        """Whether the tables that theta moves are deterministic, or not, as they were when the plan was made."""
        for a in self.tables:
            if a.arc.holds(theta):
                log_p = a.arc.log_table(theta).detach().cpu().numpy()
                if bool(((log_p == 0) | np.isneginf(log_p)).all()) != a.deterministic:
                    return False
        return True

    def estimate(
        self, theta: Theta | None, count: int, generator: torch.Generator | int, tables: Tables | None = None
    ) -> Estimate:
        """Draw, score, average. `tables`: probabilities of finite variables under mu, where they are known better than
        from these draws alone."""
        if isinstance(generator, int):
            generator = torch.Generator().manual_seed(generator) if self.random else UNASKED
        mu, scores, units = self._draw(theta, count, generator)
        if self.varies:
            parts, counted, constant = self._varying(mu, theta)
        else:
            parts = [(a.beta, surprisal(a.arc, mu, theta)) for a in self.soft]
            counted, constant = self._counted
        for weight, entropy in counted:
            for x in self._log_mu(entropy, mu, scores, theta, tables):
                parts.append((1.0, -weight * x) if isinstance(weight, Tensor) else (-weight, x))
        total: Tensor | None = None
        for weight, x in parts:
            total = (x if weight == 1.0 else weight * x) if total is None else total.add(x, alpha=weight)
        value = torch.zeros((), dtype=mu.weights.dtype) if total is None else average(mu.weights, total)
        return Estimate(value, mu, parts, units, constant != 0)

    def _varying(
        self, mu: Samples, theta: Theta | None
    ) -> tuple[list[tuple[float, Tensor]], Sequence[tuple[float | Tensor, Entropy]], float]:
        """What the soft arcs add, each with its weight, and what `_count` says, where weights depend on the sample."""
        seen, weights = ScoredSamples(self._by_name, mu, theta), dict[Names, float | Tensor](self.weights)
        parts: list[tuple[float, Tensor]] = []
        for a in self.soft:
            if a.varying is None:
                parts.append((a.beta, seen.surprisal(a.name)))
                continue
            weight = a.beta * seen.weight(a)
            parts.append((1.0, weight * seen.surprisal(a.name)))
            for names, part in ((frozenset(a.scope), -weight), (frozenset(a.sources), weight)):
                weights[names] = weights.get(names, 0.0) + part
        return parts, *self._count(weights, mu)

    @cached_property
    def varies(self) -> bool:
        """Whether the attention to some arc depends on the sample."""
        return any(a.varying is not None for a in self.arcs)

    @cached_property
    def _counted(self) -> tuple[Sequence[tuple[float | Tensor, Entropy]], float]:
        """What `_count` says of the weights that do not depend on the sample."""
        return self._count(self.weights, None)

    def _count(
        self, weights: Mapping[Names, float | Tensor], mu: Samples | None
    ) -> tuple[Sequence[tuple[float | Tensor, Entropy]], float]:
        """The entropies that take something to compute, with their weights, and the weight of those of points, which
        are left out."""
        counted: list[tuple[float | Tensor, Entropy]] = []
        constant = 0.0
        for names, weight in weights.items():
            if not names or (isinstance(weight, Tensor) and bool((weight == 0).all())):
                continue
            entropy = self.entropies[names]
            if entropy.refused or entropy.finite or entropy.makers:
                counted.append((weight, entropy))
            if entropy.left_out and isinstance(weight, Tensor) and mu is not None:
                constant += float((mu.weights * weight).detach().sum())
            elif entropy.left_out:
                constant += float(weight)
        return counted, constant

    @torch.no_grad()
    def divergences(self, found: Estimate) -> dict[str, float]:
        """KL of every soft arc at the samples, without the entropy of points; NaN where attention depends on the sample
        or it takes the density of a hard arc, which may have moved since."""
        each: dict[str, float] = {}
        for a, (_, surprise) in zip(self.soft, found.parts, strict=False):
            kl = float(average(found.mu.weights, surprise.detach())) if a.varying is None else math.nan
            for sign, names in ((-1, a.scope), (1, a.sources)):
                kl += sign * self._known_entropy(frozenset(names), found.mu) if names else 0.0
            each[a.name] = kl
        return each

    def _known_entropy(self, names: Names, mu: Samples) -> float:
        """H without that of points, as tables have it; NaN if it takes a density."""
        entropy = entropy_of(self, self.makers, names)
        makers = [a for a in self.makers if a.name in entropy.makers]
        if entropy.refused or not all(a.log_p.size for a in makers):
            return math.nan
        total = float(numerics.entropy(mu.marginal(*entropy.finite))) if entropy.finite else 0.0
        for a in makers:
            scores = torch.from_numpy(a.log_p)[tuple(mu.values[n] for n in a.scope)]
            total -= float((mu.weights * scores).sum())
        return total

    def _log_mu(
        self,
        entropy: Entropy,
        mu: Samples,
        scores: dict[str, Tensor],
        theta: Theta | None,
        tables: Tables | None,
    ) -> Iterator[Tensor]:
        """log mu of the variables at every sample, in parts that add up."""
        if entropy.refused:
            raise CapabilityError(entropy.why)
        if entropy.finite:
            table = mu.marginal(*entropy.finite) if tables is None else tables[entropy.finite]
            at = table[tuple(mu.values[n] for n in entropy.finite)]
            yield numerics.log(at).to(mu.weights.dtype)
        for a in self.makers:
            if a.name in entropy.makers:
                try:
                    yield scores[a.name] if a.name in scores else -surprisal(a.arc, mu, theta)
                except CapabilityError as error:
                    raise CapabilityError(f"{entropy.why}, but {a.arc}: {error} {CANCEL}") from None

    def _draw(
        self, theta: Theta | None, count: int, generator: torch.Generator
    ) -> tuple[Samples, dict[str, Tensor], Units | None]:
        """Samples; log q, (M,) each, of the arcs that know it from drawing and are scored; and which samples are of
        one draw."""
        values: dict[str, Tensor] = {}
        scores: dict[str, Tensor] = {}
        weights: Tensor | None = None
        units: Units | None = None
        for a in self.makers:
            if weights is None and a.arc.cpd.can("listed"):  # before all others: there is nothing to repeat
                listed, weights = a.arc.call("listed", theta)
                values.update(zip(a.targets, listed, strict=True))
                continue
            sources = [values[n] for n in a.sources]
            rows = 1 if weights is None else weights.shape[0]
            if a.log_p.size:
                drawn = _all(a.arc, theta, sources)
            elif a.name in self.random:
                drawn = _drawn(a.arc, theta, sources, rows, count if units is None else 1, generator)
            else:
                drawn = a.arc.call("draw", theta, sources, 1, generator)
            k = drawn.weights.shape[1]
            if k > 1 and values:
                values = {n: v.repeat_interleave(k, 0) for n, v in values.items()}
                scores = {n: v.repeat_interleave(k, 0) for n, v in scores.items()}
            for n, v in zip(a.targets, drawn.values, strict=True):
                values[n] = _spread(v, rows)
            if a.name in self._scored and drawn.score is not None:
                scores[a.name] = _spread(drawn.score(), rows)
            if units is not None:
                units = units.repeated(k)
            elif a.name in self.random:
                units = Units(rows, k)
            grown: Tensor = (drawn.weights if weights is None else weights.unsqueeze(1) * drawn.weights).reshape(-1)
            if a.log_p.size and bool((grown == 0).any()):  # what is impossible costs nothing, whatever it would cost
                kept = grown != 0
                grown = grown[kept]
                values, scores = ({n: v[kept] for n, v in x.items()} for x in (values, scores))
                units = units and units.take(kept)
            weights = grown
        return Samples(self.variables, values, torch.ones(1) if weights is None else weights), scores, units

    @torch.no_grad()
    def rows(self, theta: Theta | None) -> int:
        """For how many values of what comes before it the first random arc is drawn from."""
        before: list[Attended] = []
        for a in self.makers:
            if a.name in self.random:
                break
            before.append(a)
        return len(replace(self, makers=tuple(before))._draw(theta, 1, UNASKED)[0]) if before else 1

    @cached_property
    def size(self) -> int:
        """About how many numbers there are for each draw."""
        width = sum(v.domain.dim if isinstance(v.domain, Euclidean) else 1 for v in self.variables)
        first = next((i for i, a in enumerate(self.makers) if a.name in self.random), len(self.makers))
        after = [v for a in self.makers[first:] for v in a.arc.targets if v.is_finite]
        return width * cells(after)

    @cached_property
    def finite(self) -> frozenset[tuple[str, ...]]:
        """The sets of finite variables whose entropy is counted."""
        return frozenset(self.entropies[names].finite for names in self.weights if names) - {()}

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


def is_random(a: Attended) -> bool:
    """Whether a hard arc is drawn from at random: it is neither finite nor made of points."""
    return not (a.arc.cpd.points or all(v.is_finite for v in a.arc.targets))


def _drawn(
    arc: Arc, theta: Theta | None, sources: list[Tensor], rows: int, count: int, generator: torch.Generator
) -> Drawn:
    """`count` draws for each row; an arc without sources draws other ones for each, so that rows are independent."""
    if sources or rows == 1:
        return arc.call("draw", theta, sources, count, generator)
    found = arc.call("draw", theta, sources, rows * count, generator)
    score = found.score
    return Drawn(
        tuple(v.reshape(rows, count, *v.shape[2:]) for v in found.values),
        found.weights.reshape(rows, count) * rows,
        None if score is None else lambda: score().reshape(rows, count),
    )


def _spread(x: Tensor, rows: int) -> Tensor:
    """(rows or 1, k, ...) as (rows k, ...)."""
    if rows == 1:
        return x.select(0, 0)
    return (x if len(x) == rows else x.expand(rows, *x.shape[1:])).reshape(-1, *x.shape[2:])


def _all(arc: Arc, theta: Theta | None, sources: list[Tensor]) -> Drawn:
    """Every setting of finite targets."""
    p = arc.log_table(theta).exp().reshape(cells(arc.sources), cells(arc.targets))
    row = torch.zeros(len(sources[0]) if sources else 1, dtype=torch.long)
    for v, s in zip(arc.sources, sources, strict=True):
        row = row * v.size + s
    settings = torch.cartesian_prod(*(torch.arange(v.size) for v in arc.targets)).reshape(p.shape[1], -1)
    return Drawn(tuple(x.expand(len(row), -1) for x in settings.T), p[row])
