"""AdamW for several runs at once, each with its own rates and clip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dissonance.adam import Adam


@dataclass(frozen=True)
class Rates:
    """The hyperparameters of each run, (runs, 1)."""

    learning: Tensor
    beta2: Tensor
    clip: Tensor  # greatest norm of the gradient over all parameters
    log_z: Tensor  # how many times faster log Z learns
    decay: Tensor  # weight decay

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[float]], device: torch.device | str) -> Rates:
        """Rates from lists of numbers, one a run."""
        return cls(**{k: torch.tensor(v, dtype=torch.float32, device=device).unsqueeze(1) for k, v in columns.items()})


@dataclass
class AdamW:
    """`torch.optim.AdamW` after `clip_grad_norm_`, on parameters (runs, size) of which the last is log Z."""

    rates: Rates
    adam: Adam
    steps: Tensor  # taken so far, on the device

    @classmethod
    def fresh(cls, rates: Rates, theta: Tensor) -> AdamW:
        """No steps taken yet."""
        steps = torch.zeros((), dtype=torch.float64, device=theta.device)
        return cls(rates, Adam(torch.zeros_like(theta), torch.zeros_like(theta), steps, rates.beta2), steps)

    @torch.no_grad()
    def step(self, theta: Tensor, gradient: Tensor, share: Tensor | float) -> Tensor:
        """Move theta in place, at this share of the learning rates; return which runs could (finite gradients)."""
        rates = self.rates
        norm = gradient.norm(dim=1, keepdim=True)
        fine = norm.isfinite()
        gradient = torch.where(fine, gradient * (rates.clip / (norm + 1e-6)).clamp(max=1), 0)
        rate = (rates.learning * share).expand_as(theta).clone()
        rate[:, -1:] *= rates.log_z
        change = self.adam.direction(gradient) + rates.decay * theta
        theta.sub_(torch.where(fine, rate * change, 0))
        return fine.squeeze(1)
