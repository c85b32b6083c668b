"""Proofs, for many problems at once: bounds from any primal and dual guess, independent of how it was found.

lower   For any conditionals q and multipliers lam of the hard arcs, with
            g(x) = sum_a [ W_a log q_a(t|s) + c_a ](x) - (lam - sum_t p lam)(x)
        every feasible mu costs at least min_x g(x) (gamma = 0), or -gamma log sum_x exp(-g(x)/gamma).
        Both are one pass over the tree.
upper   The incompatibility of a mu whose clusters agree exactly: mu(rest | separator) is carried down the tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dissonance.solvers.base import FEASIBLE
from dissonance.solvers.batch import Batch, Tables, log_softmax

EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class Bounds:
    """lower <= inconsistency <= upper, (P,) each, with the agreeing clusters that prove the upper one, by group.

    `residual`: how far hard arcs are from holding exactly; the upper bound includes its first-order price.
    """

    lower: Tensor
    upper: Tensor
    mu: list[Tensor]
    residual: Tensor

    @property
    def gap(self) -> Tensor:
        """upper - lower."""
        return self.upper - self.lower


def certify(batch: Batch, mu: Tensor, l: Tables, lam: Tables) -> Bounds:  # noqa: E741
    """Bounds from approximate clusters, conditionals and multipliers."""
    clusters = agree(batch, mu)
    value = batch.objective(clusters)
    price, residual = torch.zeros_like(value), torch.zeros_like(value)
    _, hard = batch.misfit(clusters)
    for y, miss in ((y, x) for ys, xs in zip(lam, hard, strict=True) for y, x in zip(ys, xs, strict=True)):
        price += (y.abs() * miss.abs()).sum((1, 2, 3))
        residual = torch.maximum(residual, miss.abs().amax((1, 2, 3)))
    weight = torch.ones_like(value)
    for x, c in zip(clusters, batch.structure.split(batch.c), strict=True):
        weight += (x * c.abs()).sum((1, 2))
    for W in (w for ws in batch.W for w in ws):
        weight += W.sum((1, 2, 3))
    rounding = 32 * EPS * weight
    return Bounds(lower(batch, l, lam) - rounding, value + price + rounding, clusters, residual)


def lower(batch: Batch, l: Tables, lam: Tables) -> Tensor:  # noqa: E741
    """A lower bound from any conditionals and any multipliers of the hard arcs, (P,)."""
    log_q = log_softmax(l)
    if batch.structure.structural:  # the soft minimum does better than any guess of mu(rest | separator)
        log_q = [[*qs[:-1], torch.zeros_like(qs[-1])] for qs in log_q]
    cost = batch.slack(log_q, _nothing(batch), lam)
    for i, g in enumerate(batch.structure.groups):  # what rounding may have added to the cost of a cell
        size = batch.c[:, g.cells].abs()
        for role, W, lq in zip(g.terms, batch.W[i], log_q[i], strict=True):
            size = size + role.spread(W * lq.abs())
        for role, p, y in zip(g.hard, batch.p[i], lam[i], strict=True):
            size = size + role.spread(y.abs() + (p * y.abs()).sum(-1, keepdim=True))
        cost[i] = cost[i] - 8 * EPS * size
    return aggregate(batch, cost, batch.gamma)


def contradiction(batch: Batch, lam: Tables) -> Tensor:
    """Whether these multipliers prove the hard arcs unsatisfiable, (P,): the Farkas form of the lower bound.

    If -(lam - sum_t p lam) > 0 at every joint state, no mu makes its mean 0.
    """
    size = torch.zeros_like(batch.gamma)
    for x in (y for ys in lam for y in ys):
        size = torch.maximum(size, x.abs().amax((1, 2, 3)))
    scaled = [[y / size.clamp(min=1e-300)[:, None, None, None] for y in ys] for ys in lam]
    bare = replace(batch, c=torch.zeros_like(batch.c))
    flat = [[torch.zeros_like(x) for x in xs] for xs in batch.start]
    least = aggregate(batch, bare.slack(flat, _nothing(batch), scaled), torch.zeros_like(batch.gamma))
    return torch.isfinite(size) & (size > 0) & (least > FEASIBLE)


def _nothing(batch: Batch) -> list[Tensor]:
    return [batch.c.new_zeros(len(batch), g.count, g.separator.rows) for g in batch.structure.groups]


def aggregate(batch: Batch, cost: Sequence[Tensor], gamma: Tensor) -> Tensor:
    """min over joint states of the summed cluster costs, or -gamma log sum exp(-cost/gamma), (P,)."""
    s = batch.structure
    cost = batch.masked([x.clone() for x in cost], math.inf)
    total = torch.zeros_like(gamma)
    soft = bool((gamma > 0).any())
    scale = torch.where(gamma > 0, gamma, 1.0)[:, None, None]
    for b in s.blocks:
        role = s.groups[b.group].separator
        x = cost[b.group][:, b.members]
        state = (role.cell // role.width).expand_as(x)
        least = x.new_full((*x.shape[:2], role.rows), math.inf).scatter_reduce(2, state, x, "amin")
        if soft:
            top = torch.where(least == math.inf, 0.0, least)
            mass = torch.exp((top.gather(2, state) - x) / scale) @ role.row_sums
            least = torch.where(
                (mass > 0) & (gamma > 0)[:, None, None], top - scale * mass.clamp(min=1e-300).log(), least
            )
        if b.parent_group < 0:
            total += least.sum((1, 2))
        else:
            s.to_parents(b, least, cost)
    return total


def agree(batch: Batch, mu: Tensor) -> list[Tensor]:
    """Clusters that agree exactly: each mu(rest | separator) times the parents' separator mass; roots of mass 1."""
    s = batch.structure
    parts = batch.masked([x.clamp(min=0.0) for x in s.split(mu)], 0.0)
    live = batch.masked([torch.ones_like(x) for x in parts], 0.0)
    for b in reversed(s.blocks):
        role = s.groups[b.group].separator
        x = parts[b.group][:, b.members]
        found = x @ role.row_sums
        wanted = torch.ones_like(found) if b.parent_group < 0 else s.above(b, parts)
        state = role.cell // role.width
        empty = ((found <= 0) & (wanted > 0))[..., state]
        x = torch.where(empty, live[b.group][:, b.members], x)
        found = x @ role.row_sums
        parts[b.group][:, b.members] = x * (wanted / torch.where(found > 0, found, 1.0))[..., state]
    return parts
