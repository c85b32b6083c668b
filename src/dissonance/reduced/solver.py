"""The solver: down a ladder of temperatures to gamma, with a bracket at every step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from dissonance import threads
from dissonance.answer import DEFAULT_TOL, Answer, Marginals, Solver, infinite
from dissonance.distributions import CliqueTree, Tree
from dissonance.distributions.messages import message_bytes
from dissonance.errors import CapabilityError
from dissonance.problem import BUDGET, Batch, Bools, check_bytes
from dissonance.reduced.ascent import Ascent
from dissonance.reduced.dual import (
    HARD,
    Floats,
    ReducedDual,
    ReducedPoint,
    reduced_terms,
    with_leaves,
)
from dissonance.scores import amiss, attended_incompatibility
from dissonance.timed import TimedBounds
from dissonance.tolerances import FEASIBLE, ROUNDING

FIRST, COOLER, LAST = 0.1, 0.3, 1e-6
"""The first temperature, times a typical weight; the ratio of two; the last at gamma = 0, times a typical weight."""

ROUGH = 2e-3
"""The gap at which a temperature above gamma is left, times itself and the number of terms."""

CYCLES = 100
"""How often every hard arc is made to hold in turn, at most."""


@dataclass(frozen=True)
class Reduced(Solver):
    """Proved bounds where the junction tree fits and Newton's pairs of cells do not; exact in the end at gamma > 0.

    The dual in conditionals, one pass of sum-product an evaluation: see `dual.py`. `tol`: the gap at which it stops,
    relative to max(1, |inconsistency|); `seconds`: when it stops in any case; `budget`: bytes it may use.
    """

    name = "reduced"

    seconds: float = 20.0
    tol: float = DEFAULT_TOL
    budget: int = BUDGET

    def fits(self, part: Batch) -> Bools | bool:
        """Return where beta >= gamma alpha, mechanism by mechanism."""
        return part.convex

    def bytes(self, part: Batch) -> int:
        """What messages take on the junction tree with a leaf for every term."""
        return message_bytes(with_leaves(part.tree, reduced_terms(part)))

    def solve(self, part: Batch) -> Answer:
        """The bounds that are reached in time; of an interrupted one, the best so far."""
        if not part.convex.all():
            raise CapabilityError(
                f'the {self.name} solver needs beta >= gamma alpha. Use solver="concave-convex", which finds a local '
                "minimum."
            )
        check_bytes(part.tree, self.bytes(part), self.budget)
        run = Cooling(self, part.gamma.item(), ReducedDual(part.tree, reduced_terms(part)))
        with run.interruptible():
            run.run()
        return run.solution(part)


class Cooling(TimedBounds):
    """The dual of one part, or of a part, on its way down the temperatures."""

    def __init__(self, solver: Reduced, gamma: float, dual: ReducedDual) -> None:
        super().__init__(solver.seconds, solver.tol)
        self.solver, self.gamma, self.dual, self.x = solver, gamma, dual, dual.start
        self.best: ReducedPoint | None = None
        self.passes = 0

    def run(self, near: Floats | None = None) -> None:
        """Temperature by temperature, until the bounds are close, the time is over, or nothing helps any more; from a
        point `near` the end, at the last one only. Threads of BLAS would take longer to meet than its products do."""
        gamma = self.gamma
        soft = self.dual.weight[self.dual.soft]
        scale = float(np.median(soft)) if len(soft) else 1.0
        last = max(gamma, 0.0 if gamma else LAST * scale)
        temperature = max(last, FIRST * scale) if near is None else last
        self.x = self.x if near is None else near
        with threads.without_blas_threads():
            while True:
                self._settle(temperature, temperature == last)
                if self.lower == math.inf or self.late or self.close(1e-2) or temperature == last:
                    return
                temperature = max(last, COOLER * temperature)

    def _settle(self, temperature: float, last: bool) -> None:
        """As far up as is worth while at a temperature."""
        ascent = Ascent(self.dual, self.x, temperature)
        enough = ROUGH * temperature * len(self.dual.terms)
        for point in ascent:
            self._note(point)
            if self.lower == math.inf or self.late or self.close(1e-2):
                break
            lam = np.maximum(np.abs(point.x), temperature)
            missing = point.gap + float((lam * np.abs(point.gradient))[self.dual.hard].sum())
            if missing <= (1e-3 * self.solver.tol * max(1.0, abs(point.value)) if last else enough):
                break
        self.x = ascent.point.x
        if self.dual.hard.any() and self.lower < math.inf:
            self._hold(ascent)
        self.passes += ascent.passes

    def _hold(self, ascent: Ascent) -> None:
        """Make hard arcs hold, one after another, which raises D too; until they all do."""
        which = [k for k, t in enumerate(self.dual.terms) if t.kind == HARD]
        point = ascent.point
        for _ in range(CYCLES):
            off = np.maximum.reduceat(self.dual.broken(point), self.dual.at[:-1])
            if off.max() <= 0.1 * ROUNDING or self.late:
                break
            for k in which:
                if off[k] > 0.1 * ROUNDING:
                    point = ascent.look(self.dual.onto(point, k))
            self._note(point)
        self.x = point.x

    def _note(self, point: ReducedPoint) -> None:
        """Keep what a point proves."""
        if point.value == math.inf:
            self.contradict()
            return
        blur, proved, dearest = self.dual.blur(point), point.value, self.dual.dearest
        if self.gamma == 0 and self._worth(point):
            proved = max(proved, self.dual.least(point))
        self.rise(proved, blur + self.dual.given_up(point.x, ROUNDING))
        if self.lower > dearest and proved - self.dual.given_up(point.x, FEASIBLE) > dearest + blur:
            self.contradict()  # no mu costs as much: hard arcs hold at none
            return
        holds = not self.dual.hard.any() or self.dual.broken(point).max() <= ROUNDING
        better = self.fall(point.incompatibility(self.gamma), blur) if holds else self.upper == math.inf
        if better or self.best is None:
            self.best = point
        self.tell(rarely=1.3)

    def _worth(self, point: ReducedPoint) -> bool:
        """Whether looking for the cheapest state may raise the bound by much."""
        return point.gap <= ROUGH * point.temperature * len(self.dual.terms)

    def solution(self, part: Batch) -> Answer:
        """What was found of a part; the upper bound is the incompatibility of the tables themselves."""
        solver, best = self.solver, self.best
        if self.lower == math.inf or best is None:
            return infinite(part, solver.name)
        mu = CliqueTree(part.variables, part.tree, agreeing_tables(part.tree, best.cells))
        with torch.no_grad():
            off = max((amiss(mu, a.arc, part.theta) for a in part.arcs if a.hard), default=0.0)
            tables = {a.name: torch.from_numpy(a.log_p) for a in part.arcs}
            value = float(attended_incompatibility(mu, part.arcs, self.gamma, tables))
        blur, lower, within = self.dual.blur(best), self.lower, FEASIBLE if ROUNDING < off <= FEASIBLE else ROUNDING
        if within > ROUNDING:
            lower = best.value - blur - self.dual.given_up(best.x, within)
        upper = value + blur if off <= within else math.inf
        bounds = part.proved(lower, upper, tol=solver.tol)
        return Answer(
            part,
            bounds,
            solver.name,
            Marginals(part.tree, mu.tables, self._multipliers(part, best.x)),
            bracket="" if bounds.met.all() else "Newton's steps do not fit",
            steps=self.passes,
            residual=off,
            within=within if within > ROUNDING else 0.0,
            memory=message_bytes(self.dual.tree),
        )

    def _multipliers(self, part: Batch, x: Floats) -> Floats | None:
        """lambda of the hard arcs, with the sign that other solvers give it, (1, entries)."""
        if not self.dual.hard.any():
            return None
        found, lam, at = np.zeros_like(part.log_p), np.where(self.dual.hard, -x, 0.0), self.dual.at.tolist()
        number = {a.name: k for k, a in enumerate(part.beliefs)}
        for k, t in enumerate(self.dual.terms):
            if t.kind == HARD:
                found[0, part.entries([number[t.name]])] = lam[at[k] : at[k + 1]]
        return found


def agreeing_tables(tree: Tree, cells: torch.Tensor) -> list[torch.Tensor]:
    """Cluster marginals that agree exactly: mu(rest | separator) times what the parent has there; roots sum to 1."""
    found: list[torch.Tensor] = []
    for table, scope, separator, p in zip(
        _split(tree, cells), tree.clusters, tree.separators, tree.parent, strict=True
    ):
        mass = table.sum([k for k, v in enumerate(scope) if v not in separator], keepdim=True)
        wanted: torch.Tensor | float = 1.0
        if p >= 0:
            above = tree.clusters[p]
            kept = [v for v in above if v in separator]
            wanted = found[p].sum([k for k, v in enumerate(above) if v not in separator])
            wanted = wanted.permute([kept.index(v) for v in separator]).reshape(mass.shape)
        found.append(table / torch.where(mass > 0, mass, 1.0) * wanted)
    return found


def _split(tree: Tree, cells: torch.Tensor) -> list[torch.Tensor]:
    sizes = [math.prod(s) for s in tree.shapes]
    return [x.reshape(s) for x, s in zip(cells[: sum(sizes)].split(sizes), tree.shapes, strict=True)]
