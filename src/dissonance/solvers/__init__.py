"""Solvers of the infimum over mu, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from dissonance.errors import DissonanceError, suggest
from dissonance.problem import BUDGET, Component
from dissonance.solvers.at_points import AtPoints
from dissonance.solvers.base import DEFAULT_TOL, FEASIBLE, Solution, Solver
from dissonance.solvers.bounds.solver import Bounds, PastTree
from dissonance.solvers.concave_convex import ConcaveConvex
from dissonance.solvers.direct import Given, Pinned, SumProductSolver
from dissonance.solvers.exact import CliqueTreeSolver, JointSolver, Newton
from dissonance.solvers.gaussian import GaussianSolver
from dissonance.solvers.paper import Paper
from dissonance.solvers.peeled import Peeled
from dissonance.solvers.pooled import Pooled
from dissonance.solvers.sampled import Sampled
from dissonance.solvers.together import chosen, solve_together


@dataclass(frozen=True)
class Auto(Solver):
    """The first solver of a list that fits: direct where mu is known, exact where convex, bounds where no tree fits
    (for `seconds`), local otherwise."""

    name = "auto"

    tol: float = DEFAULT_TOL
    budget: int = BUDGET
    device: str | None = None
    samples: int = 1
    seed: int = 0
    seconds: float = Bounds.seconds

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
            PastTree(self.seconds, budget=self.budget, seed=self.seed),
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
    "bounds": Bounds,
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
    "Bounds",
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
