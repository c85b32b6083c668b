"""Losses of a GFlowNet: squared gaps of balance of trajectories, and which of them are cut off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import torch
from torch import Tensor

from dissonance.errors import DissonanceError, suggest


@dataclass(frozen=True)
class Loss:
    """How much attention the trajectories of a batch get, and against which partition function they are balanced.

    mean_i w_i (s_i + log Z)^2,    s_i = log P_F(tau_i) - log R(x_i) - log P_B(tau_i | x_i)

    where w_i is 1 or, `by_length`, 1 / |tau_i| (|tau| counts the transitions, the exit included), and log Z is either
    `learned` or what balances the batch on average, -mean_i s_i. The centred surprisal of Prop. 6 is `by_length` and
    `learned`: ModTB. The mean is differentiated like everything else; in LPV its gradient cancels, in ModLPV not.
    """

    name: str
    learned: bool
    by_length: bool

    def __call__(
        self, score: Tensor, length: Tensor, log_z: Tensor | float = 0.0, clamp: Clamp | str = "none"
    ) -> Tensor:
        """The loss of a batch of trajectories: one number for the last axis of `score`."""
        shape = score.shape[:-1]
        z = torch.as_tensor(log_z, dtype=score.dtype, device=score.device).expand(shape)
        kinds = Kinds.of([self], [Clamp.named(clamp)], score.device)
        return kinds(
            score.reshape(1, -1, score.shape[-1]), length.reshape(1, -1, score.shape[-1]), z.reshape(1, -1)
        ).reshape(shape)


TB = Loss("TB", learned=True, by_length=False)
LPV = Loss("LPV", learned=False, by_length=False)
MOD_TB = Loss("ModTB", learned=True, by_length=True)
MOD_LPV = Loss("ModLPV", learned=False, by_length=True)
LOSSES = {loss.name: loss for loss in (TB, LPV, MOD_TB, MOD_LPV)}

LIMIT = 100.0


def loss_named(name: str) -> Loss:
    """TB, LPV, ModTB or ModLPV."""
    if name not in LOSSES:
        raise DissonanceError(f"unknown loss {name!r}.{suggest(name, LOSSES)}")
    return LOSSES[name]


class Clamp(StrEnum):
    """What happens to losses above LIMIT, which then have gradient zero.

    none: nothing. trajectory: each trajectory's loss is cut off (what the paper says). batch: the mean over the batch
    is (what the published code does; a run whose mean is once above it never moves again, but for weight decay).
    """

    none = "none"
    trajectory = "trajectory"
    batch = "batch"

    @classmethod
    def named(cls, name: Clamp | str) -> Clamp:
        """The mode of this name."""
        try:
            return cls(name)
        except ValueError:
            raise DissonanceError(f"unknown clamp {name!r}.{suggest(name, cls)}") from None


@dataclass(frozen=True)
class Kinds:
    """The losses of several runs, which are computed together: one flag a run."""

    learned: Tensor  # (runs,)
    by_length: Tensor  # (runs,)
    each: Tensor  # (runs,) a trajectory's loss is cut off at LIMIT
    whole: Tensor  # (runs,) the batch's loss is

    @classmethod
    def of(cls, losses: Sequence[Loss], clamps: Sequence[Clamp], device: torch.device | str = "cpu") -> Self:
        """The flags of these runs."""

        def flags(values: list[bool]) -> Tensor:
            return torch.tensor(values, device=device)

        return cls(
            flags([loss.learned for loss in losses]),
            flags([loss.by_length for loss in losses]),
            flags([clamp is Clamp.trajectory for clamp in clamps]),
            flags([clamp is Clamp.batch for clamp in clamps]),
        )

    def __call__(self, score: Tensor, length: Tensor, log_z: Tensor) -> Tensor:
        """The loss of each run and batch: (runs, ..., trajectories) and log Z (runs, ...) give (runs, ...)."""
        return self.mean(self.each_of(score, length, log_z))

    def each_of(self, score: Tensor, length: Tensor, log_z: Tensor) -> Tensor:
        """The loss of each trajectory, (runs, ..., trajectories)."""

        def over(flag: Tensor, like: Tensor) -> Tensor:
            return flag.reshape(-1, *[1] * (like.ndim - 1))

        partition = torch.where(over(self.learned, log_z), log_z, -score.mean(-1))
        gap = score + partition.unsqueeze(-1)
        return gap.square() / torch.where(over(self.by_length, length), length, 1)

    def mean(self, losses: Tensor) -> Tensor:
        """The mean of the losses of trajectories, (runs, ..., trajectories), cut off where that is asked for."""
        each, whole = (x.reshape(-1, *[1] * (losses.ndim - 1)) for x in (self.each, self.whole))
        mean = torch.where(each, losses.clamp(max=LIMIT), losses).mean(-1)
        return torch.where(whole[..., 0], mean.clamp(max=LIMIT), mean)
