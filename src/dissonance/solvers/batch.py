"""The numbers of many problems of one structure, and the few formulas that define them.

    minimise   c . mu + sum_k W_k m_k log(m_k / s_k)     m = mu(s,t), s = mu(s), for every mechanism; and gamma -H(mu)
    subject to neighbours that agree on their separator, roots of mass 1, hard arcs that hold, mu >= 0

Dual variables: l (q = softmax of l along its row), d (separators; the mass at a root), lam (hard arcs), with

    slack = c + W log q + sum_children d_c - d - (lam - sum_t p lam)  >= 0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dissonance.distributions.tree import Tree
from dissonance.numerics import DTYPE
from dissonance.problem import Array, Attended, Component, Mechanism
from dissonance.solvers.structure import Structure, arrange
from dissonance.solvers.support import settings

Tables = list[list[Tensor]]
"""By group, by term (or hard arc): (P, count, rows, width)."""


@dataclass(frozen=True)
class Batch:
    """P problems of one structure. `alive` (P, cells) says which cells may carry mass; None if all may.

    `W` by group, by term: (P, count, 1, 1); `p` by group, by hard arc; `start` first guesses of l, -inf where dead.
    """

    structure: Structure
    c: Tensor
    alive: Tensor | None
    W: Tables
    p: Tables
    start: Tables
    gamma: Tensor

    def __len__(self) -> int:
        return len(self.c)

    def take(self, keep: Tensor) -> Batch:
        """Some of the problems."""
        return replace(
            self,
            c=self.c[keep],
            alive=None if self.alive is None else self.alive[keep],
            W=_take(self.W, keep),
            p=_take(self.p, keep),
            start=_take(self.start, keep),
            gamma=self.gamma[keep],
        )

    def slack(self, log_q: Tables, d: Sequence[Tensor], lam: Tables) -> list[Tensor]:
        """By group, (P, count, n); 1 at dead cells."""
        s = self.structure
        parts = s.split(self.c)
        for i, g in enumerate(s.groups):
            x = parts[i] - d[i][..., g.separator.cell // g.separator.width]
            for role, W, lq in zip(g.terms, self.W[i], log_q[i], strict=True):
                x += role.spread(W * lq)
            for role, p, y in zip(g.hard, self.p[i], lam[i], strict=True):
                x -= role.spread(y - (p * y).sum(-1, keepdim=True))
            parts[i] = x
        for b in s.links:
            s.to_parents(b, d[b.group][:, b.members], parts)
        return self.masked(parts, 1.0)

    def masked(self, parts: list[Tensor], value: float) -> list[Tensor]:
        """The same with `value` at dead cells."""
        if self.alive is None:
            return parts
        return [torch.where(a, x, value) for a, x in zip(self.structure.split(self.alive), parts, strict=True)]

    def misfit(self, mu: Sequence[Tensor], mass: float = 1.0) -> tuple[list[Tensor], Tables]:
        """How far mu is from its equations: separators (at roots, the mass) by group, hard arcs by group."""
        s = self.structure
        own = [x @ g.separator.row_sums for x, g in zip(mu, s.groups, strict=True)]
        miss = [torch.empty_like(x) for x in own]
        for b in s.links:
            wanted = mass if b.parent_group < 0 else s.above(b, mu)
            miss[b.group][:, b.members] = wanted - own[b.group][:, b.members]
        hard: Tables = []
        for i, g in enumerate(s.groups):
            hard.append([])
            for role, p in zip(g.hard, self.p[i], strict=True):
                m = role.collect(mu[i])
                hard[i].append(p * m.sum(-1, keepdim=True) - m)
        return miss, hard

    def objective(self, mu: Sequence[Tensor]) -> Tensor:
        """The incompatibility of clusters that agree, (P,)."""
        total = torch.zeros_like(self.gamma)
        for x, c in zip(mu, self.structure.split(self.c), strict=True):
            total += (x * c).sum((1, 2))
        for i, g in enumerate(self.structure.groups):
            for role, W in zip(g.terms, self.W[i], strict=True):
                m = role.collect(mu[i])
                ratio = torch.where(m > 0, m / m.sum(-1, keepdim=True), 1.0)
                total += (W * m * ratio.log()).sum((1, 2, 3))
        return total


def _take(tables: Tables, keep: Tensor) -> Tables:
    return [[x[keep] for x in xs] for xs in tables]


def log_softmax(l: Tables) -> Tables:  # noqa: E741 - the letter of the formula
    """log q along the rows; 0 at dead terms."""
    found: Tables = []
    for tables in l:
        found.append([])
        for x in tables:
            top = x.logsumexp(-1, keepdim=True)
            found[-1].append(torch.where(x == -math.inf, 0.0, x - torch.where(top == -math.inf, 0.0, top)))
    return found


@dataclass(frozen=True)
class Arcs:
    """The arcs of P problems of one structure: log p (P, sources..., targets...) each, beta and alpha (P, arcs).

    Which arcs are hard is part of the structure: beta = inf in all problems or in none.
    """

    like: Component
    log_p: list[Array]
    beta: Array
    alpha: Array
    gamma: Array

    @classmethod
    def of(cls, components: Sequence[Component]) -> Arcs:
        """Components with the same arcs, variables and hardness."""
        like = components[0]
        return cls(
            like,
            [np.stack([c.arcs[j].log_p for c in components]) for j in range(len(like.arcs))],
            np.array([[a.beta for a in c.arcs] for c in components]).reshape(len(components), -1),
            np.array([[a.alpha for a in c.arcs] for c in components]).reshape(len(components), -1),
            np.array([c.gamma for c in components]),
        )

    def structure(self, tree: Tree) -> Structure:
        """The structure these problems share on a tree."""
        mechanisms = [(a.sources, a.targets) for a in self.soft().values()]
        hard = [(a.sources, a.targets) for a in self.like.arcs if a.hard]
        return arrange(tree, mechanisms, hard, bool((self.gamma > 0).any()))

    def soft(self) -> dict[Mechanism, Attended]:
        """The first soft arc of each mechanism that no hard arc fixes: these carry an entropy term."""
        fixed = {a.mechanism for a in self.like.arcs if a.hard}
        return {a.mechanism: a for a in reversed(self.like.arcs) if not a.hard and a.mechanism not in fixed}

    def batch(self, structure: Structure, device: torch.device | str = "cpu") -> tuple[Batch, Tensor]:
        """The numbers, and which of the problems have a joint state at all, (P,)."""
        s, P = structure, len(self.beta)
        c = np.zeros((P, s.cells))
        alive = np.ones((P, s.cells), dtype=np.bool_)
        W = [[np.zeros((P, g.count)) for _ in g.terms] for g in s.groups]
        start = [[np.zeros((P, g.count, r.rows, r.width)) for r in g.terms] for g in s.groups]
        p = [[np.zeros((P, g.count, r.rows, r.width)) for r in g.hard] for g in s.groups]
        soft = self.soft()
        place = dict(zip(soft, s.mechanism_places, strict=True))
        fixed = {a.mechanism: j for j, a in reversed(list(enumerate(self.like.arcs))) if a.hard}
        hard_places = iter(s.hard_places)
        for j, a in enumerate(self.like.arcs):
            home = s.tree.home(a.scope)
            assert home is not None
            here = slice(int(s.offsets[home]), int(s.offsets[home + 1]))
            at = settings(s.tree, home, a.scope)
            log_p = self.log_p[j]
            beta, weight = self.beta[:, j], self.beta[:, j] - self.gamma * self.alpha[:, j]
            zero = np.isneginf(log_p)
            if zero.any():
                alive[:, here] &= ~(zero & _over(beta > 0, log_p)).reshape(P, -1)[:, at]
                log_p = np.where(zero, 0.0, log_p)  # dead, or not attended: it costs nothing either way
            c[:, here] += _times(self.gamma * self.alpha[:, j] if a.hard else beta, -log_p).reshape(P, -1)[:, at]
            if a.hard:
                g, member, which = next(hard_places)
                p[g][which][:, member] = np.exp(self.log_p[j]).reshape(p[g][which][:, member].shape)
            elif a.mechanism in fixed:
                hard = self.like.arcs[fixed[a.mechanism]]
                order = (0, *(1 + hard.scope.index(v) for v in a.scope))
                log_hard = self.log_p[fixed[a.mechanism]].transpose(order)
                log_hard = np.where(np.isneginf(log_hard), 0.0, log_hard)
                c[:, here] += _times(weight, log_hard).reshape(P, -1)[:, at]
            else:
                g, member, which = place[a.mechanism]
                W[g][which][:, member] += weight
                if soft[a.mechanism] is a:
                    guess = np.log(0.9 * np.exp(self.log_p[j]) + 0.05)
                    start[g][which][:, member] = guess.reshape(start[g][which][:, member].shape)
        if s.structural:
            for row in W:
                row[-1] += self.gamma[:, None]
        made = Batch(
            s if torch.device(device).type == "cpu" else s.to(device),
            torch.from_numpy(np.where(alive, c, 0.0)).to(device),
            None if alive.all() else torch.from_numpy(alive).to(device),
            [[torch.from_numpy(x)[..., None, None].to(device) for x in row] for row in W],
            [[torch.from_numpy(x).to(device) for x in row] for row in p],
            [[torch.from_numpy(x).to(device) for x in row] for row in start],
            torch.from_numpy(self.gamma).to(device),
        )
        return propagate(made)


def alike(component: Component) -> object:
    """A key that components have in common when they differ in their numbers only."""
    arcs = tuple((a.sources, a.targets, a.log_p.shape, a.hard) for a in component.arcs)
    return tuple(component.sizes.items()), arcs, component.gamma > 0


def _over(x: npt.NDArray[Any], table: Array) -> npt.NDArray[Any]:
    """One number a problem, shaped to broadcast over its table."""
    return x.reshape(-1, *[1] * (table.ndim - 1))


def _times(weight: Array, log_p: Array) -> Array:
    """One weight a problem times its table."""
    return _over(weight, log_p) * log_p


def propagate(batch: Batch) -> tuple[Batch, Tensor]:
    """Drop the cells that no possible joint state uses; and which problems have any joint state left.

    A cell goes when a neighbour has nothing to match it, or when it sets the sources of a hard arc so that some value
    the arc insists on is gone.
    """
    if batch.alive is None:
        return batch, torch.ones(len(batch), dtype=torch.bool, device=batch.c.device)
    s = batch.structure
    alive = [x.to(DTYPE) for x in s.split(batch.alive)]
    while True:
        before = sum(float(x.sum()) for x in alive)
        for b in s.blocks:
            if b.parent_group >= 0:
                seen = (alive[b.group][:, b.members] @ s.groups[b.group].separator.row_sums) > 0
                parents = alive[b.parent_group]
                lost = torch.zeros_like(parents).index_add_(1, b.parents, (~seen).to(DTYPE)[..., b.above])
                alive[b.parent_group] = torch.where(lost > 0, 0.0, parents)
        for b in reversed(s.blocks):
            if b.parent_group >= 0:
                seen = s.above(b, alive) > 0
                role = s.groups[b.group].separator
                alive[b.group][:, b.members] *= seen[..., role.cell // role.width].to(DTYPE)
        for i, g in enumerate(s.groups):
            for role, p in zip(g.hard, batch.p[i], strict=True):
                broken = ((p > 0) & (role.collect(alive[i]) == 0)).any(-1)
                alive[i] = torch.where(broken[..., role.cell // role.width], 0.0, alive[i])
        if sum(float(x.sum()) for x in alive) == before:
            break
    some = torch.stack([(x.sum(-1) > 0).all(-1) for x in alive]).all(0)
    start = [
        [torch.where(role.collect(x) > 0, y, -math.inf) for role, y in zip(g.terms, ys, strict=True)]
        for g, x, ys in zip(s.groups, alive, batch.start, strict=True)
    ]
    return replace(batch, alive=s.join(alive) > 0, start=start), some
