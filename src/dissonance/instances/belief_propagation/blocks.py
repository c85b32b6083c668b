"""Factor graphs as arrays: factors of one shape side by side, and what they tell their regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.instances.belief_propagation.factor_graph import FactorGraph

Axes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FactorBlock:
    """F factors of one shape.

    `tables` (*shape, F). Slot j is about the axes `axes[j]`, and about region `regions[j][f]` in factor f; an axis may
    be in several slots (overlapping separators) or in none (variables that only this cluster has).
    """

    tables: Tensor
    regions: tuple[Tensor, ...]
    axes: tuple[Axes, ...]
    power: Tensor | None = None
    """alpha (F,), if it is not 1."""

    def __len__(self) -> int:
        return self.tables.shape[-1]

    def size(self, slot: int) -> int:
        """The number of states of a slot."""
        return prod(self.tables.shape[i] for i in self.axes[slot])

    def shaped(self, heard: Tensor, slot: int) -> Tensor:
        """A message (states, factors) of a slot, shaped to broadcast over the tables."""
        axes, shape = self.axes[slot], self.tables.shape[:-1]
        order = sorted(range(len(axes)), key=lambda i: axes[i])
        split = heard.reshape(*(shape[i] for i in axes), heard.shape[-1]).permute(*order, len(axes))
        return split.reshape(*(n if i in axes else 1 for i, n in enumerate(shape)), heard.shape[-1])

    def tell(self, slot: int, heard: Sequence[Tensor], table: Tensor) -> Tensor:
        """sum over all but a slot of the table times the other messages: (states, factors), not normalised.

        `table`: `tables`, a power of them, or those of some of the factors.
        """
        others = [i for i in range(len(self.axes)) if i != slot]
        if len(self.axes) == 2 and self.axes in (((0,), (1,)), ((1,), (0,))) and table.dim() == 3:
            return told(table, heard[others[0]], self.axes[others[0]][0])
        left = list(range(table.dim() - 1))  # the axes that are not yet summed over
        for count in range(len(others) + 1):
            if count:
                i = others[count - 1]
                shaped = self.shaped(heard[i], i)
                for axis in reversed([a for a in range(len(self.tables.shape) - 1) if a not in left]):
                    shaped = shaped.squeeze(axis)
                table = table * shaped
            needed = set(self.axes[slot]).union(*(self.axes[i] for i in others[count:]))
            done = [k for k, a in enumerate(left) if a not in needed]
            if done:
                table = table.sum(done)
                left = [a for a in left if a in needed]
        order = [left.index(a) for a in self.axes[slot]]
        return table.permute(*order, table.dim() - 1).reshape(-1, table.shape[-1])

    def to(self, device: torch.device | str, dtype: torch.dtype) -> FactorBlock:
        """The same on another device."""
        power = None if self.power is None else self.power.to(device, dtype)
        regions = tuple(r.to(device) for r in self.regions)
        return replace(self, tables=self.tables.to(device, dtype).contiguous(), regions=regions, power=power)


def told(table: Tensor, heard: Tensor, axis: int, out: Tensor | None = None) -> Tensor:
    """sum_y phi(x, y, f) m(y, f), y on the given axis: no product of the whole table is ever written down."""
    parts = table.unbind(axis)
    found = torch.mul(parts[0], heard[0], out=out)
    for part, m in zip(parts[1:], heard[1:], strict=True):
        found.addcmul_(part, m)
    return found


def blocks_of(graph: FactorGraph, powers: Mapping[str, float]) -> tuple[list[int], list[FactorBlock], list[list[str]]]:
    """The sizes of the regions, the blocks, and the names of the factors of each block."""
    number = {r.name: i for i, r in enumerate(graph.regions)}
    groups: dict[tuple[tuple[int, ...], tuple[Axes, ...]], list[str]] = {}
    for phi in graph.factors:
        axes = tuple(tuple(phi.scope.index(v) for v in r.variables) for r in graph.around[phi.name])
        groups.setdefault((tuple(phi.table.shape), axes), []).append(phi.name)
    blocks: list[FactorBlock] = []
    for (_, axes), names in groups.items():
        tables = torch.stack([graph.factor[n].table for n in names], -1)
        around = [[number[r.name] for r in graph.around[n]] for n in names]
        regions = tuple(torch.tensor(column) for column in zip(*around, strict=True))
        alpha = torch.tensor([powers[n] for n in names], dtype=tables.dtype)
        blocks.append(FactorBlock(tables, regions, axes, None if bool((alpha == 1).all()) else alpha))
    return [r.size for r in graph.regions], blocks, list(groups.values())


def block(scopes: Tensor, tables: Tensor, sizes: Tensor) -> FactorBlock:
    """Many factors at once: scopes (F, r) of variable numbers, tables (F, k_1, ..., k_r)."""
    if scopes.dim() != 2 or tables.dim() != scopes.shape[1] + 1 or len(tables) != len(scopes):
        raise DissonanceError(
            f"scopes (factors, r) and tables (factors, k1, ..., kr) do not match: {tuple(scopes.shape)} and "
            f"{tuple(tables.shape)}."
        )
    wrong = (sizes[scopes] != torch.tensor(tables.shape[1:])).any(1)
    flat = tables.reshape(len(tables), -1)
    odd = {
        "has the wrong shape for its variables": wrong,
        "holds a number that is not finite": ~torch.isfinite(flat).all(1),
        "holds a negative number": (flat < 0).any(1),
        "is 0 everywhere, so that no state is possible": ~(flat > 0).any(1),
    }
    for what, where in odd.items():
        if where.any():
            f = int(where.nonzero()[0])
            raise DissonanceError(f"factor {f} (over variables {scopes[f].tolist()}) {what}.")
    return FactorBlock(tables.movedim(0, -1), tuple(scopes.T), tuple((i,) for i in range(scopes.shape[1])))
