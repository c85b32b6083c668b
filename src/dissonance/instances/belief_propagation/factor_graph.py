"""Factor graphs and cluster graphs: tables over scopes, and the regions through which they exchange messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dissonance.distributions.tree import decompose
from dissonance.errors import DissonanceError, suggest
from dissonance.numerics import DTYPE, check_unlabelled
from dissonance.pdg import PDG
from dissonance.problem import BUDGET, check_bytes
from dissonance.variables import Variable, cells, shape

Scoped = tuple[Sequence[Variable] | Variable, object]
"""A scope and a table over it."""


@dataclass(frozen=True, eq=False)
class Phi:
    """A non-negative table over a scope: a factor of a factor graph, or the potential of a cluster."""

    name: str
    scope: tuple[Variable, ...]
    table: Tensor

    def __str__(self) -> str:
        return f"factor {self.name!r} ({', '.join(v.name for v in self.scope)})"


@dataclass(frozen=True)
class Region:
    """Variables that messages are about: one variable of a factor graph, or a separator of a cluster graph."""

    name: str
    variables: tuple[Variable, ...]
    neighbours: tuple[str, ...]
    """The factors it exchanges messages with."""

    @property
    def size(self) -> int:
        """In how many ways its variables can be set."""
        return cells(self.variables)


@dataclass(frozen=True, eq=False)
class FactorGraph:
    """Pr(x) = 1/Z prod_a phi_a(x_a), and the regions through which the factors a talk.

    `FactorGraph.of(factors)` has a region for every variable. In a cluster graph the factors are the potentials of
    clusters, and the regions are the separators on its links: `clusters`, `clique_tree`.
    """

    factors: tuple[Phi, ...]
    regions: tuple[Region, ...]

    @classmethod
    def of(cls, factors: FactorGraph | PDG | Mapping[str, Scoped] | Iterable[Scoped]) -> FactorGraph:
        """From {name: (scope, phi)}, from (scope, phi) pairs, which are named phi1, phi2, ..., or from a PDG's cpds."""
        if isinstance(factors, FactorGraph):
            return factors
        known = _factors(factors)
        at: dict[Variable, list[str]] = {}
        for phi in known:
            for v in phi.scope:
                at.setdefault(v, []).append(phi.name)
        _check_names(known, [v.name for v in at])
        return cls(known, tuple(Region(v.name, (v,), tuple(names)) for v, names in at.items()))

    @classmethod
    def clusters(
        cls, clusters: Mapping[str, Scoped], links: Iterable[tuple[str, str] | tuple[str, str, Sequence[Variable]]]
    ) -> FactorGraph:
        """A cluster graph: links (a, b) through all that a and b share, or (a, b, separator) through part of it."""
        known = _factors(clusters)
        by_name = {phi.name: phi for phi in known}
        regions: list[Region] = []
        for a, b, *given in links:
            for end in (a, b):
                if end not in by_name:
                    raise DissonanceError(f"a link needs two clusters: no {end!r}.{suggest(end, by_name)}")
            shared = tuple(v for v in by_name[a].scope if v in by_name[b].scope)
            separator = tuple(given[0]) if given else shared
            odd = [v.name for v in separator if v not in shared]
            if odd or not separator:
                what = f"{odd[0]!r} is not in both" if odd else "they share no variable"
                raise DissonanceError(f"clusters {a!r} and {b!r} cannot be linked: {what}.")
            regions.append(Region(f"{a}&{b}", separator, (a, b)))
        _check_names(known, [r.name for r in regions])
        return cls(known, tuple(regions))

    @classmethod
    def clique_tree(
        cls, factors: FactorGraph | PDG | Mapping[str, Scoped] | Iterable[Scoped], budget: int = BUDGET
    ) -> FactorGraph:
        """The cluster graph of a min-fill junction tree, on which belief propagation is exact.

        SizeError if its tables, and a copy that is made of them, need more bytes than the budget.
        """
        graph = cls.of(factors)
        variables = {v.name: v for v in graph.variables}
        tree = decompose(
            {n: v.size for n, v in variables.items()}, [tuple(v.name for v in phi.scope) for phi in graph.factors]
        )
        instead = "Let the factors themselves exchange messages (FactorGraph.of), or give a larger budget."
        check_bytes(tree, 2 * DTYPE.itemsize * tree.cells, budget, what="the junction tree", instead=instead)
        scopes = [tuple(variables[n] for n in c) for c in tree.clusters]
        tables = [torch.ones(shape(s), dtype=DTYPE) for s in scopes]
        for phi in graph.factors:
            home = tree.home([v.name for v in phi.scope])
            assert home is not None
            tables[home] = tables[home] * spread_over(phi.table, phi.scope, scopes[home])
        made = {f"C{i}": (s, t) for i, (s, t) in enumerate(zip(scopes, tables, strict=True), 1)}
        return cls.clusters(made, [(f"C{p + 1}", f"C{i}") for i, p in enumerate(tree.parent, 1) if p >= 0])

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """All variables, in the order in which factors mention them."""
        return tuple(dict.fromkeys(v for phi in self.factors for v in phi.scope))

    @cached_property
    def factor(self) -> dict[str, Phi]:
        """Factors by name."""
        return {phi.name: phi for phi in self.factors}

    @cached_property
    def region(self) -> dict[str, Region]:
        """Regions by name."""
        return {r.name: r for r in self.regions}

    @cached_property
    def around(self) -> dict[str, tuple[Region, ...]]:
        """The regions of each factor: those of its variables in the order of its scope, separators as linked."""
        found: dict[str, list[Region]] = {phi.name: [] for phi in self.factors}
        for r in self.regions:
            for a in r.neighbours:
                found[a].append(r)
        order = {a: {v: i for i, v in enumerate(phi.scope)} for a, phi in self.factor.items()}
        return {
            a: tuple(sorted(rs, key=lambda r: order[a][r.variables[0]]) if _single(rs) else rs)
            for a, rs in found.items()
        }


