"""Large components with loose ends: arcs whose targets no other arc mentions cost nothing, and are left out.

mu is extended along them (`distributions/extended.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.answer import Answer, Ints, Solver, added_up, infinite
from dissonance.arc import Theta
from dissonance.attended import Array, Attended
from dissonance.distributions.extended import Extended
from dissonance.distributions.tree import MOST, Tree, decompose
from dissonance.problem import BUDGET, Batch, Bools
from dissonance.proof import ProvedBounds
from dissonance.solvers.exact import Newton

LARGE = 500
"""Cells from which on looking for loose ends pays; smaller components are solved whole, many together."""


def peel(part: Batch) -> tuple[list[int], list[Attended]]:
    """Return the numbers of the arcs that matter, and the loose ends, the outermost first.

    An arc S -> T with beta > 0 whose targets no other arc mentions costs nothing: whatever mu is on the rest, mu p(T|S)
    extends it, and the arc then agrees. Without it, its neighbours may be loose ends in turn: of a Bayesian network
    nothing is left, of one with evidence what leads to the evidence. With alpha = 1 the arc does not count in SDef
    either: it adds gamma (H(T|S) - H(T|rest)) >= 0, which is 0 there. So the extension is the choice at gamma > 0, and
    the gamma -> 0+ choice if mu is.
    """
    waiting = _loose(part)
    matter = _matter(part).tolist()
    if not waiting:
        return [k for k, here in enumerate(matter) if here], []
    kept = {a.name: a for a, here in zip(part.arcs, matter, strict=True) if here}
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
    return [k for k, a in enumerate(part.arcs) if a.name in kept], ends


def _loose(part: Batch) -> list[str]:
    """The arcs that are loose ends to begin with, the last first."""
    at, scope = part.shape.scopes
    arc = np.repeat(np.arange(len(part.beliefs)), np.diff(at))
    target = np.arange(len(scope)) >= (at[:-1] + part.shape.sources)[arc]
    mentions = np.bincount(scope, _matter(part)[arc])
    shared = np.bincount(arc, target & (mentions[scope] != 1))
    loose = np.flatnonzero((part.beta[0] > 0) & (part.alpha[0] == 1) & (shared == 0))
    return [part.beliefs[k].name for k in loose[::-1]]


def _matter(part: Batch) -> Bools:
    """Which arcs carry any weight."""
    return (part.beta[0] != 0) | (part.gamma[0] * part.alpha[0] != 0)


def left(part: Batch) -> list[Batch]:
    """The connected parts of the arcs that matter."""
    return list(part.among(peel(part)[0]).parts)


def cells_left(part: Batch) -> int:
    """Cells of their junction trees."""
    return min(sum(c.tree.cells for c in left(part)), MOST)


def _is_smaller(part: Batch) -> bool:
    """Return whether the junction tree is smaller without loose ends; batches over the same arcs remember that."""
    key = "peeled", (part.beta > 0).tobytes(), (part.alpha == 1).tobytes(), _matter(part).tobytes()
    return part.remembered(key, lambda: cells_left(part) < 0.9 * part.tree.cells)


@dataclass(frozen=True, eq=False)
class PeeledAnswer(Answer):
    """Answers about the parts that matter, extended along loose ends: mu = prod_parts mu_part prod_ends p(T|S)."""

    parts: Sequence[Answer] = ()

    @property
    def solved(self) -> Sequence[Answer]:
        """The answers about the parts that matter."""
        return self.parts

    @cached_property
    def mu(self) -> Extended:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The mu that attains the upper bound, computed lazily for the marginals that are asked for."""
        parts: list[Any] = [s.mu for s in self.parts]  # cluster marginals, all of them
        return Extended(self.part.variables, parts, self.ends, self.budget)

    @property
    def trees(self) -> Sequence[Tree]:
        """The junction tree of the parts that matter with the loose ends."""
        scopes = [c for s in self.parts for t in s.trees for c in t.clusters]
        return (decompose(self.part.sizes, scopes + [arc.names for arc, _ in self.ends]),)

    @cached_property
    def known(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The arcs whose tables `joint` is about: those of the parts."""
        return frozenset[str]().union(*(s.known for s in self.parts))

    @cached_property
    def joint(self) -> Array:
        """mu(s,t) of every entry of every table, (1, entries); 0 of loose ends, which are to blame for nothing."""
        return self._of_parts("joint")

    @cached_property
    def slope(self) -> Array:
        """The derivative of the inconsistency in log p, (1, entries); 0 of loose ends."""
        return self._of_parts("slope")

    def _of_parts(self, name: str) -> Array:
        number = {a.name: k for k, a in enumerate(self.part.beliefs)}
        found = np.zeros_like(self.part.log_p)
        for s in self.parts:
            found[:, self.part.entries(number[a.name] for a in s.part.beliefs)] = getattr(s, name)
        return found

    def surrogate(self, theta: Theta | None = None) -> Tensor:
        """Return the sum over the parts: loose ends have derivative 0."""
        return sum((s.surrogate(theta) for s in self.parts), torch.zeros((), dtype=numerics.DTYPE))


@dataclass(frozen=True)
class Peeled(Solver):
    """The reduction of a large problem to the parts that matter, without its loose ends."""

    name = "peeled"
    reduces = True

    budget: int = BUDGET

    def fits(self, part: Batch) -> Bools | bool:
        """Return which problems are large, convex, and smaller without their loose ends.

        At gamma > 0, where Newton finds a mu* that can be differentiated, only if they may be too large for that.
        """
        if part.tree.cells < LARGE or not part.convex.any():
            return False
        if part.gamma[0] and Newton(budget=self.budget).surely(part):
            return False
        return part.convex & np.array([_is_smaller(one) for one in part.singles])

    def choose(self, part: Batch) -> list[tuple[Solver, Ints]]:
        """Return the reduction, and Newton's method for problems without loose ends."""
        loose = np.array([bool(_loose(one)) for one in part.singles])
        rows = np.flatnonzero(loose), np.flatnonzero(~loose)
        return [(s, some) for s, some in zip((self, Newton(budget=self.budget)), rows, strict=True) if len(some)]

    def reduce(self, part: Batch) -> tuple[list[Batch], Callable[[Sequence[Answer]], Answer]]:
        """Return the parts that matter: bounds add up, and mu is computed for the marginals that are asked for."""
        kept, ends = peel(part)
        rest = part.among(kept)

        def back(parts: Sequence[Answer]) -> Answer:
            named = " + ".join(sorted({self.name, *(s.solver for s in parts)}))
            if any(s.lower == math.inf for s in parts):
                return infinite(part, named)
            made = {t for a in ends for t in a.targets}  # where loose ends begin and nothing else is said mu is uniform
            free = ProvedBounds.entropy([v for v in rest.free if v.name not in made], part.gamma)
            along = [(a.arc, torch.from_numpy(a.log_p)) for a in ends]
            bounds, known = free.plus(*(s.bounds for s in parts)), added_up(parts)
            return PeeledAnswer(part, bounds, named, **known, parts=tuple(parts), ends=along, budget=self.budget)

        return list(rest.parts), back
