"""The exact solvers of convex components: interior points on a junction tree, with proof."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dissonance.distributions import Tree
from dissonance.distributions.tree import single
from dissonance.errors import CapabilityError
from dissonance.problem import BUDGET, Array, Component, check_size
from dissonance.solvers.assemble import assemble
from dissonance.solvers.base import FEASIBLE, Solution, infinite
from dissonance.solvers.certificate import Bounds, agree, certify, contradiction
from dissonance.solvers.conic import conic
from dissonance.solvers.newton import Iterate, cold, newton, warm
from dissonance.solvers.program import Program


@dataclass(frozen=True)
class Newton:
    """Dual interior-point Newton on the junction tree; Clarabel if that leaves a gap. The default.

    `tol`: the gap between the bounds to reach, relative to max(1, |inconsistency|). `budget`: bytes it may use.
    """

    tol: float = 1e-7
    budget: int = BUDGET

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "newton"

    def tree(self, component: Component) -> Tree:
        """The tree whose cluster marginals are solved for."""
        return component.tree

    def attempts(self, program: Program) -> list[str]:
        """Which methods to try, in this order, until the bounds are close enough."""
        return ["newton", "conic", "polish"]

    def solve(self, component: Component) -> Solution:
        """Bounds on the inconsistency, each with its proof, and the mu that attains the upper one."""
        if not component.convex:
            raise CapabilityError(_not_convex(component, self.name))
        tree = self.tree(component)
        check_size(tree, self.budget)
        program = assemble(component, tree)
        return infinite(component, self.name) if program is None else self.run(component, program)

    def run(self, component: Component, program: Program) -> Solution:
        """Try the methods in turn and keep the best bounds each has proved."""
        found: Iterate | None = None
        best: Bounds | None = None
        steps = 0
        for method in self.attempts(program):
            tol = 1e-4 * self.tol * max(1.0, 0.0 if best is None else abs(best.upper))
            if method == "newton":
                now = newton(program, cold(program), tol)
            elif method == "conic":
                now = conic(program, 1e-2 * self.tol)
            else:
                assert found is not None and best is not None
                now = newton(program, warm(program, found, best.gap), tol)
            steps += now.steps
            if contradiction(program, now.u):
                return replace(infinite(component, self.name), steps=steps)
            bounds = certify(program, now)
            found, best = (now, bounds) if best is None else _better(found, best, now, bounds)
            if self._close(best, 1e-3):
                break
        assert found is not None and best is not None
        feasible = best.residual <= FEASIBLE
        return Solution(
            component,
            best.lower - component.rounding,
            best.upper + component.rounding if feasible else math.inf,
            self.name,
            converged=feasible and self._close(best),
            tree=program.tree,
            tables=dense(program, best.mu),
            multipliers={h.arc.name: torch.from_numpy(h.multipliers(found.u)) for h in program.hard},
            steps=steps,
            residual=best.residual,
        )

    def _close(self, bounds: Bounds, margin: float = 1.0) -> bool:
        """Whether the bounds meet; stopping asks for a margin, because mu is only as good as the root of the gap."""
        return bounds.gap <= margin * self.tol * max(1.0, abs(bounds.upper)) and bounds.residual <= FEASIBLE


@dataclass(frozen=True)
class CliqueTree(Newton):
    """The exponential-cone program on the junction tree, solved by Clarabel and polished by Newton if need be."""

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "clique-tree"

    def attempts(self, program: Program) -> list[str]:
        """Clarabel first."""
        return ["conic", "polish", "newton"]


@dataclass(frozen=True)
class Joint(Newton):
    """The dense joint: one cluster with every variable. For small PDGs, and as a check on the tree."""

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "joint"

    def tree(self, component: Component) -> Tree:
        """One cluster."""
        return single(component.sizes)


def _better(a: Iterate | None, bounds_a: Bounds, b: Iterate, bounds_b: Bounds) -> tuple[Iterate, Bounds]:
    """The iterate with the smaller gap, and the best of both lower bounds (each is valid on its own)."""
    assert a is not None
    chosen, bounds = (
        (b, bounds_b) if bounds_b.gap + bounds_b.residual < bounds_a.gap + bounds_a.residual else (a, bounds_a)
    )
    return chosen, replace(bounds, lower=max(bounds_a.lower, bounds_b.lower))


def dense(program: Program, mu: Array) -> list[Tensor]:
    """The cluster marginals as tables, 0 at the cells that were dropped."""
    tables: list[Tensor] = []
    for i, (states, shape) in enumerate(zip(program.states, program.tree.shapes, strict=True)):
        table = np.zeros(math.prod(shape))
        table[states] = mu[program.offsets[i] : program.offsets[i + 1]]
        tables.append(torch.from_numpy(table.reshape(shape)))
    return tables


def select(solution: Solution, gamma: float = 1e-6) -> tuple[list[Tensor], float]:
    """The gamma -> 0+ minimiser at gamma = 0, and how far off it may be (largest total variation over the clusters).

    Among the minimisers of OInc it minimises SDef. The minimiser mu_g of OInc + g SDef is within O(g) of it, and linear
    in g near 0: solve at g and 2g, extrapolate 2 mu_g - mu_2g, and report the distance from mu_g as the error.
    """
    component, tree = solution.component, solution.tree
    assert tree is not None
    small = min((a.beta / a.alpha for a in component.arcs if a.alpha > 0 and a.beta > 0), default=1.0)
    gamma *= min(1.0, small)
    found: list[Array] = []
    program: Program | None = None
    for g in (gamma, 2 * gamma):
        program = assemble(replace(component, gamma=g), tree)
        assert program is not None
        now = newton(program, cold(program), 1e-6 * g, settle=1e-9)
        found.append(certify(program, now).mu)
    assert program is not None
    mu = agree(program, 2 * found[0] - found[1])
    away = np.add.reduceat(np.abs(mu - found[0]), program.offsets[:-1])
    return dense(program, mu), 0.5 * float(away.max(initial=0.0))


def _not_convex(component: Component, name: str) -> str:
    first = next(a for a in component.arcs if a.beta < component.gamma * a.alpha or a.beta < 0)
    return (
        f"{first.arc} has beta < gamma alpha (or beta < 0), so the incompatibility is not convex. "
        f'The {name} solver needs beta >= gamma alpha. Use solver="concave-convex", which finds a local minimum.'
    )
