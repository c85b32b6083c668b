"""The inner problem where some of it is drawn: averages over samples, with derivatives when they are asked for.

An attention is prepared once (`PreparedProblem`): which components there are, what is drawn and what is scored. A step
of LIR under an attention that was seen before goes from theta, a context and a seed to the value and its derivatives
without looking at the PDG again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dissonance.arc import Theta
from dissonance.errors import DissonanceError
from dissonance.focus import Attention
from dissonance.inconsistency import Inconsistency, inconsistencies
from dissonance.lir.inner.base import Solved
from dissonance.lir.parameters import Stacked
from dissonance.numerics import DTYPE
from dissonance.pdg import PDG
from dissonance.problem import Problem
from dissonance.sampling.blocks import estimate
from dissonance.sampling.plan import Plan
from dissonance.solvers import Solver, chosen


class Average(NamedTuple):
    """Bounds, the steps of a solver, and the scalars whose derivatives add up to those of the value; the result itself
    where the solver was asked for one."""

    lower: float
    upper: float
    steps: int
    parts: Sequence[Tensor]
    result: Inconsistency | None


@dataclass(frozen=True, eq=False)
class PreparedProblem:
    """An attended PDG made ready for any theta: its problem and, if all components are averages, their plans."""

    pdg: PDG
    attention: Attention
    solver: Solver
    problem: Problem
    theta: Theta

    def at(self, theta: Theta) -> Problem:
        """The problem at theta; as it was prepared, if that is the very one it was prepared for."""
        return self.problem if theta is self.theta else self.problem.at(theta)

    @cached_property
    def plans(self) -> tuple[tuple[Plan, int], ...]:
        """How components are averaged, if all of them are; and over how many samples."""
        components = self.problem.components
        solvers: list[Any] = chosen(self.solver, components)  # those with a plan average over samples
        drawn = [(s.plan(c), s.count or 1) for s, c in zip(solvers, components, strict=True) if hasattr(s, "plan")]
        return tuple(drawn) if len(drawn) == len(solvers) else ()

    @cached_property
    def drawn(self) -> bool:
        """Whether some of it is an average over samples."""
        return any(c.is_drawn for c in self.problem.components)

    def average(self, theta: Theta, seed: int) -> Average:
        """The value at theta, by the plans where they are all there is to do."""
        if not self.plans or not all(plan.holds(theta) for plan, _ in self.plans):
            result = self.result(theta, seed)
            parts = [s.surrogate(theta) for s in result.solutions] if math.isfinite(result.upper) else []
            steps = int(result.stats["steps"])
            return Average(result.lower, result.upper, steps, [x for x in parts if x.requires_grad], result)
        values: list[float] = []
        parts: list[Tensor] = []
        for plan, count in self.plans:
            found = estimate(plan, theta, count, seed)
            values.append(found.value.item())
            if math.isnan(values[-1]):
                raise DissonanceError(plan.not_a_number(found.mu, theta))
            if found.value.requires_grad:
                parts.append(found.value)
        value = self.problem.constant + (math.inf if math.inf in values else sum(values))
        return Average(value, value, 0, parts if math.isfinite(value) else [], None)

    def result(self, theta: Theta, seed: int) -> Inconsistency:
        """All there is to know."""
        solver: Any = self.solver
        solver = solver.for_step(seed) if hasattr(solver, "for_step") else solver
        problems = [self.at(theta)]
        return inconsistencies([self.pdg], [self.attention], solver=solver, thetas=[theta], problems=problems)[0]


@dataclass(frozen=True)
class Surroundings:
    """What P runs are seen with for a step: values of their buffers, seeds of their samples, and the parameters in
    which derivatives will be asked for first (None: all)."""

    contexts: Sequence[Theta]
    seeds: Sequence[int]
    free: Sequence[str] | None = None


class Averages(Solved):
    """The averages of P runs at theta, and their derivatives.

    A graph gives derivatives once: in other parameters than those first asked for it is drawn anew, from the same seed.
    """

    def __init__(self, theta: Stacked, home: Mapping[str, str], around: Surroundings) -> None:
        self._leaves = [{key: v.select(0, k) for key, v in theta.items()} for k in range(len(around.seeds))]
        self._marked: set[str] = set()
        self._mark(theta if around.free is None else around.free)
        self.thetas = [
            {**{key: leaves[where] for key, where in home.items()}, **context}
            for leaves, context in zip(self._leaves, around.contexts, strict=True)
        ]
        self._seeds = around.seeds
        self._known: dict[tuple[str, ...], Stacked] = {}

    def _mark(self, keys: Iterable[str]) -> None:
        """Have derivatives in these parameters."""
        self._marked.update(keys)
        for leaves in self._leaves:
            for key in keys:
                leaves[key].requires_grad_()

    def average(self, ready: Sequence[PreparedProblem]) -> None:
        """Draw and score."""
        self._ready, self._drawn = ready, any([one.drawn for one in ready])
        asked = zip(ready, self.thetas, self._seeds, strict=True)
        self._found, self._fresh = [one.average(theta, seed) for one, theta, seed in asked], True

    @property
    def bounds(self) -> tuple[list[float], list[float]]:
        """The lower and the upper bounds as numbers."""
        return [x.lower for x in self._found], [x.upper for x in self._found]

    @cached_property
    def lower(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The lower bounds."""
        return torch.tensor([x.lower for x in self._found], dtype=DTYPE)

    @cached_property
    def upper(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The upper bounds."""
        return torch.tensor([x.upper for x in self._found], dtype=DTYPE)

    @cached_property
    def steps(self) -> Tensor | int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The steps that solvers took, if any did."""
        return torch.tensor([x.steps for x in self._found]) if any([x.steps for x in self._found]) else 0

    @property
    def drawn(self) -> bool:
        """Whether some of it is an average over samples: where these are infinite the gradient is 0."""
        return self._drawn

    @property
    def results(self) -> Sequence[Inconsistency]:
        """The results themselves."""
        return self._results

    @cached_property
    def _results(self) -> list[Inconsistency]:
        with torch.enable_grad():
            asked = zip(self._found, self._ready, self.thetas, self._seeds, strict=True)
            return [known.result or one.result(theta, seed) for known, one, theta, seed in asked]

    def gradient(self, keys: Sequence[str] | None = None) -> Stacked:
        """The derivatives in these parameters, or in all, (P, ...) each."""
        keys = tuple(self._leaves[0] if keys is None else keys)
        if keys not in self._known:
            if not self._fresh or not self._marked.issuperset(keys):
                self._mark(keys)
                with torch.enable_grad():
                    self.average(self._ready)
            self._fresh = False
            each = [
                _slopes(x.parts, [leaves[key] for key in keys])
                for x, leaves in zip(self._found, self._leaves, strict=True)
            ]
            if len(each) == 1:  # no copy
                self._known[keys] = {key: g.unsqueeze(0) for key, g in zip(keys, each[0], strict=True)}
            else:
                self._known[keys] = {key: torch.stack([g[i] for g in each]) for i, key in enumerate(keys)}
        return self._known[keys]


def _slopes(parts: Sequence[Tensor], leaves: Sequence[Tensor]) -> Sequence[Tensor]:
    if not parts or not leaves:
        return [torch.zeros_like(v) for v in leaves]
    found: Any = torch.autograd.grad(parts, leaves, allow_unused=True)  # None for one that is not used
    return [torch.zeros_like(v) if g is None else g for v, g in zip(leaves, found, strict=True)]
