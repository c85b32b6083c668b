"""Non-convex attention (beta < gamma alpha, or beta < 0): the concave-convex procedure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from dissonance.problem import BUDGET, Array, Attended, Component, check_size
from dissonance.solvers.base import FEASIBLE, Solution, infinite

if TYPE_CHECKING:
    from dissonance.solvers.program import Program
    from dissonance.solvers.support import Ints


@dataclass(frozen=True)
class _Concave:
    """A mechanism of negative weight w: the concave term w sum m log(m/s), on the cells of one cluster."""

    weight: float
    cells: slice
    term: Ints
    row_of_term: Ints

    def log_conditional(self, mu: Array) -> Array:
        """log mu(t|s) at every cell; mass that has vanished keeps a very negative number, so that it may return."""
        m = np.bincount(self.term, mu[self.cells], len(self.row_of_term))
        s = np.bincount(self.row_of_term, m)[self.row_of_term]
        return np.log(np.maximum(m, 1e-30) / np.maximum(s, 1e-30))[self.term]

    def value(self, mu: Array) -> float:
        """w sum m log(m/s)."""
        return self.weight * float(mu[self.cells] @ self.log_conditional(mu))


@dataclass(frozen=True)
class ConcaveConvex:
    """Replace the concave terms by their tangents at mu, solve the convex rest, repeat: the value never rises.

    A local minimum: `upper` is attained, `lower` is -inf, `converged` is False. The best of several starts is kept.
    """

    starts: int = 4
    rounds: int = 200
    tol: float = 1e-9
    seed: int = 0
    budget: int = BUDGET

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "concave-convex"

    def solve(self, component: Component) -> Solution:
        """The lowest local minimum found."""
        from dissonance.solvers.assemble import assemble
        from dissonance.solvers.certificate import agree, contradiction
        from dissonance.solvers.exact import dense
        from dissonance.solvers.newton import cold, newton

        tree = component.tree
        check_size(tree, self.budget, component.gamma > 0)
        program = assemble(component, tree)
        if program is None:
            return infinite(component, self.name)
        concave = [
            _concave(program, a, w)
            for a in {b.mechanism: b for b in component.arcs if not b.hard}.values()
            if (w := component.weights.get(a.mechanism, 0.0)) < 0
        ]
        bottomless = np.isneginf(program.c)
        finite = replace(program, c=np.where(bottomless, 0.0, program.c))
        rng = np.random.default_rng(self.seed)
        best: tuple[float, Array, Array] | None = None
        steps = 0
        for start in range(self.starts):
            tilt = np.zeros_like(program.c) if start == 0 else rng.gumbel(size=len(program.c))
            first = newton(replace(finite, c=finite.c + tilt), cold(program), self.tol)
            steps += first.steps
            if contradiction(program, first.u):
                return infinite(component, self.name)
            mu = agree(program, first.mu)
            if mu[bottomless].sum() > FEASIBLE:
                return infinite(component, self.name, -math.inf)
            value, mu, u, used = self._descend(finite, concave, mu)
            steps += used
            if best is None or value < best[0]:
                best = value, mu, u
        assert best is not None
        value, mu, u = best
        residual = float(np.abs(program.A[program.first_hard :] @ mu).max(initial=0.0))
        return Solution(
            component,
            -math.inf,
            value if residual <= FEASIBLE else math.inf,
            self.name,
            converged=False,
            tree=tree,
            tables=dense(program, mu),
            multipliers={h.arc.name: torch.from_numpy(h.multipliers(u)) for h in program.hard},
            steps=steps,
            residual=residual,
        )

    def _descend(self, program: Program, concave: list[_Concave], mu: Array) -> tuple[float, Array, Array, int]:
        """Tangent, solve, repeat: the value, mu, the dual variables of the last tangent, and how many steps it took."""
        from dissonance.solvers.certificate import agree
        from dissonance.solvers.newton import cold, newton

        value = program.objective(mu) + sum(t.value(mu) for t in concave)
        u, steps = np.zeros(0), 0
        for _ in range(self.rounds):
            c = program.c.copy()
            for t in concave:
                c[t.cells] += t.weight * t.log_conditional(mu)
            now = newton(replace(program, c=c), cold(program), self.tol)
            u, steps = now.u, steps + now.steps
            moved = agree(program, now.mu)
            new = program.objective(moved) + sum(t.value(moved) for t in concave)
            if not new < value - self.tol * max(1.0, abs(value)):
                break
            value, mu = new, moved
        return value, mu, u, steps


def _concave(program: Program, arc: Attended, weight: float) -> _Concave:
    from dissonance.solvers.support import settings

    tree = program.tree
    home = tree.home(arc.scope)
    assert home is not None
    width = math.prod(tree.sizes[t] for t in arc.targets)
    used, term = np.unique(settings(tree, home, arc.scope)[program.states[home]], return_inverse=True)
    _, row = np.unique(used // width, return_inverse=True)
    cells = slice(int(program.offsets[home]), int(program.offsets[home + 1]))
    return _Concave(weight, cells, term, row)
