"""Sets grown an element at a time, in any order: k! trajectories lead to a set of k elements."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import torch
from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.gflownets.bits import at_exits
from dissonance.gflownets.dag import FLOOR, Dag, check_size, log_rewards
from dissonance.numerics import DTYPE

MOST = 62
"""Elements: a set is the bits of a number."""


def subsets(
    elements: int,
    size: int,
    reward: Callable[[Tensor], Tensor],
    *,
    smaller: bool = False,
    modes: Callable[[Tensor], Tensor] | None = None,
    floor: float = FLOOR,
) -> Dag:
    """The subsets of up to `size` of so many elements; a move adds one. Sets of that size are exits, and `smaller` ones
    too if that is asked for.

    `reward` maps sets (n, elements) of 0 and 1 to n numbers >= 0, `modes` to n truth values. States are by size, then
    by the number whose bits they are (element 0 the lowest); a network sees for every element whether it is in.
    """
    if not 1 <= size <= elements <= MOST:
        raise DissonanceError(
            f"sets need 1 <= size <= elements <= {MOST}, found a size of {size} and {elements} elements."
        )
    name = f"graph of sets of {size} of {elements} elements"
    check_size(sum(comb(elements, k) for k in range(size + 1)), name)
    bits = 1 << torch.arange(elements)
    layers, after, first = [torch.zeros(1, dtype=torch.long)], list[Tensor](), 0
    for _ in range(size):
        here = layers[-1]
        first += len(here)
        added = here[:, None] | bits
        new = added != here[:, None]
        layers.append(added[new].unique())
        after.append(torch.where(new, first + torch.searchsorted(layers[-1], added), -1))
    after.append(torch.full((len(layers[-1]), elements), -1))
    members = (torch.cat(layers)[:, None] & bits != 0).long()
    exits = members.sum(1) == size
    if smaller:
        exits = torch.ones_like(exits)
    log_reward = log_rewards(at_exits(reward, members, exits, DTYPE), exits, floor=floor, name=name)
    chosen = None if modes is None else at_exits(modes, members, exits, torch.bool)
    active = members + 2 * torch.arange(elements)
    return Dag(torch.cat(after), exits, active, 2 * elements, log_reward, chosen, name=name)
