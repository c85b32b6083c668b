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
    written: Tensor  # how many trajectories of a run were ever added, on the device

    @classmethod
    def empty(cls, runs: int, capacity: int, longest: int, device: torch.device | str) -> Replay:
        """Room for so many trajectories a run."""
        return cls(
            Trajectories.empty(runs, capacity, longest, device), torch.zeros((), dtype=torch.int64, device=device)
        )

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
        filled = torch.arange(self.capacity, device=uniform.device) < self.written
        return self.kept.at(torch.where(filled, uniform, -1).topk(count, dim=1).indices)

    def state(self) -> dict[str, Any]:
        """What is kept, in little room: the moves tell the states."""
        return {
            "moves": self.kept.moves.to(torch.int16).cpu(),
            "length": self.kept.length.cpu(),
            "written": int(self.written),
        }

    def restore(self, state: dict[str, Any], walk: Walk) -> None:
        """Walk the moves of a former state again."""
        self.kept.moves.copy_(state["moves"])
        self.kept.length.copy_(state["length"])
        self.written.fill_(state["written"])
        here = torch.full_like(self.kept.length, walk.start)
        for t, move in enumerate(self.kept.moves.unbind(2)):
            self.kept.states[:, :, t] = torch.where(t < self.kept.length, here, 0).int()
            here = walk.after[here, move.long().clamp(max=walk.exit - 1)]
