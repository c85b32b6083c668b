"""The inner problem by any solver, run by run through `inconsistencies`: for what cannot be batched."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dissonance.answer import Solver
from dissonance.arc import Arc, Theta
from dissonance.errors import CapabilityError
from dissonance.lir.inner.averages import Averages, PreparedProblem, RunAverage, Surroundings
from dissonance.lir.inner.base import Attentions, Inner, Solved
from dissonance.lir.inner.compromise import Compromise, of_mus
from dissonance.lir.parameters import Parameters, Stacked
from dissonance.numerics import DTYPE
from dissonance.pdg import PDG
from dissonance.problem import prepare
from dissonance.solvers.front import Assembled, solve_each

PREPARED = 64
"""Attentions whose problems are kept ready, as they were given and by their weights."""

REMEMBERED = 3
"""Solutions that are kept: a step asks again for what the last one ended with."""


@dataclass(frozen=True)
class _Asked:
    """A question and its answer."""

    theta: list[Tensor]
    versions: list[int]
    attention: Attentions
    answer: Solved

    def same(self, theta: Stacked, attention: Attentions) -> bool:
        """Whether the question is this one: the very same tensors, unchanged since."""
        pairs = zip(theta.values(), self.theta, strict=True)
        unmoved = all(x is v for x, v in pairs) and [v._version for v in self.theta] == self.versions
        return unmoved and (attention is self.attention or bool(attention.same(self.attention).all()))


class SolvedOneByOne(Solved):
    """The results of P runs at theta, each found by itself."""

    def __init__(self, inner: OneByOne, theta: Stacked, results: Sequence[Assembled]) -> None:
        self._parameters, self._contexts = inner.parameters, inner.contexts
        self._theta, self.results = theta, results
        self.lower = torch.tensor([r.lower for r in results], dtype=DTYPE)
        self.upper = torch.tensor([r.upper for r in results], dtype=DTYPE)
        self.steps = torch.tensor([int(r.steps) for r in results])
        self._gradients: dict[tuple[str, ...], Stacked] = {}

    def gradient(self, keys: Sequence[str] | None = None) -> Stacked:
        """The derivatives in these parameters, or in all; 0 where the inconsistency is infinite."""
        asked = tuple(self._theta if keys is None else keys)
        if asked not in self._gradients:
            self._gradients[asked] = self._gradient(asked)
        return self._gradients[asked]

    def _gradient(self, keys: Sequence[str]) -> Stacked:
        theta = self._theta
        leaves = {**theta, **{k: theta[k].detach().requires_grad_() for k in keys}}
        total = torch.zeros((), dtype=DTYPE)
        with torch.enable_grad():
            for k, result in enumerate(self.results):
                if math.isfinite(result.upper):
                    own = {**self._parameters.of(k, leaves), **self._contexts[k]}
                    for s in result.answers:
                        total = total + s.surrogate(own)
        if not total.requires_grad:
            return {k: torch.zeros_like(theta[k]) for k in keys}
        slopes = torch.autograd.grad(total, [leaves[k] for k in keys], allow_unused=True, materialize_grads=True)
        return dict(zip(keys, slopes, strict=True))


class OneByOne(Inner):
    """Any solver, through `inconsistencies`: for what cannot be batched. It remembers its last few answers."""

    supports_varying = True

    def __init__(self, parameters: Parameters, solver: Solver) -> None:
        self._parameters, self.solver, self.random = parameters, solver, parameters.drawn
        self.names = [a.name for a in parameters.arcs]
        self._asked: list[_Asked] = []
        self.around = Surroundings([{}] * len(parameters), [0] * len(parameters))
        self._seen: dict[tuple[Attentions, int], PreparedProblem] = {}
        self._known: dict[tuple[object, ...], PreparedProblem] = {}
        self._most = PREPARED * len(parameters)

    def surround(self, contexts: Sequence[Theta], seeds: Sequence[int], free: Sequence[str] | None) -> None:
        """Set the contexts and the seeds of the next solves, and the parameters to differentiate in first."""
        self.around = Surroundings(contexts, seeds, free)
        self._asked = []

    @property
    def contexts(self) -> Sequence[Mapping[str, Tensor]]:
        """Values in the place of the buffers of the runs."""
        return self.around.contexts

    @property
    def parameters(self) -> Parameters:
        """What the runs are runs of."""
        return self._parameters

    def alone(self, k: int) -> OneByOne:
        """The same for run k by itself."""
        return OneByOne(self.parameters.one(k), self.solver)

    def fork(self) -> OneByOne:
        """Itself: what it remembers is no different for a copy."""
        return self

    def dump(self) -> dict[str, Any]:
        """Nothing: no later answer depends on an earlier one."""
        return {}

    def restore(self, known: dict[str, Any]) -> None:
        """Nothing: there was nothing to dump."""

    @cached_property
    def _own(self) -> list[PDG]:
        """The PDGs of the runs, each with arcs for itself alone: their cpds are copied once, not at every step."""
        return [PDG(*(a.for_one() for a in pdg.arcs), variables=pdg.variables) for pdg in self.parameters.pdgs]

    def solve(self, theta: Stacked, attention: Attentions) -> Solved:
        """Bounds; mu(s,t) and derivatives where they are asked for."""
        known = self._remembered(theta, attention)
        if known is None:
            if self.random:
                known = Averages([self._average(k, theta, attention) for k in range(len(self.around.seeds))])
            else:
                known = SolvedOneByOne(self, theta, self.ask(theta, attention))
            self._remember(theta, attention, known)
        return known

    def _average(self, k: int, theta: Stacked, attention: Attentions) -> RunAverage:
        """The average of run k, with derivatives in the parameters that they will be asked for in first."""
        around, leaves = self.around, {key: v[k] for key, v in theta.items()}
        own = self._own_theta(k, leaves)
        found = RunAverage(self._ready(k, attention, own), leaves, own, around.seeds[k])
        found.draw(leaves if around.free is None else around.free)
        return found

    def _own_theta(self, k: int, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
        """The parameters of run k under all their names, and its context."""
        own = {**parameters, **self.around.contexts[k]}
        for key, home in self.parameters.shared.items():
            own[key] = parameters[home]
        return own

    def compromise(self, theta: Stacked, attention: Attentions) -> Compromise:
        """mu* as the solver finds it, run by run."""
        answers = self.ask(theta, attention) if self.random else self.solve(theta, attention).results
        every = zip(answers, self.parameters.pdgs, strict=True)
        return of_mus([r.selected(p.variables)[0] if math.isfinite(r.upper) else None for r, p in every])

    def _remembered(self, theta: Stacked, attention: Attentions) -> Solved | None:
        return next((asked.answer for asked in self._asked if asked.same(theta, attention)), None)

    def _remember(self, theta: Stacked, attention: Attentions, answer: Solved) -> None:
        tensors = list(theta.values())
        asked = _Asked(tensors, [v._version for v in tensors], attention, answer)
        self._asked = [asked, *self._asked[: REMEMBERED - 1]]

    def _ready(self, k: int, attention: Attentions, theta: Stacked) -> PreparedProblem:
        """The problem that an attention poses run k, whatever the parameters: foci come back, step after step."""
        if (attention, k) not in self._seen:
            asked = attention.one(k, self.names)
            varying = ((n, id(w)) for n, w in asked.varying.items())  # alive as long as the attention that is kept
            values = (k, *asked.beta.values(), *asked.alpha.values(), asked.gamma, *varying)
            if values not in self._known:
                pdg = self._own[k] if self.random else self.parameters.pdgs[k]
                self._known[values] = PreparedProblem(self.solver, prepare(pdg, asked, theta))
            self._seen[attention, k] = self._known[values]
            if len(self._seen) > self._most:
                self._seen.pop(next(iter(self._seen)))  # the oldest
            if len(self._known) > self._most:
                self._known.pop(next(iter(self._known)))
        return self._seen[attention, k]

    def precise_joint(self, log_p: Tensor, attention: Attentions, runs: Tensor, arc: Arc) -> Tensor:
        """Refuse: full control in closed form is for tables, whose attention does not depend on the sample."""
        raise CapabilityError(f"{arc}: full control needs tables, and attention that does not depend on the sample.")

    def ask(self, theta: Stacked, attention: Attentions) -> list[Assembled]:
        """Return the answers of the solver, run by run."""
        runs = range(len(self.parameters))
        thetas = [self._own_theta(k, {key: v[k] for key, v in theta.items()}) for k in runs]
        with torch.no_grad():
            problems = [self._ready(k, attention, own).problem.at(own) for k, own in enumerate(thetas)]
            return solve_each(problems, self.solver)
