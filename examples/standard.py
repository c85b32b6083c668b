"""Plain PyTorch that the examples compare themselves with: training, the standard attacks, training against them.

Nothing here knows of dissonance.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize


@torch.no_grad()
def accuracy(p: nn.Module, x: Tensor, y: Tensor) -> float:
    """The share of inputs that p gets right."""
    return float((p(x).argmax(-1) == y).double().mean())


def projected_ascent(p: nn.Module, x: Tensor, y: Tensor, radius: float, steps: int = 40) -> Tensor:
    """PGD in L2: ascend the cross-entropy by normalised gradients, and go back into the ball around x."""
    moved = torch.zeros_like(x)
    for _ in range(steps):
        moved.requires_grad_()
        (slope,) = torch.autograd.grad(cross_entropy(p(x + moved), y, reduction="sum"), moved)
        moved = moved.detach() + 2.5 * radius / steps * normalize(slope, dim=-1)
        moved = moved * (radius / moved.norm(dim=-1, keepdim=True).clamp(min=1e-12)).clamp(max=1)
    return x + moved


def fast_gradient_sign(p: nn.Module, x: Tensor, y: Tensor, size: float) -> Tensor:
    """FGSM: one step of this size in every dimension."""
    start = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(cross_entropy(p(start), y, reduction="sum"), start)
    return x + size * slope.sign()


def train(
    start: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    batch: int,
    rate: float,
    steps: int,
    attack: Callable[[nn.Module, Tensor, Tensor], Tensor] | None = None,
) -> nn.Module:
    """SGD on the cross-entropy of fresh batches, or of what an attack makes of them; `start` is not changed."""
    p = copy.deepcopy(start)
    optimizer = torch.optim.SGD(p.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        rows = torch.randperm(len(x), generator=generator)[:batch]
        inputs = x[rows] if attack is None else attack(p, x[rows], y[rows])
        optimizer.zero_grad()
        cross_entropy(p(inputs), y[rows]).backward()
        optimizer.step()
    return p
