"""The local inconsistency of P runs as a function of theta, and the parameters that a flow may move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dissonance.lir.inner.base import Attentions, Inner, Solved
from dissonance.lir.parameters import Parameters, Stacked

Bounds = tuple[list[float], list[float]]
"""The lower bounds of P runs, and the upper ones."""

MASS = 1e-9
"""Rows with less mass mu(s) than this say nothing about p(T|s)."""


@dataclass(frozen=True, eq=False)
class StackedControl:
    """chi of P runs, (P, ...) for every parameter, and what follows from it alone."""

    chi: Stacked

    @cached_property
    def narrow(self) -> Stacked:
        """The same, (P, 1, ...) where it is one number a run."""
        return {key: narrow(chi) for key, chi in self.chi.items()}

    @cached_property
    def free(self) -> tuple[str, ...]:
        """The parameters that some run may move."""
        return tuple(key for key, chi in self.narrow.items() if bool(chi.any()))

    @cached_property
    def largest(self) -> float:
        """The largest chi of all."""
        return max((float(self.narrow[key].max()) for key in self.free), default=0.0)

    @cached_property
    def number(self) -> float | None:
        """chi of all that a single run may move, if it is one number."""
        numbers = {x if isinstance(x, float) else None for own in self.each for x in own.values()}
        return numbers.pop() if len(self.each) == len(numbers) == 1 else None

    @cached_property
    def each(self) -> tuple[dict[str, float | Tensor], ...]:
        """chi of each run, for the parameters that it may move: a float where all components are equal."""
        runs = range(len(next(iter(self.chi.values()))))
        own = [{key: self.narrow[key][k] for key in self.free} for k in runs]
        return tuple({key: _number(x) for key, x in one.items() if x.any()} for one in own)


@dataclass
class Local:
    """<<phi . M(theta)>> for P runs, each under its own focus (phi, chi).

    Where mu proves the inconsistency to be below `tol`, the gradient is 0: what is left of it is the solver's noise,
    and optimisers that ignore scale would turn it into large moves. `steps` and `solves` (P,) count the effort; `first`
    are the bounds of the first solve, run by run: where theta was before a flow moved it.
    """

    parameters: Parameters
    inner: Inner
    attention: Attentions
    chi: StackedControl
    tol: float = 1e-7
    solves: Tensor | int = 0
    steps: Tensor | int = 0
    first: Bounds | None = None

    @cached_property
    def full(self) -> list[tuple[Tensor, Tensor]]:
        """Of each arc the runs in which all of its components, and those in which any, have chi > 0, (P,) each."""
        found: list[tuple[Tensor, Tensor]] = []
        for keys in self.parameters.keys_of.values():
            if not keys:
                nowhere = torch.zeros(len(self.attention), dtype=torch.bool)
                found.append((nowhere, nowhere))
                continue
            free = torch.cat([by_run(self.chi.narrow[k] > 0) for k in keys], 1)
            found.append((free.all(1), free.any(1)))
        return found

    @property
    def control(self) -> Stacked:
        """chi of every component of every parameter of every run, (P, ...)."""
        return self.chi.chi

    def solve(self, theta: Stacked, attention: Attentions | None = None) -> Solved:
        """The inconsistency at theta, under this focus or another attention."""
        found = self.inner.solve(theta, self.attention if attention is None else attention)
        self.solves = self.solves + 1
        self.steps = self.steps + found.steps
        if attention is None and self.first is None:
            self.first = found.bounds
        return found

    def solve_once(self, theta: Stacked) -> Bounds:
        """The bounds of the first solve; at theta if nothing was solved yet, as nothing could move."""
        if self.first is None:
            self.solve(theta)
        assert self.first is not None
        return self.first

    def resolved(self, solved: Solved) -> Tensor:
        """Where nothing is left to resolve, (P,): 0 is the least there can be at gamma = 0 without disbelief."""
        a = self.attention
        if a.varying or solved.drawn:  # densities, weights of any sign: 0 is nothing special
            return torch.zeros_like(solved.upper, dtype=torch.bool)
        return (solved.upper < self.tol) & (a.gamma == 0) & (a.beta >= 0).all(1)

    def gradient(self, theta: Stacked) -> tuple[Solved, Stacked]:
        """The inconsistency at theta, and its gradient there."""
        solved = self.solve(theta)
        return solved, self.pull(solved)

    def slope(self, theta: Stacked) -> Stacked:
        """The gradient at theta in the parameters that may move, at least."""
        return self.pull(self.solve(theta), self.chi.free)

    def slopes(self, theta: Stacked) -> list[dict[str, Tensor]]:
        """The same run by run, without the axis of the runs."""
        solved, free = self.solve(theta), self.chi.free
        if solved.drawn:
            return solved.gradients(free)
        found = self.pull(solved, free)
        return [{key: found[key][k] for key in free} for k in range(len(self.attention))]

    def pull(self, solved: Solved, keys: Sequence[str] | None = None) -> Stacked:
        """The gradient of what was solved, in these parameters at least: 0 where nothing is left to resolve."""
        slope = solved.gradient(keys)
        if solved.drawn:
            return slope
        still = self.resolved(solved) | ~torch.isfinite(solved.upper)
        return {k: torch.where(over(still, g) | ~torch.isfinite(g), 0.0, g) for k, g in slope.items()}

    @cached_property
    def attended(self) -> list[bool]:
        """Whether any run attends to each arc."""
        a = self.attention
        return ((a.beta != 0) | (a.gamma[:, None] * a.alpha != 0)).any(0).tolist()

    @cached_property
    def _users(self) -> dict[str, int]:
        """How many arcs in attention have each parameter."""
        return {key: sum(self.attended[j] for j in arcs) for key, arcs in self.parameters.users.items()}

    def shares(self, i: int) -> bool:
        """Whether another arc in attention has a parameter in common with arc i."""
        own = int(self.attended[i])
        return any([self._users[key] > own for key in self.parameters.keys_of[self.parameters.arcs[i].name]])

    def idle(self, i: int) -> bool:
        """Whether arc i is out of attention and others that share its parameters are not: these move them."""
        return not self.attended[i] and self.shares(i)

    def alone(self, k: int) -> Local:
        """The local problem of run k by itself."""
        inner = self.inner.alone(k)
        here = torch.tensor([k])
        chi = StackedControl({key: x[here] for key, x in self.control.items()})
        return Local(inner.parameters, inner, self.attention.take(here), chi, self.tol)

    def count(self, each: Sequence[Local]) -> None:
        """Add up the effort of runs that were solved each by itself."""
        self.solves = self.solves + torch.tensor([int(one.solves) for one in each])
        self.steps = self.steps + torch.tensor([int(one.steps) for one in each])
        firsts = [one.first for one in each if one.first is not None]
        if self.first is None and len(firsts) == len(each):
            self.first = [x for lower, _ in firsts for x in lower], [x for _, upper in firsts for x in upper]


def narrow(chi: Tensor) -> Tensor:
    """(P, 1, ...) of a control that is one number a run, spread out; any other as it is."""
    if not any(chi.stride()[1:]):
        return chi[(slice(None), *[slice(0, 1)] * (chi.dim() - 1))]
    return chi


def by_run(x: Tensor) -> Tensor:
    """(P, n) of (P, ...): a parameter that is one number is a row of one."""
    return x.reshape(len(x), -1)


def _number(chi: Tensor) -> float | Tensor:
    first = float(chi.flatten()[0])
    return first if bool((chi == first).all()) else chi


def over(runs: Tensor, like: Tensor) -> Tensor:
    """(P,) reshaped to broadcast over (P, ...)."""
    return runs.reshape(-1, *[1] * (like.dim() - 1))
