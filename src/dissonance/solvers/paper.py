"""The paper's own inner solver: Adam on the dense joint. Unconverged by design; here to reproduce published numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dissonance.cpds import Table
from dissonance.distributions import Joint
from dissonance.distributions.tree import single
from dissonance.errors import CapabilityError
from dissonance.numerics import DTYPE
from dissonance.pdg import PDG, Arc
from dissonance.problem import BUDGET, Component, check_size
from dissonance.scores import incompatibility
from dissonance.solvers.assemble import assemble
from dissonance.solvers.base import Solution, infinite
from dissonance.solvers.certificate import lower
from dissonance.variables import shape


@dataclass(frozen=True)
class Paper:
    """`iterations` steps of Adam on the clipped, normalised joint, from the uniform one or from `start`.

    The published runs took 50 iterations for the first mu, then 20 warm-started ones an outer step, at learning rate
    1e-3, with a soft penalty on the total. Their joint also had the variables nobody attends to: with `spread` settings
    of those, every cell is one of `spread` equal ones, and Adam, which ignores scale, moves their sum `spread` times
    faster. The result's lower bound is proved, but from mu's own conditionals it is loose: `converged` is False unless
    Adam happened to arrive.
    """

    iterations: int = 50
    rate: float = 1e-3
    penalty: float = 1.0
    spread: int = 1
    floor: float = 1e-10
    tol: float = 1e-7
    start: Tensor | None = None
    budget: int = BUDGET

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "paper"

    def solve(self, component: Component) -> Solution:
        """The incompatibility of wherever Adam is after its iterations."""
        hard = next((a for a in component.arcs if a.hard), None)
        if hard is not None:
            raise CapabilityError(f"{hard.arc} is hard (beta = inf), and the paper's solver has no constraints.")
        tree = single(component.sizes)
        check_size(tree, self.budget, False)
        program = assemble(component, tree)
        if program is None:
            return infinite(component, self.name)
        mu = self.descend(component)
        value = float(incompatibility(Joint(component.variables, mu), _held(component), component.attention).detach())
        low = -math.inf
        if component.convex and math.isfinite(value):
            cells = mu.reshape(-1).numpy()[program.states[0]]
            m = program.T @ cells
            log_q = np.log(np.maximum(m, 1e-300)) - np.log(np.maximum(program.along_rows(m), 1e-300))
            low = min(value, lower(program, log_q, np.zeros(len(program.b))))
        found = Solution(component, low, value, self.name, tree=tree, tables=(mu,), steps=self.iterations)
        return replace(found, converged=value - low <= self.tol * max(1.0, abs(value)))

    def descend(self, component: Component) -> Tensor:
        """mu after the iterations, shaped like the joint."""
        sizes = shape(component.variables)
        x = torch.full(sizes, 1 / math.prod(sizes), dtype=DTYPE) if self.start is None else self.start.clone()
        x.requires_grad_(True)
        adam = torch.optim.Adam([x], lr=self.rate * self.spread)
        pdg = _held(component)
        for _ in range(self.iterations):
            adam.zero_grad()
            with torch.enable_grad():
                mu = Joint(component.variables, _normalised(x, self.floor))
                cost = incompatibility(mu, pdg, component.attention) + self.penalty * (x.sum() - 1) ** 2
                (x.grad,) = torch.autograd.grad(cost, x)
            adam.step()
        return _normalised(x.detach(), self.floor)


def _held(component: Component) -> PDG:
    """The component's PDG at the theta it was prepared with, not at its own."""
    held = [Arc(a.name, a.arc.sources, a.arc.targets, Table(np.exp(a.log_p))) for a in component.arcs]
    return PDG(*held, variables=component.variables)


def _normalised(x: Tensor, floor: float) -> Tensor:
    clipped = x.clamp(min=floor)
    return clipped / clipped.sum()
