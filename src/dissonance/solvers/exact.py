"""The exact solvers of convex parts: interior points on a junction tree, with proof."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dissonance.answer import DEFAULT_TOL, Answer, Ints, Marginals, Solver, infinite
from dissonance.attended import Array
from dissonance.compiled import begin_compiling, complete, engage, kept
from dissonance.distributions import Tree
from dissonance.distributions.tree import single
from dissonance.errors import CapabilityError, SizeError
from dissonance.problem import BUDGET, Batch, check_bytes
from dissonance.proof import ProvedBounds
from dissonance.solvers import convex
from dissonance.threads import allowed
from dissonance.tolerances import FEASIBLE, ROUNDING

if TYPE_CHECKING:  # Numba is imported where something is solved
    from dissonance.solvers.convex.layout import Bools
    from dissonance.solvers.convex.program import Program, Structure
    from dissonance.solvers.convex.solve import Outcome


TOGETHER = 256
"""At most so many problems are solved in one batch on a CPU: more do not fit its caches."""

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


class Targets(NamedTuple):
    """Gaps in units of the tolerance: the one to iterate to, the one that is enough where a nearby solution is
    followed, and the one above which a problem is solved again by other means."""

    to: float
    enough: float
    insist: float


FINE, QUICK = Targets(1e-3, 1e-2, 1e-2), Targets(1e-2, 0.5, 1.0)
"""The targets of a solve whose mu is wanted, which is only as good as the root of the gap, and of one in a sequence."""


class NewtonMarginals(Marginals):
    """The mu of problems of one structure, where Newton's iteration stopped."""

    def __init__(self, structure: Structure, outcome: Outcome) -> None:
        self.__dict__.update(tree=structure.tree, structure=structure, outcome=outcome)
        self.structure: Structure
        self.outcome: Outcome

    @cached_property
    def tables(self) -> list[Tensor]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The cluster marginals of a single problem."""
        return self.structure.tables(self.outcome.mu[0])

    @cached_property
    def multipliers(self) -> Array | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Lagrange multipliers of the entries of hard arcs, (P, entries)."""
        s = self.structure
        return s.spread_multipliers(s.y(self.outcome.at)) if s.hard else None

    @property
    def points(self) -> Array:
        """Where the iteration stopped, (P, point)."""
        return self.outcome.at

    @property
    def stopped(self) -> tuple[Structure, Array]:
        """The structure, and where the gap of a single problem was still broad, (point,)."""
        return self.structure, self.outcome.broad[0]

    def joint(self, part: Batch) -> Array:
        """Return mu(s,t) of every entry of every table, (P, entries)."""
        return self.structure.joint(self.outcome.mu)

    def take(self, some: Ints) -> NewtonMarginals:
        """Return the mu of some of the problems."""
        return NewtonMarginals(self.structure, self.outcome.take(some))


