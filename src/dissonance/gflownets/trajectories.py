"""Trajectories of several runs, and their transitions laid end to end."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dissonance.gflownets.walk import Walk

BLOCK = 128  # rows are padded to a multiple of it


@dataclass(frozen=True)
class Trajectories:
    """Trajectories tau of several runs: transition t leaves `states[t]` by `moves[t]`; the last one is the exit.

    What lies beyond `length` = |tau| has no meaning.
    """

    states: Tensor  # (runs, trajectories, longest) int32
    moves: Tensor  # (runs, trajectories, longest) int32
    length: Tensor  # (runs, trajectories) int64

    def at(self, where: Tensor) -> Trajectories:
        """The trajectories at these places of each run, (runs, n)."""
        index = where.unsqueeze(-1).expand(-1, -1, self.states.shape[-1])
        return Trajectories(self.states.gather(1, index), self.moves.gather(1, index), self.length.gather(1, where))

    def ends(self) -> Tensor:
        """The state each trajectory exits from, (runs, trajectories)."""
        return self.states.gather(2, (self.length - 1).unsqueeze(-1)).squeeze(-1).long()

    def log_rewards(self, walk: Walk) -> Tensor:
        """log R of where each trajectory ends, (runs, trajectories)."""
        return walk.log_reward[walk.reward.unsqueeze(1), self.ends()]

    def replaced(self, at: int, by: Trajectories) -> Trajectories:
        """These trajectories, with those from place `at` on replaced."""

        def joined(mine: Tensor, other: Tensor) -> Tensor:
            return torch.cat([mine[:, :at], other], 1)

        return Trajectories(
            joined(self.states, by.states), joined(self.moves, by.moves), joined(self.length, by.length)
        )


@dataclass(frozen=True)
class Rows:
    """All transitions of each run, one after the other; runs with fewer are padded by rows that count for nothing."""

    states: Tensor  # (runs, rows) int32
    moves: Tensor  # (runs, rows) int32
    undone: Tensor  # (runs, rows) int32: the backward move to the state before; -1 at the start of a trajectory
    place: Tensor  # (runs, rows) int64: trajectory * longest + t; one more than the last of these for padding
    shape: tuple[int, int]  # trajectories, longest

    @classmethod
    def of(cls, walk: Walk, tau: Trajectories) -> Rows:
        """The transitions of these trajectories."""
        runs, count, longest = tau.states.shape
        ends = tau.length.cumsum(1)
        rows = -(-int(ends[:, -1].max()) // BLOCK) * BLOCK
        at = torch.arange(rows, device=ends.device).expand(runs, rows).contiguous()
        which = torch.searchsorted(ends, at, right=True).clamp_(max=count - 1)
        t = at - (ends - tau.length).gather(1, which)
        real = at < ends[:, -1:]
        place = torch.where(real, which * longest + t, count * longest)
        inside = place.clamp(max=count * longest - 1)
        states = torch.where(real, tau.states.flatten(1).gather(1, inside), walk.start)
        moves = torch.where(real, tau.moves.flatten(1).gather(1, inside), walk.exit)
        came = walk.undo[states.roll(1, 1), moves.roll(1, 1).clamp(max=walk.exit - 1)]
        undone = torch.where(real & (t > 0), came, -1)
        return cls(states, moves, undone.int(), place, (count, longest))

    def total(self, values: Tensor) -> Tensor:
        """Sums over the transitions of each trajectory: (runs, rows) to (runs, trajectories)."""
        count, longest = self.shape
        grid = values.new_zeros(len(values), count * longest + 1).scatter(1, self.place, values)
        return grid[:, :-1].reshape(-1, count, longest).sum(-1)
