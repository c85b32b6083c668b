"""Non-convex attention (beta < gamma alpha, or beta < 0): the concave-convex procedure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dissonance.attended import Array
from dissonance.numerics import ROUNDING
from dissonance.problem import BUDGET, Component
from dissonance.solvers.base import FEASIBLE, Solution, Solver, infinite
from dissonance.solvers.exact import Newton

if TYPE_CHECKING:
    from dissonance.solvers.convex.program import Numbers, Structure


@dataclass(frozen=True)
class _Concave:
    """The mechanisms of negative weight: the concave terms w sum m log(m/s), w (terms,) <= 0."""

    structure: Structure
    weight: Array

    def log_conditionals(self, mu: Array) -> tuple[Array, float]:
        """w log mu(t|s), added up at every cell, and their mean; mass that has vanished may return."""
        lay = self.structure.layout
        cost, mean = np.zeros_like(mu), 0.0
        for t in np.flatnonzero(self.weight).tolist():
            k = int(np.searchsorted(lay.term_at, t, side="right")) - 1
            cells = slice(int(lay.cell_at[k]), int(lay.cell_at[k + 1]))
            entry = lay.entry[lay.term_cell[t] : lay.term_cell[t + 1]]
            first = lay.entry_at[lay.row_at[t]]
            m = np.bincount(entry - first, mu[cells])
            row = lay.row[first : first + len(m)] - lay.row_at[t]
            s = np.bincount(row, m)[row]
            found = self.weight[t] * np.log(np.maximum(m, 1e-30) / np.maximum(s, 1e-30))[entry - first]
            cost[cells] += found
            mean += float(mu[cells] @ found)
        return cost, mean


@dataclass(frozen=True)
class ConcaveConvex(Solver):
    """Replace the concave terms by their tangents at mu, solve the convex rest, repeat: the value never rises.

    A local minimum: `upper` is attained, `lower` is -inf, `converged` is False. The best of several starts is kept.
    """

    name = "concave-convex"

    starts: int = 4
    rounds: int = 200
    tol: float = 1e-9
    seed: int = 0
    budget: int = BUDGET

    def solve(self, component: Component) -> Solution:
        """The lowest local minimum found."""
        from dissonance.solvers.convex.program import Arcs
        from dissonance.solvers.convex.solve import value as total

        arcs = Arcs.of([component])
        ((s, _),) = Newton(budget=self.budget).structures(component.shape, component.tree, arcs)
        if s is None:
            return infinite(component, self.name)
        numbers = s.numbers(arcs)
        bottomless = np.isneginf(numbers.c[0])
        convex = numbers._replace(c=np.where(np.isneginf(numbers.c), 0.0, numbers.c))
        concave = _Concave(s, np.minimum(s.weights(arcs)[0], 0.0))
        rng = np.random.default_rng(self.seed)
        best: tuple[float, Array, Array] | None = None
        steps = 0
        for start in range(self.starts):
            tilt = np.zeros_like(bottomless) if start == 0 else rng.gumbel(size=len(bottomless))
            at, mu, used, impossible = self._newton(s, convex, tilt)
            steps += used
            if impossible:
                return infinite(component, self.name)
            if mu[bottomless].sum() > FEASIBLE:
                return infinite(component, self.name, -math.inf)
            value, mu, at, used = self._descend(s, convex, concave, mu, at)
            steps += used
            if best is None or value < best[0]:
                best = value, mu, at
        assert best is not None
        value, mu, at = best
        residual = total(s, numbers, mu)[1]
        multipliers = s.multipliers(at)
        return Solution(
            component,
            -math.inf,
            value if residual <= FEASIBLE else math.inf,
            self.name,
            converged=False,
            tree=component.tree,
            tables=s.tables(mu),
            multipliers={component.arcs[a].name: m.view(component.arcs[a].log_p.shape) for a, m in multipliers},
            steps=steps,
            residual=residual,
            within=0.0 if residual <= ROUNDING else FEASIBLE,
        )

    def _newton(
        self, s: Structure, numbers: Numbers, tilt: Array, near: Array | None = None
    ) -> tuple[Array, Array, int, bool]:
        """The minimiser of the convex part with some cost added, from the point of another such cost: the point, its
        mu, steps, and whether hard arcs contradict each other."""
        from dissonance.solvers.convex.program import Program
        from dissonance.solvers.convex.solve import solve

        goal = np.array([self.tol])
        program = Program(s, numbers._replace(c=numbers.c + tilt))
        found = solve(program, goal, goal, None if near is None else near[None])
        return found.at[0], found.mu[0], int(found.steps[0]), bool(found.contradiction[0] > 0)

    def _descend(
        self, s: Structure, numbers: Numbers, concave: _Concave, mu: Array, at: Array
    ) -> tuple[float, Array, Array, int]:
        """Tangent, solve, repeat: the value, mu, the point of the last tangent, and how many steps it took."""
        from dissonance.solvers.convex.solve import value as total

        value, steps = total(s, numbers, mu)[0] + concave.log_conditionals(mu)[1], 0
        for _ in range(self.rounds):
            at, moved, used, _ = self._newton(s, numbers, concave.log_conditionals(mu)[0], at)
            steps += used
            new = total(s, numbers, moved)[0] + concave.log_conditionals(moved)[1]
            if not new < value - self.tol * max(1.0, abs(value)):
                break
            value, mu = new, moved
        return float(value), mu, at, steps
