"""An attended PDG made ready to solve: pruned, split into components, sized before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dissonance.arc import Arc, Theta, frozen
from dissonance.attended import Array, Attended, Mechanism, moved, with_weights
from dissonance.collector import uncollected
from dissonance.determined import determined, makers
from dissonance.distributions.tree import Index, Lists, Tree, decompose, decompose_numbered
from dissonance.distributions.tree import check_bytes as check_bytes
from dissonance.focus import Attention
from dissonance.pdg import PDG
from dissonance.proof import EPS as EPS
from dissonance.proof import ULPS, Accuracy, ProvedBounds, TableRows
from dissonance.variables import Variable

Bools = npt.NDArray[np.bool_]

EVEN = ULPS
"""Weights that cancel up to this part of what is added up are 0."""

BUDGET = 4 * 2**30
"""Bytes a solve may use by default."""


@dataclass(frozen=True, eq=False)
class Shape:
    """What problems share that differ in their numbers only: the sizes of variables, the scopes of arcs (sources
    first, as numbers), how many sources each has, which are hard, and whether gamma > 0."""

    sizes: Mapping[str, int]
    scopes: Lists
    sources: Index
    hard: Bools
    structural: bool

    @classmethod
    def of(cls, variables: Iterable[Variable], arcs: Sequence[Arc], hard: Bools, structural: bool) -> Shape:
        """That of arcs over some variables."""
        names, sources = [a.names for a in arcs], np.array([len(a.sources) for a in arcs], dtype=np.int64)
        sizes = {v.name: v.size for v in variables}
        place = dict(zip(sizes, range(len(sizes)), strict=True))
        return cls(sizes, Lists.of(names, place.__getitem__), sources, hard, structural)

    @cached_property
    def key(self) -> object:
        """Equal if the shape is."""
        arrays = *self.scopes, self.sources, self.hard
        return tuple(self.sizes.items()), *(x.tobytes() for x in arrays), self.structural

    @cached_property
    def tree(self) -> Tree:
        """A min-fill junction tree with a cluster for every arc."""
        return decompose_numbered(self.sizes, self.scopes)

    @cached_property
    def rows(self) -> TableRows:
        """The rows of the tables of all arcs, one after another."""
        sizes, (at, scope) = list(self.sizes.values()), self.scopes
        each, cuts = [sizes[v] for v in scope.tolist()], zip(at.tolist(), self.sources.tolist(), strict=False)
        ends = [(first, first + count) for first, count in cuts]
        sources = [math.prod(each[first:cut]) for first, cut in ends]
        targets = [math.prod(each[cut:end]) for (_, cut), end in zip(ends, at.tolist()[1:], strict=True)]
        counts = np.array([sources, targets], dtype=np.int64)
        return TableRows(counts[0], counts[1], sum(map(math.log, sizes)))


OF_TABLES = "convex", "_makers", "pinned", "given", "beyond", "accuracy"
"""What is known of a component that may change with the numbers in its tables."""


@dataclass(frozen=True)
class Component:
    """A connected part of the attended PDG: the inconsistency is the sum over components."""

    variables: tuple[Variable, ...]
    arcs: tuple[Attended, ...]
    gamma: float
    theta: Theta | None = None

    @cached_property
    def is_drawn(self) -> bool:
        """Whether some arc has no table and is not linear-Gaussian, as those are that join finite and Euclidean
        variables."""
        return any(a.arc.is_drawn for a in self.arcs if not a.log_p.size)

    @cached_property
    def kinds(self) -> frozenset[str]:
        """What is special about it: "drawn" (some cpd has no table), "varying" (attention depends on the sample),
        "euclidean" (linear-Gaussian)."""
        euclidean = self.is_euclidean and not self.varies
        known = {"drawn": self.is_drawn, "varying": self.varies, "euclidean": euclidean}
        return frozenset(kind for kind, true in known.items() if true)

    @cached_property
    def varies(self) -> bool:
        """Whether the attention to some arc depends on the sample."""
        return any(a.varying is not None for a in self.arcs)

    @cached_property
    def is_euclidean(self) -> bool:
        """Whether its arcs are linear-Gaussian."""
        return not self.variables[0].is_finite and not self.is_drawn

    @cached_property
    def shape(self) -> Shape:
        """What it shares with those that differ in their numbers only."""
        return Shape.of(self.variables, [a.arc for a in self.arcs], self.hard, self.gamma > 0)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """How many values each variable has."""
        return self.shape.sizes

    @cached_property
    def beta(self) -> Array:
        """beta of each arc."""
        return np.array([a.beta for a in self.arcs], dtype=np.float64)

    @cached_property
    def alpha(self) -> Array:
        """alpha of each arc."""
        return np.array([a.alpha for a in self.arcs], dtype=np.float64)

    @cached_property
    def hard(self) -> Bools:
        """Which arcs mu must satisfy."""
        return self.beta == math.inf

    @cached_property
    def attention(self) -> Attention:
        """The weights of these arcs alone."""
        varying = {a.name: a.varying for a in self.arcs if a.varying is not None}
        return Attention.only(
            {a.name: a.beta for a in self.arcs}, {a.name: a.alpha for a in self.arcs}, self.gamma, varying
        )

    @cached_property
    def pdg(self) -> PDG:
        """These arcs alone."""
        return PDG(*(a.arc for a in self.arcs), variables=self.variables)

    @cached_property
    def tree(self) -> Tree:
        """A min-fill junction tree with a cluster for every arc."""
        return self.shape.tree

    @cached_property
    def weights(self) -> dict[Mechanism, float]:
        """w = sum of beta - gamma alpha over the soft arcs of each mechanism that no hard arc fixes.

        The incompatibility is sum_m -w_m H(T|S) - gamma H(mu) + linear: convex if every w >= 0.
        """
        total: dict[Mechanism, float] = {}
        for a in self.arcs:
            if not a.hard:
                total[a.arc.mechanism] = total.get(a.arc.mechanism, 0.0) + a.beta - self.gamma * a.alpha
        for a in self.arcs:
            if a.hard:
                total.pop(a.arc.mechanism, None)
        return total

    @cached_property
    def entropies(self) -> dict[frozenset[str], float]:
        """The weight of H(A) for every set A of variables, where it is not 0, once hard arcs hold; without the beta of
        arcs whose attention varies."""
        found: dict[frozenset[str], float] = {}
        size: dict[frozenset[str], float] = {}

        def add(names: Iterable[str], weight: float) -> None:
            key = frozenset(names)
            found[key], size[key] = found.get(key, 0.0) + weight, size.get(key, 0.0) + abs(weight)

        for a in self.arcs:
            weight = self.gamma * a.alpha - (0.0 if a.hard or a.varying is not None else a.beta)
            add(a.scope, weight)
            add(a.sources, -weight)
        add((v.name for v in self.variables), -self.gamma)
        return {names: w for names, w in found.items() if names and abs(w) > EVEN * size[names]}

    @cached_property
    def convex(self) -> bool:
        """Whether the objective is convex, mechanism by mechanism, and bounded (no disbelief in the impossible)."""
        if self.beta.min(initial=0.0) < 0 and any(a.beta < 0 and np.isneginf(a.log_p).any() for a in self.arcs):
            return False
        if (self.beta >= self.gamma * self.alpha).all():  # then so do the sums over mechanisms
            return True
        size: dict[Mechanism, float] = {}
        for a in self.arcs:
            size[a.arc.mechanism] = size.get(a.arc.mechanism, 0.0) + abs(a.beta) + self.gamma * abs(a.alpha)
        return all(w >= -EVEN * size[m] for m, w in self.weights.items())

    def at(self, theta: Theta | None) -> Component:
        """The same component at other parameters; what does not depend on them stays known."""
        if any(a.log_p.size for a in self.arcs):
            arcs = moved(self.arcs, theta)
            known = {name: x for name, x in self.__dict__.items() if name not in OF_TABLES}
            changed = {"arcs": arcs, "theta": _kept(arcs, theta)}
        else:
            _ = self.is_drawn, self.varies, self.pinned, self.entropies  # known to the copy as well
            known, changed = self.__dict__, {"theta": theta}
        found = object.__new__(Component)
        found.__dict__.update({**known, **changed})
        return found

    def without(self, name: str) -> Component:
        """The same variables without one arc: it stays with weight 0 (a hard one goes), so that components without one
        soft arc or another still have the same shape."""
        arcs = [
            replace(a, beta=0.0, alpha=0.0) if a.name == name else a for a in self.arcs if a.name != name or not a.hard
        ]
        return Component(self.variables, tuple(arcs), self.gamma, self.theta)

    def split(self, arcs: Iterable[Attended]) -> Problem:
        """What is left with some of its arcs only."""
        return Problem.of(arcs, self.variables, self.gamma, self.theta, lambda _, theta: theta)

    @cached_property
    def _makers(self) -> tuple[Attended, ...] | None:
        return makers([a for a in self.arcs if a.hard]) if self.hard.any() else None

    @cached_property
    def pinned(self) -> tuple[Attended, ...] | None:
        """Hard arcs that determine mu, in an order in which sources come first; None if they do not.

        Acyclic, with distinct targets, every variable a target, and nothing left to choose in the scope of any arc: two
        hard marginals do not make their variables independent. What no arc sees is then as independent as can be.
        """
        makers = self._makers
        if not makers or sum([len(a.targets) for a in makers]) < len(self.variables):
            return None
        return makers if determined([a.scope for a in self.arcs], makers) else None

    @cached_property
    def given(self) -> tuple[Attended, ...] | None:
        """Hard arcs that determine mu over their own variables R, sources first, if the rest is a factor graph given R.

        Then mu* = mu(R) prod p_a^(beta_a/gamma) / Z(R). None if there are no hard arcs, if one of them leaves R or they
        do not determine mu(R), or if an arc that is not all in R has beta != gamma alpha (added up over its mechanism).
        """
        makers = self._makers
        if not makers or self.gamma <= 0:
            return None
        known = {t for a in makers for t in a.targets}
        if not known.issuperset(v for a in self.arcs if a.hard for v in a.scope):
            return None
        loose = [a for a in self.arcs if not known.issuperset(a.scope)]
        if not loose or any(a.beta < 0 or self.weights[a.arc.mechanism] != 0 for a in loose):
            return None
        return makers if determined([tuple(known)], makers) else None

    @cached_property
    def beyond(self) -> tuple[Tree, Tree, list[Attended]]:
        """What is left where some is `given`: its junction tree, the same with R in every cluster, and the arcs that
        reach out of R."""
        known = {t for a in self.given or () for t in a.targets}
        loose = [a for a in self.arcs if not known.issuperset(a.scope)]
        sizes = self.sizes
        rest = decompose(
            {n: k for n, k in sizes.items() if n not in known},
            [tuple(v for v in a.scope if v not in known) for a in loose],
        )
        first = tuple(n for n in sizes if n in known)
        return rest, Tree(sizes, tuple((*first, *c) for c in rest.clusters), rest.parent), loose

    @cached_property
    def accuracy(self) -> Accuracy:
        """How well tables and weights are known; of densities, which round for themselves, the weights alone."""
        beta, alpha, gamma = self.beta[None], self.alpha[None], np.array([self.gamma], dtype=np.float64)
        if self.kinds:
            ones = np.ones(len(self.arcs), dtype=np.int64)
            return Accuracy(TableRows(ones, ones, 0.0), None, beta, alpha, gamma, densities=True)
        return Accuracy(self.shape.rows, tables_of([self]), beta, alpha, gamma)

    def proved(
        self, low: float, high: float, blur: float = 0.0, *, tol: float = math.inf, broken: float = 0.0
    ) -> tuple[float, float, bool]:
        """Return the bounds that a solver's numbers prove, and whether they meet: see `ProvedBounds.proved`.

        `tol`: the relative gap that is aimed at; of a closed form, whose bounds are apart by rounding only, any.
        """
        return ProvedBounds.proved(self.accuracy, low, high, blur, tol=tol, broken=broken).one


def tables_of(components: Sequence[Component]) -> Array:
    """Return log p of components that are alike, (P, entries), one arc after another."""
    every = [a.log_p.ravel() for c in components for a in c.arcs] or [np.zeros(0)]
    return np.concatenate(every).reshape(len(components), -1)


@dataclass(frozen=True)
class Problem:
    """Components to solve, variables that no arc mentions, and what those cost: -gamma log|V| each (V is infinite if
    Euclidean)."""

    components: tuple[Component, ...]
    free: tuple[Variable, ...]
    gamma: float
    theta: Theta | None = None

    @classmethod
    def of(
        cls,
        arcs: Iterable[Attended],
        variables: Iterable[Variable],
        gamma: float,
        theta: Theta | None,
        kept: Callable[[Sequence[Attended], Theta | None], Theta | None],
    ) -> Problem:
        """The connected parts of arcs, each with what is `kept` of theta for it."""
        parts = connected(arcs, variables)
        seen = {v.name for vs, _ in parts for v in vs}
        free = tuple([v for v in variables if v.name not in seen])
        return cls(tuple([Component(vs, some, gamma, kept(some, theta)) for vs, some in parts]), free, gamma, theta)

    @cached_property
    def unmentioned(self) -> tuple[float, float]:
        """Bounds of -gamma sum log|V| over the variables that no arc mentions."""
        return ProvedBounds.entropy(self.free, self.gamma).one[:2] if self.gamma and self.free else (0.0, 0.0)

    @property
    def constant(self) -> float:
        """-gamma sum log|V| over the variables that no arc mentions, rounded."""
        return sum(self.unmentioned) / 2

    def at(self, theta: Theta) -> Problem:
        """The same problem at other parameters; itself if it was prepared for these very ones."""
        if theta is self.theta:
            return self
        return Problem(tuple([c.at(theta) for c in self.components]), self.free, self.gamma, theta)


def connected(
    arcs: Iterable[Attended], variables: Iterable[Variable]
) -> list[tuple[tuple[Variable, ...], tuple[Attended, ...]]]:
    """The connected parts, in the order of their first arcs: their variables, of those given, and their arcs."""
    arcs = tuple(arcs)
    together: dict[str, list[str]] = {}  # all the names of a part, under each of them
    for a in arcs:
        first, *others = a.arc.names
        if first not in together:
            together[first] = [first]
        here = together[first]
        for v in others:
            there = together.get(v)
            if there is None:
                together[v] = here
                here.append(v)
            elif there is not here:
                few, here = (here, there) if len(here) < len(there) else (there, here)
                here += few
                together |= dict.fromkeys(few, here)
    parts: dict[str, tuple[list[Variable], list[Attended]]] = {}
    for a in arcs:
        one = together[a.arc.names[0]][0]
        if one not in parts:
            parts[one] = [], []
        parts[one][1].append(a)
    for v in variables:
        if v.name in together:
            parts[together[v.name][0]][0].append(v)
    return [(tuple(vs), tuple(some)) for vs, some in parts.values()]


def _kept(arcs: Sequence[Attended], theta: Theta | None) -> Theta | None:
    """theta as it is now, since a result must not change with the parameters; what is drawn is made once, live."""
    live = any(a.varying is not None or (not a.log_p.size and a.arc.is_drawn) for a in arcs)
    return theta if live else frozen([a.arc for a in arcs], theta)


@uncollected()
def prepare(pdg: PDG, attention: Attention, theta: Theta | None = None) -> Problem:
    """Drop what carries no weight, tabulate the rest, split it into connected components.

    An arc is dropped when beta = 0 and gamma alpha = 0; a variable when no remaining arc mentions it.
    """
    attention = attention.on(pdg)
    attention.check(pdg)
    beta, alpha, gamma = attention.beta, attention.alpha, attention.gamma
    arcs = [a for a in pdg.arcs if beta.get(a.name, 0.0) != 0 or gamma * alpha.get(a.name, 0.0) != 0]
    return Problem.of(with_weights(arcs, attention, theta), pdg.variables, gamma, theta, _kept)
