"""Training a GFlowNet on a hyper-grid: our trainer beside torchgfn, in one process, in turn, from the same weights.

    python benchmarks/gflownet.py                                                     # 4 x 24, batch 1024
    python benchmarks/gflownet.py --height 8 --dimensions 2 --batch 16 --iterations 2 # soon done
    python benchmarks/gflownet.py --length 0                                          # as untrained policies start

Both have a trunk of three hidden layers of 256 with heads for P_F and a learned P_B, the same loss, AdamW, a clip of
the gradient's norm, and replay as published: of the last 10,000 trajectories, some drawn without replacement take the
place of half of each fresh batch, and all log-probabilities are computed anew. torchgfn's rollouts are spared their
gradients. Untrained policies exit after a few moves, trained ones after about 45: the exit starts at a bias that makes
trajectories `--length` long where no wall is near. First both losses and gradients are compared on one batch of
torchgfn's. torchgfn is not needed: without it, only ours is timed.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dissonance.gflownets.grids import hyper_grid
from dissonance.gflownets.losses import LOSSES
from dissonance.gflownets.trainer import Trainer, TrainingPlan, TrainingRun

LEARNING_RATE, LOG_Z_RATE, CLIP = 1e-3, 100.0, 1.0
REWARDS = {"original": "original", "cosine": "cosine", "xor": "bitwise_xor", "coprime": "multiplicative_coprime"}


@dataclass
class Rival:
    """torchgfn's environment, networks, loss, replay and optimiser."""

    env: Any
    gflownet: Any
    replay: Any
    optimiser: torch.optim.Optimizer
    batch: int

    def step(self) -> Tensor:
        """One iteration; the lengths of the trajectories that were trained on."""
        with torch.no_grad():
            drawn = self.gflownet.sample_trajectories(self.env, n=self.batch)
            if self.replay is not None:
                self.replay.add(drawn)
                replayed = self.replay.sample(self.batch // 2)
                drawn = drawn[: self.batch - self.batch // 2]
                drawn.extend(replayed)
        self.optimiser.zero_grad()
        self.gflownet.loss(self.env, drawn, recalculate_all_logprobs=True).backward()
        torch.nn.utils.clip_grad_norm_(self.gflownet.parameters(), CLIP)
        self.optimiser.step()
        return drawn.terminating_idx


def torchgfn(a: argparse.Namespace) -> Rival | str:
    """torchgfn with the settings asked for, or why not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            from gfn.containers import ReplayBuffer  # pyright: ignore[reportMissingImports]
            from gfn.estimators import DiscretePolicyEstimator  # pyright: ignore[reportMissingImports]
            from gfn.gflownet import LogPartitionVarianceGFlowNet, TBGFlowNet  # pyright: ignore[reportMissingImports]
            from gfn.gym import HyperGrid  # pyright: ignore[reportMissingImports]
            from gfn.preprocessors import KHotPreprocessor  # pyright: ignore[reportMissingImports]
            from gfn.utils.modules import MLP  # pyright: ignore[reportMissingImports]

            from dissonance.gflownets.torchgfn import ModLPVGFlowNet, ModTBGFlowNet
    except ImportError as error:
        return f"torchgfn is not here ({error.name}): pip install torchgfn"
    env = HyperGrid(a.dimensions, a.height, REWARDS[a.reward], validate_modes=False)
    inputs = KHotPreprocessor(a.height, a.dimensions)
    forward = MLP(inputs.output_dim, env.n_actions, hidden_dim=a.width, n_hidden_layers=a.depth)
    backward = MLP(inputs.output_dim, env.n_actions - 1, trunk=forward.trunk)
    pf = DiscretePolicyEstimator(forward, env.n_actions, preprocessor=inputs)
    pb = DiscretePolicyEstimator(backward, env.n_actions, preprocessor=inputs, is_backward=True)
    kinds = {
        "TB": TBGFlowNet,
        "LPV": LogPartitionVarianceGFlowNet,
        "ModTB": ModTBGFlowNet,
        "ModLPV": ModLPVGFlowNet,
    }
    gflownet = kinds[a.loss](pf, pb)
    groups: list[dict[str, Any]] = [{"params": gflownet.pf_pb_parameters()}]
    if a.loss.endswith("TB"):
        groups.append({"params": gflownet.logz_parameters(), "lr": LEARNING_RATE * LOG_Z_RATE})
    replay = None if a.without_replay else ReplayBuffer(env, capacity=max(10_000, a.batch))
    optimiser = torch.optim.AdamW(groups, lr=LEARNING_RATE, weight_decay=0.01)
    return Rival(env, gflownet, replay, optimiser, a.batch)


class Ours(Trainer):
    """Our trainer, which says what it was trained on."""

    def iterate(self) -> Tensor:
        """One iteration; the lengths of the trajectories that were trained on."""
        self.step()
        return self.tau.length


def ours(a: argparse.Namespace) -> Ours:
    """Our trainer with the same settings."""
    run = TrainingRun(a.loss, learning_rate=LEARNING_RATE, log_z_rate=LOG_Z_RATE, clip=CLIP)
    plan = TrainingPlan(
        iterations=10**9,  # rates fall so slowly that they stay, as on the other side
        batch=a.batch,
        capacity=0 if a.without_replay else max(10_000, a.batch),
        width=a.width,
        depth=a.depth,
    )
    return Ours([run], [hyper_grid(a.dimensions, a.height, a.reward)], plan)


def share(trainer: Trainer, rival: Rival) -> None:
    """Give the rival's weights to ours, all but the bias of the exit, which goes the other way."""
    from dissonance.gflownets.torchgfn import theta_of

    exits = rival.env.n_actions - 1
    with torch.no_grad():
        rival.gflownet.pf.module.last_layer.bias[exits] = trainer.parts["heads_bias"][0, exits]
    trainer.theta.copy_(theta_of(rival.gflownet))


def apart(trainer: Trainer, rival: Rival) -> str:
    """How far losses and gradients are apart on one batch of the rival's."""
    from dissonance.gflownets.torchgfn import theta_of, trajectories_of

    with torch.no_grad():
        drawn = rival.gflownet.sample_trajectories(rival.env, n=rival.batch)
    loss, gradient = trainer.gradient(trajectories_of(drawn, trainer.walk.longest))
    theirs = rival.gflownet.loss(rival.env, drawn)
    theirs.backward()
    other = theta_of(rival.gflownet, gradient=True)
    far = (gradient[0] - other).norm() / other.norm()
    return f"losses {loss.item():.4f} and {theirs.item():.4f}, gradients apart by {far:.1e} of their norm"


def timed(step: Callable[[], Tensor]) -> tuple[float, float]:
    """Seconds of one iteration, and transitions of its batch."""
    began = time.perf_counter()
    length = step()
    return time.perf_counter() - began, float(length.sum())


def line(name: str, found: list[tuple[float, float]]) -> str:
    seconds = statistics.median(s for s, _ in found)
    each = statistics.median(s / n for s, n in found)
    transitions = statistics.mean(n for _, n in found)
    return (
        f"{name:10} {1e3 * seconds:8.1f} ms an iteration, {1e6 * each:6.2f} us a transition ({transitions:.0f} of them)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimensions", type=int, default=4)
    parser.add_argument("--height", type=int, default=24)
    parser.add_argument("--reward", choices=list(REWARDS), default="original")
    parser.add_argument("--loss", choices=list(LOSSES), default="TB")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--length", type=float, default=45.0)
    parser.add_argument("--without-replay", action="store_true")
    a = parser.parse_args()
    torch.manual_seed(0)
    trainer, rival = ours(a), torchgfn(a)
    print(
        f"{trainer.dags[0].name}, {a.loss}, batch {a.batch}, {'no' if a.without_replay else 'half'} replay, "
        f"{a.depth} x {a.width}, {torch.get_num_threads()} threads"
    )
    if a.length > 1:  # p = 1 / length where all moves are allowed
        trainer.parts["heads_bias"][:, a.dimensions] = math.log(a.dimensions / (a.length - 1))
    if isinstance(rival, str):
        print(rival)
    else:
        share(trainer, rival)
        print(apart(trainer, rival))
    found: dict[str, list[tuple[float, float]]] = {"torchgfn": [], "dissonance": []}
    for _ in range(1 + a.iterations):
        if not isinstance(rival, str):
            found["torchgfn"].append(timed(rival.step))
        found["dissonance"].append(timed(trainer.iterate))
    found = {name: each[1:] for name, each in found.items() if each}  # the first is not counted
    for name, each in found.items():
        print(line(name, each))
    if len(found) == 2:
        ratios = [t[0] / o[0] for t, o in zip(*found.values(), strict=True)]
        print(f"ratio {statistics.median(ratios):.2f} (from {min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
