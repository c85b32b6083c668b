"""Large components with loose ends: arcs whose targets no other arc mentions cost nothing, and are left out.

mu is extended along them, computed lazily for the marginals that are asked for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Theta
from dissonance.attended import Attended
from dissonance.distributions import CliqueTree, Tree
from dissonance.distributions.messages import calibrate
from dissonance.distributions.tree import MOST, decompose
from dissonance.problem import Bools, Component, check_bytes, connected
from dissonance.solvers.base import Solution, Solver, infinite, solve_together
from dissonance.solvers.exact import Newton
from dissonance.variables import Variable

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
    return [component] if len(kept) == len(component.arcs) else split(component, kept)


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

    @property
    def mu(self) -> Extended:
        """The mu that attains the upper bound, computed lazily for the marginals that are asked for."""
        return self._mu

    @cached_property
    def _mu(self) -> Extended:
        return Extended(self.component.variables, [s.mu for s in self.parts], self.ends, self.budget)

    def surrogate(self, theta: Theta | None = None) -> Tensor:
        """Loose ends have derivative 0."""
        total = torch.zeros((), dtype=numerics.DTYPE)
        for s in self.parts:
            total = total + s.surrogate(theta)
        return total


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
        apart = split(component, kept)
        parts = solve_together(self.inner, apart, near=near if len(near) == len(apart) else None)
        if any(s.lower == torch.inf for s in parts):
            return infinite(component, self._named(parts))
        scopes = [c for s in parts if s.tree is not None for c in s.tree.clusters] + [a.scope for a in ends]
        free = -component.gamma * _unsaid(component, apart, ends)
        return PeeledSolution(
            component,
            free + sum(s.lower for s in parts),
            free + sum(s.upper for s in parts),
            self._named(parts),
            converged=all(s.converged for s in parts),
            tree=decompose(component.sizes, scopes),
            multipliers={name: m for s in parts for name, m in s.multipliers.items()},
            steps=sum(s.steps for s in parts),
            residual=max((s.residual for s in parts), default=0.0),
            within=max((s.within for s in parts), default=0.0),
            memory=max((s.memory for s in parts), default=0),
            method=" + ".join(sorted({s.method for s in parts if s.method})),
            solved=tuple(parts),
            ends=tuple(ends),
            budget=self.budget,
        )

    def _named(self, parts: Sequence[Solution]) -> str:
        return " + ".join(sorted({self.name, *(s.solver for s in parts)}))


def _unsaid(component: Component, parts: Sequence[Component], ends: Sequence[Attended]) -> float:
    """The entropy of the variables where loose ends begin and nothing else is said: they are uniform."""
    said = {v.name for c in parts for v in c.variables} | {t for a in ends for t in a.targets}
    return sum(math.log(n) for name, n in component.sizes.items() if name not in said)


def split(component: Component, arcs: Iterable[Attended]) -> list[Component]:
    """The connected parts of some of the arcs."""
    parts = connected(arcs, component.variables)
    return [Component(*part, component.gamma, component.theta) for part in parts]


COPIES = 8
"""Tables of the size of mu that putting it together holds at its peak."""


class Extended(CliqueTree):
    """mu(x) = prod_parts mu_part prod_ends p(T|S): parts over disjoint variables, and arcs that lead away from them.

    A marginal inside a part is the part's own. Any other takes the ends that lead to its variables and the parts where
    these begin; what lies behind them sums to one. All of mu (`tree`, `tables`) is put together only for what needs all
    of it, or when marginals have taken as much work as that.
    """

    def __init__(
        self, variables: Iterable[Variable], parts: Sequence[CliqueTree], ends: Sequence[Attended], budget: int
    ) -> None:
        self.variables = tuple(variables)
        self.parts, self.ends = tuple(parts), tuple(ends)
        self._budget, self._most, self._worked = budget, budget // (8 * COPIES), 0
        self._part = {v.name: p for p in parts for v in p.variables}
        self._end = {t: a for a in ends for t in a.targets}
        self._sizes = {v.name: v.size for v in self.variables}

    @cached_property
    def tree(self) -> Tree:
        """The tree of all of mu."""
        return self._tree(self._sizes, self.parts, self.ends)

    @cached_property
    def tables(self) -> tuple[Tensor, ...]:
        """The cluster marginals of all of mu."""
        return tuple(self._calibrated(self.tree, self.parts, self.ends))

    def _marginal(self, names: tuple[str, ...]) -> Tensor:
        if not names:
            return torch.ones((), dtype=numerics.DTYPE)
        first = self._part.get(names[0])
        if first is not None and all(self._part.get(n) is first for n in names):
            return first._marginal(names)
        if "tables" in self.__dict__ or self.tree.cells <= min(self._worked, self._most):
            return super()._marginal(names)
        return self._behind(names)._marginal(names)

    def marginals(self, scopes: Sequence[Sequence[str]]) -> list[Tensor]:
        """mu over each of many sets of variables: those inside a part are the part's own."""
        inside: dict[int, list[int]] = {}
        for k, names in enumerate(scopes):
            homes = {id(self._part.get(n)) for n in names}
            if len(homes) == 1 and names[0] in self._part:
                inside.setdefault(homes.pop(), []).append(k)
        found: dict[int, Tensor] = {}
        for p in self.parts:
            mine = inside.get(id(p), [])
            found |= zip(mine, p.marginals([scopes[k] for k in mine]), strict=True)
        return [found[k] if k in found else self.marginal(*names) for k, names in enumerate(scopes)]

    def _behind(self, names: Sequence[str]) -> CliqueTree:
        """mu over these variables and what leads to them."""
        seen: dict[str, None] = {}
        ends: dict[str, Attended] = {}
        parts: dict[int, CliqueTree] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen[name] = None
            if name in self._part:
                part = self._part[name]
                parts[id(part)] = part
                seen |= dict.fromkeys(v.name for v in part.variables)
            elif name in self._end:
                ends[self._end[name].name] = self._end[name]
                waiting += self._end[name].scope
        sizes = {n: k for n, k in self._sizes.items() if n in seen}
        tree = self._tree(sizes, list(parts.values()), list(ends.values()))
        self._worked += tree.cells
        tables = self._calibrated(tree, list(parts.values()), list(ends.values()))
        return CliqueTree((v for v in self.variables if v.name in seen), tree, tables)

    def _tree(self, sizes: dict[str, int], parts: Sequence[CliqueTree], ends: Sequence[Attended]) -> Tree:
        return decompose(sizes, [c for p in parts for c in p.tree.clusters] + [a.scope for a in ends])

    def _calibrated(self, tree: Tree, parts: Sequence[CliqueTree], ends: Sequence[Attended]) -> list[Tensor]:
        """The cluster marginals of some parts and of ends that begin there."""
        check_bytes(tree, 8 * COPIES * tree.cells, self._budget)
        logs = [torch.zeros([1] * len(s), dtype=numerics.DTYPE) for s in tree.shapes]

        def add(log_p: Tensor, scope: Sequence[str]) -> None:
            home = tree.home(scope)
            assert home is not None
            inside = [v for v in tree.clusters[home] if v in scope]
            ordered = log_p.permute([scope.index(v) for v in inside])
            logs[home] = logs[home] + ordered.reshape([tree.sizes[v] if v in scope else 1 for v in tree.clusters[home]])

        for p in parts:
            for i, cluster in enumerate(p.tree.clusters):
                add(numerics.log(p._conditional(i)), cluster)
        for a in ends:
            add(torch.from_numpy(a.log_p), a.scope)
        return calibrate(tree, [x.expand(s) for x, s in zip(logs, tree.shapes, strict=True)])[1]

    def __repr__(self) -> str:
        return f"Extended({len(self.variables)} variables, {len(self.parts)} parts, {len(self.ends)} loose ends)"
