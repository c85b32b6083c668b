"""What a solver returns, and what all of them share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.attended import Array
from dissonance.distributions import CliqueTree, Tree
from dissonance.errors import DissonanceError
from dissonance.numerics import FEASIBLE as FEASIBLE
from dissonance.pdg import Theta
from dissonance.problem import Component
from dissonance.variables import cells

if TYPE_CHECKING:
    from dissonance.solvers.convex.program import Structure


DEFAULT_TOL = 1e-7
"""The gap between the bounds that is aimed at, relative to max(1, |inconsistency|)."""


BYTES_PER_CELL = 200
"""What numbering a cell of a cluster's table takes, roughly, whether or not it can carry mass."""


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
    near: tuple[Structure, Array, Array] | None = field(default=None, repr=False)

    @property
    def parts(self) -> Sequence[Solution]:
        """The solutions of the parts that matter: itself, unless loose ends were left out."""
        return (self,)

    @property
    def bracket(self) -> bool:
        """Whether it is no more than a bracket: no tree fits, and its mu is joint states."""
        return False

    @property
    def sampled(self) -> bool:
        """Whether it is an average over samples."""
        return False

    @property
    def unique(self) -> bool:
        """Whether its mu is known to be the only minimiser."""
        return self.component.gamma > 0 or self.component.pinned is not None

    @property
    def exact(self) -> bool:
        """Whether `surrogate` is the inconsistency itself up to a constant, so that it can be differentiated twice."""
        return False

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
        """0."""
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
        """The derivative."""
        return grad.clone()

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> Tensor:
        """There is none."""
        raise DissonanceError(
            "an inconsistency has no second derivative here: its minimiser moves with the parameters. At gamma > 0 "
            "differentiate `minimiser(pdg, attention)`, or take differences of gradients."
        )


def infinite(component: Component, solver: str, value: float = math.inf) -> Solution:
    """The solution of a component whose beliefs contradict each other outright."""
    return Solution(component, value, value, solver)


class Solver(Protocol):
    """Anything that can bound the inconsistency of a component: inherit from this, and give it a name and `solve`."""

    takes: ClassVar[frozenset[str]] = frozenset()
    """The kinds of components it takes beside tables of finite variables: see `Component.kinds`."""

    name: ClassVar[str]
    """What the result calls it."""

    def solve(self, component: Component) -> Solution:
        """Bounds, and a mu that attains the upper one."""
        ...

    def fits(self, component: Component) -> bool:
        """Whether it can solve the component; `auto` takes the first solver of its list that fits."""
        return component.kinds <= self.takes

    def choose(self, component: Component) -> Solver:
        """The solver of a component: itself, unless it is one that chooses among others."""
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