@dataclass(frozen=True)
class Newton(Solver):
    """Interior-point Newton on the junction tree; Clarabel if that leaves a gap. The default.

    `tol`: the gap between the bounds to reach, relative to max(1, |inconsistency|). `budget`: bytes it may use.
    `device`: where batches of problems that are small enough are solved; None: on a GPU if there is one and the batch
    is large. "cpu:0": here, by what is written for GPUs.
    """

    name = "newton"
    together = True

    tol: float = DEFAULT_TOL
    budget: int = BUDGET
    device: str | None = None

    def fits(self, part: Batch) -> Bools:
        """Return where beta >= gamma alpha, mechanism by mechanism."""
        return part.convex

    def tree(self, part: Batch) -> Tree:
        """Return the tree whose cluster marginals are solved for."""
        return convex.support.tree_of(part) if part.facts else part.tree

    def most(self, count: int) -> int:
        """Return how many problems are solved at a time: all on a GPU, as many as fit the caches of a CPU."""
        return count if self.on_gpu(count) else min(count, TOGETHER)

    def nearby(self, part: Batch, near: Sequence[Answer]) -> tuple[Array, Bools] | None:
        """Return where the answers to nearby problems stopped, as far as they are of the same structure."""
        s = self.structure(part)
        old = [x.on.outcome.at[0] if isinstance(x.on, NewtonMarginals) and x.on.structure is s else None for x in near]
        known = np.array([x is not None for x in old], dtype=np.bool_)
        if s is None or not known.any():
            return None
        unknown = np.zeros(s.flat_layout[1].point)
        return np.stack([unknown if x is None else x for x in old]), known

    def solve(
        self,
        part: Batch,
        near: tuple[Array, Bools] | None = None,
        quick: bool = False,
        settle: bool = False,
    ) -> Answer:
        """Return bounds on the inconsistencies of the problems of a pattern, each with its proof.

        `near`: where nearby problems stopped, (P, point), and for which that is known, (P,). A start that does not lead
        to a tight proof is forgotten, and the problem solved afresh. `quick`: for a sequence of problems, whose mu need
        not be as close as can be. `settle`: iterate until mu stands still, where hard arcs let it.
        """
        targets = QUICK if quick else FINE
        if not part.convex.all():
            raise CapabilityError(_not_convex(part, self.name))
        s = self.structure(part)
        if s is None:
            return infinite(part, self.name)
        program = convex.program.Program(s, s.numbers(part))
        if settle:
            outcome, fine = self.settled(s, part)
            if not fine.all():
                left = np.flatnonzero(~fine)
                again = self.run(convex.program.Program(s, s.numbers(part.take(left))), self._targets(s, targets))
                for name, x in vars(outcome).items():
                    x[left] = getattr(again, name)
        else:
            outcome = self.run(program, self._targets(s, targets), *(near or ()))
        within, methods = np.full(len(part), ROUNDING), ["newton"] * len(part)
        bounds = self._proved(part, s, outcome, within)
        left = np.zeros(len(part), dtype=np.bool_) if settle else ~bounds.within(targets.insist * self.tol)
        if left.any():
            left &= ~np.isnan(part.log_p).any(1)
        for k in np.flatnonzero(left).tolist():
            some = slice(k, k + 1)
            found, within[k], methods[k] = self._insist(
                part.take(some), program.take(some), outcome.take(some), targets
            )
            outcome.put(k, found)
        if left.any():
            bounds = self._proved(part, s, outcome, within)
        return Answer(
            part,
            bounds,
            self.name,
            NewtonMarginals(s, outcome),
            steps=outcome.steps,
            residual=outcome.bounds[:, 2],
            within=np.where(within > ROUNDING, within, 0.0),
            memory=s.bytes * len(part),
            method=tuple(methods),
        )

    def settled(self, s: Structure, part: Batch) -> tuple[Outcome, Bools]:
        """Return problems of a structure whose last step moved mu by next to nothing, and for which that is fine."""
        work = convex.work.Work(s, s.numbers(part))
        work.settle(np.full(len(part), 1e-12), 1e-9, 30)
        work.certify()
        found = convex.solve.unsolved(convex.program.Program(s, s.numbers(part)))
        found = replace(found, at=work.at, broad=work.broad, mu=work.proved, bounds=work.bounds.copy())
        if not s.hard:  # mu is some distribution at least
            return found, np.ones(len(part), dtype=np.bool_)
        low, high, residual = found.bounds.T
        return found, (high - low <= self.tol * np.maximum(1.0, np.abs(high))) & (residual <= FEASIBLE)

    def _proved(self, part: Batch, s: Structure, outcome: Outcome, within: Array) -> ProvedBounds:
        """Return what an outcome proves of problems."""
        low, high, residual = outcome.bounds.T
        contradicted = outcome.contradiction > 0
        return proved_on(s, part, low, high, tol=self.tol, broken=residual, within=within, contradicted=contradicted)

    def structure(self, part: Batch, tree: Tree | None = None) -> Structure | None:
        """Return the structure of the problems of a pattern, None if nothing can carry mass in them.

        Raises SizeError before anything is allocated that would not fit.
        """
        tree = tree or self.tree(part)
        check_bytes(tree, BYTES_PER_CELL * tree.cells, self.budget)
        s = convex.support.structure_of(part, tree)
        if s is not None:
            check_bytes(tree, s.bytes, self.budget)
            if s.work > MOST_WORK:
                raise SizeError(
                    f"the attended part has treewidth {tree.treewidth} and {tree.cells:.3g} table cells: a Newton "
                    f"step would take {s.work:.2g} multiplications, an hour or more in all. Attend to fewer arcs "
                    "(set beta to 0)."
                )
        return s

    def surely(self, part: Batch) -> bool:
        """Whether it cannot be too large, as its cells tell at once."""
        size = part.tree.cells
        if part.hard.any():  # a cell may be eliminated by a multiplier for every arc
            size *= 1 + len(part.beliefs)
        return self._roomy(part, size, size, 1)

    def _roomy(self, part: Batch, size: int, widest: int, margin: int) -> bool:
        """Whether systems of this size in all, of which the widest is that of one cluster, cannot be too large."""
        most = 5 * BYTES_PER_CELL * size + BYTES_PER_PAIR * widest * (size + len(part.beliefs))
        return size * widest**2 <= MOST_WORK and margin * most <= self.budget

    def refuses(self, part: Batch) -> bool:
        """Whether its steps need more memory, or more work, than there is."""
        if self.surely(part):
            return False
        if BYTES_PER_CELL * part.tree.cells > self.budget:
            return True
        if not part.hard.any():
            widest = max(map(math.prod, self.tree(part).shapes))
            if self._roomy(part, part.tree.cells, widest, 4):
                return False
        try:
            self.structure(part)
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

    def _targets(self, s: Structure, targets: Targets) -> Targets:
        """Return the targets in nats: relative ones, times the tolerance."""
        to = max(targets.to, 5e-3) if s.work > DEAR else targets.to
        return Targets(*(self.tol * x for x in (to, targets.enough, targets.insist)))

    def run(
        self, program: Program, targets: Targets, start: Array | None = None, known: Bools | None = None
    ) -> Outcome:
        """Iterate to a gap, from where nearby problems stopped where that is `known` and proves enough."""
        count, s = len(program), program.structure
        to, enough = np.full(count, float(targets.to)), np.full(count, float(targets.enough))
        if self.on_gpu(count):
            if convex.device.small_enough(s):
                return convex.device.solve(program, to, enough, start, known, self.device or "cuda")
            if self.device is not None:
                most = f"problems of at most {convex.device.LARGEST} cells and multipliers, and here are more"
                warnings.warn(f"device={self.device!r} is for {most}: they are solved on the CPU.", stacklevel=2)
        return convex.solve.solve(program, to, enough, start, known, max(1, min(TOGETHER, self.budget // s.bytes)))

    def _insist(self, part: Batch, program: Program, best: Outcome, targets: Targets) -> tuple[Outcome, float, str]:
        """Solve a problem again whose bounds do not meet, how closely hard arcs hold, and by which method.

        Newton again, from where it stopped if that is close; Clarabel, and Newton from where that stopped.
        """
        s, known = program.structure, np.ones(1, dtype=np.bool_)
        if targets is QUICK:  # afresh, so that what is found does not depend on where the problem began
            fresh = self.run(program, self._targets(s, FINE))
            best = replace(fresh, steps=best.steps + fresh.steps)
        if self._close(part, s, best, 1.0) and not self._close(part, s, best, 1e-2):
            best = _better(best, self.run(program, self._targets(s, FINE), best.at, known))
        if self._close(part, s, best, 1e-2):
            return best, ROUNDING, "newton"
        method = "newton"
        for outcome in convex.conic.by_clarabel(program, self.tol):
            if self._proved(part, s, outcome, np.full(1, ROUNDING)).lower[0] == math.inf:
                return outcome, ROUNDING, "clarabel"
            now = _better(best, outcome)
            method = "clarabel" if now.mu is outcome.mu else method
            best = now
            if self._close(part, s, best, 1e-3):
                break
        if best.bounds[0, 2] <= ROUNDING:
            return best, ROUNDING, method
        return self._closely(best, program), FEASIBLE, method

    def _closely(self, best: Outcome, program: Program) -> Outcome:
        """No mu was found at which hard arcs hold: bounds for all mu at which they hold closely enough.

        It is solved as if they said what the present mu does, and then proved for what they say.
        """
        s, tol = program.structure, np.array([1e-3 * self.tol], dtype=np.float64)
        said = s.conditionals(best.mu, program.numbers.p)
        said = np.where(s.kind == convex.layout.HARD, said, program.numbers.p)
        found = convex.solve.solve(replace(program, numbers=program.numbers._replace(p=said)), tol, tol)
        found.at[:, : found.mu.shape[1]] = found.mu
        return replace(
            convex.solve.prove(program, found.at, within=FEASIBLE), steps=best.steps + found.steps, broad=found.broad
        )

    def _close(self, part: Batch, s: Structure, found: Outcome, margin: float) -> bool:
        """Whether the bounds meet; stopping asks for a margin, because mu is only as good as the root of the gap."""
        return bool(self._proved(part, s, found, np.full(1, ROUNDING)).within(margin * self.tol)[0])


def proved_on(s: Structure, part: Batch, low: Array, high: Array, **how: Any) -> ProvedBounds:
    """Return what a solver's numbers prove of problems of a structure; entries count that can carry mass."""
    accuracy, possible = part.accuracy, s.layout.table[s.layout.table >= 0]
    if len(possible) < part.log_p.shape[1]:
        logs = np.full_like(part.log_p, -math.inf)
        logs[:, possible] = part.log_p[:, possible]
        accuracy = replace(accuracy, log_p=logs)
    return ProvedBounds.proved(accuracy, low, high, **how)


def _better(a: Outcome, b: Outcome) -> Outcome:
    """Return the outcome whose mu is closer to the hard arcs or else costs less, with the better lower bound."""

    def cost(x: Outcome) -> tuple[float, float]:
        _, high, residual = x.bounds[0].tolist()
        return max(residual, ROUNDING), high if residual <= ROUNDING else math.inf

    chosen = min(a, b, key=cost)
    bounds = chosen.bounds.copy()
    bounds[0, 0] = max(a.bounds[0, 0], b.bounds[0, 0])
    return replace(chosen, bounds=bounds, steps=a.steps + b.steps)


@dataclass(frozen=True)
class CliqueTreeSolver(Newton):
    """The exponential-cone program on the junction tree, solved by Clarabel and polished by Newton if need be."""

    name = "clique-tree"

    def run(
        self, program: Program, targets: Targets, start: Array | None = None, known: Bools | None = None
    ) -> Outcome:
        """Straight to Clarabel, one by one: nothing is proved here."""
        return convex.solve.unsolved(program)


@dataclass(frozen=True)
class JointSolver(Newton):
    """The dense joint: one cluster with every variable. For small PDGs, and as a check on the tree."""

    name = "joint"

    def tree(self, part: Batch) -> Tree:
        """Return a tree of one cluster with all variables."""
        return single(part.sizes)


def _not_convex(part: Batch, name: str) -> str:
    one = part.take(slice(k := int((~part.convex).argmax()), k + 1))
    first = next(a for a in one.arcs if a.beta < one.gamma.item() * a.alpha or a.beta < 0)
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
        select(Newton().solve(prepare(pdg, Attention.uniform(pdg).replace(beta={"ab": beta}))))
    complete()
