"""A distribution that is known in parts, and extended along conditionals that lead away from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Arc
from dissonance.distributions.clique_tree import CliqueTree
from dissonance.distributions.messages import calibrate, gathered
from dissonance.distributions.tree import Tree, check_bytes, decompose
from dissonance.variables import Variable

COPIES = 8
"""Tables of the size of mu that putting it together holds at its peak."""

End = tuple[Arc, Tensor]
"""An arc S -> T, and its log p."""


class Extended(CliqueTree):
    """mu(x) = prod_parts mu_part prod_ends p(T|S): parts over disjoint variables, and ends that lead away from them.

    A marginal inside a part is the part's own. Any other takes the ends that lead to its variables and the parts where
    these begin; what lies behind them sums to one. All of mu (`tree`, `tables`) is put together only for what needs all
    of it, or when marginals have taken as much work as that.
    """

    def __init__(
        self, variables: Iterable[Variable], parts: Sequence[CliqueTree], ends: Sequence[End], budget: int
    ) -> None:
        self.variables = tuple(variables)
        self.parts, self.ends = tuple(parts), tuple(ends)
        self._budget, self._most, self._worked = budget, budget // (8 * COPIES), 0
        self._part = {v.name: p for p in parts for v in p.variables}
        self._end = {t: k for k, (arc, _) in enumerate(ends) for t in arc.target_names}
        self._whole = [(v.name, v.size) for v in self.variables], self.parts, self.ends

    @cached_property
    def tree(self) -> Tree:
        """The tree of all of mu."""
        return _tree(*self._whole)

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
        seen: set[str] = set()
        ends: set[int] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self._part:
                seen |= {v.name for v in self._part[name].variables}
            elif name in self._end:
                ends.add(self._end[name])
                waiting += self.ends[self._end[name]][0].names
        parts, followed = [p for p in self.parts if p.variables[0].name in seen], [self.ends[k] for k in sorted(ends)]
        variables = [v for v in self.variables if v.name in seen]
        tree = _tree([(v.name, v.size) for v in variables], parts, followed)
        self._worked += tree.cells
        return CliqueTree(variables, tree, self._calibrated(tree, parts, followed))

    def _calibrated(self, tree: Tree, parts: Sequence[CliqueTree], ends: Sequence[End]) -> list[Tensor]:
        """The cluster marginals of some parts and of ends that begin there."""
        check_bytes(tree, 8 * COPIES * tree.cells, self._budget)
        known = [(c, numerics.log(p._conditional(i))) for p in parts for i, c in enumerate(p.tree.clusters)]
        return calibrate(tree, gathered(tree, [*known, *((arc.names, log_p) for arc, log_p in ends)]))[1]

    def __repr__(self) -> str:
        return f"Extended({len(self.variables)} variables, {len(self.parts)} parts, {len(self.ends)} loose ends)"


def _tree(sizes: Iterable[tuple[str, int]], parts: Sequence[CliqueTree], ends: Sequence[End]) -> Tree:
    return decompose(dict(sizes), [c for p in parts for c in p.tree.clusters] + [arc.names for arc, _ in ends])
