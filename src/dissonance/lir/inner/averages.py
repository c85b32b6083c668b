"""The inner problem where some of it is drawn: averages over samples, with derivatives when they are asked for.

An attention is prepared once (`PreparedProblem`): which components there are, what is drawn and what is scored. A step
of LIR under an attention that was seen before goes from theta, a context and a seed to the value and its derivatives
without looking at the PDG again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dissonance.arc import Theta
from dissonance.errors import DissonanceError
from dissonance.lir.inner.base import Solved
from dissonance.lir.parameters import Stacked
from dissonance.numerics import DTYPE
from dissonance.problem import Batch
from dissonance.proof import ProvedBounds
from dissonance.sampling.blocks import estimate
from dissonance.sampling.plan import Plan
from dissonance.solvers import Solver
from dissonance.solvers.front import Assembled, chosen, solve_each


class Average(NamedTuple):
    """Bounds, the steps of a solver, and the scalars whose derivatives add up to those of the value; the result itself
    where the solver was asked for one."""

    lower: float
    upper: float
    steps: int
    parts: Sequence[Tensor]
    result: Assembled | None


@dataclass(eq=False)
class PreparedProblem:
    """An attended PDG made ready for any theta: its problem and, if all components are averages, their plans.

    `turn` counts the averages: a graph holds until the next one, whose theta takes the place of its own in the cpds.
    """

    solver: Solver
    problem: Batch
    turn: int = 0

    @cached_property
    def plans(self) -> tuple[tuple[Plan, int], ...]:
        """How components are averaged, if all of them are; and over how many samples."""
        parts = self.problem.parts
        solvers: list[Any] = [chosen(self.solver, part)[0][0] for part in parts]  # those with a plan average samples
        drawn = [(s.plan(c), s.count or 1) for s, c in zip(solvers, parts, strict=True) if hasattr(s, "plan")]
        return tuple(drawn) if len(drawn) == len(solvers) else ()

    @cached_property
    def drawn(self) -> bool:
        """Whether some of it is an average over samples."""
        return any(part.is_drawn for part in self.problem.parts)

    @cached_property
    def _depending(self) -> tuple[Plan, ...]:
        """The plans that depend on theta: those of components with tables."""
        return tuple(plan for plan, _ in self.plans if plan.tables)

    def average(self, theta: Theta, seed: int) -> Average:
        """The value at theta, by the plans where they are all there is to do."""
        self.turn += 1
        if not self.plans or (self._depending and not all(plan.holds(theta) for plan in self._depending)):
            result = self.result(theta, seed)
            parts = [s.surrogate(theta) for s in result.answers] if math.isfinite(result.upper) else []
            live = [x for x in parts if x.requires_grad]
            return Average(result.lower, result.upper, int(result.steps), live, result)
        values: list[float] = []
        parts: list[Tensor] = []
        for plan, count in self.plans:
            found = estimate(plan, theta, count, seed)
            values.append(found.value.item())
            if math.isnan(values[-1]):
                raise DissonanceError(plan.not_a_number(found.mu, theta))
            if found.value.requires_grad:
                parts.append(found.value)
        free = ProvedBounds.entropy(self.problem.free, self.problem.gamma)
        value = float(free.lower[0] + free.upper[0]) / 2 + (math.inf if math.inf in values else sum(values))
        return Average(value, value, 0, parts if math.isfinite(value) else [], None)

    def result(self, theta: Theta, seed: int) -> Assembled:
        """Return the answer of the solver at theta."""
        solver: Any = self.solver
        solver = solver.for_step(seed) if hasattr(solver, "for_step") else solver
        return solve_each([self.problem.at(theta)], solver)[0]


@dataclass(frozen=True)
class Surroundings:
    """What a step of P runs uses beside theta: values of their buffers, seeds of their samples, and the parameters in
    which derivatives will be asked for first (None: all)."""

    contexts: Sequence[Theta]
    seeds: Sequence[int]
    free: Sequence[str] | None = None


class RunAverage:
    """The average of one run at theta, and its derivatives in `leaves`, the parameters of the run by their first name.

    A graph gives derivatives once: in other parameters than those first asked for it is drawn anew, from the same seed.
    """

    def __init__(self, problem: PreparedProblem, leaves: dict[str, Tensor], theta: Theta, seed: int) -> None:
        self.problem, self.leaves, self.theta, self.seed = problem, leaves, theta, seed
        self._known: dict[tuple[str, ...], dict[str, Tensor]] = {}

    def draw(self, keys: Iterable[str]) -> None:
        """Draw and score, with derivatives in these parameters and in those that had them before."""
        for key in keys:
            self.leaves[key].requires_grad_()
        self.found = self.problem.average(self.theta, self.seed)
        self._turn = self.problem.turn

    def gradient(self, keys: tuple[str, ...]) -> dict[str, Tensor]:
        """The derivatives in these parameters."""
        if keys not in self._known:
            if self._turn != self.problem.turn or not all([self.leaves[key].requires_grad for key in keys]):
                with torch.enable_grad():
                    self.draw(keys)
            self._turn = -1  # the graph is used up
            self._known[keys] = _slopes(self.found.parts, {key: self.leaves[key] for key in keys})
        return self._known[keys]

    @cached_property
    def result(self) -> Assembled:
        """The answer of the solver for this run."""
        if self.found.result is not None:
            return self.found.result
        with torch.enable_grad():
            return self.problem.result(self.theta, self.seed)


class Averages(Solved):
    """The averages of P runs at theta, and their derivatives."""

    def __init__(self, each: Sequence[RunAverage]) -> None:
        self._each = each
        steps = [one.found.steps for one in each]
        self.steps = torch.tensor(steps) if any(steps) else 0

    @property
    def bounds(self) -> tuple[list[float], list[float]]:
        """The lower and the upper bounds as numbers."""
        return [one.found.lower for one in self._each], [one.found.upper for one in self._each]

    @cached_property
    def lower(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The lower bounds of the runs, (P,)."""
        return torch.tensor(self.bounds[0], dtype=DTYPE)

    @cached_property
    def upper(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The upper bounds of the runs, (P,)."""
        return torch.tensor(self.bounds[1], dtype=DTYPE)

    @property
    def drawn(self) -> bool:
        """Whether some of it is an average over samples: where these are infinite the gradient is 0."""
        return any([one.problem.drawn for one in self._each])

    @cached_property
    def results(self) -> Sequence[Assembled]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The answers of the solver, run by run."""
        return [one.result for one in self._each]

    def gradient(self, keys: Sequence[str] | None = None) -> Stacked:
        """The derivatives in these parameters, or in all, (P, ...) each."""
        each = self.gradients(tuple(self._each[0].leaves) if keys is None else keys)
        if len(each) == 1:
            return {key: g.unsqueeze(0) for key, g in each[0].items()}
        return {key: torch.stack([own[key] for own in each]) for key in each[0]}

    def gradients(self, keys: Sequence[str]) -> list[dict[str, Tensor]]:
        """The derivatives in these parameters, run by run."""
        asked = tuple(keys)
        return [one.gradient(asked) for one in self._each]


def _slopes(parts: Sequence[Tensor], leaves: dict[str, Tensor]) -> dict[str, Tensor]:
    """The derivatives of the sum of the parts."""
    if not parts or not leaves:
        return {key: torch.zeros_like(v) for key, v in leaves.items()}
    found: Any = torch.autograd.grad(parts, tuple(leaves.values()), allow_unused=True)  # None for one that is not used
    return {key: torch.zeros_like(leaves[key]) if g is None else g for key, g in zip(leaves, found, strict=True)}
