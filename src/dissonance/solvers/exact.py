"""The exact solvers of convex components: interior points on a junction tree, with proof."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from dissonance.attended import Array
from dissonance.compiled import begin_compiling, complete, engage, kept
from dissonance.distributions import Tree
from dissonance.distributions.tree import single
from dissonance.errors import CapabilityError, SizeError
from dissonance.problem import BUDGET, Component, Shape, check_bytes
from dissonance.proof import Accuracy, ProvedBounds, meeting, uncrossed
from dissonance.solution import DEFAULT_TOL, TOGETHER, Solution, Solver, infinite
from dissonance.solvers import convex
from dissonance.threads import allowed
from dissonance.tolerances import FEASIBLE, ROUNDING

if TYPE_CHECKING:  # Numba is imported where something is solved
    from dissonance.solvers.convex.layout import Bools
    from dissonance.solvers.convex.program import Arcs, Program, Structure
    from dissonance.solvers.convex.solve import Outcome


LARGE = 2000
"""Problems a core from which on a batch is quicker on a GPU."""

DEAR = 1e8
"""Multiplications of a Newton step from which on a problem is solved no further than it must be: the steps of such
problems halve the gap, where those of others square it."""

BYTES_PER_CELL = 200
"""What numbering a cell of a cluster's table takes, roughly, whether or not it can carry mass."""

BYTES_PER_PAIR = 32
"""What a pair of cells of one cluster takes, at most, and a cell for every arc that lives there."""

MOST_WORK = 2e11
"""Multiplications of a Newton step above which a problem is refused: some twenty of them would take an hour."""


