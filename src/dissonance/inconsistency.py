"""Inconsistency: the infimum over mu for an attended PDG, with proof, gradient and blame."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.above import Picture, ask
from dissonance.answer import Answer, Solver, checked
from dissonance.arc import Arc, Theta, frozen
from dissonance.attended import is_fixed
from dissonance.distributions import Distribution
from dissonance.dropped import savings
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Weights
from dissonance.options import in_step, refuse_transforms
from dissonance.pdg import PDG, checked_pdg
from dissonance.problem import Batch, prepare
from dissonance.query import Posterior, posterior
from dissonance.scores import BlameRow, CellRow, cell_rows, divergences
from dissonance.solvers import solver_named
from dissonance.solvers.front import Assembled, solve_each

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Inconsistency:
    """The inconsistency <<phi . M>> and everything that comes with it.

    `lower <= inconsistency <= upper` is proved; `converged` says whether the bounds meet within the solver's tolerance.
    Non-convex attention gives `lower = -inf`.
    """

    pdg: PDG
    attention: Attention
    answer: Assembled = field(repr=False)
    asked: Solver = field(repr=False)
    theta: Theta | None = field(default=None, repr=False)
    seconds: float = 0.0
    live: _Live | None = field(default=None, repr=False)
    """The parameters to differentiate in; None where no derivatives were asked for."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Inconsistency:
        """Return the same result, cut off from the graph that its value hangs on."""
        made = object.__new__(type(self))
        memo[id(self)] = made
        known = {**self.__dict__, "value": self.value.detach().clone(), "live": None}
        made.__dict__.update(copy.deepcopy(known, memo))
        return made

    @cached_property
    def lower(self) -> float:
        """The proved lower bound."""
        return self.answer.lower

    @cached_property
    def upper(self) -> float:
        """The proved upper bound, which `mu` attains."""
        return self.answer.upper

    @property
    def converged(self) -> bool:
        """Whether the bounds meet within the solver's tolerance."""
        return self.answer.converged

    @property
    def solver(self) -> str:
        """The solvers that found it."""
        return self.answer.solver

    @property
    def answers(self) -> Sequence[Answer]:
        """The answers about the connected parts."""
        return self.answer.answers

    @cached_property
    def value(self) -> Tensor:
        """The upper bound, attained by `mu`, as a differentiable scalar."""
        value = torch.tensor(self.upper, dtype=numerics.DTYPE)
        if self.live is None or not math.isfinite(self.upper):
            return value
        self.live.check()
        with torch.enable_grad():
            for s in self.answers:
                surrogate = s.surrogate(self.live.theta)
                if surrogate.requires_grad:
                    value = value + (surrogate - surrogate.detach() if s.exact else Slope.apply(surrogate))
        return value

    @property
    def gamma(self) -> float:
        """The weight of structure."""
        return self.attention.gamma

    @property
    def standard_error(self) -> float:
        """How far an average over samples may be off; 0 where nothing was drawn at random."""
        return math.hypot(*(s.error for s in self.answers))

    @property
    def up_to_constant(self) -> bool:
        """Whether the entropy of points, a constant or infinite, was left out: only differences mean something."""
        return any(s.up_to_constant for s in self.answers)

    @property
    def steps(self) -> int:
        """How many steps the solvers took."""
        return int(self.answer.steps)

    @property
    def stats(self) -> dict[str, float]:
        """Size and effort: components, clusters, cells, treewidth, steps, hard-arc residual, bytes, seconds."""
        trees = [t for s in self.answers for t in s.trees]
        return {
            "components": len(self.answers),
            "clusters": sum(len(t.clusters) for t in trees),
            "cells": sum(t.cells for t in trees),
            "treewidth": max((t.treewidth for t in trees), default=0),
            "steps": self.steps,
            "residual": float(self.answer.residual),
            "memory": self.answer.memory,
            "seconds": self.seconds,
        }

    @property
    def within(self) -> float:
        """How closely hard arcs are satisfied: 0 if they hold up to rounding; 1e-8 if that is not to be had.

        In that case the bounds are of the infimum over all mu with |mu(s,t) - p(t|s) mu(s)| <= 1e-8 p(t|s) mu(s), and
        `upper` is inf if no such mu was found.
        """
        return float(self.answer.within)

    @property
    def is_bracket(self) -> bool:
        """Whether no more is known than `lower` and `upper`, because a solver that finds more does not fit: see
        docs/bounds.md."""
        return bool(self._brackets) and not self.converged

    @property
    def _brackets(self) -> list[str]:
        """Why parts of it are brackets."""
        return sorted({s.bracket for x in self.answers for s in x.solved if s.bracket})

    @property
    def caution(self) -> str:
        """What has to be said of hard arcs, or of a mere bracket, in words; empty if there is nothing."""
        if self.is_bracket:
            gap = (self.upper - self.lower) / max(1.0, abs(self.upper)) if self.upper < math.inf else math.inf
            far = (
                f"{100 * gap:.{2 if gap < 1 else 3}g} % apart"
                if gap < math.inf
                else "no mu was found for an upper bound"
            )
            return f"a bracket, not a value: {' and '.join(self._brackets)} ({far}; more time narrows it)"
        if not self.within:
            return ""
        if self.upper < math.inf:
            return f"hard arcs hold only within {self.within:g}"
        return f"undecided: hard arcs contradict each other by about {self.within:g}, and may hold within that or not"

    @property
    def method(self) -> str:
        """Which methods the solvers took, where they have several: "newton", "clarabel"."""
        return " + ".join(self.answer.method)

    @cached_property
    def _selected(self) -> tuple[Distribution, float]:
        """mu* over all variables, and how far off its tables may be."""
        if not math.isfinite(self.upper):
            raise DissonanceError(
                "the inconsistency is infinite: some beliefs contradict each other outright, so there is no best mu."
                if self.upper > 0
                else "the inconsistency is -inf: a disbelieved arc gives probability 0 to something possible, or at "
                "gamma > 0 no arc bounds some Euclidean direction."
            )
        return self.answer.selected(self.pdg.variables)

    @property
    def mu(self) -> Distribution:
        """mu*, the best compromise; at gamma = 0 the gamma -> 0+ selection among the minimisers, found on demand."""
        return self._selected[0]

    @property
    def mu_error(self) -> float:
        """How far (in total variation, cluster by cluster) the selected mu may be from the exact gamma -> 0+ limit."""
        return self._selected[1]

    @cached_property
    def loose_ends(self) -> frozenset[str]:
        """Attended arcs whose targets no other arc speaks of: mu* follows them, so that they are not to blame."""
        return self.answer.loose

    def by_arc(self, saved: bool = True, progress: Callable[[int, int], None] | None = None) -> list[BlameRow]:
        """Who is to blame: every arc of the PDG, attended or not, in its order.

        `saved` asks for `saved_if_dropped`, a solve for each arc that may save something; `progress(done, total)` is
        called now and then. Of a bracket it is not known, and None.
        """
        saved = saved and not self.is_bracket
        lower_by = self._saved(progress) if saved else {}
        rows: list[BlameRow] = []
        for name, kl in self._divergences().items():
            beta = self.attention.beta.get(name, 0.0)
            contribution = 0.0 if beta == 0 or kl == 0 else beta * kl
            rows.append(BlameRow(name, beta, kl, contribution, lower_by.get(name, 0.0) if saved else None))
        return rows

    def _divergences(self) -> dict[str, float]:
        """KL_a at mu* of every arc; 0 for a hard arc that holds and for a loose end, NaN where there is no such number:
        of a density that is not known, of an arc with no one weight, or without a mu*.

        Where values are points their entropy is left out, as it is of the inconsistency.
        """
        found = {a.name: math.nan for a in self.pdg.arcs}
        if not math.isfinite(self.upper):
            return found
        drawn: dict[str, float] = {}
        for s in self.answers:
            if s.part.is_drawn and s.kind == "samples":
                drawn |= {a.name: 0.0 for a in s.part.arcs if a.hard} | s.divergences()
        found |= drawn
        asked: list[Arc] = []
        for arc in self.pdg.arcs:
            if arc.name in drawn or arc.name in self.attention.varying:
                continue
            if not (all([v.is_finite for v in arc.scope]) or arc.is_euclidean):
                continue
            if self.attention.beta.get(arc.name, 0.0) == math.inf or arc.name in self.loose_ends:
                found[arc.name] = 0.0
            else:
                asked.append(arc)
        with torch.no_grad():
            kls = divergences(self.mu, asked, self.theta) if asked else []
        return found | {arc.name: max(0.0, float(kl)) for arc, kl in zip(asked, kls, strict=True)}

    def _saved(self, progress: Callable[[int, int], None] | None) -> dict[str, float]:
        """How much lower the inconsistency would be without each attended arc."""
        found = savings(self.asked, self.answers, progress)
        for name in found:
            weights = self.attention.beta.get(name, 0.0), self.attention.alpha.get(name, 0.0)
            if min(weights) >= 0 and name not in self.attention.varying:
                found[name] = max(found[name], 0.0)  # what is negative is rounding, or a local minimum
        return found

    def by_cell(self, top: int | None = None) -> list[CellRow]:
        """Where the blame lies: what each arc claims of each cell, what the compromise says, and what that costs.

        The largest contributions first, and only the `top` ones if that is given.
        """
        arcs = [a for a in self.pdg.arcs if self.attention.beta.get(a.name, 0.0) not in (0.0, math.inf) and a.has_table]
        rows = cell_rows(self.mu, arcs, self.attention.beta, self.theta)
        ranked = sorted(rows, key=attrgetter("contribution"), reverse=True)
        return ranked if top is None else ranked[:top]

    def verdict(self) -> str:
        """Who disagrees most, about what, in a sentence."""
        return ask("verdict", self)

    def chance(self, **options: Any) -> Any:
        """Whether the conflict of samples is more than chance: `dissonance.chance.chance`, which has the options."""
        return ask("chance", self, **options)

    def query(self, given: Mapping[str, Hashable] | Sequence[Mapping[str, Hashable]] | None = None) -> Posterior:
        """The compromise mu* given evidence {variable: label}: the posterior of every finite variable."""
        return posterior(self.mu, given)

    def to_frame(self) -> pd.DataFrame:
        """`by_arc()` as a data frame."""
        return ask("rows_framed", self.by_arc())

    def plot(self, **options: Any) -> Picture:
        """The PDG as a picture, its arcs in the colours of blame; the options are those of `dissonance.draw`."""
        return ask("draw", self.pdg, **{"attention": self.attention, "blame": self} | options)

    def _repr_html_(self) -> str:
        return ask("html", self)

    def __repr__(self) -> str:
        less = ", up to a constant" if self.up_to_constant else ""
        if self.standard_error:
            return f"Inconsistency({self.upper:.6g} +- {self.standard_error:.2g} nats{less}, {self.solver})"
        flag = less + ("" if self.converged else ", NOT converged")
        flag += f", {self.caution}" if self.caution else ""
        if self.is_bracket:
            return f"Inconsistency(between {self.lower:.9g} and {self.upper:.9g} nats, {self.solver}{flag})"
        return f"Inconsistency({self.upper:.9g} nats in [{self.lower:.9g}, {self.upper:.9g}], {self.solver}{flag})"


