"""What leaving out an arc saves: only what it can change is solved again, from the solution at hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dissonance.problem import Component
from dissonance.scores import most_saved
from dissonance.solvers import Solution, Solver, solve_together

NOTHING = 1e-8
"""What counts as nothing, in nats."""


@dataclass(frozen=True)
class _Dropped:
    """An arc of a solution, the parts that are left without it, and what variables cost that are left alone."""

    name: str
    solution: Solution
    parts: Sequence[Component]
    constant: float = 0.0

    def saved(self, parts: Sequence[Solution]) -> float:
        """How much lower the inconsistency is that the parts have together."""
        without = math.inf if any(s.upper == math.inf for s in parts) else sum(s.upper for s in parts) + self.constant
        return 0.0 if without in (math.inf, self.solution.upper) else self.solution.upper - without


def savings(
    solver: Solver, solutions: Sequence[Solution], progress: Callable[[int, int], None] | None = None
) -> dict[str, float]:
    """How much lower the inconsistency would be without each arc that matters; loose ends are left out.

    What two contradictions make infinite stays infinite without an arc of one of them: that saves nothing. NaN for a
    hard arc without which nothing makes the values of a variable that no table is about.
    """
    pieces = [p for s in solutions for p in s.parts]
    infinite = sum(p.upper == math.inf for p in pieces)
    found = {a.name: 0.0 for p in pieces for a in p.component.arcs}
    worth = [(p, _idle(p)) for p in pieces if infinite == (p.upper == math.inf)]
    asked = [_dropped(p, a.name) for p, idle in worth for a in p.component.arcs if a.name not in idle]
    found |= {d.name: math.nan for d in asked if not _possible(solver, d)}
    asked = [d for d in asked if not math.isnan(found[d.name])]
    parts = [part for d in asked for part in d.parts]
    near = [d.solution for d in asked for _ in d.parts]
    solved = iter(solve_together(solver.unproved(), parts, progress, near))
    return found | {d.name: d.saved([next(solved) for _ in d.parts]) for d in asked}


def _possible(solver: Solver, dropped: _Dropped) -> bool:
    """Whether what is left can be solved: tables always can."""
    return all([not p.is_drawn or solver.choose(p).fits(p) for p in dropped.parts])


def _idle(solution: Solution) -> set[str]:
    """Arcs that save nothing, by the bound of `most_saved`: it needs a convex OInc and mu as a table."""
    component = solution.component
    tables = solution.tree is not None and math.isfinite(solution.upper) and all(a.log_p.size for a in component.arcs)
    if not tables or component.gamma or not solution.converged or any(a.beta < 0 for a in component.arcs):
        return set()
    soft = [a for a in component.arcs if not a.hard and a.varying is None]
    bounds = most_saved(solution.mu, [a.arc for a in soft], component.theta)
    return {a.name for a, bound in zip(soft, bounds, strict=True) if a.beta * bound <= NOTHING}


def _dropped(solution: Solution, name: str) -> _Dropped:
    """What is left without an arc: all of it, alike but for a weight, or parts that the arc held together."""
    component = solution.component
    if not all([v.is_finite for v in component.variables]) or component.varies:
        return _Dropped(name, solution, [component.without(name)])
    left = component.split(a for a in component.arcs if a.name != name)
    if len(left.components) == 1 and not left.free:
        return _Dropped(name, solution, [component.without(name)])
    return _Dropped(name, solution, left.components, left.constant)
