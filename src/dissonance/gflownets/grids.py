"""Hyper-grids: walk from the origin by adding 1 to a coordinate, stop anywhere, find the modes of a reward."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor

from dissonance.errors import DissonanceError, suggest
from dissonance.gflownets.dag import FLOOR, Dag, check_size, log_rewards
from dissonance.numerics import DTYPE

Scored = tuple[Tensor, Tensor]
"""A reward above the base, and which states are modes: (height,) * dimensions each."""

TIERS = (1.0, 10.0, 100.0)
BITS = (5, 7, 9)
PRIMES, CAP = (2, 3, 5), 2


def hyper_grid(
    dimensions: int = 4, height: int = 24, reward: str = "original", *, base: float | None = None, floor: float = FLOOR
) -> Dag:
    """The states {0, ..., height-1}^dimensions; a move adds 1 to one coordinate; every state is an exit.

    With a_i = |s_i / (height - 1) - 1/2| the reward is `base` (0.1 if not given) plus

        original   0.5 prod [a_i > .25] + 2 prod [.3 < a_i < .4]        modes: the inner band in every coordinate
        cosine     0.5 prod f(a_i), f(a) = (cos 50a + 1) N(5a; 0, 1)    modes: prod f >= (0.8 max f)^dimensions
        xor        1, 10, 100 more if s_0 ^ s_1 ^ ... is 0 in the bits 0 to 5, 7, 9     modes: in all of them
        coprime    111 if every s_i is a product of 2, 3 and 5, each at most twice      modes: these

    Published runs of xor and coprime have the base 0.1, the text of the paper has 0; with base=0 the log reward off the
    modes is `floor`. State indices are row-major (s_0 the most significant); a network sees a one-hot of each
    coordinate. Small grids can have no mode under the original reward.
    """
    if reward not in REWARDS:
        raise DissonanceError(f"no grid has a reward {reward!r}.{suggest(reward, REWARDS)}")
    if dimensions < 1 or height < 2:
        raise DissonanceError(f"a grid needs dimensions >= 1 and height >= 2, found {dimensions} and {height}.")
    name = f"{dimensions}-dimensional grid of height {height} ({reward})"
    states = height**dimensions
    check_size(states, name)
    above, modes = REWARDS[reward](dimensions, height)
    exits = torch.ones(states, dtype=torch.bool)
    log_reward = log_rewards((0.1 if base is None else base) + above.reshape(-1), exits, floor=floor, name=name)
    stride = height ** torch.arange(dimensions - 1, -1, -1)
    here = torch.arange(states)[:, None]
    at = here // stride % height  # (states, dimensions)
    after = torch.where(at < height - 1, here + stride, -1)
    active = at + height * torch.arange(dimensions)
    return Dag(after, exits, active, dimensions * height, log_reward, modes.reshape(-1), name=name)


def _original(dimensions: int, height: int) -> Scored:
    last = height - 1
    a = (2 * torch.arange(height) - last).abs()  # 2 last a_i, a whole number: bounds are met exactly
    outer = _all(2 * a > last, dimensions)
    inner = _all((5 * a > 3 * last) & (5 * a < 4 * last), dimensions)
    return 0.5 * outer.to(DTYPE) + 2.0 * inner.to(DTYPE), inner


def _cosine(dimensions: int, height: int) -> Scored:
    a = (torch.arange(height, dtype=DTYPE) / (height - 1) - 0.5).abs()
    f = (torch.cos(50 * a) + 1) * torch.exp(-0.5 * (5 * a) ** 2) / math.sqrt(2 * math.pi)
    product = _over([f] * dimensions, torch.mul)
    bar = float((0.8 * f.max()) ** dimensions)
    return 0.5 * product, product >= bar * (1 - 1e-12)


def _xor(dimensions: int, height: int) -> Scored:
    parity = _over([torch.arange(height)] * dimensions, torch.bitwise_xor)
    above, met = torch.zeros(parity.shape, dtype=DTYPE), torch.ones(parity.shape, dtype=torch.bool)
    for more, last in zip(TIERS, BITS, strict=True):
        met = met & (parity % 2 ** (last + 1) == 0)
        above = above + more * met.to(DTYPE)
    return above, met


def _coprime(dimensions: int, height: int) -> Scored:
    products = {1}
    for p in PRIMES:
        products = {n * p**e for n in products for e in range(CAP + 1)}
    met = _all(torch.isin(torch.arange(height), torch.tensor(sorted(products))), dimensions)
    return sum(TIERS) * met.to(DTYPE), met


def _over(each: list[Tensor], combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """One vector for each coordinate, combined at every state."""
    return reduce(lambda done, x: combine(done[..., None], x), each[1:], each[0])


def _all(each: Tensor, dimensions: int) -> Tensor:
    return _over([each] * dimensions, torch.logical_and)


REWARDS: dict[str, Callable[[int, int], Scored]] = {
    "original": _original,
    "cosine": _cosine,
    "xor": _xor,
    "coprime": _coprime,
}
