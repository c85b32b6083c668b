"""Solvers of the infimum over mu, by name."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from dissonance.errors import CapabilityError, DissonanceError, suggest
from dissonance.problem import BUDGET, Component
from dissonance.solvers.at_points import AtPoints
from dissonance.solvers.base import DEFAULT_TOL, FEASIBLE, Solution, Solver
from dissonance.solvers.concave_convex import ConcaveConvex
from dissonance.solvers.direct import Given, Pinned, SumProductSolver
from dissonance.solvers.exact import CliqueTreeSolver, JointSolver, Newton
from dissonance.solvers.gaussian import GaussianSolver
from dissonance.solvers.paper import Paper
from dissonance.solvers.peeled import Peeled
from dissonance.solvers.pooled import Pooled
from dissonance.solvers.sampled import Sampled

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Auto(Solver):
    """The first solver of a list that fits: direct where mu is known, exact where convex, local otherwise."""

    name = "auto"

    tol: float = DEFAULT_TOL
    budget: int = BUDGET
    device: str | None = None
    samples: int = 1
    seed: int = 0

    takes = frozenset({"drawn", "varying", "euclidean"})

    @cached_property
    def candidates(self) -> tuple[Solver, ...]:
        """What is tried, in this order; large convex components without their loose ends."""
        return (
            Sampled(self.samples, self.seed),
            AtPoints(self),
            GaussianSolver(self.tol, self.budget),
            Pinned(self.budget),
            SumProductSolver(self.budget),
            Given(self.budget),
            Pooled(),
            Peeled(self, self.budget),
            Newton(self.tol, self.budget, self.device),
            ConcaveConvex(budget=self.budget),
        )

    def choose(self, component: Component) -> Solver:
        """The first that fits; if none does, the first, which says why."""
        return next((s for s in self.candidates if s.fits(component)), self.candidates[0])

    def solve(self, component: Component) -> Solution:
        """Whatever the chosen solver finds."""
        return self.choose(component).solve(component)


def chosen(solver: Solver, components: Sequence[Component]) -> list[Solver]:
    """The solver of each component; raises CapabilityError for one that it is not for."""
    if not hasattr(solver, "choose"):
        raise DissonanceError(f"{type(solver).__name__} is no solver: have it inherit from dissonance.solvers.Solver.")
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


def select(solution: Solution) -> tuple[Sequence[Tensor], float]:
    """mu* of a solution at gamma = 0, and how far off it may be; see `convex/selection.py`."""
    from dissonance.solvers.convex.selection import select

    return select(solution)


SOLVERS: dict[str, type[Solver]] = {
    "auto": Auto,
    "newton": Newton,
    "clique-tree": CliqueTreeSolver,
    "joint": JointSolver,
    "pinned": Pinned,
    "sum-product": SumProductSolver,
    "given": Given,
    "pooled": Pooled,
    "concave-convex": ConcaveConvex,
    "gaussian": GaussianSolver,
    "paper": Paper,
    "sampled": Sampled,
    "at-points": AtPoints,
}


def solver_named(name: str) -> Solver:
    """The solver of that name, with its default options."""
    if name not in SOLVERS:
        raise DissonanceError(f"no solver named {name!r}.{suggest(name, SOLVERS)}")
    return SOLVERS[name]()


__all__ = [
    "FEASIBLE",
    "SOLVERS",
    "AtPoints",
    "Auto",
    "CliqueTreeSolver",
    "ConcaveConvex",
    "GaussianSolver",
    "Given",
    "JointSolver",
    "Newton",
    "Paper",
    "Pinned",
    "Pooled",
    "Sampled",
    "Solution",
    "Solver",
    "SumProductSolver",
    "chosen",
    "select",
    "solve_together",
    "solver_named",
]
