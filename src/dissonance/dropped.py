"""What leaving out an arc saves: only what it can change is solved again, from the solution at hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dissonance.answer import Answer, Solver
from dissonance.problem import Batch
from dissonance.proof import ProvedBounds
from dissonance.scores import most_saved
from dissonance.solvers import solve_parts

NOTHING = 1e-8
"""What counts as nothing, in nats."""


@dataclass(frozen=True)
class _Dropped:
    """An arc of a solution, the parts that are left without it, and what variables cost that are left alone."""

    name: str
    solution: Answer
    parts: Sequence[Batch]
    constant: float = 0.0

    def saved(self, parts: Sequence[Answer]) -> float:
        """How much lower the inconsistency is that the parts have together."""
        without = math.inf if any(s.upper == math.inf for s in parts) else sum(s.upper for s in parts) + self.constant
        return 0.0 if without in (math.inf, self.solution.upper) else self.solution.upper - without


def savings(
    solver: Solver, solutions: Sequence[Answer], progress: Callable[[int, int], None] | None = None
) -> dict[str, float]:
    """How much lower the inconsistency would be without each arc that matters; loose ends are left out.

    What two contradictions make infinite stays infinite without an arc of one of them: that saves nothing. NaN for a
    hard arc without which nothing makes the values of a variable that no table is about.
    """
    pieces = [p for s in solutions for p in s.solved]
    infinite = sum(p.upper == math.inf for p in pieces)
    found = {a.name: 0.0 for p in pieces for a in p.part.arcs}
    worth = [(p, _idle(p)) for p in pieces if infinite == (p.upper == math.inf)]
    asked = [_dropped(p, a.name) for p, idle in worth for a in p.part.arcs if a.name not in idle]
    found |= {d.name: math.nan for d in asked if not _possible(solver, d)}
    asked = [d for d in asked if not math.isnan(found[d.name])]
    parts = [part for d in asked for part in d.parts]
    near = [d.solution for d in asked for _ in d.parts]
    solved = iter(solve_parts(parts, solver.unproved(), near=near, progress=progress))
    return found | {d.name: d.saved([next(solved) for _ in d.parts]) for d in asked}


def _possible(solver: Solver, dropped: _Dropped) -> bool:
    """Whether what is left can be solved: tables always can."""
    return all([not p.is_drawn or np.all(s.fits(p)) for p in dropped.parts for s, _ in solver.choose(p)])


def _idle(solution: Answer) -> set[str]:
    """Arcs that save nothing, by the bound of `most_saved`: it needs a convex OInc and mu as a table."""
    component = solution.part
    tables = solution.on is not None and math.isfinite(solution.upper) and not component.kinds
    if not tables or component.gamma[0] or not solution.converged or (component.beta < 0).any():
        return set()
    soft = [a for a in component.arcs if not a.hard and a.varying is None]
    bounds = most_saved(solution.mu, [a.arc for a in soft], component.theta)
    return {a.name for a, bound in zip(soft, bounds, strict=True) if a.beta * bound <= NOTHING}


def _dropped(solution: Answer, name: str) -> _Dropped:
    """What is left without an arc: all of it, alike but for a weight, or parts that the arc held together."""
    component = solution.part
    if not all([v.is_finite for v in component.variables]) or component.varying:
        return _Dropped(name, solution, [component.without(name)])
    left = component.among([k for k, a in enumerate(component.beliefs) if a.name != name])
    if len(left.parts) == 1 and not left.free:
        return _Dropped(name, solution, [component.without(name)])
    alone = ProvedBounds.entropy(left.free, component.gamma)
    return _Dropped(name, solution, left.parts, float(alone.lower[0] + alone.upper[0]) / 2)
