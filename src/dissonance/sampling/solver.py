"""Components whose mu is made by hard arcs that can be drawn from: nothing is left to optimise, only to average."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from torch import Tensor

from dissonance.answer import Answer, Solver
from dissonance.arc import Theta
from dissonance.distributions.samples import Samples
from dissonance.errors import CapabilityError, DissonanceError
from dissonance.problem import Batch
from dissonance.proof import ProvedBounds
from dissonance.sampling.blocks import estimate
from dissonance.sampling.plan import Estimate, Plan


@dataclass(frozen=True, eq=False)
class SampledAnswer(Answer):
    """An average over samples of the one mu that the hard arcs allow; `error` is its standard error."""

    estimate: Estimate | None = field(default=None, repr=False)
    plan: Plan | None = field(default=None, repr=False)
    again: Callable[[Theta | None], Estimate] | None = field(default=None, repr=False)
    """The same draws at other parameters."""

    exact = True
    kind = "samples"

    @property
    def up_to_constant(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether an infinite or constant entropy of points was left out."""
        return self.estimate is not None and self.estimate.up_to_constant

    @classmethod
    def of(cls, part: Batch, name: str, found: Estimate, why: Callable[[], str], **more: Any) -> Self:
        """That of an average: its bounds are the value itself, and it counts as converged only if nothing was random.

        `why` it is NaN, if it is; `more`: what is needed later.
        """
        value = found.value.item()
        if math.isnan(value):
            raise DissonanceError(why())
        both = np.array([value])
        bounds = ProvedBounds(both, both.copy(), np.zeros(1), np.array([not found.random]))
        return cls(part, bounds, name, estimate=found, **more)

    @cached_property
    def mu(self) -> Samples:  # pyright: ignore[reportIncompatibleMethodOverride]
        """mu as the weighted samples that were averaged over."""
        assert self.estimate is not None
        return self.estimate.mu

    @property
    def error(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The standard error; 0 where nothing was drawn at random, NaN where there was but one draw."""
        return 0.0 if self.estimate is None else self.estimate.error

    def surrogate(self, theta: Theta | None = None) -> Tensor:
        """The average as a function of theta, samples included: the same draws again."""
        assert self.again is not None and self.estimate is not None
        if theta is self.part.theta and self.estimate.value.requires_grad:
            return self.estimate.value
        return self.again(theta).value

    def divergences(self) -> dict[str, float]:
        """KL of every soft arc at mu, without the entropy of points; NaN where it is not known."""
        assert self.plan is not None and self.estimate is not None
        return self.plan.divergences(self.estimate)


@dataclass(frozen=True)
class Sampled(Solver):
    """Hard acyclic arcs make mu: all values of one that is finite or points, draws of one that has a density.

    `count`: how many draws there are for each row of data and each value of the finite variables that come before them;
    by default 10,000 in all, and two of each row at least, so that there is a standard error. A step of LIR makes
    one of each by default. The same `seed` draws the same samples. Many draws are made and averaged in blocks, and
    their derivatives too: memory does not grow with `count`, and `mu` holds the draws of the first block.
    """

    name = "sampled"

    count: int | None = None
    seed: int = 0

    takes = needs = frozenset({"drawn", "varying", "euclidean"})

    def for_step(self, seed: int) -> Self:
        """The same for a step of LIR: other draws, and one of each row unless a number was asked for."""
        return replace(self, count=self.count or 1, seed=seed)

    def fits(self, part: Batch) -> bool:
        """Whether there is something to sample and hard arcs make mu."""
        return bool(part.kinds) and part.pinned is not None

    def solve(self, part: Batch) -> Answer:
        """The inconsistency as an average over samples."""
        plan, found = self.plan(part), self.estimate(part, part.theta)
        why = partial(plan.not_a_number, found.mu, part.theta)
        return SampledAnswer.of(part, self.name, found, why, plan=plan, again=partial(self.estimate, part))

    def plan(self, part: Batch) -> Plan:
        """What there is to draw and to score."""
        makers = part.pinned
        if makers is None:
            raise CapabilityError(_not_pinned(part))
        return Plan.of(part, makers)

    def estimate(self, part: Batch, theta: Theta | None) -> Estimate:
        """Draw, score, average."""
        return estimate(self.plan(part), theta, self.count, self.seed)


def unpinned(part: Batch) -> str:
    """Why hard arcs do not determine mu."""
    made = {t for a in part.arcs if a.hard for t in a.targets}
    loose = next((v.name for v in part.variables if v.name not in made), None)
    if loose is not None:
        return f"no hard arc (beta = inf) makes {loose!r}"
    return "the hard arcs form a cycle, or leave free how variables of one arc depend on each other"


def _not_pinned(part: Batch) -> str:
    what = unpinned(part)
    varying = next((a.arc for a in part.arcs if a.varying is not None), None)
    if varying is not None:
        needed = "which needs acyclic hard arcs that determine mu"
        return f"the attention to {varying} depends on the sample, {needed}; {what}."
    odd = next((a.arc for a in part.arcs if a.log_p.size == 0), part.arcs[0].arc)
    domains = "; ".join(f"{v.name} is {v.domain}" for v in odd.scope if not v.is_finite)
    return (
        f"{odd} cannot be tabulated: {domains}. Unless all is linear-Gaussian, mu must be made by acyclic hard arcs "
        f"that can be drawn from; {what}. Make one hard, or set beta[{odd.name!r}] = 0 to leave the arc out."
    )
