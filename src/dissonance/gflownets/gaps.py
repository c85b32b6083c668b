"""Losses of transitions, for runs in training: gaps of balance by trajectory and transition, and a Balance of them.

The value of a `Balance` is E[ sum_i w_i gap_i / |tau| ] with the weights w = |tau| (A gap) that it gives to transitions
(`balance.py`); here the weights are differentiated like everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dissonance.gflownets import plain
from dissonance.gflownets.balance import Balance, FlowMatching
from dissonance.gflownets.policy import Parts
from dissonance.gflownets.trajectories import Trajectories, TransitionRows
from dissonance.gflownets.walk import Walk


@dataclass(frozen=True)
class GapLosses:
    """The balance of each run, None of those that have another loss."""

    balances: Sequence[Balance | None]

    @property
    def any(self) -> bool:
        """Whether some run has one."""
        return any(b is not None for b in self.balances)

    @property
    def flows(self) -> bool:
        """Whether some run needs a flow through states."""
        return any(b is not None and b.states for b in self.balances)

    def __call__(self, parts: Parts, walk: Walk, tau: Trajectories, rows: TransitionRows, others: Tensor) -> Tensor:
        """The losses of trajectories, (runs, trajectories): those given of the `others`."""
        forward, backward, flow = map(rows.grid, plain.transition_terms(parts, walk, rows))
        inside = rows.grid(torch.ones_like(rows.states, dtype=forward.dtype)) > 0
        at_exit = torch.arange(inside.shape[-1], device=inside.device) == (tau.length - 1).unsqueeze(-1)
        q = torch.full(tau.length.shape[1:], 1 / tau.length.shape[1], device=forward.device)
        log_reward, found = tau.log_rewards(walk), list[Tensor]()
        for k, balance in enumerate(self.balances):
            if balance is None:
                found.append(others[k])
                continue
            if isinstance(balance, FlowMatching):
                mine = {name: part[k : k + 1] for name, part in parts.items()}
                inflow = torch.zeros_like(forward[k : k + 1])
                later = inside[k : k + 1].clone()
                later[..., 0] = False
                inflow[later] = plain.log_inflow(mine, walk, tau.states[k : k + 1].long()[later][None])[0]
                gap = torch.where(at_exit[k], forward[k] + flow[k], _next((inflow - flow[k : k + 1])[0]))
            else:
                gap = forward[k] - _next(backward[k])
                if balance.states:
                    gap = gap + flow[k] - _next(flow[k])
            ends = log_reward[k] - (parts["log_z"][k] if balance.partition else 0.0)
            gap = torch.where(inside[k], gap - torch.where(at_exit[k], ends.unsqueeze(-1), 0.0), 0.0)
            weights = balance(gap, inside[k], q)
            found.append((torch.where(inside[k], weights, 0.0) * gap).sum(-1) / tau.length[k])
        return torch.stack(found)


def _next(x: Tensor) -> Tensor:
    """What the next transition has, 0 at the last: (..., longest)."""
    return torch.nn.functional.pad(x[..., 1:], (0, 1))
