"""The local inconsistency of P runs as a function of theta, and the parameters that a flow may move."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics, scores
from dissonance.arc import Arc, Theta
from dissonance.costs import LOG_SCORE, FlatRows
from dissonance.errors import CapabilityError
from dissonance.focus import Focus
from dissonance.lir.inner.base import Attentions, Inner, Solved
from dissonance.lir.parameters import Parameters, Stacked, stacked
from dissonance.numerics import DTYPE
from dissonance.variables import cells

Bounds = tuple[list[float], list[float]]
"""The lower bounds of P runs, and the upper ones."""

MASS = 1e-9
"""Rows with less mass mu(s) than this say nothing about p(T|S)."""


@dataclass(eq=False)
class Local:
    """<<phi . M(theta)>> for P runs, each under its own focus (phi, chi), on all arcs or on those in focus alone.

    Where mu proves the inconsistency to be below `tol`, the gradient is 0: what is left of it is the solver's noise,
    and optimisers that ignore scale would turn it into large moves.

    Attributes
    ----------
    parameters : Parameters
        The parameters of the arcs that are looked at.
    inner : Inner
        The solver of their inconsistency.
    attention : Attentions
        phi of the runs.
    chi : Stacked
        chi of every component of every parameter of every run, (P, ...), keyed like theta.
    key_of : Mapping or None
        The names under which theta of the runs has these parameters; None where the names are the same.
    foci : Sequence of Focus
        The foci that phi and chi were stacked from.
    solves, steps : Tensor or int
        The effort so far: calls of the solver and its own steps, (P,).
    first : Bounds or None
        The bounds of the first solve: those where theta was before a flow moved it.
    """

    parameters: Parameters
    inner: Inner
    attention: Attentions
    chi: Stacked
    tol: float = 1e-7
    key_of: Mapping[str, str] | None = None
    foci: Sequence[Focus] = ()
    solves: Tensor | int = 0
    steps: Tensor | int = 0
    first: Bounds | None = None

    def under(self, foci: Sequence[Focus]) -> Local:
        """Return the local problem of the same arcs under the foci of the runs."""
        names = [a.name for a in self.parameters.arcs]
        attention = Attentions.of([f.attention for f in foci], names)
        chi = self.parameters.control([f.control for f in foci])
        kept = [Focus(f.attention, f.control) for f in foci]  # without the data of a context
        return Local(self.parameters, self.inner, attention, chi, self.tol, self.key_of, kept)

    def controlled(self, chi: Stacked) -> Local:
        """Return the same problem under another control, (P, 1, ...) or (P, ...)."""
        return replace(self, chi={key: x.expand_as(self.chi[key]) for key, x in chi.items()})

    def begin(self, inner: Inner, contexts: Sequence[Theta], generators: Sequence[np.random.Generator]) -> None:
        """Begin a step: forget the effort of earlier ones, and give the solver what it may use beside theta, the
        contexts of the foci and, where samples are drawn, a seed for each run."""
        self.inner, self.solves, self.steps, self.first = inner, 0, 0, None
        if self.attention.varying and not inner.supports_varying:
            raise CapabilityError(
                "the refocus makes attention vary with the sample, and the run's own attention does not: give lir "
                'an `attention` that does, or solver="sampled".'
            )
        if inner.random or any(contexts):
            inner.surround(contexts, [int(g.integers(2**62)) for g in generators], self.free)

    def theta(self, whole: Mapping[str, Tensor]) -> Stacked:
        """Return the parameters of the arcs that are looked at, of theta of the runs."""
        if self.key_of is None:
            return stacked(whole)
        return {own: whole[key] for own, key in self.key_of.items()}

    # -- control -------------------------------------------------------------------------------------------------------

    @cached_property
    def narrow(self) -> Stacked:
        """chi, (P, 1, ...) where it is one number a run."""
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
        numbers = {x if isinstance(x, float) else None for own in self.each_chi for x in own.values()}
        return numbers.pop() if len(self.each_chi) == len(numbers) == 1 else None

    @cached_property
    def each_chi(self) -> tuple[dict[str, float | Tensor], ...]:
        """chi of each run, for the parameters that it may move: a float where all components are equal."""
        runs = [{key: self.narrow[key][k] for key in self.free} for k in range(len(self.attention))]
        return tuple({key: _number(x) for key, x in chi.items() if x.any()} for chi in runs)

    @cached_property
    def full(self) -> list[tuple[Tensor, Tensor]]:
        """Of each arc the runs in which all of its components, and those in which any, have chi > 0, (P,) each."""
        found: list[tuple[Tensor, Tensor]] = []
        nowhere = torch.zeros(len(self.attention), 1, dtype=torch.bool)
        for keys in self.parameters.keys_of.values():
            free = torch.cat([by_run(self.narrow[k] > 0) for k in keys], 1) if keys else nowhere
            found.append((free.all(1), free.any(1)))
        return found

    # -- solving -------------------------------------------------------------------------------------------------------

    def solve(self, theta: Stacked, attention: Attentions | None = None) -> Solved:
        """Return the inconsistency at theta between its bounds, under this focus or another attention."""
        found = self.inner.solve(theta, self.attention if attention is None else attention)
        self.solves = self.solves + 1
        self.steps = self.steps + found.steps
        if attention is None and self.first is None:
            self.first = found.bounds
        return found

    def solve_once(self, theta: Stacked) -> Bounds:
        """Return the bounds of the first solve; at theta if nothing was solved yet, as nothing could move."""
        if self.first is None:
            self.solve(theta)
        assert self.first is not None
        return self.first

    def slope(self, theta: Stacked) -> Stacked:
        """Return the gradient at theta in the parameters that may move, at least."""
        return self.pull(self.solve(theta), self.free)

    def slopes(self, theta: Stacked) -> list[dict[str, Tensor]]:
        """Return the gradient at theta run by run, without the axis of the runs."""
        solved = self.solve(theta)
        if solved.drawn:
            return solved.gradients(self.free)
        found = self.pull(solved, self.free)
        return [{key: found[key][k] for key in self.free} for k in range(len(self.attention))]

    def pull(self, solved: Solved, keys: Sequence[str] | None = None) -> Stacked:
        """Return the gradient of what was solved, in these parameters at least: 0 where nothing is left to resolve."""
        slope = solved.gradient(keys)
        if solved.drawn:
            return slope
        still = self.resolved(solved) | ~torch.isfinite(solved.upper)
        return {k: torch.where(over(still, g) | ~torch.isfinite(g), 0.0, g) for k, g in slope.items()}

    def resolved(self, solved: Solved) -> Tensor:
        """Return where nothing is left to resolve, (P,): at gamma = 0 without disbelief nothing is below 0."""
        a = self.attention
        if a.varying or solved.drawn:  # densities, weights of any sign: 0 is nothing special
            return torch.zeros_like(solved.upper, dtype=torch.bool)
        return (solved.upper < self.tol) & (a.gamma == 0) & (a.beta >= 0).all(1)

    def precise_joint(self, log_p: Tensor, attention: Attentions, runs: Tensor, arc: Arc) -> Tensor:
        """Return mu(s,t) of an arc in some runs, as precisely as can be, for tables (P, entries)."""
        self.solves = self.solves + 1
        return self.inner.precise_joint(log_p, attention, runs, arc)

    # -- arcs ----------------------------------------------------------------------------------------------------------

    @cached_property
    def attended(self) -> list[bool]:
        """Whether any run attends to each arc."""
        a = self.attention
        return ((a.beta != 0) | (a.gamma[:, None] * a.alpha != 0)).any(0).tolist()

    @cached_property
    def _users(self) -> dict[str, int]:
        """The number of arcs in attention that have each parameter."""
        return {key: sum(self.attended[j] for j in arcs) for key, arcs in self.parameters.users.items()}

    def shares(self, i: int) -> bool:
        """Whether another arc in attention has a parameter in common with arc i."""
        own = int(self.attended[i])
        return any([self._users[key] > own for key in self.parameters.keys_of[self.parameters.arcs[i].name]])

    def idle(self, i: int) -> bool:
        """Whether arc i is out of attention and others that share its parameters are not: these move them."""
        return not self.attended[i] and self.shares(i)

    def blame(self, theta: Stacked, solved: Solved) -> tuple[Tensor, Tensor]:
        """Return beta_a KL_a at mu*, and the excess surprisal E_mu[-log p] - E_mu(S)[H(p)], (P, arcs) each."""
        with torch.no_grad():
            log_p = self.parameters.log_tables(theta)
        m = solved.joints(self.parameters)
        divergence, surprisal = scores.entry_scores(m, self.parameters.along_rows(m), log_p)
        for arc in (a for a in self.parameters.arcs if a.cpd.cost is not LOG_SCORE):
            span, rows = self.parameters.spans[arc.name], FlatRows.wide([cells(arc.targets)] * cells(arc.sources))
            divergence[:, span] = torch.from_numpy(arc.cpd.cost.value(m[:, span].numpy(), log_p[:, span].numpy(), rows))
        soft = torch.where(self.attention.beta == math.inf, 0.0, self.attention.beta)
        kl = self.parameters.by_arc(divergence).clamp(min=0.0)
        return numerics.times(soft, kl), self.parameters.by_arc(surprisal)

    # -- runs ----------------------------------------------------------------------------------------------------------

    def alone(self, k: int) -> Local:
        """Return the local problem of run k without the other runs."""
        inner, here = self.inner.alone(k), torch.tensor([k])
        chi = {key: x[here] for key, x in self.chi.items()}
        return Local(inner.parameters, inner, self.attention.take(here), chi, self.tol)

    def count(self, each: Sequence[Local]) -> None:
        """Add up the effort of runs that were solved each without the others."""
        self.solves = self.solves + torch.tensor([int(one.solves) for one in each])
        self.steps = self.steps + torch.tensor([int(one.steps) for one in each])
        firsts = [one.first for one in each if one.first is not None]
        if self.first is None and len(firsts) == len(each):
            self.first = [x for lower, _ in firsts for x in lower], [x for _, upper in firsts for x in upper]

    # -- traces --------------------------------------------------------------------------------------------------------

    @cached_property
    def weights(self) -> list[dict[str, Any]]:
        """Run by run what a row of the trace says of the focus: weights that are not 0, and the largest chi of arcs."""
        return [
            {
                "beta": {n: b for n, b in f.attention.beta.items() if b},
                "gamma": f.attention.gamma,
                "chi": {n: float(torch.as_tensor(c, dtype=DTYPE).max()) for n, c in f.control.chi.items()},
            }
            for f in self.foci
        ]


def narrow(chi: Tensor) -> Tensor:
    """Return (P, 1, ...) of a control that is one number a run, spread out; any other as it is."""
    if not any(chi.stride()[1:]):
        return chi[(slice(None), *[slice(0, 1)] * (chi.dim() - 1))]
    return chi


def by_run(x: Tensor) -> Tensor:
    """Return (P, n) of (P, ...): a parameter that is one number is a row of one."""
    return x.reshape(len(x), -1)


def _number(chi: Tensor) -> float | Tensor:
    first = float(chi.flatten()[0])
    return first if bool((chi == first).all()) else chi


def over(runs: Tensor, like: Tensor) -> Tensor:
    """Return (P,) reshaped to broadcast over (P, ...)."""
    return runs.reshape(-1, *[1] * (like.dim() - 1))
