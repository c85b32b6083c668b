"""Solvers of the infimum over mu, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from dissonance.bounds.columnar import ColumnBracket, bracket
from dissonance.bounds.solver import Bounds
from dissonance.errors import DissonanceError, suggest
from dissonance.gaussians.pool import GaussianPool, misfit
from dissonance.gaussians.solver import GaussianSolver
from dissonance.numerics import FEASIBLE
from dissonance.problem import BUDGET, Component
from dissonance.reduced.solver import Reduced
from dissonance.sampling.solver import Sampled
from dissonance.solution import DEFAULT_TOL, Solution, Solver, chosen, solve_together
from dissonance.solvers.at_points import AtPoints
from dissonance.solvers.concave_convex import ConcaveConvex
from dissonance.solvers.direct import Given, Pinned, SumProductSolver
from dissonance.solvers.exact import CliqueTreeSolver, JointSolver, Newton
from dissonance.solvers.paper import Paper
from dissonance.solvers.past import PastNewton, PastTree
from dissonance.solvers.peeled import Peeled
from dissonance.solvers.pooled import Pooled


@dataclass(frozen=True)
class Auto(Solver):
    """The first solver of a list that fits: direct where mu is known, exact where convex; where Newton's steps do not
    fit, the reduced dual, and where no tree fits, bounds (both for `seconds`); otherwise local, with a lower bound from
    `nodes` parts of the space."""

    name = "auto"

    tol: float = DEFAULT_TOL
    budget: int = BUDGET
    device: str | None = None
    samples: int | None = None
    seed: int = 0
    seconds: float = Bounds.seconds
    nodes: int = ConcaveConvex.nodes

    takes = frozenset({"drawn", "varying", "euclidean"})

    @cached_property
    def candidates(self) -> tuple[Solver, ...]:
        """What is tried, in this order; large convex components without their loose ends."""
        return (
            GaussianSolver(self.tol, self.budget),
            Sampled(self.samples, self.seed),
            GaussianPool(self.samples, self.seed),
            AtPoints(self),
            Pinned(self.budget),
            Given(self.budget),
            Pooled(),
            PastTree(self.seconds, budget=self.budget, seed=self.seed),
            SumProductSolver(self.budget),
            Peeled(self, self.budget),
            PastNewton(self.seconds, self.tol, self.budget),
            self.for_tables(),
            ConcaveConvex(budget=self.budget, nodes=self.nodes),
        )

    def choose(self, component: Component) -> Solver:
        """The first that fits; if none does, one that says why."""
        kinds = component.kinds
        for s in self.candidates:
            if kinds <= s.takes and (not s.needs or kinds & s.needs) and s.fits(component):
                return s
        return (GaussianPool if misfit(component) else Sampled)(self.samples, self.seed)

    def for_tables(self) -> Newton:
        """The Newton solver of its list of candidates."""
        return Newton(self.tol, self.budget, self.device)

    def for_step(self, seed: int) -> Auto:
        """The same for a step of LIR: see `Sampled.for_step`."""
        return replace(self, samples=self.samples or 1, seed=seed)

    def unproved(self) -> Auto:
        """Without branch and bound."""
        return replace(self, nodes=0)

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
    "gaussian-pool": GaussianPool,
    "paper": Paper,
    "sampled": Sampled,
    "bounds": Bounds,
    "reduced": Reduced,
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
    "ColumnBracket",
    "ConcaveConvex",
    "GaussianPool",
    "GaussianSolver",
    "Given",
    "JointSolver",
    "Newton",
    "Paper",
    "Pinned",
    "Pooled",
    "Reduced",
    "Sampled",
    "Solution",
    "Solver",
    "SumProductSolver",
    "bracket",
    "chosen",
    "select",
    "solve_together",
    "solver_named",
]
