"""The exact solvers of convex components: interior points on a junction tree, with proof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dissonance.distributions import Tree
from dissonance.distributions.tree import single
from dissonance.errors import CapabilityError
from dissonance.numerics import DTYPE
from dissonance.problem import BUDGET, Array, Component, check_size, dual_bytes, front_bytes, pairs
from dissonance.solvers.assemble import assemble
from dissonance.solvers.base import FEASIBLE, Solution, State, infinite
from dissonance.solvers.batch import Arcs, Batch, structure
from dissonance.solvers.bounds import Bounds as BatchBounds
from dissonance.solvers.bounds import certify as certify_batch
from dissonance.solvers.bounds import contradiction as contradiction_batch
from dissonance.solvers.certificate import Bounds, certify, contradiction
from dissonance.solvers.conic import conic
from dissonance.solvers.interior import cold as cold_batch
from dissonance.solvers.interior import interior
from dissonance.solvers.nearby import solve_nearby
from dissonance.solvers.newton import Iterate, cold, newton, warm
from dissonance.solvers.program import Program

KEPT = 1e-12
"""How far hard arcs may be from holding in a mu whose cost counts as proof without trying to do better."""

SMALL = 80
"""Cells below which a single problem is quicker through its dual, with small dense matrices."""

SEVERAL = 4
"""Small problems from which on they are quicker together."""

LARGE = 4000
"""Problems from which on a batch is quicker on a GPU."""

HEAVY = 1_000_000
"""Pairs of unknowns from which a dual is slow, however few cells there are."""

WIDE = 1024
"""At gamma = 0, cells of the widest cluster the batched solver takes: its work grows with their cube, that of the dual
does not. At gamma > 0 every cell has a curvature of its own."""


@dataclass(frozen=True)
class Newton:
    """Interior-point Newton on the junction tree; Clarabel if that leaves a gap. The default.

    `tol`: the gap between the bounds to reach, relative to max(1, |inconsistency|). `budget`: bytes it may use.
    `device`: where batches are solved; None: on a GPU if there is one and the batch is large.
    """

    tol: float = 1e-7
    budget: int = BUDGET
    device: str | None = None

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "newton"

    def tree(self, component: Component) -> Tree:
        """The tree whose cluster marginals are solved for."""
        return component.tree

    def solve(self, component: Component) -> Solution:
        """Bounds on the inconsistency, each with its proof, and the mu that attains the upper one."""
        return self.solve_many([component])[0]

    def solve_many(self, components: Sequence[Component], near: Sequence[Solution] | None = None) -> list[Solution]:
        """The same for components that differ in their numbers only, together: see `batch.alike`.

        `near`: solutions of almost the same components to start from. A start that does not lead to a tight proof is
        forgotten, and the problem solved afresh.
        """
        for c in components:
            if not c.convex:
                raise CapabilityError(_not_convex(c, self.name))
        tree = self.tree(components[0])
        together = self.together(tree, components[0].gamma > 0, len(components))
        if not together:
            check_size(tree, self.budget, components[0].gamma > 0)
            return [self._insist(c, tree) for c in components]
        found: list[Solution | Component] = []
        for at in range(0, len(components), together):
            part = slice(at, at + together)
            found += self._batched(components[part], tree, None if near is None else near[part])
        return [self._insist(s, tree) for s in found]

    def together(self, tree: Tree, curved: bool, count: int) -> int:
        """How many problems to solve in one batch: as many as fit, if its overhead pays; 0: each by its dual."""
        pays = count >= SEVERAL or tree.cells >= SMALL or pairs(tree, curved) > HEAVY
        return min(count, self.budget // front_bytes(tree)) if pays and not _wide(tree, curved) else 0

    def on_gpu(self, count: int) -> bool:
        """Whether a batch of so many problems is solved on a GPU."""
        if self.device is not None:
            return self.device != "cpu"
        return count >= LARGE and torch.cuda.is_available()

    def _batched(
        self, components: Sequence[Component], tree: Tree, near: Sequence[Solution] | None
    ) -> list[Solution | Component]:
        count = len(components)
        device = self.device or ("cuda" if self.on_gpu(count) else "cpu")
        s = structure(components[0], tree, count, device)
        with torch.inference_mode():
            batch, possible = Arcs.of(components).to(device).batch(s)
            state, bounds = self._run(batch, torch.where(possible, 1e-3 * self.tol, math.inf).to(DTYPE), near)
            impossible = (~possible | contradiction_batch(batch, state.lam)).tolist()
        mu, lam = (x.to("cpu", copy=True) for x in (bounds.mu, state.lam))  # ordinary tensors
        lows, ups, residuals = bounds.lower.tolist(), bounds.upper.tolist(), bounds.residual.tolist()
        memory = front_bytes(tree) * count
        found: list[Solution | Component] = []
        for k, (c, steps) in enumerate(zip(components, state.steps.tolist(), strict=True)):
            if impossible[k]:
                found.append(replace(infinite(c, self.name), steps=steps))
                continue
            multipliers = {
                a.name: lam[k, at : at + a.log_p.size].reshape(a.log_p.shape)
                for a, at in zip(c.arcs, s.hard_at.tolist(), strict=True)
                if a.hard
            }
            bound = Bounds(lows[k], ups[k], np.zeros(0), residuals[k])
            here = self._solution(c, bound, tree, s.tables(mu[k]), multipliers, steps, memory)
            found.append(replace(here, method="batched", near=(s, state.take(torch.tensor([k], device=device)))))
        return found

    def _run(self, batch: Batch, tol: Tensor, near: Sequence[Solution] | None) -> tuple[State, BatchBounds]:
        """From where `near` stopped, where that is known."""
        start = cold_batch(batch)
        old = [x.near if x.near is not None and x.near[0] is batch.structure else None for x in near or ()]
        known = torch.tensor([k for k, x in enumerate(old) if x is not None], dtype=torch.long, device=tol.device)
        if len(known):
            start.put(known, State.stacked([x[1] for x in old if x is not None]))
            return solve_nearby(batch, start, tol, 10 * tol)
        state = interior(batch, start, tol)
        return state, certify_batch(batch, state)

    def _insist(self, found: Solution | Component, tree: Tree) -> Solution:
        """If a solution is missing or not close, try the dual, Clarabel, and the dual from where Clarabel stopped."""
        if isinstance(found, Solution):
            if found.lower == math.inf or self._done(found, 1e-2):
                return found
            best, component = found, found.component
        else:
            best, component = None, found
        program = assemble(component, tree)
        if program is None:
            return infinite(component, self.name)
        last: Iterate | None = None
        for method in self.methods():
            tol = 1e-4 * self.tol
            if method == "dual":
                last = newton(program, cold(program), tol)
            elif method == "conic":
                last = conic(program, 1e-2 * self.tol)
            else:
                assert last is not None
                last = newton(program, warm(program, last, certify(program, last).gap), tol)
            if contradiction(program, last.u):
                return replace(infinite(component, self.name), steps=last.steps)
            bounds = certify(program, last)
            multipliers = {h.arc.name: torch.from_numpy(h.multipliers(last.u)) for h in program.hard}
            tables, memory = dense(program, bounds.mu), dual_bytes(tree, component.gamma > 0)
            now = self._solution(component, bounds, tree, tables, multipliers, last.steps, memory)
            now = replace(now, method="dual" if method == "dual" else "clarabel")
            best = now if best is None else self._better(best, now)
            if self._done(best, 1e-3):
                break
        assert best is not None
        return best

    def methods(self) -> list[str]:
        """What to try on a single component, in this order, until the bounds are close enough."""
        return ["dual", "conic", "polish"]

    def _solution(
        self,
        component: Component,
        bounds: Bounds,
        tree: Tree,
        tables: list[Tensor],
        multipliers: dict[str, Tensor],
        steps: int,
        memory: int,
    ) -> Solution:
        feasible = bounds.residual <= FEASIBLE
        found = Solution(
            component,
            bounds.lower - component.rounding,
            bounds.upper + component.rounding if feasible else math.inf,
            self.name,
            tree=tree,
            tables=tables,
            multipliers=multipliers,
            steps=steps,
            residual=bounds.residual,
            memory=memory,
        )
        return self._judged(found)

    def _judged(self, found: Solution) -> Solution:
        """`converged` as it is. A lower bound above the cost of mu means mu does not quite satisfy the hard arcs.

        If by more than rounding, they contradict each other by less than FEASIBLE, and no upper bound is proved.
        """
        if found.lower > found.upper:
            crossed = found.lower - found.upper > 1e-10 * max(1.0, abs(found.upper))
            found = replace(found, lower=found.upper, upper=math.inf if crossed else found.lower)
        return replace(found, converged=self._close(found))

    def _close(self, found: Solution, margin: float = 1.0) -> bool:
        """Whether the bounds meet; stopping asks for a margin, because mu is only as good as the root of the gap."""
        if math.isinf(found.upper):
            return found.lower == math.inf
        return found.upper - found.lower <= margin * self.tol * max(1.0, abs(found.upper))

    def _done(self, found: Solution, margin: float) -> bool:
        """Whether no other method need be tried: close, and the hard arcs hold so that the upper bound is proved."""
        return self._close(found, margin) and found.residual <= KEPT

    def _better(self, a: Solution, b: Solution) -> Solution:
        """The one whose mu keeps the hard arcs, or else costs less, and the better lower bound (each is valid)."""
        chosen = min(a, b, key=lambda s: (s.residual > KEPT, s.upper))
        return self._judged(replace(chosen, lower=max(a.lower, b.lower), steps=a.steps + b.steps))


@dataclass(frozen=True)
class CliqueTree(Newton):
    """The exponential-cone program on the junction tree, solved by Clarabel and polished by Newton if need be."""

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "clique-tree"

    def together(self, tree: Tree, curved: bool, count: int) -> int:
        """Straight to Clarabel, one by one."""
        return 0

    def methods(self) -> list[str]:
        """Clarabel first."""
        return ["conic", "polish", "dual"]


@dataclass(frozen=True)
class Joint(Newton):
    """The dense joint: one cluster with every variable. For small PDGs, and as a check on the tree."""

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "joint"

    def tree(self, component: Component) -> Tree:
        """One cluster."""
        return single(component.sizes)


def _wide(tree: Tree, curved: bool) -> bool:
    return max(math.prod(s) for s in tree.shapes) > WIDE and not curved


def dense(program: Program, mu: Array) -> list[Tensor]:
    """The cluster marginals as tables, 0 at the cells that were dropped."""
    tables: list[Tensor] = []
    for i, (states, shape) in enumerate(zip(program.states, program.tree.shapes, strict=True)):
        table = np.zeros(math.prod(shape))
        table[states] = mu[program.offsets[i] : program.offsets[i + 1]]
        tables.append(torch.from_numpy(table.reshape(shape)))
    return tables


def _not_convex(component: Component, name: str) -> str:
    first = next(a for a in component.arcs if a.beta < component.gamma * a.alpha or a.beta < 0)
    return (
        f"{first.arc} has beta < gamma alpha (or beta < 0), so the incompatibility is not convex. "
        f'The {name} solver needs beta >= gamma alpha. Use solver="concave-convex", which finds a local minimum.'
    )
