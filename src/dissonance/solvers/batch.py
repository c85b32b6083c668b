"""The numbers of many problems of one structure, and the few formulas that define them.

    minimise   c . mu + sum_k W_k m_k log(m_k / s_k)     m = mu(s,t), s = mu(s), for every mechanism; and gamma -H(mu)
    subject to neighbours that agree on their separator, roots of mass 1, hard arcs that hold, mu >= 0

Dual variables: l (log q, every row of q sums to 1), d (separators; the mass at a root), lam (hard arcs), with

    slack = c + W l + sum_children d_c - d - (lam - sum_t p lam)  >= 0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dissonance.distributions.tree import Tree
from dissonance.numerics import DTYPE
from dissonance.problem import Component
from dissonance.solvers.arrange import arrange
from dissonance.solvers.structure import Structure

TINY = 1e-300


@dataclass(frozen=True)
class Arcs:
    """The arcs of P problems of one structure: log p (P, entries), one arc after another, (sources..., targets...) in C
    order; beta and alpha (P, arcs); gamma (P,).

    Which arcs are hard is part of the structure: beta = inf in all problems or in none.
    """

    log_p: Tensor
    beta: Tensor
    alpha: Tensor
    gamma: Tensor

    @classmethod
    def of(cls, components: Sequence[Component]) -> Arcs:
        """Components with the same arcs, variables and hardness."""
        tables = [np.concatenate([a.log_p.reshape(-1) for a in c.arcs]) for c in components]
        return cls(
            torch.from_numpy(np.stack(tables)),
            torch.tensor([[a.beta for a in c.arcs] for c in components], dtype=DTYPE),
            torch.tensor([[a.alpha for a in c.arcs] for c in components], dtype=DTYPE),
            torch.tensor([c.gamma for c in components], dtype=DTYPE),
        )

    def to(self, device: torch.device | str) -> Arcs:
        """The same on a device."""
        return Arcs(*(x.to(device) for x in vars(self).values()))

    def batch(self, s: Structure) -> tuple[Batch, Tensor]:
        """The numbers as the solver wants them, and which of the problems have a joint state at all, (P,)."""
        none = torch.where(s.is_hard, 0.0, self.beta - self.gamma[:, None] * self.alpha)
        weight = none.new_zeros(len(none), int(s.term_at.max()) + 2 if len(s.term_at) else 1)
        weight.index_add_(1, s.term_of.clamp(max=weight.shape[1] - 1), none)
        W = weight[:, s.term_at]
        if s.structural:
            W = W + torch.where(s.first == self.log_p.shape[1], self.gamma[:, None], 0.0)
        zero = self.log_p == -torch.inf
        some = bool(zero.any())
        log_p = torch.where(zero, 0.0, self.log_p) if some else self.log_p
        cost = -torch.where(s.is_hard, self.gamma[:, None] * self.alpha, self.beta)[:, s.arc_of] * log_p
        if s.fixed.numel():
            soft, hard = s.fixed
            cost[:, soft] += none[:, s.arc_of[soft]] * log_p[:, hard]
        p = self.log_p.exp()
        guess = torch.cat([0.9 * p + 0.05, p.new_ones(len(p), 1)], 1)[:, s.first]
        alive = None
        if some:
            dead = zero & (self.beta > 0)[:, s.arc_of]
            alive = s.arcs.back(dead.to(DTYPE)) == 0
            alive = None if bool(alive.all()) else alive
        c = s.arcs.back(cost)
        c = c if alive is None else torch.where(alive, c, 0.0)
        made = Batch(s, c, alive, None, W, p[:, s.hard_entry], (guess / s.rows.total(guess)).log(), self.gamma)
        return propagate(made)


@dataclass(frozen=True)
class Batch:
    """P problems of one structure. `alive` (P, cells) says which cells may carry mass, `seen` (P, soft) which entries;
    None if all may.

    `W` (P, soft) weights; `p` (P, hard) the hard tables; `start` (P, soft) first guesses of l.
    """

    structure: Structure
    c: Tensor
    alive: Tensor | None
    seen: Tensor | None
    W: Tensor
    p: Tensor
    start: Tensor
    gamma: Tensor

    def __len__(self) -> int:
        return len(self.c)

    def take(self, keep: Tensor) -> Batch:
        """Some of the problems."""
        return replace(self, **{k: v[keep] for k, v in vars(self).items() if isinstance(v, Tensor)})

    def lift(self, soft: Tensor, d: Tensor, lam: Tensor) -> Tensor:
        """What entries, separators and hard arcs add to the slack of every cell, (P, cells)."""
        if lam.shape[1]:
            lam = lam - self.structure.hard_rows.total(self.p * lam)
        return self.structure.incidence.back(torch.cat([soft, -lam, -d], 1))

    def slack(self, l: Tensor, d: Tensor, lam: Tensor) -> Tensor:  # noqa: E741 - the letter of the formula
        """(P, cells); 1 at dead cells."""
        return self.masked(self.c + self.lift(self.W * l, d, lam), 1.0)

    def masked(self, cells: Tensor, value: float) -> Tensor:
        """The same with `value` at dead cells."""
        return cells if self.alive is None else torch.where(self.alive, cells, value)

    def conditionals(self, l: Tensor) -> Tensor:  # noqa: E741
        """q = exp l, 0 at dead entries."""
        return l.exp() if self.seen is None else l.exp() * self.seen

    def normalised(self, l: Tensor) -> Tensor:  # noqa: E741
        """l with a constant added to every row so that q sums to 1; 0 at dead entries."""
        total = self.structure.rows.total(self.conditionals(l))
        return l - total.log() if self.seen is None else (l - total.clamp(min=TINY).log()) * self.seen

    def misfit(self, mu: Tensor, mass: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
        """m (P, soft), and how far mu is from its equations: separators (at roots, the mass), hard arcs."""
        s = self.structure
        m, hard, own = s.split(s.incidence.sums(mu))
        if hard.shape[1]:
            hard = self.p * s.hard_rows.total(hard) - hard
        return m, mass * s.roots - own, hard

    def objective(self, mu: Tensor) -> Tensor:
        """The incompatibility of clusters that agree, (P,)."""
        s = self.structure
        m = s.split(s.incidence.sums(mu))[0]
        total = s.rows.total(m)
        ratio = torch.where(m > 0, m / total.clamp(min=TINY), 1.0)
        return (mu * self.c).sum(-1) + (self.W * m * ratio.log()).sum(-1)


def padded(x: Tensor) -> Tensor:
    """(P, entries) with one more, 0: where entries that are not there point to."""
    return torch.cat([x, x.new_zeros(len(x), 1)], 1)


def alike(component: Component) -> object:
    """A key that components have in common when they differ in their numbers only."""
    arcs = tuple((a.sources, a.targets, a.log_p.shape, a.hard) for a in component.arcs)
    return tuple(component.sizes.items()), arcs, component.gamma > 0


_RECENT: dict[object, Structure] = {}
_KEPT, _CELLS = 256, 1_000_000
"""How many structures are kept for the next solve, and how many cells they may have together."""


MANY = 128
"""Problems from which on a batch is large."""


def structure(component: Component, tree: Tree, count: int = 1, device: str = "cpu") -> Structure:
    """The structure of `count` components on a tree; those used last are remembered."""
    key = alike(component), tree.clusters, tree.parent, count >= MANY, device
    found = _RECENT.pop(key, None)
    if found is None:
        arcs = [(a.sources, a.targets, a.hard) for a in component.arcs]
        found = arrange(tree, arcs, component.gamma > 0, count >= MANY).to(device)
    _RECENT[key] = found
    while len(_RECENT) > 1 and (len(_RECENT) > _KEPT or sum(x.cells for x in _RECENT.values()) > _CELLS):
        del _RECENT[next(iter(_RECENT))]
    return found


def forget() -> None:
    """Remember no structure."""
    _RECENT.clear()


def propagate(batch: Batch) -> tuple[Batch, Tensor]:
    """Drop the cells that no possible joint state uses; and which problems have any joint state left.

    A cell goes when a neighbour has nothing to match it, or when it sets the sources of a hard arc so that some value
    the arc insists on is gone.
    """
    if batch.alive is None:
        return batch, torch.ones(len(batch), dtype=torch.bool, device=batch.c.device)
    s = batch.structure
    live = batch.alive.to(DTYPE)
    while True:
        before = live.sum()
        seen = live.new_zeros(len(live), len(s.roots))
        for x in reversed(s.levels):  # up: a parent's cell needs a child's
            seen.index_add_(1, x.cells_state, live[:, x.cells])
            live.scatter_reduce_(1, x.cell.expand(len(live), -1), (seen[:, x.state] > 0).to(DTYPE), "amin")
        seen = torch.zeros_like(seen)
        for x in s.levels:  # down: a child's cell needs a parent's
            seen.index_add_(1, x.state, live[:, x.cell])
            live[:, x.cells] *= (seen[:, x.cells_state] > 0).to(DTYPE)
        if len(s.hard_entry):
            _, found, _ = s.split(s.incidence.sums(live))
            broken = s.hard_rows.total(((batch.p > 0) & (found == 0)).to(DTYPE))
            soft, _, unknowns = (torch.zeros_like(x) for x in s.split(s.incidence.sums(live)))
            live = torch.where(s.incidence.back(torch.cat([soft, broken, unknowns], 1)) > 0, 0.0, live)
        if live.sum() == before:
            break
    count = live.new_zeros(len(live), len(s.tree.clusters)).index_add_(1, s.cluster, live)
    m = s.split(s.incidence.sums(live))[0]
    seen = (m > 0).to(DTYPE)
    made = replace(batch, alive=live > 0, seen=seen)
    return replace(made, start=made.normalised(batch.start)), (count > 0).all(-1)
