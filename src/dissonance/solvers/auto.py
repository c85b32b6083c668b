"""The choice among solvers: the first of a list that fits; and solvers by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from dissonance.answer import DEFAULT_TOL, Answer, Ints, Solver
from dissonance.bounds.solver import Bounds
from dissonance.distributions.messages import message_bytes
from dissonance.errors import DissonanceError, suggest
from dissonance.gaussians.pool import GaussianPool, misfit
from dissonance.gaussians.solver import GaussianSolver
from dissonance.problem import BUDGET, Batch, Bools
from dissonance.reduced.solver import Reduced
from dissonance.sampling.solver import Sampled
from dissonance.solvers.at_points import AtPoints
from dissonance.solvers.concave_convex import ConcaveConvex
from dissonance.solvers.direct import Given, Pinned, SumProductSolver
from dissonance.solvers.exact import CliqueTreeSolver, JointSolver, Newton
from dissonance.solvers.front import solve_parts
from dissonance.solvers.paper import Paper
from dissonance.solvers.peeled import Peeled, left
from dissonance.solvers.pooled import Pooled


@dataclass(frozen=True)
class PastNewton(Reduced):
    """The reduced dual, where Newton's steps do not fit but the junction tree does."""

    def fits(self, part: Batch) -> Bools | bool:
        """Return which problems Newton refuses, and messages have room for."""
        newton = Newton(budget=self.budget)
        if newton.surely(part) or not part.convex.any() or message_bytes(part.tree) > self.budget:
            return False
        if not newton.refuses(part):
            return False
        return part.convex & np.array([self.bytes(one) <= self.budget for one in part.singles])


@dataclass(frozen=True)
class PastTree(Bounds):
    """Bounds, where the junction tree does not fit the budget."""

    def fits(self, part: Batch) -> Bools | bool:
        """Return which problems have no room for Newton's steps nor for messages, not even what is left of them without
        loose ends."""
        if Newton(budget=self.budget).surely(part):
            return False
        fits = np.broadcast_to(super().fits(part), len(part))
        return fits & np.array([bool(ok) and self._past(one) for ok, one in zip(fits, part.singles, strict=True)])

    def _past(self, part: Batch) -> bool:
        """Return whether the junction tree of a single problem does not fit."""
        if SumProductSolver().fits(part).all():
            return message_bytes(part.tree) > self.budget
        newton, reduced = Newton(budget=self.budget), PastNewton(budget=self.budget)
        return any(newton.refuses(c) and not np.all(reduced.fits(c)) for c in left(part))


@dataclass(frozen=True)
class Auto(Solver):
    """The first solver of a list that fits: direct where mu is known, exact where convex; where Newton's steps do not
    fit, the reduced dual, and where no tree fits, bounds (both for `seconds`); otherwise local, with a lower bound from
    `nodes` parts of the space."""

    name = "auto"
    takes = frozenset({"drawn", "varying", "euclidean"})

    tol: float = DEFAULT_TOL
    budget: int = BUDGET
    device: str | None = None
    samples: int | None = None
    seed: int = 0
    seconds: float = Bounds.seconds
    nodes: int = ConcaveConvex.nodes
    first: tuple[Solver, ...] = ()

    @cached_property
    def candidates(self) -> tuple[Solver, ...]:
        """Solvers and reductions in the order in which they are tried: first those of one's own."""
        return (
            *self.first,
            GaussianSolver(self.tol, self.budget),
            Sampled(self.samples, self.seed),
            GaussianPool(self.samples, self.seed),
            AtPoints(),
            Pinned(self.budget),
            Given(self.budget),
            Pooled(),
            PastTree(self.seconds, budget=self.budget, seed=self.seed),
            SumProductSolver(self.budget),
            Peeled(self.budget),
            PastNewton(self.seconds, self.tol, self.budget),
            Newton(self.tol, self.budget, self.device),
            ConcaveConvex(budget=self.budget, nodes=self.nodes),
        )

    def choose(self, part: Batch) -> list[tuple[Solver, Ints]]:
        """Return the first solver that fits each problem; if none does, one that says why."""
        kinds, left = part.kinds, np.arange(len(part))
        found: list[tuple[Solver, Ints]] = []
        for s in self.candidates:
            if kinds <= s.takes and (not s.needs or kinds & s.needs):
                fits = s.fits(part)
                if fits is True or (fits is not False and fits.all()):
                    return [*found, (s, left)]
                if fits is not False and fits.any():
                    found.append((s, left[fits]))
                    part, left = part.take(np.flatnonzero(~fits)), left[~fits]
        return [*found, ((GaussianPool if misfit(part) else Sampled)(self.samples, self.seed), left)]

    def for_step(self, seed: int) -> Auto:
        """Return the solver for a step of LIR: see `Sampled.for_step`."""
        return replace(self, samples=self.samples or 1, seed=seed)

    def unproved(self) -> Auto:
        """Return the solver without branch and bound."""
        return replace(self, nodes=0)

    def solve(self, part: Batch, *how: Any, **options: Any) -> Answer:
        """Return what the chosen solver finds."""
        return solve_parts([part], self)[0]


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
    """Return the solver of that name, with its default options."""
    if name not in SOLVERS:
        raise DissonanceError(f"no solver named {name!r}.{suggest(name, SOLVERS)}")
    return _made(SOLVERS[name])


@cache
def _made(kind: type[Solver]) -> Solver:
    """Return a solver with its default options, made once: it does not change."""
    return kind()
