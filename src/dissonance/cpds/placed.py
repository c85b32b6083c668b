"""Networks on another device: they compute there, and what goes in and comes out stays where everything else is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dissonance.cpds.base import CPD
from dissonance.cpds.drawn import Distributed

MARK = "_dissonance_placed"


def networks(cpd: CPD) -> list[nn.Module]:
    """The modules of a cpd that map tensors to tensors; one that makes torch.distributions is not among them."""
    makes = cpd.make if isinstance(cpd, Distributed) else None
    found: list[nn.Module] = []
    for part in cpd.children():
        if isinstance(part, CPD):
            found += networks(part)
        elif part is not makes and next(part.parameters(), None) is not None:
            found.append(part)
    return found


def place(network: nn.Module, device: torch.device | str) -> None:
    """Move a network; from now on its arguments are brought to it, and what it returns is taken back."""
    network.to(device)
    if not hasattr(network, MARK):
        setattr(network, MARK, True)
        network.register_forward_pre_hook(_bring)
        network.register_forward_hook(_take_back)


def _bring(network: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments on the network's device; real numbers in its precision."""
    own = next(network.parameters())
    return tuple(_like(x, own) for x in arguments)


def _take_back(network: nn.Module, arguments: tuple[Any, ...], made: Tensor) -> Tensor:
    """What the network made, on the CPU; in double precision, as everything else."""
    return made.to("cpu", torch.float64) if made.is_floating_point() else made.cpu()


def _like(x: Any, own: Tensor) -> Any:
    if not isinstance(x, Tensor):
        return x
    return x.to(own.device, own.dtype) if x.is_floating_point() else x.to(own.device)
