"""The losses weighed by length as GFlowNets of torchgfn, for those who train with it.

Importing this module imports torchgfn (`pip install 'dissonance[torchgfn]'`); nothing else in the library does.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dissonance.errors import CapabilityError, DissonanceError
from dissonance.gflownets.losses import LIMIT, Clamp

try:
    from gfn.containers import Trajectories  # pyright: ignore[reportMissingImports]
    from gfn.env import Env  # pyright: ignore[reportMissingImports]
    from gfn.gflownet import LogPartitionVarianceGFlowNet, TBGFlowNet  # pyright: ignore[reportMissingImports]
    from gfn.gflownet.base import TrajectoryBasedGFlowNet, loss_reduce  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise CapabilityError(
        f"dissonance.gflownets.torchgfn needs torchgfn, found no {error.name!r}: pip install 'dissonance[torchgfn]'."
    ) from None


class ByLength(TrajectoryBasedGFlowNet):  # pyright: ignore[reportUntypedBaseClass]
    """Before a GFlowNet's own loss: what each trajectory adds to it is divided by the trajectory's length.

    loss(tau) / |tau|,    |tau| counts the transitions, the exit included

    Everything else (residuals, `loss_fn`, log Z, conditions, the clip of rewards) stays the GFlowNet's. Losses above
    100 are cut off where `clamp` says: "none", in each "trajectory", or in the mean of the "batch".
    """

    def __init__(self, *args: Any, clamp: Clamp | str = Clamp.none, **options: Any):
        super().__init__(*args, **options)
        self.clamp = Clamp.named(clamp)

    def loss(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        env: Env,
        trajectories: Trajectories,
        recalculate_all_logprobs: bool = True,
        reduction: str = "mean",
        *,
        log_rewards: Tensor | None = None,
    ) -> Tensor:
        """The loss of these trajectories, weighed by length."""
        if self.clamp is Clamp.batch and reduction != "mean":
            raise DissonanceError(
                f"clamp='batch' cuts off the mean of a batch, found reduction={reduction!r}: "
                "use reduction='mean' or clamp='trajectory'."
            )
        losses = super().loss(
            env,
            trajectories,
            recalculate_all_logprobs,
            reduction="none",  # pyright: ignore[reportCallIssue]
            log_rewards=log_rewards,  # pyright: ignore[reportCallIssue]
        )
        losses = losses / trajectories.terminating_idx  # torchgfn counts the exit too
        if self.clamp is Clamp.trajectory:
            losses = losses.clamp(max=LIMIT)
        loss = loss_reduce(losses, reduction)
        return loss.clamp(max=LIMIT) if self.clamp is Clamp.batch else loss


class ModTBGFlowNet(ByLength, TBGFlowNet):  # pyright: ignore[reportUntypedBaseClass]
    """torchgfn's TBGFlowNet with the loss of Prop. 6: a trajectory's attention is its centred surprisal.

    mean_i (s_i + log Z)^2 / |tau_i|,    s_i = log P_F(tau_i) - log R(x_i) - log P_B(tau_i | x_i)
    """


class ModLPVGFlowNet(ByLength, LogPartitionVarianceGFlowNet):  # pyright: ignore[reportUntypedBaseClass]
    """torchgfn's LogPartitionVarianceGFlowNet weighed by length.

    mean_i (s_i - mean_j s_j)^2 / |tau_i|        (the inner mean is not weighed)
    """
