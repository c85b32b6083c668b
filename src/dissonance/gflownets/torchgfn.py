"""For those who train with torchgfn: the losses weighed by length as its GFlowNets, and its policies as ours.

Importing this module imports torchgfn (`pip install 'dissonance[torchgfn]'`); nothing else in the library does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dissonance.errors import CapabilityError, DissonanceError
from dissonance.gflownets.losses import LIMIT, Clamp
from dissonance.gflownets.trajectories import Trajectories

try:
    from gfn.containers import Trajectories as Drawn  # pyright: ignore[reportMissingImports]
    from gfn.env import Env  # pyright: ignore[reportMissingImports]
    from gfn.gflownet import LogPartitionVarianceGFlowNet, TBGFlowNet  # pyright: ignore[reportMissingImports]
    from gfn.gflownet.base import TrajectoryBasedGFlowNet, loss_reduce  # pyright: ignore[reportMissingImports]
    from gfn.gym import HyperGrid  # pyright: ignore[reportMissingImports]
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
        trajectories: Drawn,
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


def theta_of(gflownet: TrajectoryBasedGFlowNet, *, gradient: bool = False) -> Tensor:
    """The parameters of a GFlowNet of torchgfn in the order of `policy.PolicyShape`, or their gradients.

    P_F and P_B must be MLPs with ReLU on one trunk, as `MLP(..., trunk=forward.trunk)` makes them. A GFlowNet without
    log Z has 0 there.
    """
    forward: Any = gflownet.pf.module
    backward: Any = getattr(gflownet.pb, "module", None)
    trunk = list(getattr(forward, "trunk", ()))
    linear = [layer for layer in trunk if type(layer) is nn.Linear]
    plain = len(trunk) == 2 * len(linear) > 0 and all(type(layer) is nn.ReLU for layer in trunk[1::2])
    log_z = getattr(gflownet, "logZ", None)
    if not plain or getattr(backward, "trunk", None) is not forward.trunk or isinstance(log_z, nn.Module):
        raise CapabilityError(
            "a policy of dissonance has hidden layers with ReLU that P_F and P_B share, and one log Z; found other "
            "modules. Make them by MLP(...) and MLP(..., trunk=forward.trunk)."
        )
    heads = [forward.last_layer, backward.last_layer]

    def of(p: Tensor) -> Tensor:
        found = p.grad if gradient else p
        return torch.zeros_like(p) if found is None else found.detach()

    parts = [
        *(of(linear[0].weight).T, of(linear[0].bias)),
        *(of(layer.weight).T for layer in linear[1:]),
        *(of(layer.bias) for layer in linear[1:]),
        *(torch.cat([of(h.weight) for h in heads]).T, torch.cat([of(h.bias) for h in heads])),
        torch.zeros(()) if log_z is None else of(log_z),
    ]
    return torch.cat([part.reshape(-1) for part in parts])


def trajectories_of(drawn: Drawn, longest: int) -> Trajectories:
    """Trajectories of torchgfn in a HyperGrid as those of one run, in `grids.hyper_grid` of the same size."""
    env = drawn.env
    if not isinstance(env, HyperGrid):
        raise CapabilityError(f"only a HyperGrid has the states of hyper_grid(...), found {type(env).__name__}.")
    stride = env.height ** torch.arange(env.ndim - 1, -1, -1, device=drawn.device)
    length = drawn.terminating_idx.unsqueeze(0)  # (1, trajectories)
    inside = torch.arange(longest, device=drawn.device) < length.unsqueeze(-1)

    def table(rows: Tensor) -> Tensor:
        """From (steps, trajectories) to (1, trajectories, longest), 0 where nothing is meant."""
        wide = nn.functional.pad(rows.T, (0, longest - len(rows))).unsqueeze(0)
        return torch.where(inside, wide, 0).int()

    return Trajectories(
        table((drawn.states.tensor[:-1] * stride).sum(-1)), table(drawn.actions.tensor.squeeze(-1)), length
    )
