"""A single gradient step."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dissonance.lir.flows.base import Movement
from dissonance.lir.local import Local
from dissonance.lir.parameters import Stacked


@dataclass(frozen=True)
class Step:
    """A single gradient step theta - chi grad: what every flow comes to for small chi."""

    name: str = "step"

    def __call__(self, local: Local, theta: Stacked) -> Movement:
        """One step of length chi."""
        chi = local.chi
        if chi.number is not None:
            (slope,) = local.slopes(theta)
            before, along = [theta[k] for k in chi.free], [slope[k] for k in chi.free]
            after = torch._foreach_sub(before, along, alpha=chi.number)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
            moved = dict(zip(chi.free, after, strict=True))
        else:
            slope = local.slope(theta)
            moved = {k: torch.addcmul(theta[k], chi.narrow[k], slope[k], value=-1.0) for k in chi.free}
        return Movement.settled(local.parameters, theta, moved)