def inconsistency(
    pdg: PDG,
    attention: Attention | Weights | None = None,
    *,
    solver: Solver | str = "auto",
    theta: Theta | None = None,
    near: Inconsistency | None = None,
) -> Inconsistency:
    """<<phi . M>> = inf_mu OInc(mu) + gamma SDef(mu)          (eq. 3)

    With no attention: beta = `arc.beta` (1 unless it says otherwise), alpha = 1, gamma = 0; {"arc": beta} changes some.
    `theta` replaces the PDG's own parameters ("arc.parameter" keys).

    The value is differentiable in every parameter: soft arcs by the envelope theorem, hard arcs through their
    multipliers, pinned mu by substitution. At gamma = 0 the function has kinks, where the gradient of one of the
    minimisers is returned. An infinite value has no gradient.

    `near`: the result for almost the same numbers, to start from (large PDGs only: small ones gain nothing).

    >>> X = Variable("X", 2)
    >>> pdg = PDG(Arc("p", (), X, [0.9, 0.1]), Arc("q", (), X, [0.2, 0.8]))
    >>> result = inconsistency(pdg)
    >>> print(f"{result.lower:.6f} to {result.upper:.6f} nats")
    0.693147 to 0.693147 nats
    >>> result.mu.marginal("X")
    tensor([0.6000, 0.4000], dtype=torch.float64)
    >>> [f"{row.name} {row.contribution:.3f}" for row in result.by_arc()]
    ['p 0.311', 'q 0.382']
    """
    return inconsistencies([pdg], [attention], solver=solver, thetas=[theta], near=[near])[0]


