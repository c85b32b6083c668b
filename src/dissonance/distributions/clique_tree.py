"""A distribution that factorises over a junction forest: one table a cluster."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.distributions.base import Distribution
from dissonance.distributions.joint import Joint
from dissonance.distributions.tree import Tree, forest, single
from dissonance.errors import SizeError
from dissonance.variables import Variable

LARGEST_MARGINAL = 2**26
"""Cells of the largest table a marginal query may build (half a gigabyte)."""


TOGETHER = 2**12
"""Cells up to which clusters of one shape are summed together; larger ones gain nothing, and would be copied."""


class CliqueTree(Distribution):
    """mu(x) = prod_C mu_C(x_C) / prod_S mu_S(x_S), held as calibrated cluster marginals.

    Neighbouring tables agree on their separator. Marginals inside a cluster cost one sum, others one pass over the
    tree.
    """

    def __init__(self, variables: Iterable[Variable], tree: Tree, tables: Sequence[Tensor]) -> None:
        self.variables = tuple(variables)
        self.tree = tree
        self.tables = tuple(tables)

    @staticmethod
    def combined(variables: Iterable[Variable], parts: Sequence[CliqueTree]) -> CliqueTree:
        """Independent parts as one over these variables, each uniform that no part mentions."""
        variables = tuple(variables)
        known = {v.name for p in parts for v in p.variables}
        free = [v for v in variables if v.name not in known]
        trees = [p.tree for p in parts] + [single({v.name: v.size}) for v in free]
        uniform = [torch.full((v.size,), 1 / v.size, dtype=numerics.DTYPE) for v in free]
        return CliqueTree(variables, forest(trees), [t for p in parts for t in p.tables] + uniform)

    def _marginal(self, names: tuple[str, ...]) -> Tensor:
        home = 0 if len(self.tables) == 1 else self.tree.home(names)
        if home is None:
            return self._across(names)
        cluster = self.tree.clusters[home]
        if cluster == names:
            return self.tables[home]
        rest = [i for i, v in enumerate(cluster) if v not in names]
        table = self.tables[home].sum(rest) if rest else self.tables[home]
        kept = [v for v in cluster if v in names]
        return table.permute([kept.index(n) for n in names]) if names else self.tables[home].sum()

    def marginals(self, scopes: Sequence[Sequence[str]]) -> list[Tensor]:
        """mu over each of many sets of variables; clusters of one shape are summed together."""
        alike: dict[tuple[tuple[int, ...], tuple[int, ...]], list[tuple[int, int]]] = {}
        found: list[Tensor | None] = [None] * len(scopes)
        for k, names in enumerate(scopes):
            home = self.tree.home(names) if names else None
            if home is None or len(set(names)) < len(names) or self.tables[home].numel() > TOGETHER:
                found[k] = self.marginal(*names)
                continue
            axes = tuple(map(self.tree.clusters[home].index, names))
            alike.setdefault((axes, self.tree.shapes[home]), []).append((k, home))
        for (axes, shape), members in alike.items():
            tables = torch.stack([self.tables[home] for _, home in members])
            rest = [i + 1 for i in range(len(shape)) if i not in axes]
            summed = tables.sum(rest) if rest else tables
            ordered = summed.permute(0, *(1 + sorted(axes).index(i) for i in axes))
            for (k, _), table in zip(members, ordered.unbind(), strict=True):
                found[k] = table
        return [x for x in found if x is not None]

    def _across(self, names: tuple[str, ...]) -> Tensor:
        """A marginal whose variables lie in several clusters: messages that keep what was asked for."""
        self._fits(names)
        wanted = set(names)
        inbox: dict[int, list[tuple[tuple[str, ...], Tensor]]] = {}
        for i in reversed(range(len(self.tree.clusters))):
            cluster, separator = self.tree.clusters[i], self.tree.separators[i]
            table = self.tables[i] if self.tree.parent[i] < 0 else self._conditional(i)
            received = inbox.pop(i, [])
            kept = tuple(
                dict.fromkeys((*separator, *(v for s, _ in [(cluster, table), *received] for v in s if v in wanted)))
            )
            if kept == separator and not received and self.tree.parent[i] >= 0:
                continue  # sums to one over everything below the separator
            message = self._contract([(cluster, table), *received], kept)
            inbox.setdefault(self.tree.parent[i], []).append((kept, message))
        return self._contract(inbox.get(-1, []), names)

    def _conditional(self, i: int) -> Tensor:
        cluster, separator, table = self.tree.clusters[i], self.tree.separators[i], self.tables[i]
        total = table.sum([k for k, v in enumerate(cluster) if v not in separator], keepdim=True)
        return table / torch.where(total > 0, total, 1.0)

    def _fits(self, names: Sequence[str]) -> None:
        cells = math.prod(self.tree.sizes[v] for v in names)
        if cells > LARGEST_MARGINAL:
            raise SizeError(f"the marginal over {len(names)} variables would need {cells:.3g} cells; ask for fewer.")

    def _contract(self, tables: Sequence[tuple[tuple[str, ...], Tensor]], kept: tuple[str, ...]) -> Tensor:
        self._fits(kept)
        letter = {v: i for i, v in enumerate(dict.fromkeys(v for scope, _ in tables for v in scope))}
        operands = [x for scope, table in tables for x in (table, [letter[v] for v in scope])]
        return torch.einsum(*operands, [letter[v] for v in kept])

    def _entropy(self) -> Tensor:
        """H(mu) = sum_C H(C | separator)."""
        total = torch.zeros((), dtype=numerics.DTYPE)
        for i, table in enumerate(self.tables):
            total = total - numerics.xlogy(table, self._conditional(i)).sum()
        return total

    def _sample(self, count: int, generator: torch.Generator | None) -> dict[str, Tensor]:
        drawn: dict[str, Tensor] = {}
        for i, (cluster, separator) in enumerate(zip(self.tree.clusters, self.tree.separators, strict=True)):
            rest = tuple(v for v in cluster if v not in separator)
            order = [cluster.index(v) for v in (*separator, *rest)]
            table = self.tables[i].detach().permute(order)[tuple(drawn[v] for v in separator)]
            flat = table.reshape(count, -1) if separator else table.reshape(1, -1).expand(count, -1)
            pick = torch.multinomial(flat, 1, generator=generator)[:, 0]
            where = torch.unravel_index(pick, [self.tree.sizes[v] for v in rest])
            drawn |= dict(zip(rest, where, strict=True))
        return drawn

    def joint(self) -> Joint:
        """The same distribution as one dense table."""
        return Joint(self.variables, self._marginal(tuple(v.name for v in self.variables)))

    def __repr__(self) -> str:
        size = f"{len(self.variables)} variables, {len(self.tables)} clusters, {self.tree.cells} cells"
        return self._labelled(f"CliqueTree({size})")
