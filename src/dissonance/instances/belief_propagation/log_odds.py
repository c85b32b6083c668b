"""Flooding of binary variables in log-odds: one number a message, one exponential and one logarithm an update."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from dissonance.instances.belief_propagation.sum_product import Edges, SumProduct

LIMITS = {torch.float64: (600.0, 1e-40), torch.float32: (60.0, 1e-10)}
"""Log-odds beyond which a message is certain, and how small an entry may be beside the largest: then all products are
still numbers."""


class Binary:
    """Messages u = log m(1)/m(0) of positive factors over one or two binary variables.

    X->a: v = sum of u over the others. a->X: u = log (phi(1,0) + phi(1,1) e^v) / (phi(0,0) + phi(0,1) e^v), sums of
    positive numbers only, so that no digits cancel.
    """

    @staticmethod
    def fits(plan: SumProduct) -> bool:
        """Whether a plan is of that kind."""
        return (
            plan.dtype in LIMITS
            and bool((plan.sizes == 2).all())
            and all(len(b.axes) <= 2 and b.tables.shape[:-1] == (2,) * len(b.axes) for b in plan.blocks)
            and all(bool((b.tables > LIMITS[plan.dtype][1] * b.tables.amax()).all()) for b in plan.blocks)
        )

    def __init__(self, plan: SumProduct) -> None:
        self.plan = plan
        self.places = plan.quick[2]
        count = self.places.edges
        partner = torch.empty(count, dtype=torch.long, device=plan.device)
        self.rows = plan.empty(4, count)  # phi(x, y) of the edge: 10, 11, 00, 01
        for (b, slot), span in self.places.spans.items():
            other = self.places.spans[b, 1 - slot]
            partner[span] = torch.arange(other.start, other.stop, device=plan.device)
            table = plan.blocks[b].tables
            table = table if plan.blocks[b].axes[slot] == (0,) else table.transpose(0, 1)
            self.rows[:, span] = torch.stack([table[1, 0], table[1, 1], table[0, 0], table[0, 1]])
        self.heard_from = self.places.back[partner]
        self.base = self._local()

    def _local(self) -> list[Tensor]:
        """For each group the log-odds that its regions are told by factors of their own, (N,)."""
        plan = self.plan
        total = plan.empty(len(plan.sizes)).zero_()
        for b in plan.apart:
            table = plan.blocks[b].tables
            total.index_add_(0, plan.blocks[b].regions[0], table[1].log() - table[0].log())
        return [total[group.regions] for group in self.places.groups]

    def told(self, sweeps: int) -> Edges:
        """The messages to regions after so many sweeps."""
        plan, groups = self.plan, self.places.groups
        u = plan.empty(self.places.edges + 1).zero_()
        met = plan.empty(sum(len(g.index) for g in groups))
        starts = torch.tensor([0, *(len(g.index) for g in groups)]).cumsum(0).tolist()
        parts = [met[a:b].view(g.shape) for a, b, g in zip(starts, starts[1:], groups, strict=False)]
        flats = [met[a:b] for a, b in pairwise(starts)]
        sums = [plan.empty(g.shape[1]) for g in groups]
        v, above, below = (plan.empty(self.places.edges) for _ in range(3))
        live = [i for i, g in enumerate(groups) if g.degree]
        out, limit = u[:-1], LIMITS[plan.dtype][0]
        for sweep in range(sweeps):
            for i in live:
                torch.index_select(u, 0, groups[i].index, out=flats[i])
                torch.sum(parts[i], 0, out=sums[i])
                if sweep:
                    sums[i].add_(self.base[i])
                torch.sub(sums[i], parts[i], out=parts[i])
            torch.index_select(met, 0, self.heard_from, out=v)
            v.clamp_(-limit, limit).exp_()
            torch.addcmul(self.rows[0], self.rows[1], v, out=above)
            torch.addcmul(self.rows[2], self.rows[3], v, out=below)
            torch.div(above, below, out=out)
            out.log_()
        found = {key: _pair(u[span]) for key, span in self.places.spans.items()}
        for b in plan.apart:
            table = plan.blocks[b].tables
            found[b, 0] = table / table.sum(0)
        return found


def _pair(u: Tensor) -> Tensor:
    return torch.stack([torch.sigmoid(-u), torch.sigmoid(u)])
