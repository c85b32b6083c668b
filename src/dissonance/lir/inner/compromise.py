"""mu* of P runs, chosen uniquely, and how far it moves: the distortion of beliefs by LIR."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dissonance.distributions import CliqueTree, Distribution
from dissonance.distributions.tree import Tree
from dissonance.numerics import DTYPE
from dissonance.solvers.convex.program import Structure

LARGEST = 2**16
"""Joint states up to which total variation is taken over the joint; beyond, it is the largest over the clusters."""


@dataclass(frozen=True)
class Compromise:
    """mu* of P runs: (P, joint states), or (P, cells) of clusters with their numbers in `cluster`."""

    mu: Tensor
    cluster: Tensor | None = None

    def distance(self, other: Compromise) -> Tensor:
        """Total variation, run by run, (P,); over clusters, a lower bound of it. NaN where there is no mu*."""
        if self.mu.shape != other.mu.shape:
            return torch.full((len(self.mu),), math.nan, dtype=DTYPE)
        off = 0.5 * (self.mu - other.mu).abs()
        if self.cluster is None:
            return off.sum(1) if off.shape[1] else torch.full((len(off),), math.nan, dtype=DTYPE)
        count = int(self.cluster.max()) + 1 if len(self.cluster) else 1
        return off.new_zeros(len(off), count).index_add_(1, self.cluster, off).amax(1)


def of_cells(s: Structure, mu: np.ndarray) -> Compromise:
    """From the cells (P, cells) of clusters."""
    lay, sizes = s.layout, s.tree.sizes
    if math.prod(sizes.values()) > LARGEST:
        return Compromise(
            torch.from_numpy(mu), torch.from_numpy(np.repeat(np.arange(len(lay.parent)), np.diff(lay.cell_at)))
        )
    each = [s.tables(row) for row in mu]
    return Compromise(joint(s.tree, [torch.stack(tables) for tables in zip(*each, strict=True)]).flatten(1))


def joint(tree: Tree, tables: list[Tensor]) -> Tensor:
    """The joint (P, sizes...) of cluster marginals (P, shape...)."""
    letter = {v: i + 1 for i, v in enumerate(tree.sizes)}
    operands: list[object] = []
    for table, cluster, separator in zip(tables, tree.clusters, tree.separators, strict=True):
        away = [i + 1 for i, v in enumerate(cluster) if v not in separator]
        total = table.sum(away, keepdim=True) if away else table
        operands += [table / torch.where(total > 0, total, 1.0), [0, *(letter[v] for v in cluster)]]
    return torch.einsum(*operands, [0, *letter.values()])


def of_mus(mus: Sequence[Distribution | None]) -> Compromise:
    """Return the compromises of runs, where they have one; along loose ends, over the clusters mu is extended from."""
    flat: list[Tensor] = []
    cluster: Tensor | None = None
    for mu in mus:
        if not isinstance(mu, CliqueTree):
            flat.append(torch.zeros(0, dtype=DTYPE))
        elif math.prod(v.size for v in mu.variables) <= LARGEST:
            flat.append(mu.joint().table.reshape(-1))
        else:
            tables = [t for p in getattr(mu, "parts", (mu,)) for t in p.tables]
            flat.append(torch.cat([torch.zeros(0, dtype=DTYPE), *(t.reshape(-1) for t in tables)]))
            sizes = torch.tensor([t.numel() for t in tables], dtype=torch.long)
            cluster = torch.repeat_interleave(torch.arange(len(tables)), sizes)
    width = max(len(x) for x in flat)
    found = torch.stack([x if len(x) == width else x.new_full((width,), math.nan) for x in flat])
    return Compromise(found, cluster)