@dataclass(frozen=True)
class Newton(Solver):
    """Interior-point Newton on the junction tree; Clarabel if that leaves a gap. The default.

    `tol`: the gap between the bounds to reach, relative to max(1, |inconsistency|). `budget`: bytes it may use.
    `device`: where batches of problems that are small enough are solved; None: on a GPU if there is one and the batch
    is large. "cpu:0": here, by what is written for GPUs.
    """

    name = "newton"

    tol: float = DEFAULT_TOL
    budget: int = BUDGET
    device: str | None = None

    def fits(self, component: Component) -> bool:
        """Whether beta >= gamma alpha, mechanism by mechanism."""
        return component.convex

    def for_tables(self) -> Newton | None:
        """Itself: batches of convex tables are what it is for."""
        return self

    def batch(self, component: Component) -> object:
        """Components that differ in their numbers only."""
        return component.shape.key

    def together(self, count: int) -> int:
        """All on a GPU; more than a few hundred do not fit the caches of a CPU."""
        return count if self.on_gpu(count) else min(count, TOGETHER)

    def tree(self, component: Component) -> Tree:
        """The tree whose cluster marginals are solved for."""
        return component.tree

    def solve(self, component: Component) -> Solution:
        """Bounds on the inconsistency, each with its proof, and the mu that attains the upper one."""
        return self.solve_many([component])[0]

    def solve_many(self, components: Sequence[Component], near: Sequence[Solution] | None = None) -> list[Solution]:
        """The same for components that differ in their numbers only, together: see `Shape`.

        `near`: solutions of almost the same components to start from. A start that does not lead to a tight proof is
        forgotten, and the problem solved afresh.
        """
        for c in components:
            if not c.convex:
                raise CapabilityError(_not_convex(c, self.name))
        tree, arcs = self.tree(components[0]), convex.program.Arcs.of(components)
        found: dict[int, Solution] = {}
        for s, some in self.structures(components[0].shape, tree, arcs):
            here = [components[k] for k in some.tolist()]
            if s is None:
                found |= zip(some.tolist(), [infinite(c, self.name) for c in here], strict=True)
            else:
                before = [near[k] for k in some.tolist()] if near is not None else []
                found |= zip(some.tolist(), self._solve(s, here, arcs.take(some), before), strict=True)
        return [found[k] for k in range(len(components))]

    def structures(self, shape: Shape, tree: Tree, arcs: Arcs) -> Iterator[tuple[Structure | None, np.ndarray]]:
        """Problems by what can carry mass in them; SizeError before anything is allocated that would not fit."""
        check_bytes(tree, BYTES_PER_CELL * tree.cells, self.budget)
        for s, some in convex.support.by_support(shape, tree, arcs):
            if s is not None:
                check_bytes(tree, s.bytes, self.budget)
                if s.work > MOST_WORK:
                    raise SizeError(
                        f"the attended part has treewidth {tree.treewidth} and {tree.cells:.3g} table cells: a Newton "
                        f"step would take {s.work:.2g} multiplications, an hour or more in all. Attend to fewer arcs "
                        "(set beta to 0)."
                    )
            yield s, some

    def surely(self, component: Component) -> bool:
        """Whether it cannot be too large, as its cells tell at once."""
        size = component.tree.cells
        if component.hard.any():  # a cell may be eliminated by a multiplier for every arc
            size *= 1 + len(component.arcs)
        return self._roomy(component, size, size, 1)

    def _roomy(self, component: Component, size: int, widest: int, margin: int) -> bool:
        """Whether systems of this size in all, of which the widest is that of one cluster, cannot be too large."""
        most = 5 * BYTES_PER_CELL * size + BYTES_PER_PAIR * widest * (size + len(component.arcs))
        return size * widest**2 <= MOST_WORK and margin * most <= self.budget

    def refuses(self, component: Component) -> bool:
        """Whether its steps need more memory, or more work, than there is."""
        if self.surely(component):
            return False
        if BYTES_PER_CELL * component.tree.cells > self.budget:
            return True
        if not component.hard.any():
            widest = max(map(math.prod, self.tree(component).shapes))
            if self._roomy(component, component.tree.cells, widest, 4):
                return False
        try:
            list(self.structures(component.shape, self.tree(component), convex.program.Arcs.of([component])))
        except SizeError:
            return True
        return False

    def on_gpu(self, count: int) -> bool:
        """Whether a batch of so many problems is solved on a GPU."""
        if self.device is not None:
            if self.device.startswith("cuda") and not torch.cuda.is_available():
                raise CapabilityError('there is no CUDA device that torch can use; give device="cpu".')
            return self.device != "cpu"
        return count >= LARGE * allowed() and torch.cuda.is_available()

    def _solve(
        self, s: Structure, components: Sequence[Component], arcs: Arcs, near: Sequence[Solution]
    ) -> list[Solution]:
        program = convex.program.Program(s, s.numbers(arcs))
        outcome = self.run(program, *self._targets(s), *_starts(s, near))
        accuracy = Accuracy(components[0].shape.rows, arcs.log_p, arcs.beta, arcs.alpha, arcs.gamma)
        found, bounds = self._solutions(components, accuracy, outcome, s)
        enough = meeting(bounds.lower, bounds.upper, 1e-2 * self.tol, bounds.blur).tolist()
        return [x if enough[k] else self._insist(x, program.take(slice(k, k + 1))) for k, x in enumerate(found)]

    def _targets(self, s: Structure) -> tuple[float, float]:
        """The gap to iterate to, and the one that is enough where a nearby solution is followed."""
        return (5e-3 if s.work > DEAR else 1e-3) * self.tol, 1e-2 * self.tol

    def run(
        self, program: Program, tol: float, enough: float, start: Array | None = None, known: Bools | None = None
    ) -> Outcome:
        """Iterate to `tol`, from where nearby problems stopped where that is `known` and proves `enough`."""
        count, s = len(program), program.structure
        targets = np.full(count, float(tol)), np.full(count, float(enough))
        if self.on_gpu(count):
            if convex.device.small_enough(s):
                return convex.device.solve(program, *targets, start, known, self.device or "cuda")
            if self.device is not None:
                most = f"problems of at most {convex.device.LARGEST} cells and multipliers, and here are more"
                warnings.warn(f"device={self.device!r} is for {most}: they are solved on the CPU.", stacklevel=2)
        return convex.solve.solve(program, *targets, start, known, max(1, min(TOGETHER, self.budget // s.bytes)))

    def _insist(self, best: Solution, program: Program) -> Solution:
        """A solution that is not close: Newton again, if it nearly is; Clarabel, and Newton from where that stopped."""
        if self._close(best):
            outcome = self.run(program, *self._targets(program.structure), *_starts(program.structure, [best]))
            best = self._better(best, self._solution(best.component, outcome, program.structure))
            if self._close(best, 1e-2):
                return best
        for outcome in convex.conic.by_clarabel(program, self.tol):
            now = replace(self._solution(best.component, outcome, program.structure), method="clarabel")
            if now.lower == math.inf:
                return now
            best = self._better(best, now)
            if self._close(best, 1e-3):
                break
        return best if best.residual <= ROUNDING else self._closely(best, program)

    def _closely(self, best: Solution, program: Program) -> Solution:
        """No mu was found at which hard arcs hold: bounds for all mu at which they hold closely enough.

        It is solved as if they said what the present mu does, and then proved for what they say.
        """
        s, tol = program.structure, np.array([1e-3 * self.tol], dtype=np.float64)
        said = s.conditionals(s.flat(best.tables)[None], program.numbers.p)
        said = np.where(s.kind == convex.layout.HARD, said, program.numbers.p)
        outcome = convex.solve.solve(replace(program, numbers=program.numbers._replace(p=said)), tol, tol)
        outcome.at[:, : outcome.mu.shape[1]] = outcome.mu
        outcome = replace(convex.solve.prove(program, outcome.at, within=FEASIBLE), steps=best.steps + outcome.steps)
        found = self._solution(best.component, outcome, s, FEASIBLE)
        return replace(found, method=best.method)

    def _solution(self, c: Component, outcome: Outcome, s: Structure, within: float = ROUNDING) -> Solution:
        return self._solutions([c], c.accuracy, outcome, s, within)[0][0]

    def _solutions(
        self,
        components: Sequence[Component],
        accuracy: Accuracy,
        outcome: Outcome,
        s: Structure,
        within: float = ROUNDING,
    ) -> tuple[list[Solution], ProvedBounds]:
        """What an outcome proves of components, one by one and together."""
        low, high, residual = outcome.bounds.T
        bounds = ProvedBounds.proved(
            accuracy,
            low,
            high,
            tol=self.tol,
            broken=residual,
            within=within,
            contradicted=outcome.contradiction > 0,
        )
        found: list[Solution] = []
        columns = (x.tolist() for x in (bounds.lower, bounds.upper, bounds.met, residual, outcome.steps))
        for k, (c, lower, upper, met, off, steps) in enumerate(zip(components, *columns, strict=True)):
            if lower == math.inf:
                found.append(replace(infinite(c, self.name), steps=steps))
                continue
            found.append(
                Solution(
                    c,
                    lower,
                    upper,
                    self.name,
                    converged=met,
                    tree=s.tree,
                    tables=s.tables(outcome.mu[k]),
                    multipliers=s.multipliers(s.y(outcome.at[k]), c.arcs),
                    steps=steps,
                    residual=off,
                    within=within if within > ROUNDING else 0.0,
                    memory=s.bytes * len(outcome.steps),
                    method="newton",
                    near=(s, outcome.at[k], outcome.broad[k]),
                )
            )
        return found, bounds

    def _close(self, found: Solution, margin: float = 1.0) -> bool:
        """Whether the bounds meet; stopping asks for a margin, because mu is only as good as the root of the gap."""
        lower, upper = np.array([found.lower]), np.array([found.upper])
        return bool(meeting(lower, upper, margin * self.tol, found.component.accuracy.blur(upper))[0])

    def _better(self, a: Solution, b: Solution) -> Solution:
        """The one whose mu is closer to the hard arcs, or else costs less; and the better of the lower bounds."""
        chosen = min(a, b, key=lambda s: (max(s.residual, ROUNDING), s.upper))
        lower, upper = uncrossed(np.array(max(a.lower, b.lower)), np.array(chosen.upper))
        found = replace(chosen, lower=float(lower), upper=float(upper), steps=a.steps + b.steps)
        return replace(found, converged=self._close(found))


@dataclass(frozen=True)
class CliqueTreeSolver(Newton):
    """The exponential-cone program on the junction tree, solved by Clarabel and polished by Newton if need be."""

    name = "clique-tree"

    def for_tables(self) -> None:
        """None: it solves one at a time."""

    def run(
        self, program: Program, tol: float, enough: float, start: Array | None = None, known: Bools | None = None
    ) -> Outcome:
        """Straight to Clarabel, one by one: nothing is proved here."""
        return convex.solve.unsolved(program)


@dataclass(frozen=True)
class JointSolver(Newton):
    """The dense joint: one cluster with every variable. For small PDGs, and as a check on the tree."""

    name = "joint"

    def for_tables(self) -> None:
        """None: arrays are made for junction trees."""

    def tree(self, component: Component) -> Tree:
        """A tree of one cluster with all variables."""
        return single(component.sizes)


def _starts(s: Structure, near: Sequence[Solution]) -> tuple[Array | None, Bools | None]:
    """The points of nearby problems, (P, point), as far as they are of the same structure; and which are."""
    old = [x.near[1] if x.near is not None and x.near[0] is s else None for x in near]
    known = np.array([x is not None for x in old], dtype=np.bool_)
    if not known.any():
        return None, None
    unknown = np.zeros(s.flat_layout[1].point)
    return np.stack([unknown if x is None else x for x in old]), known


def _not_convex(component: Component, name: str) -> str:
    first = next(a for a in component.arcs if a.beta < component.gamma * a.alpha or a.beta < 0)
    return (
        f"{first.arc} has beta < gamma alpha (or beta < 0), so the incompatibility is not convex. "
        f'The {name} solver needs beta >= gamma alpha. Use solver="concave-convex", which finds a local minimum.'
    )


def precompile() -> None:
    """Compile the functions of the solver and cache them on disk; does nothing if the cache is up to date."""
    if kept():
        return
    from dissonance.arc import Arc
    from dissonance.focus import Attention
    from dissonance.pdg import PDG
    from dissonance.problem import prepare
    from dissonance.solvers.convex.selection import select
    from dissonance.variables import Variable

    begin_compiling()  # meanwhile Numba compiles what makes large problems ready, here
    engage()
    a, b, c = (Variable(x, 2) for x in "ABC")
    rows = [[0.7, 0.3], [0.4, 0.6]]
    pdg = PDG(Arc("ab", a, b, rows), Arc("bc", b, c, rows), Arc("ca", c, a, [[1.0, 0.0], [0.5, 0.5]]))
    for beta in (1.0, math.inf):
        (problem,) = prepare(pdg, Attention.uniform(pdg).replace(beta={"ab": beta})).components
        (found,) = Newton().solve_many([problem])
        select(found)
    complete()
