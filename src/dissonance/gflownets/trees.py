"""Trees of words, written a letter at a time: one trajectory leads to each word, so going back is no choice."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.gflownets.bits import at_exits
from dissonance.gflownets.dag import FLOOR, Dag, check_size, log_rewards
from dissonance.numerics import DTYPE


def word_tree(
    letters: int,
    length: int,
    reward: Callable[[Tensor], Tensor],
    *,
    modes: Callable[[Tensor], Tensor] | None = None,
    floor: float = FLOOR,
) -> Dag:
    """All words of up to `length` letters, each a state; a move appends a letter, and a word of full length exits.

    `reward` maps words (n, length) of letters 0, 1, ... to n numbers >= 0, `modes` to n truth values. States are by
    length, then in the order of a dictionary; a network sees a one-hot of each position, empty ones included.
    """
    if letters < 2 or length < 1:
        raise DissonanceError(f"a tree of words needs 2 letters or more and length >= 1, found {letters} and {length}.")
    name = f"tree of words of {length} letters of {letters}"
    states = (letters ** (length + 1) - 1) // (letters - 1)
    check_size(states, name)
    rows: list[Tensor] = []
    after: list[Tensor] = []
    first = 0
    for written in range(length + 1):
        word = torch.arange(letters**written)[:, None]
        stride = letters ** torch.arange(written - 1, -1, -1)
        empty = torch.full((len(word), length - written), -1)
        rows.append(torch.cat([word // stride % letters, empty], 1))
        first += len(word)
        onward = first + word * letters + torch.arange(letters)
        after.append(onward if written < length else torch.full_like(onward, -1))
    words = torch.cat(rows)  # (states, length)
    exits = (words >= 0).all(1)
    log_reward = log_rewards(at_exits(reward, words, exits, DTYPE), exits, floor=floor, name=name)
    chosen = None if modes is None else at_exits(modes, words, exits, torch.bool)
    active = words + 1 + (letters + 1) * torch.arange(length)
    return Dag(torch.cat(after), exits, active, (letters + 1) * length, log_reward, chosen, name=name)
