"""Many components and one solver: it says which of its solvers each is for, and those alike are solved as a batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from dissonance.errors import CapabilityError, DissonanceError
from dissonance.problem import Component
from dissonance.solvers.base import Solution, Solver

_log = logging.getLogger(__name__)


def checked(solver: Solver) -> Solver:
    """The solver itself; an error for a class of solvers, and for what is no solver."""
    if isinstance(solver, type):
        raise DissonanceError(f"{solver.__name__} is a class of solvers: make one, {solver.__name__}().")
    if not hasattr(solver, "choose"):
        raise DissonanceError(f"{type(solver).__name__} is no solver: have it inherit from dissonance.solvers.Solver.")
    return solver


def chosen(solver: Solver, components: Sequence[Component]) -> list[Solver]:
    """The solver of each component; raises CapabilityError for one that it is not for."""
    found = [checked(solver).choose(c) for c in components]
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
        size = s.together(len(group))
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