def inconsistencies(
    pdgs: PDG | Sequence[PDG],
    attentions: Attention | Weights | Sequence[Attention | Weights | None] | None = None,
    *,
    solver: Solver | str = "auto",
    thetas: Theta | Sequence[Theta | None] | None = None,
    near: Inconsistency | Sequence[Inconsistency | None] | None = None,
) -> list[Inconsistency]:
    """The inconsistency of each of many attended PDGs; what is given once serves all.

    Those that differ in their numbers only are solved together: for replicates, seeds, foci or parameter settings of
    one PDG this is many times faster than one after another. With `near`, the results for almost the same numbers, each
    starts where the other stopped.

    >>> X = Variable("X", 2)
    >>> pdg = PDG(Arc("p", (), X, [0.9, 0.1]), Arc("q", (), X, [0.2, 0.8]))
    >>> [f"{r.upper:.4f}" for r in inconsistencies(pdg, [{"q": 1.0}, {"q": 2.0}])]
    ['0.6931', '0.9433']
    """
    began = time.perf_counter()
    chosen = solver_named(solver) if isinstance(solver, str) else solver
    pdgs = [pdgs] if isinstance(pdgs, PDG) else pdgs
    attentions = [attentions] if attentions is None or isinstance(attentions, Attention | Mapping) else attentions
    thetas = [thetas] if thetas is None or isinstance(thetas, Mapping) else thetas
    near = [near] if near is None or isinstance(near, Inconsistency) else near
    pdgs, attentions, thetas, near = in_step(pdgs=pdgs, attentions=attentions, thetas=thetas, near=near)
    if not isinstance(solver, str):
        checked(solver)
    for p, t, r in zip(pdgs, thetas, near, strict=True):
        if not isinstance(r, Inconsistency | None):
            raise DissonanceError(f"near must be a result of inconsistency(...), found {r!r}.")
        refuse_transforms(t)
        checked_pdg(p).check(t)
    given = zip(pdgs, attentions, strict=True)
    attended = [a if type(a) is Attention and not a.others else Attention.of(a, p) for p, a in given]
    problems = [prepare(p, a, t) for p, a, t in zip(pdgs, attended, thetas, strict=True)]
    found = solve_each(problems, chosen, near=[None if r is None else r.answer for r in near])
    seconds, live = (time.perf_counter() - began) / max(1, len(pdgs)), torch.is_grad_enabled()
    return [
        Inconsistency(p, a, answer, chosen, _kept(p, t, problem), seconds, _Live.of(p, t) if live else None)
        for p, a, t, problem, answer in zip(pdgs, attended, thetas, problems, found, strict=True)
    ]


