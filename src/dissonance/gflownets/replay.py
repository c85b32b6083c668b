"""Replay: the latest trajectories of each run, some of which are trained on again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dissonance.gflownets.trajectories import Trajectories
from dissonance.gflownets.walk import Walk


@dataclass
class Replay:
    """The last `capacity` trajectories of each run; the oldest are overwritten first."""

    kept: Trajectories
    written: int = 0

    @classmethod
    def empty(cls, runs: int, capacity: int, longest: int, device: torch.device | str) -> Replay:
        """Room for so many trajectories a run."""
        states = torch.zeros(runs, capacity, longest, dtype=torch.int32, device=device)
        return cls(Trajectories(states, torch.zeros_like(states), torch.ones_like(states[..., 0], dtype=torch.int64)))

    @property
    def capacity(self) -> int:
        """How many trajectories of a run are kept at most."""
        return self.kept.length.shape[1]

    def add(self, tau: Trajectories) -> None:
        """Keep these trajectories, in place of the oldest."""
        count = tau.length.shape[1]
        at = (self.written + torch.arange(count, device=tau.length.device)) % self.capacity
        self.kept.states[:, at] = tau.states
        self.kept.moves[:, at] = tau.moves
        self.kept.length[:, at] = tau.length
        self.written += count

    def draw(self, count: int, uniform: Tensor) -> Trajectories:
        """Trajectories kept, drawn without replacement by the largest of the uniform numbers (runs, capacity)."""
        full = min(self.written, self.capacity)
        return self.kept.at(uniform[:, :full].topk(count, dim=1).indices)

    def state(self) -> dict[str, Any]:
        """What is kept, in little room: the moves tell the states."""
        return {
            "moves": self.kept.moves.to(torch.int16).cpu(),
            "length": self.kept.length.cpu(),
            "written": self.written,
        }

    def restore(self, state: dict[str, Any], walk: Walk) -> None:
        """Walk the moves of a former state again."""
        self.kept.moves.copy_(state["moves"])
        self.kept.length.copy_(state["length"])
        self.written = state["written"]
        here = torch.full_like(self.kept.length, walk.start)
        for t, move in enumerate(self.kept.moves.unbind(2)):
            self.kept.states[:, :, t] = torch.where(t < self.kept.length, here, 0).int()
            here = walk.after[here, move.long().clamp(max=walk.exit - 1)]
