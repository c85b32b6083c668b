"""Trajectories of several runs, and their transitions laid end to end."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dissonance.gflownets.walk import Walk

BLOCK = 128  # rows are padded to a multiple of it


def padded(rows: int, to: int = BLOCK) -> int:
    """The least multiple that holds so many rows."""
    return -(-rows // to) * to


@dataclass(frozen=True)
class Trajectories:
    """Trajectories tau of several runs: transition t leaves `states[t]` by `moves[t]`; the last one is the exit.

    What lies beyond `length` = |tau| has no meaning.
    """

    states: Tensor  # (runs, trajectories, longest) int32
    moves: Tensor  # (runs, trajectories, longest) int32
    length: Tensor  # (runs, trajectories) int64

    @classmethod
    def empty(cls, runs: int, count: int, longest: int, device: torch.device | str) -> Trajectories:
        """Room for so many trajectories a run."""
        states = torch.zeros(runs, count, longest, dtype=torch.int32, device=device)
        return cls(states, torch.zeros_like(states), torch.ones(runs, count, dtype=torch.int64, device=device))

    def copy_(self, other: Trajectories) -> None:
        """Become these trajectories, in the same place."""
        self.states.copy_(other.states)
        self.moves.copy_(other.moves)
        self.length.copy_(other.length)

    def most(self) -> Tensor:
        """How many transitions the run has that has the most."""
        return self.length.sum(1).max()

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
class TransitionRows:
    """All transitions of each run, one after the other; runs with fewer are padded by rows that count for nothing."""

    states: Tensor  # (runs, rows) int32
    moves: Tensor  # (runs, rows) int32
    undone: Tensor  # (runs, rows) int32: the backward move to the state before; -1 at the start of a trajectory
    place: Tensor  # (runs, rows) int64: trajectory * longest + t; one more than the last of these for padding
    real: Tensor  # (runs,) int32: rows that are not padding
    shape: tuple[int, int]  # trajectories, longest

    @classmethod
    def of(cls, walk: Walk, tau: Trajectories, rows: int | None = None) -> TransitionRows:
        """The transitions of these trajectories, padded to so many rows if given, else to as few as there must be."""
        runs, count, longest = tau.states.shape
        ends = tau.length.cumsum(1)
        rows = padded(int(tau.most())) if rows is None else rows
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
        return cls(states, moves, undone.int(), place, ends[:, -1].int(), (count, longest))

    def grid(self, values: Tensor) -> Tensor:
        """The same by trajectory and transition, 0 beyond the end: (runs, rows) to (runs, trajectories, longest)."""
        count, longest = self.shape
        found = values.new_zeros(len(values), count * longest + 1).scatter(1, self.place, values)
        return found[:, :-1].reshape(-1, count, longest)

    def total(self, values: Tensor) -> Tensor:
        """Sums over the transitions of each trajectory: (runs, rows) to (runs, trajectories)."""
        return self.grid(values).sum(-1)
