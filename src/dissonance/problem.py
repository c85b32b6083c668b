"""One question: P problems over the same arcs, as columns of numbers; and an attended PDG made ready to be one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from dissonance.arc import Arc, Theta, frozen
from dissonance.attended import Array, Attended, Mechanism, tabulated
from dissonance.collector import uncollected
from dissonance.costs import LOG_SCORE, FlatRows
from dissonance.determined import determined, makers
from dissonance.distributions.tree import Index, Lists, Tree, decompose, decompose_numbered
from dissonance.distributions.tree import check_bytes as check_bytes
from dissonance.focus import Attention, Varying
from dissonance.pdg import PDG
from dissonance.proof import EPS as EPS
from dissonance.proof import ULPS, Accuracy, ProvedBounds, TableRows
from dissonance.variables import Variable, cells, shape

Bools = npt.NDArray[np.bool_]

EVEN = ULPS
"""Weights that cancel up to this part of what is added up are 0."""

BUDGET = 4 * 2**30
"""Bytes a solve may use by default."""

MOST_KNOWN = 256
"""What batches over the same arcs remember at most, such as structures: the latest."""

NOWHERE = np.zeros(0, dtype=np.bool_)
"""The impossible table entries of a problem without zeros."""


@dataclass(frozen=True, eq=False)
class Shape:
    """What problems over the same arcs share: the sizes of variables, the scopes of arcs (sources first, as numbers),
    and how many sources each has."""

    sizes: Mapping[str, int]
    scopes: Lists
    sources: Index

    @classmethod
    def of(cls, variables: Iterable[Variable], arcs: Sequence[Arc]) -> Shape:
        """Return the shape of arcs over some variables."""
        names, sources = [a.names for a in arcs], np.array([len(a.sources) for a in arcs], dtype=np.int64)
        sizes = {v.name: v.size for v in variables}
        place = dict(zip(sizes, range(len(sizes)), strict=True))
        return cls(sizes, Lists.of(names, place.__getitem__), sources)

    @cached_property
    def key(self) -> object:
        """Cache key: equal for equal shapes."""
        return tuple(self.sizes.items()), *(x.tobytes() for x in (*self.scopes, self.sources))

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


@dataclass(frozen=True, eq=False)
class Batch:
    """P problems over the same arcs; a single problem is P = 1.

    `log_p` (P, entries): the tables, one arc after another, (sources..., targets...) in C order; an arc without a table
    (linear-Gaussian, or only drawn from and scored) has no entries. `beta`, `alpha` (P, arcs); `gamma` (P,). `free` are
    variables that no arc mentions. `facts`: deterministic arcs that rule out cells of all problems and cost nothing.
    `theta`: the parameters of a single problem, as they were. `known`: what solvers remember of all batches over these
    very arcs.
    """

    variables: tuple[Variable, ...]
    beliefs: tuple[Arc, ...]
    log_p: Array
    beta: Array
    alpha: Array
    gamma: Array
    theta: Theta | None = None
    varying: Mapping[str, Varying] = field(default_factory=dict)
    free: tuple[Variable, ...] = ()
    facts: tuple[Arc, ...] = ()
    known: dict[object, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, variables: tuple[Variable, ...], arcs: Sequence[Attended], gamma: float, theta: Theta | None = None
    ) -> Batch:
        """Return the problem of arcs that each have a table and weights."""
        logs = [a.log_p.ravel() for a in arcs]
        found = cls(
            variables,
            tuple([a.arc for a in arcs]),
            np.concatenate(logs or [np.zeros(0)])[None],
            np.array([[a.beta for a in arcs]], dtype=np.float64),
            np.array([[a.alpha for a in arcs]], dtype=np.float64),
            np.array([gamma], dtype=np.float64),
            theta,
            {a.name: a.varying for a in arcs if a.varying is not None},
        )
        found.__dict__.update(arcs=tuple(arcs), entry_at=_offsets([x.size for x in logs]))
        return found

    @classmethod
    def over(
        cls, variables: Sequence[Variable], beliefs: Sequence[Arc], count: int = 1, facts: Sequence[Arc] = ()
    ) -> Batch:
        """Return problems over tables, all numbers 0: for `with_numbers`."""
        seen = {n for a in (*beliefs, *facts) for n in a.names}
        weights = np.zeros((count, len(beliefs)))
        return cls(
            tuple(v for v in variables if v.name in seen),
            tuple(beliefs),
            np.zeros((count, sum(cells(a.scope) for a in beliefs))),
            weights,
            weights,
            np.zeros(count),
            free=tuple(v for v in variables if v.name not in seen),
            facts=tuple(facts),
        )

    def __len__(self) -> int:
        return len(self.gamma)

    @property
    def numbers(self) -> tuple[Array, Array, Array, Array]:
        """log p, beta, alpha and gamma."""
        return self.log_p, self.beta, self.alpha, self.gamma

    def same(self, other: Batch) -> Bools:
        """Return which problems have the numbers of other problems over the same arcs, (P,)."""
        both = zip(self.numbers, other.numbers, strict=True)
        return np.logical_and.reduce([(x == y).reshape(len(self), -1).all(1) for x, y in both])

    def remembered(self, key: object, make: Callable[[], Any]) -> Any:
        """Return what batches over these arcs remember under a key, which is made if it is not known."""
        found = self.known.get(key, self)  # no key has a batch of its own as its value
        if found is self:
            found = make()
            for old in list(self.known)[: max(0, len(self.known) + 1 - MOST_KNOWN)]:
                self.known.pop(old, None)
            self.known[key] = found
        return found

    # -- some of the problems, or other ones over the same arcs ----------------------------------------------------

    def with_numbers(self, log_p: Array, beta: Array, alpha: Array, gamma: Array) -> Batch:
        """Return other problems over the same arcs."""
        known = {name: self.__dict__[name] for name in OF_SHAPE if name in self.__dict__}
        return _copied(known, log_p=log_p, beta=beta, alpha=alpha, gamma=gamma, theta=None, varying={})

    def take(self, some: Index | slice) -> Batch:
        """Return some of the problems."""
        return self.with_numbers(self.log_p[some], self.beta[some], self.alpha[some], self.gamma[some])

    def groups(self) -> list[Index]:
        """Return the numbers of problems that share a pattern: hard arcs, gamma > 0 or not, and impossible entries."""
        structural, zero = self.gamma > 0, self.log_p == -math.inf
        if len(self) == 1 or not (self.hard.any() or zero.any() or (structural.any() and not structural.all())):
            return [np.arange(len(self))]
        dead = zero & (self.beta > 0)[:, self.arc_of]
        bits = np.packbits(np.concatenate([self.hard, structural[:, None], dead], axis=1), axis=1)
        found: dict[bytes, list[int]] = {}
        for k, row in enumerate(bits):
            found.setdefault(row.tobytes(), []).append(k)
        return [np.array(some) for some in found.values()]

    @staticmethod
    def together(alike: Sequence[Batch]) -> Batch:
        """Return problems over arcs that are alike as one batch, over the arcs of the first."""
        first = alike[0]
        if len(alike) == 1:
            return first
        return first.with_numbers(
            *(np.concatenate([getattr(x, name) for x in alike]) for name in ("log_p", "beta", "alpha", "gamma"))
        )

    @cached_property
    def key(self) -> object:
        """Cache key of a pattern: equal for problems whose solutions have the same structure."""
        return self.shape.key, self.hard[0].tobytes(), bool(self.gamma[0] > 0), self.dead.tobytes()

    @property
    def digest(self) -> str:
        """A short name for the key, which files can hold."""
        return blake2b(repr(self.key).encode(), digest_size=16).hexdigest()

    def at(self, theta: Theta | None) -> Batch:
        """Return a single problem at other parameters; what does not depend on them stays known."""
        log_p = _columns(tabulated(self.beliefs, theta)) if self.log_p.size else self.log_p
        found = self._at(log_p, theta)
        if "parts" in self.__dict__:
            spans = zip(self.parts, map(self.entries, self.connected), strict=True)
            parts = [p._at(log_p[:, entries], theta).kept() for p, entries in spans]
            found.__dict__["parts"] = tuple(parts)
        return found

    def _at(self, log_p: Array, theta: Theta | None) -> Batch:
        if not self.log_p.size:
            _ = self.kinds, self.pinned, self.entropies  # known to the copy as well
        changed = OF_TABLES if self.log_p.size else ("parts", "singles")
        known = {name: x for name, x in self.__dict__.items() if name not in changed}
        return _copied(known, log_p=log_p, theta=theta)

    def kept(self) -> Batch:
        """Return the problem with a copy of its parameters, since a result must not change with them; what is drawn is
        made once, live."""
        if self.varying or self.is_drawn:
            return self
        theta = frozen(self.beliefs, self.theta)
        if theta is None and self.theta is None:
            return self
        return _copied({name: x for name, x in self.__dict__.items() if name not in ("parts", "singles")}, theta=theta)

    # -- some of the arcs ------------------------------------------------------------------------------------------

    def among(self, numbers: Sequence[int], keep: bool = False) -> Batch:
        """Return the problems with some of the arcs only; variables that these leave alone are free.

        `keep`: so that all batches over the same arcs know what is known of these.
        """
        if len(numbers) == len(self.beliefs):
            return self
        if keep:
            known, entries = self.remembered(
                ("among", tuple(numbers)), lambda: (self.among(numbers), self.entries(numbers))
            )
            return known.with_numbers(self.log_p[:, entries], self.beta[:, numbers], self.alpha[:, numbers], self.gamma)
        beliefs = tuple([self.beliefs[i] for i in numbers])
        seen, entries = {n for a in beliefs for n in a.names}, self.entries(numbers)
        found = Batch(
            tuple([v for v in self.variables if v.name in seen]),
            beliefs,
            self.log_p[:, entries],
            self.beta[:, numbers],
            self.alpha[:, numbers],
            self.gamma,
            self.theta,
            {a.name: self.varying[a.name] for a in beliefs if a.name in self.varying} if self.varying else {},
            (*self.free, *(v for v in self.variables if v.name not in seen)),
        )
        found.__dict__["entry_at"] = _offsets(np.diff(self.entry_at)[numbers].tolist())
        return found

    def entries(self, numbers: Iterable[int]) -> Index:
        """Return the numbers of the table entries of some arcs."""
        spans = [np.arange(self.entry_at[i], self.entry_at[i + 1]) for i in numbers]
        return np.concatenate([np.zeros(0, dtype=np.int64), *spans])

    @cached_property
    def connected(self) -> list[list[int]]:
        """The numbers of the arcs of each connected part."""
        return connected([a.names for a in self.beliefs])

    @cached_property
    def parts(self) -> tuple[Batch, ...]:
        """The connected parts, in the order of their first arcs."""
        return tuple([_copied(self.among(numbers).kept().__dict__, free=()) for numbers in self.connected])

    def without(self, name: str) -> Batch:
        """Return the same variables without one arc: it stays with weight 0 (a hard one goes), so that problems without
        one soft arc or another still have the same shape."""
        k = next(i for i, a in enumerate(self.beliefs) if a.name == name)
        if self.hard[0, k]:
            rest = self.among([i for i in range(len(self.beliefs)) if i != k])
            return replace(rest, variables=self.variables, free=self.free, known={})
        beta, alpha = self.beta.copy(), self.alpha.copy()
        beta[:, k] = alpha[:, k] = 0.0
        return replace(self.with_numbers(self.log_p, beta, alpha, self.gamma), theta=self.theta, varying=self.varying)

    # -- the arcs of a single problem ------------------------------------------------------------------------------

    @cached_property
    def arcs(self) -> tuple[Attended, ...]:
        """The arcs of a single problem, each with its table and its weights."""
        (logs,), at = self.log_p, self.entry_at.tolist()
        tables = [
            logs[i:j].reshape(shape(a.scope)) if j > i else logs[:0]
            for a, i, j in zip(self.beliefs, at, at[1:], strict=False)
        ]
        columns = zip(self.beliefs, tables, self.beta[0].tolist(), self.alpha[0].tolist(), strict=True)
        return tuple([Attended(a, p, b, c, self.varying.get(a.name)) for a, p, b, c in columns])

    @cached_property
    def entry_at(self) -> Index:
        """Where the entries of each arc begin, and the last ones end, (arcs + 1,)."""
        sizes = self.shape.rows.sources * self.shape.rows.targets if all(v.is_finite for v in self.variables) else None
        if sizes is not None and sizes.sum() == self.log_p.shape[1]:
            return np.concatenate([[0], np.cumsum(sizes)])
        return _offsets([cells(a.scope) if a.has_table else 0 for a in self.beliefs])

    @cached_property
    def arc_of(self) -> Index:
        """The arc of each table entry, (entries,)."""
        return np.repeat(np.arange(len(self.beliefs)), np.diff(self.entry_at))

    @cached_property
    def rows(self) -> FlatRows:
        """The rows of the tables, one after another."""
        return FlatRows.wide(np.repeat(self.shape.rows.targets, self.shape.rows.sources))

    @cached_property
    def kinds(self) -> frozenset[str]:
        """What is special about it: "drawn" (some cpd has no table), "varying" (attention depends on the sample),
        "euclidean" (linear-Gaussian), and the names of costs other than KL."""
        costs = frozenset([t.cost.name for t in {type(a.cpd) for a in self.beliefs} if t.cost is not LOG_SCORE])
        bare = np.diff(self.entry_at) == 0 if self.variables else np.zeros(0, dtype=np.bool_)
        if not (self.varying or bare.any()):
            return costs
        drawn = any([self.beliefs[i].is_drawn for i in np.flatnonzero(bare)])
        euclidean = not drawn and not self.variables[0].is_finite and not self.varying
        known = {"drawn": drawn, "varying": bool(self.varying), "euclidean": euclidean}
        return costs.union(kind for kind, true in known.items() if true)

    @property
    def is_drawn(self) -> bool:
        """Whether some arc has no table and is not linear-Gaussian, as those are that join finite and Euclidean
        variables."""
        return "drawn" in self.kinds

    # -- structure -------------------------------------------------------------------------------------------------

    @cached_property
    def shape(self) -> Shape:
        """What the problems share whatever their numbers."""
        return Shape.of(self.variables, self.beliefs)

    @property
    def sizes(self) -> Mapping[str, int]:
        """How many values each variable has."""
        return self.shape.sizes

    @cached_property
    def ruled(self) -> Shape:
        """The shape with the facts counted as arcs."""
        return Shape.of(self.variables, (*self.beliefs, *self.facts)) if self.facts else self.shape

    @cached_property
    def ruled_out(self) -> Bools:
        """The impossible entries of the tables of facts, one after another."""
        return np.concatenate([NOWHERE, *(a.log_table().ravel().numpy() == -math.inf for a in self.facts)])

    @property
    def tree(self) -> Tree:
        """A min-fill junction tree with a cluster for every arc and every fact."""
        return self.ruled.tree

    @cached_property
    def hard(self) -> Bools:
        """Which arcs mu must satisfy, (P, arcs)."""
        return self.beta == math.inf

    @cached_property
    def dead(self) -> Bools:
        """The table entries that are impossible in the problems of a pattern, (entries,); none: empty."""
        found = self.log_p[0] == -math.inf
        if found.any():
            found &= (self.beta[0] > 0)[self.arc_of]
        return found if found.any() else NOWHERE

    @cached_property
    def singles(self) -> tuple[Batch, ...]:
        """The problems, each by itself."""
        return (self,) if len(self) == 1 else tuple([self.take(slice(k, k + 1)) for k in range(len(self))])

    @property
    def mechanism_weights(self) -> Array:
        """beta - gamma alpha, added up over the soft arcs of each mechanism, (P, mechanisms)."""
        return self._by_mechanism(self.beta - self.gamma[:, None] * self.alpha)

    @property
    def impossible(self) -> Bools:
        """Which table entries are impossible in the problems of a pattern, (entries,)."""
        return self.dead if len(self.dead) else np.zeros(self.log_p.shape[1], dtype=np.bool_)

    @cached_property
    def weights(self) -> dict[Mechanism, float]:
        """w = sum of beta - gamma alpha over the soft arcs of each mechanism that no hard arc fixes; of one problem.

        The incompatibility is sum_m -w_m H(T|S) - gamma H(mu) + linear: convex if every w >= 0.
        """
        mechanisms, number = self._mechanisms
        fixed = {number[i] for i in np.flatnonzero(self.hard[0]).tolist()}
        total = self.mechanism_weights[0].tolist()
        own = {number[i] for i in np.flatnonzero(~self.hard[0]).tolist()} - fixed
        return {m: total[i] for i, m in enumerate(mechanisms) if i in own}

    @cached_property
    def _mechanisms(self) -> tuple[list[Mechanism], list[int]]:
        """The mechanisms, and the number of each arc's among them."""
        place: dict[Mechanism, int] = {}
        numbers = [place.setdefault(a.mechanism, len(place)) for a in self.beliefs]
        return list(place), numbers

    def _by_mechanism(self, x: Array) -> Array:
        """Return the sums (P, mechanisms) over the soft arcs (P, arcs) of each mechanism."""
        mechanisms, number = self._mechanisms
        found = np.zeros((len(x), len(mechanisms)))
        np.add.at(found.T, number, np.where(self.hard, 0.0, x).T)
        return found

    @cached_property
    def entropies(self) -> dict[frozenset[str], float]:
        """The weight of H(A) for every set A of variables, where it is not 0, once hard arcs hold; without the beta of
        arcs whose attention varies. Of a single problem."""
        found: dict[frozenset[str], float] = {}
        size: dict[frozenset[str], float] = {}
        gamma = self.gamma.item()

        def add(names: Iterable[str], weight: float) -> None:
            key = frozenset(names)
            found[key], size[key] = found.get(key, 0.0) + weight, size.get(key, 0.0) + abs(weight)

        for a in self.arcs:
            weight = gamma * a.alpha - (0.0 if a.hard or a.varying is not None else a.beta)
            add(a.scope, weight)
            add(a.sources, -weight)
        add((v.name for v in self.variables), -gamma)
        return {names: w for names, w in found.items() if names and abs(w) > EVEN * size[names]}

    @cached_property
    def convex(self) -> Bools:
        """Whether each objective is convex, mechanism by mechanism, and bounded (no disbelief in the impossible)."""
        structure = self.gamma[:, None] * self.alpha
        found: Bools = np.logical_and.reduce(self.beta >= structure, axis=1)  # then so do the sums over mechanisms
        if not found.all():
            total, size = (
                self._by_mechanism(x) for x in (self.beta - structure, np.abs(self.beta) + np.abs(structure))
            )
            fixed = np.zeros(total.shape, dtype=np.bool_)
            for i, m in enumerate(self._mechanisms[1]):
                fixed[:, m] |= self.hard[:, i]
            found |= (fixed | (total >= -EVEN * size)).all(1)
        if self.beta.min(initial=0.0) < 0:
            found &= ~((self.log_p == -math.inf) & (self.beta < 0)[:, self.arc_of]).any(1)
        return found

    @cached_property
    def _makers(self) -> tuple[Attended, ...] | None:
        return makers([a for a in self.arcs if a.hard]) if self.hard.any() else None

    @cached_property
    def pinned(self) -> tuple[Attended, ...] | None:
        """Hard arcs that determine mu of a single problem, sources first; None if they do not.

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
        if not makers or self.gamma.item() <= 0:
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

    # -- bounds ----------------------------------------------------------------------------------------------------

    @cached_property
    def accuracy(self) -> Accuracy:
        """How well tables and weights are known; of densities, which round for themselves, the weights alone."""
        if self.kinds:
            ones = np.ones(len(self.beliefs), dtype=np.int64)
            return Accuracy(TableRows(ones, ones, 0.0), None, self.beta, self.alpha, self.gamma, densities=True)
        return Accuracy(self.shape.rows, self.log_p, self.beta, self.alpha, self.gamma)

    def proved(
        self, low: npt.ArrayLike, high: npt.ArrayLike, blur: float | Array = 0.0, *, tol: float = math.inf, **how: Any
    ) -> ProvedBounds:
        """Return the bounds that a solver's numbers prove: see `ProvedBounds.proved`.

        `tol`: the relative gap that is aimed at; of a closed form, whose bounds are apart by rounding only, any.
        """
        return ProvedBounds.proved(self.accuracy, low, high, blur, tol=tol, **how)


OF_SHAPE = (
    "variables",
    "beliefs",
    "free",
    "facts",
    "known",
    "ruled_out",
    "shape",
    "ruled",
    "entry_at",
    "arc_of",
    "rows",
    "_mechanisms",
    "connected",
)
"""What is known of a batch whatever its numbers."""

OF_TABLES = "parts", "singles", "arcs", "dead", "key", "convex", "_makers", "pinned", "given", "beyond", "accuracy"
"""What is known of a batch that may change with the numbers in its tables."""


def _copied(known: Mapping[str, Any], **changes: Any) -> Batch:
    """Return a batch of what is known of another one, with some of it changed."""
    found = object.__new__(Batch)
    found.__dict__.update(known)
    found.__dict__.update(changes)
    return found


def _offsets(sizes: Iterable[int]) -> Index:
    """Where blocks of these sizes begin, and the last one ends."""
    return np.array([0, *accumulate(sizes)], dtype=np.int64)


def _columns(tables: Sequence[Array]) -> Array:
    """Return the tables of a single problem, one after another, (1, entries)."""
    return np.concatenate([np.zeros(0), *map(np.ravel, tables)])[None]


def connected(scopes: Sequence[Sequence[str]]) -> list[list[int]]:
    """Return the connected parts of scopes, as numbers of scopes, in the order of their first ones."""
    together: dict[str, list[str]] = {}  # all the names of a part, under each of them
    for first, *others in scopes:
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
    parts: dict[str, list[int]] = {}
    for i, scope in enumerate(scopes):
        parts.setdefault(together[scope[0]][0], []).append(i)
    return list(parts.values())


@uncollected()
def prepare(pdg: PDG, attention: Attention, theta: Theta | None = None) -> Batch:
    """Return an attended PDG as a problem: what carries no weight is dropped, the rest is tabulated.

    An arc is dropped when beta = 0 and gamma alpha = 0; a variable that no remaining arc mentions is free.
    """
    attention = attention.on(pdg)
    attention.check(pdg)
    beta, alpha, gamma = attention.beta, attention.alpha, attention.gamma
    arcs = [a for a in pdg.arcs if beta.get(a.name, 0.0) != 0 or gamma * alpha.get(a.name, 0.0) != 0]
    seen = {n for a in arcs for n in a.names}
    tables = tabulated(arcs, theta)
    found = Batch(
        tuple([v for v in pdg.variables if v.name in seen]),
        tuple(arcs),
        _columns(tables),
        np.array([[beta.get(a.name, 0.0) for a in arcs]], dtype=np.float64),
        np.array([[alpha.get(a.name, 0.0) for a in arcs]], dtype=np.float64),
        np.array([gamma], dtype=np.float64),
        theta,
        {a.name: attention.varying[a.name] for a in arcs if a.name in attention.varying} if attention.varying else {},
        tuple([v for v in pdg.variables if v.name not in seen]) if len(seen) < len(pdg.variables) else (),
    )
    found.__dict__["entry_at"] = _offsets(x.size for x in tables)
    return found
