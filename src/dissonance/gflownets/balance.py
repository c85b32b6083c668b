"""Balance: which imbalances of a GFlowNet count, as a choice of attention.

    gap(tau, i) = log P_F(s_{i+1} | s_i) - log P_B(s_i | s_{i+1})     [+ log F(s_i) - log F(s_{i+1})]

Every loss here is a quadratic form E_Q[gap' A gap] of these gaps. Attention -|tau| (A gap) to P_F (and to F at s_i) and
the opposite to P_B (and to F at s_{i+1}) has it for inconsistency; with attention held, the gradient is one half of the
loss's: that of a quadratic form x' A x is 2 A x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from dissonance.errors import DissonanceError, suggest
from dissonance.gflownets.losses import LOSSES

if TYPE_CHECKING:  # a trainer needs no PDG
    from dissonance.focus import Seen


class Balance(Protocol):
    """A choice of A."""

    @property
    def states(self) -> bool:
        """Whether it needs a flow F through every state."""
        ...

    @property
    def partition(self) -> bool:
        """Whether it needs log Z."""
        ...

    def __call__(self, gap: Tensor, inside: Tensor, q: Tensor) -> Tensor:
        """|tau| (A gap) for gaps (trajectories, transitions), 0 where not `inside`, of trajectories with weights q."""
        ...


@dataclass(frozen=True)
class WholeTrajectories:
    """Whole trajectories: TB, or LPV if `centred`; ModTB and ModLPV if weighed `by_length`.

        TB      E[g^2]              g(tau) = sum_i gap(tau, i)
        ModTB   E[g^2 / |tau|]
        LPV     E[(g - E g)^2]
        ModLPV  E[(g - E g)^2 / |tau|]

    ModLPV centres twice: the mean in it is not weighed, so that its derivative does not vanish as that of LPV does.
    """

    by_length: bool
    centred: bool

    @property
    def states(self) -> bool:
        """Only those of the ends, 1 and Z."""
        return False

    @property
    def partition(self) -> bool:
        """Unless a mean stands in its place."""
        return not self.centred

    def __call__(self, gap: Tensor, inside: Tensor, q: Tensor) -> Tensor:
        """The same for every transition of a trajectory."""
        length = inside.sum(1).clamp(min=1).to(gap.dtype)
        g = gap.sum(1)
        if self.centred:
            g = g - (q * g).sum()
        if self.by_length:
            g = g / length
            if self.centred:
                g = g - (q * g).sum()
        return (length * g)[:, None].expand_as(gap)


@dataclass(frozen=True)
class Parts:
    """Sub-trajectories from j to k with weight lambda^(k-j) / sum: SubTB; single transitions as lambda -> 0: DB.

        SubTB   E[ sum_{j<k} lambda^(k-j) g_jk^2 / sum_{j<k} lambda^(k-j) ]        g_jk = sum_{j<=i<k} gap(tau, i)
        DB      E[ sum_i gap(tau, i)^2 / |tau| ]

    Whole trajectories alone are left as lambda -> inf: TB.
    """

    decay: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.decay < float("inf"):
            raise DissonanceError(f"lambda of sub-trajectory balance must be >= 0 and finite, found {self.decay}.")

    @property
    def states(self) -> bool:
        """A part begins and ends at a state: its flow must be known."""
        return True

    @property
    def partition(self) -> bool:
        """Z is the flow of the start."""
        return False

    def __call__(self, gap: Tensor, inside: Tensor, q: Tensor) -> Tensor:
        """For transition i the sum over the parts that contain it."""
        if self.decay == 0:
            return gap
        length = inside.sum(1)
        ends = torch.arange(gap.shape[1] + 1, device=gap.device)
        span = ends[None, :] - ends[:, None]  # (j, k)
        weight = torch.where(span > 0, self.decay ** (span - 1).clamp(min=0).to(gap.dtype), 0.0)
        weight = torch.where(ends <= length[:, None, None], weight, 0.0)  # (trajectories, j, k)
        weight = weight * (length / weight.sum((1, 2)).clamp(min=1e-300))[:, None, None]
        sums = torch.nn.functional.pad(gap.cumsum(1), (1, 0))
        parts = weight * (sums[:, None, :] - sums[:, :, None])
        begun = parts.cumsum(1)  # j <= i
        unfinished = begun.flip(2).cumsum(2).flip(2)  # k > i
        return unfinished.diagonal(1, 1, 2)


@dataclass(frozen=True)
class FlowMatching(Parts):
    """Flow matching: DB with the P_B that is best for F and P_F, that of the inflow. All transitions into s' have then

    gap = log sum_s F(s) P_F(s' | s) - log F(s')
    """


BALANCES: dict[str, Balance] = {
    **{name: WholeTrajectories(loss.by_length, not loss.learned) for name, loss in LOSSES.items()},
    "DB": Parts(),
    "SubTB": Parts(0.9),
}


TRAINED: dict[str, Balance] = {**BALANCES, "FM": FlowMatching()}
"""What `train` takes: also flow matching, which has no P_B that could be an arc."""


def balance_named(balance: Balance | str) -> Balance:
    """TB, ModTB, LPV, ModLPV, DB, SubTB (lambda = 0.9), or one of your own."""
    if not isinstance(balance, str):
        return balance
    if balance not in BALANCES:
        raise DissonanceError(f"no balance is named {balance!r}.{suggest(balance, BALANCES)}")
    return BALANCES[balance]


def trained_loss(loss: Balance | str) -> Balance:
    """The same, or FM: what `train` takes."""
    if not isinstance(loss, str):
        return loss
    if loss not in TRAINED:
        raise DissonanceError(f"unknown loss {loss!r}.{suggest(loss, TRAINED)}")
    return TRAINED[loss]


@dataclass(frozen=True)
class Surprise:
    """How much attention a transition of a trajectory draws: |tau| (A gap), with a sign.

    Under ModTB that is the centred surprisal of Prop. 6: log P_B(tau) / P_F(tau) for P_F, and minus it for P_B.
    """

    balance: Balance
    sign: float

    def __call__(self, seen: Seen) -> Tensor:
        """One weight a sample."""
        gap = seen.log_prob("F") - seen.log_prob("B")
        if self.balance.states:
            gap = gap + seen.log_prob("flow") - seen.log_prob("flow'")
        tau, i = seen.values["tau"], seen.values["i"]
        shape = int(tau.max()) + 1, int(i.max()) + 1
        gaps = gap.new_zeros(shape).index_put((tau, i), gap)
        inside = torch.zeros(shape, dtype=torch.bool).index_put((tau, i), torch.tensor(True))
        q = seen.weights.new_zeros(shape[0]).index_add(0, tau, seen.weights)
        return self.sign * self.balance(gaps, inside, q)[tau, i]
