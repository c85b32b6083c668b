"""Chains of building blocks grown at either end, as sequences and simple molecules are: many walks lead to each."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.gflownets.bits import at_exits
from dissonance.gflownets.dag import FLOOR, Dag, check_size, log_rewards
from dissonance.numerics import DTYPE


def block_chains(
    blocks: int,
    length: int,
    reward: Callable[[Tensor], Tensor],
    *,
    modes: Callable[[Tensor], Tensor] | None = None,
    floor: float = FLOOR,
) -> Dag:
    """All chains of up to `length` blocks, each a state; a move puts one of the blocks at the end (action b) or at the
    beginning (action blocks + b), and a chain of full length exits.

    `reward` maps chains (n, length) of blocks 0, 1, ... to n numbers >= 0, `modes` to n truth values. States are by
    length, then in the order of a dictionary; a network sees a one-hot of each position, empty ones included. A move to
    the beginning that gives what one to the end gives (of the first block, and of a block beside its own kind only) is
    left out.
    """
    if blocks < 2 or length < 1:
        raise DissonanceError(f"chains need 2 blocks or more and length >= 1, found {blocks} and {length}.")
    name = f"graph of chains of {length} of {blocks} blocks"
    check_size((blocks ** (length + 1) - 1) // (blocks - 1), name)
    rows: list[Tensor] = []
    after: list[Tensor] = []
    first, block = 0, torch.arange(blocks)
    for placed in range(length + 1):
        chain = torch.arange(blocks**placed)[:, None]
        stride = blocks ** torch.arange(placed - 1, -1, -1)
        rows.append(torch.cat([chain // stride % blocks, torch.full((len(chain), length - placed), -1)], 1))
        first += len(chain)
        at_end, at_beginning = chain * blocks + block, block * len(chain) + chain
        twice = at_end == at_beginning
        onward = first + torch.cat([at_end, torch.where(twice, -1 - first, at_beginning)], 1)
        after.append(onward if placed < length else torch.full_like(onward, -1))
    chains = torch.cat(rows)
    exits = (chains >= 0).all(1)
    log_reward = log_rewards(at_exits(reward, chains, exits, DTYPE), exits, floor=floor, name=name)
    chosen = None if modes is None else at_exits(modes, chains, exits, torch.bool)
    active = chains + 1 + (blocks + 1) * torch.arange(length)
    return Dag(torch.cat(after), exits, active, (blocks + 1) * length, log_reward, chosen, name=name)
