"""gamma > 0 without a junction tree: the entropy bounded by conditional entropies of few variables.

Conditioning on less raises an entropy, so that for any order of the variables and any sets P_v of earlier ones

    H(mu) = sum_v H(X_v | all earlier ones)  <=  sum_v H(X_v | X_{P_v}),
    incompatibility(mu)  >=  sum_m E[cost_m] - w_m H(T_m | S_m)  -  gamma sum_v H(X_v | X_{P_v}),

with w_m = sum of beta - gamma alpha >= 0 over the arcs of a mechanism. On the right there are terms of few variables
only, each of which is what an arc costs at gamma = 0 (-H(X|P) is the divergence from a table of ones), or linear in mu:
the relaxed dual of docs/bounds.md bounds it from below. It is exact where every P_v is all that X_v depends on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from dissonance.bounds.bracketing import Bracketing
from dissonance.bounds.dual import RelaxedDual
from dissonance.bounds.mixture import MixtureDescent
from dissonance.bounds.terms import (
    HARD,
    LINEAR,
    SOFT,
    Floats,
    Ints,
    Scope,
    SmallTerm,
    Terms,
    made_variables,
    projected_cells,
)
from dissonance.distributions import Distribution
from dissonance.distributions.tree import decompose
from dissonance.problem import Batch
from dissonance.reduced.dual import HARD as HOLDS
from dissonance.reduced.dual import ReducedTerm, reduced_terms
from dissonance.timed import QUICK

CELLS, IN_ALL, FEWEST = 128, 2**17, 16
"""The most cells of a variable and those that its entropy is conditioned on; of all such sets together, as long as each
may have the fewest."""

RAISED = 0.6
"""The part of the time in which the lower bound is raised."""


def structural_terms(component: Batch) -> Terms:
    """The terms of a convex component at gamma > 0, and one for the entropy of every variable given some others."""
    making, gone = made_variables(component)
    number = {name: i for i, name in enumerate(component.sizes)}
    kept = component.among([k for k in range(len(component.beliefs)) if k not in gone])
    found: list[SmallTerm] = []
    for t in reduced_terms(kept):
        variables = tuple(number[v] for v in t.scope)
        scope = making.scope(variables)
        found += _small(t, scope, making.at(variables, scope))
    sizes = making.sizes
    base = [v for v in range(len(sizes)) if v not in making.made]
    found += [
        _entropy(v, given, sizes, component.gamma.item()) for v, given in _conditioned(base, sizes, found).items()
    ]
    return Terms(sizes, found, making.made)


def _small(t: ReducedTerm, scope: Scope, entry: Ints) -> list[SmallTerm]:
    """E[cost] - w H(T|S) as a term with a table e^(-cost/w), and what is left as a linear one."""
    possible = t.cost < math.inf
    cost = np.where(possible, t.cost, 0.0)
    entry = np.where(possible[entry], entry, -1)
    if t.weight > 0:
        return [SmallTerm(scope, entry, SOFT, t.width, -cost / t.weight, t.weight, ())]
    linear = SmallTerm(scope, entry, LINEAR, t.width, cost, 0.0, ())
    return [linear, SmallTerm(scope, entry, HARD, t.width, t.log_p, math.inf, ())] if t.kind == HOLDS else [linear]


def _conditioned(base: list[int], sizes: tuple[int, ...], terms: list[SmallTerm]) -> dict[int, Scope]:
    """The variables that the entropy of each is conditioned on: of those it is eliminated with as many as there is room
    for, neighbours first, then those that are eliminated soonest."""
    tree = decompose({str(v): sizes[v] for v in base}, [tuple(map(str, t.scope)) for t in terms])
    clusters = [[int(v) for v in c] for c in tree.clusters]
    near: dict[int, set[int]] = {v: set() for v in base}
    for t in terms:
        for v in t.scope:
            near[v].update(t.scope)
    turn: dict[int, int] = {}
    homes: dict[int, int] = {}
    for c in range(len(tree.clusters) - 1, -1, -1):  # parents come first
        above = set(map(int, tree.separators[c]))
        for v in clusters[c]:
            if v not in above:
                turn[v], homes[v] = len(turn), c
    most = min(CELLS, max(FEWEST, IN_ALL // max(1, len(base))))
    found: dict[int, Scope] = {}
    for v, c in homes.items():
        later = sorted((u for u in clusters[c] if turn[u] > turn[v]), key=lambda u: (u not in near[v], turn[u]))
        room, given = most // sizes[v], list[int]()
        for u in later:
            if sizes[u] <= room:
                room //= sizes[u]
                given.append(u)
        found[v] = tuple(given)
    return found


def _entropy(v: int, given: Scope, sizes: tuple[int, ...], gamma: float) -> SmallTerm:
    """-gamma H(X_v | X_given)."""
    variables = *given, v
    scope = tuple(sorted(variables))
    shape = tuple(sizes[u] for u in scope)
    entry = projected_cells(shape, tuple(scope.index(u) for u in variables))
    return SmallTerm(scope, entry, SOFT, sizes[v], np.zeros(math.prod(shape)), gamma, ())


class StructuralBracketing(Bracketing):
    """The brackets of a component at gamma > 0: the relaxed dual from below, from above a mixture of products."""

    def _terms(self) -> Terms:
        return structural_terms(self.component)

    @cached_property
    def mixture(self) -> MixtureDescent:
        """The mu of the upper bound."""
        return MixtureDescent(self.component, self.generator)

    @cached_property
    def scale(self) -> float:
        """A typical weight of what mechanisms cost: gamma at least."""
        weights = [w for w in self.component.weights.values() if w > 0]
        return max(self.component.gamma.item(), float(np.median(weights)) if weights else 0.0)

    @property
    def attainable(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether there is a mu to look for: always."""
        return True

    @property
    def searchable(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """A cheapest joint state says nothing of entropies."""
        return False

    def _grow(self, dual: RelaxedDual, x: Floats, eps: float, added: tuple[Scope, ...]) -> bool:
        return False

    def __iter__(self) -> Iterator[tuple[float, float]]:
        """Brackets with one product, while the lower bound is raised; then with more of them, while there is time."""
        yield from super().__iter__()
        more = self.lower < math.inf
        while more and not self.late and not self.close():
            more = self._add()
            yield self.lower, self.upper

    def _raise(self, dual: RelaxedDual, x: Floats, eps: float, deadline: float) -> Floats:
        return super()._raise(dual, x, eps, min(deadline, self.began + RAISED * max(QUICK, self.limit)))

    def _draw(self, dual: RelaxedDual, x: Floats, eps: float) -> None:
        if not self.drawn:
            self._add()

    def _add(self) -> bool:
        """One product more; whether others may help."""
        more = self.mixture.add(self.began + self.limit)
        self.fall(self.mixture.value, self.mixture.blur)
        return more

    def _mu(self) -> Distribution | None:
        return self.mixture.mu if self.upper < math.inf else None

    def _log_q(self) -> dict[str, Floats]:
        return {}
