"""Bit strings whose positions are set in any order: many trajectories lead to the same string."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.gflownets.dag import FLOOR, Dag, check_size, log_rewards
from dissonance.numerics import DTYPE


def bit_strings(
    length: int,
    reward: Callable[[Tensor], Tensor],
    *,
    modes: Callable[[Tensor], Tensor] | None = None,
    floor: float = FLOOR,
) -> Dag:
    """All strings of bits, some of them not set yet: 3^length states, of which 2^length are exits.

    A move sets any unset position i to b, action 2i + b; a trajectory ends when all are set, after length! possible
    orders. `reward` maps strings (n, length) of 0 and 1 to n numbers >= 0, `modes` to n truth values. The index of a
    state has the digits 0 (not set), 1 (a zero) and 2 (a one) in base 3, position 0 the most significant; a network
    sees a one-hot of each digit.
    """
    if length < 1:
        raise DissonanceError(f"strings need a length >= 1, found {length}.")
    name = f"graph of strings of {length} bits"
    states = 3**length
    check_size(states, name)
    stride = 3 ** torch.arange(length - 1, -1, -1)
    here = torch.arange(states)[:, None]
    digits = here // stride % 3  # (states, length)
    after = here[..., None] + stride[:, None] * torch.tensor([1, 2])  # (states, length, 2)
    after = torch.where(digits[..., None] == 0, after, -1).reshape(states, 2 * length)
    exits = (digits > 0).all(1)
    log_reward = log_rewards(at_exits(reward, digits - 1, exits, DTYPE), exits, floor=floor, name=name)
    chosen = None if modes is None else at_exits(modes, digits - 1, exits, torch.bool)
    return Dag(after, exits, digits + 3 * torch.arange(length), 3 * length, log_reward, chosen, name=name)


def at_exits(f: Callable[[Tensor], Tensor], words: Tensor, exits: Tensor, dtype: torch.dtype) -> Tensor:
    """(states,): f where a word is complete, 0 elsewhere."""
    found = torch.as_tensor(f(words[exits]))
    if found.shape != (int(exits.sum()),):
        raise DissonanceError(f"{int(exits.sum())} words need a number each, found the shape {tuple(found.shape)}.")
    made = torch.zeros(len(exits), dtype=dtype)
    made[exits] = found.to(dtype)
    return made
