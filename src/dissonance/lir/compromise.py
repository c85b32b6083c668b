"""mu* of P runs, chosen uniquely, and how far it moves: the distortion of beliefs by LIR."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dissonance.distributions import CliqueTree
from dissonance.distributions.tree import Tree
from dissonance.lir.batched import Batched
from dissonance.lir.each import Each
from dissonance.lir.inner import Attentions, Inner
from dissonance.lir.parameters import Stacked
from dissonance.lir.published import Unconverged
from dissonance.numerics import DTYPE
from dissonance.solvers.convex.program import Structure
from dissonance.solvers.extended import Extended

LARGEST = 2**16
"""Joint states up to which total variation is taken over the joint; beyond, it is the largest over the clusters."""

GAMMA = 1e-7
"""The gamma from which mu* is extrapolated to gamma -> 0+, times the least weight of an arc."""


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


def compromise(inner: Inner, theta: Stacked, attention: Attentions) -> Compromise:
    """mu* at theta; at gamma = 0 the gamma -> 0+ selection, because the minimisers are many (erratum 24)."""
    if isinstance(inner, Unconverged) and inner.mu is not None:
        return Compromise(inner.mu)
    if isinstance(inner, Batched):
        found = _batched(inner, theta, attention)
        if found is not None:
            return found
        inner = inner.other
    assert isinstance(inner, Each)
    return _each(inner, theta, attention)


def _batched(inner: Batched, theta: Stacked, a: Attentions) -> Compromise | None:
    """For all runs at once; None if some need another solver."""
    with torch.no_grad():
        log_p = inner.parameters.log_tables(theta)
    if bool((a.gamma > 0).all()):
        found = inner.settled(log_p, a)
    elif bool((a.gamma > 0).any()):
        return None
    else:
        ratio = torch.where((a.alpha > 0) & (a.beta > 0), a.beta / a.alpha.clamp(min=1e-300), math.inf).amin(1)
        attended = torch.where(a.beta == 0, 0.0, a.alpha)
        found = inner.near_zero(log_p, replace(a, gamma=GAMMA * ratio.clamp(max=1.0), alpha=attended))
    return None if found is None else _flat(*found)


def _flat(s: Structure, mu: np.ndarray) -> Compromise:
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


def _each(inner: Each, theta: Stacked, attention: Attentions) -> Compromise:
    """Where mu is extended along loose ends: over the clusters of what it is extended from."""
    flat: list[Tensor] = []
    cluster: Tensor | None = None
    for result in inner.ask(theta, attention) if inner.random else inner.solve(theta, attention).results:
        mu = result.mu if math.isfinite(result.upper) else None
        if not isinstance(mu, CliqueTree):
            flat.append(torch.zeros(0, dtype=DTYPE))
        elif math.prod(v.size for v in mu.variables) <= LARGEST:
            flat.append(mu.joint().table.reshape(-1))
        else:
            tables = [t for p in mu.parts for t in p.tables] if isinstance(mu, Extended) else mu.tables
            flat.append(torch.cat([torch.zeros(0, dtype=DTYPE), *(t.reshape(-1) for t in tables)]))
            sizes = torch.tensor([t.numel() for t in tables], dtype=torch.long)
            cluster = torch.repeat_interleave(torch.arange(len(tables)), sizes)
    width = max(len(x) for x in flat)
    mus = torch.stack([x if len(x) == width else x.new_full((width,), math.nan) for x in flat])
    return Compromise(mus, cluster)
