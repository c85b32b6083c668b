"""mu extended along loose ends, computed lazily for the marginals that are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.attended import Attended
from dissonance.distributions import CliqueTree, Tree
from dissonance.distributions.messages import calibrate
from dissonance.distributions.tree import decompose
from dissonance.problem import check_bytes
from dissonance.variables import Variable

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
