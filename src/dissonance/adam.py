"""Adam's moments: what the published runs, renewed descents and GFlowNets trained side by side have in common.

torch.optim has the same for one run; importing it takes seconds, and it has one beta2 for all.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BETA1 = 0.9


@dataclass
class Adam:
    """m <- .9 m + .1 g, v <- beta2 v + (1 - beta2) g^2; the direction is m^ / (sqrt v^ + eps), with ^ unbiased.

    `steps`: how many were taken; on a device it is a tensor there.
    """

    mean: Tensor
    square: Tensor
    steps: int | Tensor = 0
    beta2: float | Tensor = 0.999
    eps: float = 1e-8

    @classmethod
    def fresh(cls, like: Tensor, eps: float = 1e-8) -> Adam:
        """No steps taken yet."""
        return cls(torch.zeros_like(like), torch.zeros_like(like), eps=eps)

    @torch.no_grad()
    def direction(self, gradient: Tensor) -> Tensor:
        """Take the gradient in; what a rate of 1 would subtract."""
        self.steps += 1
        self.mean.lerp_(gradient, 1 - BETA1)
        self.square.mul_(self.beta2).add_(gradient.square() * (1 - self.beta2))
        if isinstance(self.beta2, Tensor):
            unbiased = self.square / (1 - self.beta2.double() ** self.steps).to(self.square.dtype)
        else:
            unbiased = self.square / (1 - self.beta2**self.steps)
        return self.mean / (1 - BETA1**self.steps) / unbiased.sqrt_().add_(self.eps)
