"""Non-convex attention (beta < gamma alpha, or beta < 0): local minima by the concave-convex procedure, and how much
lower the global one can be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dissonance.answer import Answer, Marginals, Solver, infinite
from dissonance.attended import Array
from dissonance.problem import BUDGET, Batch, Bools
from dissonance.solvers import convex
from dissonance.solvers.branching import Branching
from dissonance.solvers.exact import Newton
from dissonance.solvers.least_concave import least_concave, unlike
from dissonance.tolerances import FEASIBLE, ROUNDING

MOST_CELLS, MOST_ROWS = 1000, 100
"""Branch and bound is tried on problems with so many cells, and rows whose entropy is concave."""

CERTAINLY = 1e6
"""A reward that outweighs all other costs, in units of the weights."""

RISE = 2.0
"""By how much the last cell costs more than the first at the start that leans towards the first."""

TIE, DIGITS = 1e-7, 3
"""Local minima count as equally low up to TIE max(1, |value|), and as equal if their masses agree to so many digits."""


class LocalMinimum(NamedTuple):
    """A local minimum: its value, mu, and the point of the last convex problem."""

    value: float
    mu: Array
    at: Array


def lowest(found: Sequence[LocalMinimum]) -> LocalMinimum:
    """Return the lowest of some local minima, whichever way rounding goes.

    Of those that are equally low it is the one with the most mass in the first cell of the junction tree in which they
    differ.
    """
    least = min(x.value for x in found)
    tied = [x for x in found if x.value <= least + TIE * max(1.0, abs(least))]
    return max(tied, key=lambda x: (*np.round(x.mu, DIGITS), -x.value))


@dataclass(frozen=True)
class ConcaveConvex(Solver):
    """Replace the concave terms by their tangents at mu, solve the convex rest, repeat: the value never rises.

    The best local minimum of several starts: `upper` is attained. One start leans towards the first cells of the
    junction tree, and of minima that are equally low it is the one with the most mass in the first cell in which they
    differ. `lower` is the minimum without the concave terms, which are never negative; on small problems (MOST_CELLS,
    MOST_ROWS) it is raised by branch and bound (`branching.py`), which looks at up to `nodes` parts of the space, for
    at most so many `seconds`. `converged` says whether the bounds met within `gap` max(1, |upper|).
    """

    name = "concave-convex"

    starts: int = 4
    rounds: int = 200
    tol: float = 1e-9
    seed: int = 0
    budget: int = BUDGET
    nodes: int = 200
    seconds: float = math.inf
    gap: float = 1e-6

    def unproved(self) -> ConcaveConvex:
        """Without branch and bound."""
        return replace(self, nodes=0)

    def solve(self, part: Batch) -> Answer:
        """The lowest local minimum found, and how much lower the global one may be."""
        eased = least_concave(part)
        s = Newton(budget=self.budget).structure(eased, part.tree)
        if s is None:
            return infinite(part, self.name)
        numbers = s.numbers(eased)
        bottomless = np.isneginf(numbers.c[0])
        problem = Branching(s, numbers._replace(c=np.where(bottomless, 0.0, numbers.c)), s.weights(eased)[0])
        if bottomless.any() and self._reached(problem, bottomless):
            return infinite(part, self.name, -math.inf)
        rng = np.random.default_rng(self.seed)
        found: list[LocalMinimum] = []
        lower, steps = -math.inf, 0
        level, rising = np.zeros(len(bottomless)), np.linspace(0.0, RISE, len(bottomless))
        for start in range(self.starts):
            tilt = (level, rising)[start] if start < 2 else rng.gumbel(size=len(bottomless))
            relaxed = self._newton(problem, tilt)
            if relaxed.contradiction[0] > 0:
                return infinite(part, self.name)
            lower = max(lower, float(relaxed.bounds[0, 0])) if start == 0 else lower
            local, used = self._descend(problem, relaxed.mu[0], relaxed.at[0])
            steps += used + int(relaxed.steps[0])
            found.append(local)
        if self.nodes and len(bottomless) <= MOST_CELLS and len(problem.rows) <= MOST_ROWS:
            raised, used = self._bracket(problem, found)
            lower, steps = max(lower, raised), steps + used
        best = lowest(found)
        _, blur, residual = problem.value(best.mu)
        lower = min(lower, best.value) if residual <= ROUNDING else -math.inf
        upper = best.value if residual <= FEASIBLE else math.inf
        bounds = part.proved(lower, upper, blur + unlike(part, eased), tol=self.gap)
        priced = s.spread_multipliers(s.y(best.at)[None])[:, : part.log_p.shape[1]] if s.hard else None
        return Answer(
            part,
            bounds,
            self.name,
            Marginals(part.tree, s.tables(best.mu), priced),
            steps=steps,
            residual=residual,
            within=0.0 if residual <= ROUNDING else FEASIBLE,
        )

    def _reached(self, problem: Branching, bottomless: Bools) -> bool:
        """Whether some mu has mass where the incompatibility has no lower end: any has, unless hard arcs forbid it."""
        if not problem.structure.hard:
            return True
        most = self._newton(problem, -CERTAINLY * (1 + np.abs(problem.numbers.W).max(initial=0.0)) * bottomless)
        return bool(most.mu[0][bottomless].sum() > FEASIBLE)

    def _bracket(self, problem: Branching, found: list[LocalMinimum]) -> tuple[float, int]:
        """A lower bound from a look at all parts, and how many steps it took; local minima on the way join `found`."""
        steps, least = 0, min(x.value for x in found)

        def upper(mu: Array) -> float:
            nonlocal least, steps
            value, _, broken = problem.value(mu)
            if broken <= ROUNDING and value < least - self.tol:
                local, used = self._descend(problem, mu, self._newton(problem, 0.0 * mu).at[0])
                found.append(local)
                least, steps = min(least, local.value), steps + used
            return least

        gap = 0.5 * self.gap * max(1.0, abs(least))
        lower, looked = problem.search(upper, gap, self.nodes, self.seconds)
        return lower, steps + looked

    def _newton(self, problem: Branching, tilt: Array, near: Array | None = None) -> convex.solve.Outcome:
        """The minimiser of the convex part with some cost added, from the point of another such cost."""
        goal, numbers = np.array([self.tol]), problem.numbers
        program = convex.program.Program(problem.structure, numbers._replace(c=numbers.c + tilt))
        return convex.solve.solve(program, goal, goal, None if near is None else near[None])

    def _descend(self, problem: Branching, mu: Array, at: Array) -> tuple[LocalMinimum, int]:
        """Tangent, solve, repeat, from mu and a point to start from; and how many steps it took."""
        value, steps = problem.value(mu)[0], 0
        for _ in range(self.rounds):
            moved = self._newton(problem, problem.tangent(mu)[0], at)
            at, steps = moved.at[0], steps + int(moved.steps[0])
            new = problem.value(moved.mu[0])[0]
            if not new < value - self.tol * max(1.0, abs(value)):
                break
            value, mu = new, moved.mu[0]
        return LocalMinimum(value, mu, at), steps