def spread_over(table: Tensor, scope: Sequence[Variable], over: Sequence[Variable]) -> Tensor:
    """A table over a scope, shaped to broadcast over a larger one."""
    inside = [v for v in over if v in scope]
    ordered = table.reshape(shape(scope)).permute([list(scope).index(v) for v in inside])
    return ordered.reshape([v.size if v in scope else 1 for v in over])


def _single(regions: Sequence[Region]) -> bool:
    return all(len(r.variables) == 1 for r in regions)


def _factors(factors: PDG | Mapping[str, Scoped] | Iterable[Scoped]) -> tuple[Phi, ...]:
    named: list[tuple[str, Scoped]]
    if isinstance(factors, PDG):
        named = [(f"p[{a.name}]", (a.scope, a.log_table().detach().exp())) for a in factors]
    elif isinstance(factors, Mapping):
        named = [(str(name), scoped) for name, scoped in factors.items()]
    else:
        named = [(f"phi{i}", pair) for i, pair in enumerate(factors, 1)]
    if not named:
        raise DissonanceError("a factor graph needs at least one factor.")
    domains: dict[str, Variable] = {}
    found: list[Phi] = []
    for name, (scope, phi) in named:
        scope = (scope,) if isinstance(scope, Variable) else tuple(scope)
        check_unlabelled(phi)
        try:
            table = torch.as_tensor(phi, dtype=DTYPE).detach().clone()
        except (TypeError, ValueError) as error:
            raise DissonanceError(f"factor {name!r}: a table is an array of numbers: {error}.") from None
        made = Phi(name, scope, table)
        _check(made)
        for v in scope:
            if domains.setdefault(v.name, v) != v:
                raise DissonanceError(f"{made}: variable {v.name!r} has another domain elsewhere.")
        found.append(made)
    return tuple(found)


def _check(phi: Phi) -> None:
    """Raise unless the table has the shape of its scope and is finite, non-negative and not 0."""
    if not phi.scope or len(set(phi.scope)) < len(phi.scope):
        raise DissonanceError(f"{phi} needs at least one variable, and none twice.")
    wanted = shape(phi.scope)
    if tuple(phi.table.shape) != wanted:
        raise DissonanceError(f"{phi} has shape {tuple(phi.table.shape)}, but its variables need {wanted}.")
    if not torch.isfinite(phi.table).all():
        raise DissonanceError(f"{phi} holds a number that is not finite.")
    if (phi.table < 0).any():
        raise DissonanceError(f"{phi} holds the negative number {float(phi.table.min()):.6g}; factors are >= 0.")
    if not (phi.table > 0).any():
        raise DissonanceError(f"{phi} is 0 everywhere, so that no state is possible; some entry must be > 0.")


def _check_names(factors: Sequence[Phi], regions: Sequence[str]) -> None:
    names = [phi.name for phi in factors] + list(regions)
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise DissonanceError(f"two factors, variables or links are called {twice!r}: give factors other names.")
