"""What a solver returns, what all solvers share, and many components solved by one of them."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Theta
from dissonance.attended import Array, is_fixed
from dissonance.distributions import CliqueTree, Tree
from dissonance.errors import CapabilityError, DissonanceError
from dissonance.options import check_options
from dissonance.problem import Component
from dissonance.proof import summed
from dissonance.variables import cells

DEFAULT_TOL = 1e-7
"""The gap between the bounds that is aimed at, relative to max(1, |inconsistency|)."""


TOGETHER = 256
"""At most so many components are solved in one batch on a CPU: more do not fit its caches."""


@dataclass(frozen=True)
class Solution:
    """The inconsistency of one component between bounds, and a mu that attains the upper one.

    `tables` are mu's cluster marginals on `tree` (empty if the inconsistency is infinite); `multipliers` the Lagrange
    multipliers of the hard arcs, shaped like their tables. `residual`: how far hard arcs are from holding, as
    `numerics.broken` has it; `within`: how closely they are asked to, FEASIBLE if no mu was found where they do.
    `memory`: bytes the solve was allowed for, in all; `method`: which of its methods the solver took; `near`: where it
    stopped and where its gap was still broad, for the next one to start from.
    """

    component: Component
    lower: float
    upper: float
    solver: str
    converged: bool = True
    tree: Tree | None = None
    tables: Sequence[Tensor] = ()
    multipliers: dict[str, Tensor] = field(default_factory=dict)
    steps: int = 0
    residual: float = 0.0
    within: float = 0.0
    memory: int = 0
    method: str = ""
    near: tuple[Any, Array, Array] | None = field(default=None, repr=False)

    sampled: ClassVar[bool] = False
    """Whether it is an average over samples."""

    exact: ClassVar[bool] = False
    """Whether `surrogate` is the inconsistency itself up to a constant, so that it can be differentiated twice."""

    @property
    def parts(self) -> Sequence[Solution]:
        """The solutions of the parts that matter: itself, unless loose ends were left out."""
        return (self,)

    @property
    def bracket(self) -> str:
        """Why it is no more than a bracket, in words; empty if it is a value, or stopped for another reason."""
        return ""

    @property
    def unique(self) -> bool:
        """Whether its mu is known to be the only minimiser."""
        return self.component.gamma > 0 or self.component.pinned is not None

    @property
    def mu(self) -> CliqueTree:
        """The mu that attains the upper bound."""
        assert self.tree is not None
        return CliqueTree(self.component.variables, self.tree, self.tables)

    def surrogate(self, theta: Theta | None = None) -> Tensor:
        """A function of theta with the gradient of the inconsistency at the present theta (its value means nothing).

        Soft arcs, by the envelope theorem: -beta E_mu[log p]. Hard arcs, through their multipliers:
        sum lambda(s,t) mu(s) p(t|s). (The entropies that a hard p fixes add nothing: the mean of a score is 0.)
        """
        mu = self.mu
        total = torch.zeros((), dtype=numerics.DTYPE)
        for a in self.component.arcs:
            if is_fixed(a.arc, theta):
                continue
            log_p = a.arc.log_table(theta).reshape(cells(a.arc.sources), cells(a.arc.targets))
            if not log_p.requires_grad:
                continue
            m = mu.rows(a.arc.sources, a.arc.targets).detach()
            if a.hard:
                multiplier = self.multipliers[a.name].reshape(log_p.shape)
                total = total + (m.sum(-1, keepdim=True) * multiplier * log_p.exp()).sum()
            else:
                total = total - numerics.scale(a.beta, numerics.times(m, log_p).sum())
        return total


class Slope(torch.autograd.Function):
    """0, with the derivative of a surrogate: mu* is held fixed in it, so that it has no second one."""

    @staticmethod
    def forward(ctx: Any, surrogate: Tensor) -> Tensor:
        """Return 0: only the derivative of the surrogate is wanted."""
        ctx.surrogate = surrogate
        return torch.zeros_like(surrogate)

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> Tensor:
        """That of the surrogate, once."""
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


def added_up(parts: Sequence[Solution]) -> dict[str, Any]:
    """What solutions of parts come to beside their bounds: fields of a solution of the whole."""
    return {
        "converged": all(s.converged for s in parts),
        "steps": sum(s.steps for s in parts),
        "residual": max((s.residual for s in parts), default=0.0),
        "within": max((s.within for s in parts), default=0.0),
        "memory": max((s.memory for s in parts), default=0),
        "method": " + ".join(sorted({s.method for s in parts if s.method})),
    }


def bounds_of(parts: Sequence[Solution], beside: tuple[float, float]) -> tuple[float, float]:
    """Return bounds of the sum of parts and of what is beside them."""
    lower = summed((beside[0], *(s.lower for s in parts)), -math.inf)
    return lower, summed((beside[1], *(s.upper for s in parts)), math.inf)


def infinite(component: Component, solver: str, value: float = math.inf) -> Solution:
    """The solution of a component whose beliefs contradict each other outright."""
    return Solution(component, value, value, solver)


class Solver(Protocol):
    """Anything that can bound the inconsistency of a component: inherit from this, and give it a name and `solve`."""

    takes: ClassVar[frozenset[str]] = frozenset()
    """The kinds of components it takes beside tables of finite variables: see `Component.kinds`."""

    needs: ClassVar[frozenset[str]] = frozenset()
    """If there are any: the kinds of which a component must be one at least, so that it can fit."""

    name: ClassVar[str]
    """What the result calls it."""

    def solve(self, component: Component) -> Solution:
        """Bounds, and a mu that attains the upper one."""
        ...

    def fits(self, component: Component) -> bool:
        """Whether it can solve a component of the kinds it `takes`; `auto` takes the first of its list that fits."""
        return True

    def choose(self, component: Component) -> Solver:
        """The solver of a component: itself, unless it is one that chooses among others."""
        return self

    def for_tables(self) -> Solver | None:
        """The solver that batches of convex tables are passed to, in arrays; None: it takes components only."""
        return None

    def unproved(self) -> Solver:
        """The same without what only tightens its bounds: for values that are asked for many times over."""
        return self

    def batch(self, component: Component) -> object:
        """A key that components have in common which are solved together; None: each by itself."""
        return None

    def together(self, count: int) -> int:
        """How many of so many components that have a key in common are solved at a time."""
        return count

    def solve_many(self, components: Sequence[Component], near: Sequence[Solution] | None = None) -> list[Solution]:
        """Solve components that have a key in common; `near`: solutions of almost the same ones to start from."""
        return [self.solve(c) for c in components]


_log = logging.getLogger(__name__)


def checked(solver: Solver) -> Solver:
    """The solver itself; an error for a class of solvers, for what is no solver, and for options that make no sense."""
    if isinstance(solver, type):
        raise DissonanceError(f"{solver.__name__} is a class of solvers: make one, {solver.__name__}().")
    if not hasattr(solver, "choose"):
        raise DissonanceError(f"{type(solver).__name__} is no solver: have it inherit from dissonance.solvers.Solver.")
    check_options(solver)
    return solver


def chosen(solver: Solver, components: Sequence[Component]) -> list[Solver]:
    """The solver of each component; raises CapabilityError for one that it is not for."""
    found = [solver.choose(c) for c in components]
    for c, s in zip(components, found, strict=True):
        beyond = c.kinds - s.takes
        if "drawn" in beyond:
            odd = next((a.arc for a in c.arcs if a.log_p.size == 0), c.arcs[0].arc)
            raise CapabilityError(
                f'the {s.name} solver needs tables: {odd} has none. Use solver="auto" or "sampled", with hard arcs '
                f"(beta = inf) that make its variables; or set beta[{odd.name!r}] = 0 to leave it out."
            )
        if "varying" in beyond:
            raise CapabilityError(
                f'the {s.name} solver does not support sample-dependent attention. Use solver="auto" or '
                '"sampled", with hard arcs (beta = inf) that make mu.'
            )
        if "euclidean" in beyond:
            raise CapabilityError(
                f'the {s.name} solver needs finite variables; {c.variables[0]} is not. Use solver="auto" or "gaussian".'
            )
    return found


def solve_together(
    solver: Solver,
    components: Sequence[Component],
    progress: Callable[[int, int], None] | None = None,
    near: Sequence[Solution] | None = None,
) -> list[Solution]:
    """One solution a component; those that differ in their numbers only are solved as a batch.

    `near`: solutions of almost the same components to start from.
    """
    groups: dict[object, list[int]] = {}
    solvers = chosen(solver, components)
    for i, (c, s) in enumerate(zip(components, solvers, strict=True)):
        key = s.batch(c)
        groups.setdefault(i if key is None else (s, key), []).append(i)
    found: dict[int, Solution] = {}
    for group in groups.values():
        s = solvers[group[0]]
        size = s.together(len(group)) if len(group) > 1 else 1
        for at in range(0, len(group), size):
            part = group[at : at + size]
            began = time.perf_counter()
            solved = s.solve_many([components[i] for i in part], None if near is None else [near[i] for i in part])
            if _log.isEnabledFor(logging.DEBUG):
                _log.debug(_account(s, solved, time.perf_counter() - began))
            found |= zip(part, solved, strict=True)
            if progress is not None:
                progress(len(found), len(components))
    return [found[i] for i in range(len(components))]


def _account(solver: Solver, solved: Sequence[Solution], seconds: float) -> str:
    """What was solved, in one line."""
    problems = f"{len(solved)} problem{'s' * (len(solved) != 1)}"
    gap = max((s.upper - s.lower for s in solved if s.upper < float("inf")), default=0.0)
    steps = sum(s.steps for s in solved)
    return f"{solver.name}: {problems}, {steps} steps, bounds {gap:.2g} apart, {seconds:.3g} s"