@dataclass(frozen=True)
class _Live:
    """Parameters to differentiate in, and how often each had been changed in place when they were solved for."""

    theta: Theta | None
    tensors: Sequence[Tensor]
    versions: Sequence[int]

    @classmethod
    def of(cls, pdg: PDG, theta: Theta | None) -> _Live:
        """The parameters of a PDG, theta in the place of what it names."""
        tensors = [x for a in pdg.arcs if not is_fixed(a, theta) for x in a.held.tensors.values()]
        tensors += theta.values() if theta else ()
        return cls(theta, tensors, [x._version for x in tensors])

    def check(self) -> None:
        """Raise if a parameter was changed in place since: the derivatives would be those at other parameters."""
        if [x._version for x in self.tensors] != self.versions:
            raise DissonanceError(
                "the parameters were changed in place since this inconsistency was solved: its derivatives would be "
                "wrong. Take `value` before, or ask for the inconsistency again."
            )


class Slope(torch.autograd.Function):
    """0, with the derivative of a surrogate: mu* is held fixed in it, so that it has no second one."""

    @staticmethod
    def forward(ctx: Any, surrogate: Tensor) -> Tensor:
        """Return 0: only the derivative of the surrogate is wanted."""
        ctx.surrogate = surrogate
        return torch.zeros_like(surrogate)

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> Tensor:
        """Return the first derivative of the surrogate; a second is refused."""
        return _Once.apply(grad[0], ctx.surrogate) if torch.is_grad_enabled() else grad[0]


class _Once(torch.autograd.Function):
    """A derivative that depends on theta in a way that is not known."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, surrogate: Tensor) -> Tensor:
        """Pass the derivative on."""
        return grad.clone()

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> Tensor:
        """Raise: there are no second derivatives."""
        raise DissonanceError(
            "an inconsistency has no second derivative here: its minimiser moves with the parameters. At gamma > 0 "
            "differentiate `minimiser(pdg, attention)`, or take differences of gradients."
        )


def _kept(pdg: PDG, theta: Theta | None, problem: Batch) -> Theta | None:
    """The parameters of all arcs with tables or linear-Gaussian, as they were, attended or not."""
    kept: dict[str, Tensor] = {}
    for part in problem.parts:
        kept.update(part.theta or {})
    attended = {a.name for a in problem.beliefs}
    beside = [a for a in pdg.arcs if a.name not in attended and not a.is_drawn]
    if beside:
        kept.update(frozen(beside, theta) or {})
    return kept or None
