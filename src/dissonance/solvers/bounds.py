"""Proofs, for many problems at once: bounds from any primal and dual guess, independent of how it was found.

lower   For any conditionals q, separators d and multipliers lam of the hard arcs, every feasible mu costs at least

            sum_roots d + sum_clusters min_x slack(x),  slack = c + W log q + sum_children d_c - d - (lam - sum_t p lam)

        for E_mu log q <= E_mu log mu(t|s), and the d of agreeing clusters and the lam of hard arcs have no mean.
upper   The incompatibility of a mu whose clusters agree exactly: mu(rest | separator) is carried down the tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import splu
from torch import Tensor

from dissonance.solvers.base import FEASIBLE, State
from dissonance.solvers.batch import Batch

FEW = 40
"""Levels of a tree up to which mass is carried down level by level."""

EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class Bounds:
    """lower <= inconsistency <= upper, (P,) each, with the agreeing clusters (P, cells) that prove the upper one.

    `residual`: how far hard arcs are from holding exactly; the upper bound includes its first-order price.
    """

    lower: Tensor
    upper: Tensor
    mu: Tensor
    residual: Tensor

    @property
    def gap(self) -> Tensor:
        """upper - lower."""
        return self.upper - self.lower

    def put(self, where: Tensor, other: Bounds) -> None:
        """Overwrite some of them, in place."""
        for name, mine in vars(self).items():
            mine[where] = getattr(other, name)


def certify(batch: Batch, state: State) -> Bounds:
    """Bounds from approximate clusters, conditionals and multipliers."""
    mu = agree(batch, state.mu)
    value = batch.objective(mu)
    price, residual = torch.zeros_like(value), torch.zeros_like(value)
    if batch.p.shape[1]:
        miss = batch.misfit(mu)[2].abs()
        price, residual = (state.lam.abs() * miss).sum(-1), miss.amax(-1)
    rounding = 32 * EPS * (1 + (mu * batch.c.abs()).sum(-1) + _weights(batch))
    low, high = lower(batch, state.l, state.d, state.lam) - rounding, value + price + rounding
    return Bounds(low.nan_to_num(nan=-math.inf), high.nan_to_num(nan=math.inf), mu, residual)


def _weights(batch: Batch) -> Tensor:
    """The weight of every term, added up, (P,)."""
    s = batch.structure
    count = torch.zeros(len(s.term_at) + 1, dtype=batch.W.dtype, device=batch.W.device)
    count.index_add_(0, s.term_at, torch.ones_like(count[:-1]))
    return (batch.W.abs() / count[s.term_at]).sum(-1)


def lower(batch: Batch, l: Tensor, d: Tensor, lam: Tensor) -> Tensor:  # noqa: E741 - the letter of the formula
    """A lower bound from any conditionals (their logs may be shifted), separators and multipliers, (P,)."""
    s = batch.structure
    l = batch.normalised(l)  # noqa: E741
    slack = batch.slack(l, d, lam)
    hard = lam.abs() + s.hard_rows.total(batch.p * lam.abs())
    size = batch.c.abs() + s.incidence.unsigned.back(torch.cat([(batch.W * l).abs(), hard, d.abs()], 1))
    least = _least(batch, slack - 8 * EPS * size)
    value = d @ s.roots
    return value + least.sum(-1) - EPS * (d.abs() @ s.roots + math.sqrt(least.shape[1]) * least.abs().sum(-1))


def _least(batch: Batch, cells: Tensor) -> Tensor:
    """The least of every cluster's live cells, (P, clusters)."""
    s = batch.structure
    found = cells.new_full((len(cells), len(s.tree.clusters)), math.inf)
    return found.scatter_reduce(1, s.cluster.expand_as(cells), batch.masked(cells, math.inf), "amin")


def contradiction(batch: Batch, lam: Tensor) -> Tensor:
    """Whether these multipliers prove the hard arcs unsatisfiable, (P,): the Farkas form of the lower bound.

    If -(lam - sum_t p lam) > 0 at every joint state, no mu makes its mean 0.
    """
    if not batch.p.shape[1]:
        return torch.zeros(len(batch), dtype=torch.bool, device=batch.c.device)
    size = lam.abs().amax(-1)
    scaled = lam / size.clamp(min=1e-300)[:, None]
    bare = replace(batch, c=torch.zeros_like(batch.c), W=torch.zeros_like(batch.W))
    nothing = lam.new_zeros(len(lam), len(batch.structure.roots))
    least = aggregate(batch, bare.slack(batch.start, nothing, scaled))
    return torch.isfinite(size) & (size > 0) & (least > FEASIBLE)


def aggregate(batch: Batch, cost: Tensor) -> Tensor:
    """min over joint states of the summed cluster costs (P, cells), one pass up the tree, (P,)."""
    s = batch.structure
    cost = batch.masked(cost.clone(), math.inf)
    least = cost.new_full((len(cost), len(s.roots)), math.inf)
    for x in reversed(s.levels):
        least.scatter_reduce_(1, x.cells_state.expand(len(cost), -1), cost[:, x.cells], "amin")
        cost.index_add_(1, x.cell, least[:, x.state])
    least.scatter_reduce_(1, s.own.expand_as(cost), cost, "amin")
    return torch.where(s.roots > 0, least, 0.0).sum(-1)


def agree(batch: Batch, mu: Tensor) -> Tensor:
    """Clusters that agree exactly: each mu(rest | separator) times the parents' separator mass; roots of mass 1."""
    s = batch.structure
    mu = batch.masked(mu.nan_to_num(nan=0.0, posinf=0.0).clamp(min=0.0), 0.0)
    live = batch.masked(torch.ones_like(mu), 0.0)
    nothing = mu.new_zeros(len(mu), len(s.roots))
    found = nothing.index_add(1, s.own, mu)
    if not found.all():
        mu = torch.where((found == 0)[:, s.own], live, mu)
        found = nothing.index_add(1, s.own, mu)
    given = mu / torch.where(found > 0, found, 1.0)[:, s.own]
    return given * (_carried if len(s.levels) <= FEW else _solved)(batch, given)[:, s.own]


def _carried(batch: Batch, given: Tensor) -> Tensor:
    """The separators' mass, (P, unknowns): what mu(rest | separator) makes of the roots', level by level."""
    s = batch.structure
    mass = s.roots.repeat(len(given), 1)
    for x in s.levels:
        mass.index_add_(1, x.state, given[:, x.cell] * mass[:, x.own])
    return mass


def _solved(batch: Batch, given: Tensor) -> Tensor:
    """The same for a deep tree: mass = roots + T mass, with T triangular in the order of the levels."""
    s = batch.structure
    order = np.concatenate([np.flatnonzero(s.roots.cpu().numpy()), _unique(s.levels.all.cells_state.cpu().numpy())])
    place = np.empty(len(s.roots), dtype=np.int64)
    place[order] = np.arange(len(order))
    row, column = (place[x.cpu().numpy()] for x in (s.levels.all.state, s.levels.all.own))
    unit = sp.identity(len(order), format="csc")
    found: list[np.ndarray] = []
    for x in given[:, s.levels.all.cell].cpu().numpy():
        system = unit - sp.csc_matrix((x, (row, column)), shape=unit.shape)
        right = s.roots.cpu().numpy()[order]
        found.append(splu(system, permc_spec="NATURAL", diag_pivot_thresh=0.0).solve(right)[place])
    return torch.from_numpy(np.stack(found)).to(given)


def _unique(x: np.ndarray) -> np.ndarray:
    """The different values, in the order in which they come first."""
    values, first = np.unique(x, return_index=True)
    return values[np.argsort(first, kind="stable")]
