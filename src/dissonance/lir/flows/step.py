"""A single gradient step."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dissonance.lir.flows.base import Flow, Moved, State
from dissonance.lir.local import Local
from dissonance.lir.parameters import Stacked


@dataclass(frozen=True)
class Step(Flow):
    """A single gradient step theta - chi grad: what every flow comes to for small chi."""

    name: str = "step"

    def step(self, local: Local, theta: Stacked, state: State | None = None) -> Moved:
        """Return theta after one step of length chi."""
        if local.number is not None:
            (slope,) = local.slopes(theta)
            before, along = [theta[k] for k in local.free], [slope[k] for k in local.free]
            after = torch._foreach_sub(before, along, alpha=local.number)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
            moved = dict(zip(local.free, after, strict=True))
        else:
            slope = local.slope(theta)
            moved = {k: torch.addcmul(theta[k], local.narrow[k], slope[k], value=-1.0) for k in local.free}
        return Moved.settled(local.parameters, theta, moved)
