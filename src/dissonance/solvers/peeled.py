"""Large components with loose ends: arcs whose targets no other arc mentions cost nothing, and are left out.

mu is extended along them (`distributions/extended.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Theta
from dissonance.attended import Attended
from dissonance.distributions.extended import End, Extended
from dissonance.distributions.tree import MOST, decompose
from dissonance.problem import Bools, Component
from dissonance.proof import ProvedBounds
from dissonance.solution import Solution, Solver, added_up, bounds_of, infinite, solve_together
from dissonance.solvers.exact import Newton

LARGE = 500
"""Cells from which on looking for loose ends pays; smaller components are solved whole, many together."""


def peel(component: Component) -> tuple[list[Attended], list[Attended]]:
    """The arcs that matter, and the loose ends, the outermost first.

    An arc S -> T with beta > 0 whose targets no other arc mentions costs nothing: whatever mu is on the rest, mu p(T|S)
    extends it, and the arc then agrees. Without it, its neighbours may be loose ends in turn: of a Bayesian network
    nothing is left, of one with evidence what leads to the evidence. With alpha = 1 the arc does not count in SDef
    either: it adds gamma (H(T|S) - H(T|rest)) >= 0, which is 0 there. So the extension is the choice at gamma > 0, and
    the gamma -> 0+ choice if mu is.
    """
    waiting = _loose(component)
    matter = _matter(component).tolist()
    if not waiting:
        return [a for a, here in zip(component.arcs, matter, strict=True) if here], []
    kept = {a.name: a for a, here in zip(component.arcs, matter, strict=True) if here}
    mentions = Counter(v for a in kept.values() for v in a.scope)
    by_variable: dict[str, list[str]] = {}
    for a in kept.values():
        for v in a.scope:
            by_variable.setdefault(v, []).append(a.name)
    ends: list[Attended] = []
    while waiting:
        a = kept.get(waiting.pop())
        if a is None or not (a.beta > 0 and a.alpha == 1 and all(mentions[t] == 1 for t in a.targets)):
            continue
        ends.append(kept.pop(a.name))
        for v in a.scope:
            mentions[v] -= 1
            if mentions[v] == 1:
                waiting += [n for n in by_variable[v] if n in kept]
    return list(kept.values()), ends


def _loose(component: Component) -> list[str]:
    """The arcs that are loose ends to begin with, the last first."""
    at, scope = component.shape.scopes
    arc = np.repeat(np.arange(len(component.arcs)), np.diff(at))
    target = np.arange(len(scope)) >= (at[:-1] + component.shape.sources)[arc]
    mentions = np.bincount(scope, _matter(component)[arc])
    shared = np.bincount(arc, target & (mentions[scope] != 1))
    loose = np.flatnonzero((component.beta > 0) & (component.alpha == 1) & (shared == 0))
    return [component.arcs[k].name for k in loose[::-1]]


def _matter(component: Component) -> Bools:
    """Which arcs carry any weight."""
    return (component.beta != 0) | (component.gamma * component.alpha != 0)


def left(component: Component) -> list[Component]:
    """The connected parts of the arcs that matter."""
    kept = peel(component)[0]
    return [component] if len(kept) == len(component.arcs) else list(component.split(kept).components)


def cells_left(component: Component) -> int:
    """Cells of their junction trees."""
    return min(sum(c.tree.cells for c in left(component)), MOST)


@dataclass(frozen=True)
class PeeledSolution(Solution):
    """Solutions of the parts that matter, extended along the loose ends: mu = prod_parts mu_part prod_ends p(T|S)."""

    solved: tuple[Solution, ...] = ()
    ends: tuple[Attended, ...] = ()
    budget: int = 0

    @property
    def parts(self) -> Sequence[Solution]:
        """The solutions of the parts that matter."""
        return self.solved

    @cached_property
    def mu(self) -> Extended:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The mu that attains the upper bound, computed lazily for the marginals that are asked for."""
        return Extended(self.component.variables, [s.mu for s in self.parts], self.conditionals, self.budget)

    @property
    def conditionals(self) -> list[End]:
        """The loose ends, as mu follows them."""
        return [(a.arc, torch.from_numpy(a.log_p)) for a in self.ends]

    def surrogate(self, theta: Theta | None = None) -> Tensor:
        """Loose ends have derivative 0."""
        return sum((s.surrogate(theta) for s in self.parts), torch.zeros((), dtype=numerics.DTYPE))


@dataclass(frozen=True)
class Peeled(Solver):
    """Leaves out the loose ends of a large component and solves the parts that matter with `inner`."""

    name = "peeled"

    inner: Solver
    budget: int

    def fits(self, component: Component) -> bool:
        """Whether this is a large convex component, and smaller without its loose ends.

        At gamma > 0, where Newton finds a mu* that can be differentiated, only if it may be too large for that.
        """
        if not component.convex or component.tree.cells < LARGE:
            return False
        if component.gamma and Newton(budget=self.budget).surely(component):
            return False
        return cells_left(component) < 0.9 * component.tree.cells

    def solve(self, component: Component) -> Solution:
        """The bounds of the parts, added up; mu is computed lazily, for the marginals that are asked for."""
        return self.solve_many([component])[0]

    def solve_many(self, components: Sequence[Component], near: Sequence[Solution] | None = None) -> list[Solution]:
        """One after another, the parts of each from those of a nearby solution."""
        return [self._solve(c, () if near is None else near[k].parts) for k, c in enumerate(components)]

    def _solve(self, component: Component, near: Sequence[Solution]) -> Solution:
        kept, ends = peel(component)
        rest = component.split(kept)
        parts = solve_together(self.inner, rest.components, near=near if len(near) == len(rest.components) else None)
        if any(s.lower == torch.inf for s in parts):
            return infinite(component, self._named(parts))
        scopes = [c for s in parts if s.tree is not None for c in s.tree.clusters] + [a.scope for a in ends]
        made = {t for a in ends for t in a.targets}  # where loose ends begin and nothing else is said mu is uniform
        free = ProvedBounds.entropy([v for v in rest.free if v.name not in made], component.gamma)
        lower, upper = bounds_of(parts, free.one[:2])
        return PeeledSolution(
            component,
            lower,
            upper,
            self._named(parts),
            **added_up(parts),
            tree=decompose(component.sizes, scopes),
            multipliers={name: m for s in parts for name, m in s.multipliers.items()},
            solved=tuple(parts),
            ends=tuple(ends),
            budget=self.budget,
        )

    def _named(self, parts: Sequence[Solution]) -> str:
        return " + ".join(sorted({self.name, *(s.solver for s in parts)}))
