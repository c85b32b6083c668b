"""Training GFlowNets on sets and on strings of bits: our trainer beside torchgfn, in one process, in turn.

    python benchmarks/environments.py                       # 12 elements of which 6 are chosen, and 8 bits
    python benchmarks/environments.py --loss DB

Both have the same network (two hidden layers of 64 with heads for P_F and a learned P_B), loss, batch, Adam's rates and
number of iterations, each from weights of its own. Printed: milliseconds an iteration, and the exact distance
sum |pi - R/Z| at the end, of torchgfn's policy as well: it is asked for P_F at every state.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dissonance.gflownets import Dag, TrainingPlan, TrainingRun, bit_strings, subsets
from dissonance.gflownets.paths import terminating
from dissonance.gflownets.trainer import Trainer

ELEMENTS, CHOSEN, BITS, WIDTH, DEPTH = 12, 6, 8, 64, 2
RATE, LOG_Z_RATE = 3e-3, 10.0


def set_reward(sets: Tensor) -> Tensor:
    """Neighbouring elements are worth more together."""
    x = sets.double()
    return (0.8 * (x[..., 1:] * x[..., :-1]).sum(-1)).exp()


def energy(spins: Tensor) -> Tensor:
    """Of a ring of spins, -1 and 1, that would rather agree with their neighbours."""
    x = spins.double()
    return -0.5 * (x * x.roll(1, -1)).sum(-1)


def environments(gym: Any) -> dict[str, tuple[Dag, Any, Callable[[Tensor], Tensor], list[int]]]:
    """Our graph, their environment, the states as they have them, and where their actions are among ours."""
    sets = subsets(ELEMENTS, CHOSEN, set_reward)
    theirs = gym.SetAddition(ELEMENTS, CHOSEN, lambda states: set_reward(states).float(), fixed_length=True)
    strings = bit_strings(BITS, lambda b: (-energy(2 * b - 1)).exp())

    class Ring(torch.nn.Module):
        def forward(self, states: Tensor) -> Tensor:
            return energy(states).float()

    ring = gym.DiscreteEBM(BITS, energy=Ring(), alpha=1.0)
    return {
        "sets": (sets, theirs, lambda a: (a - 2 * torch.arange(ELEMENTS)).float(), [*range(ELEMENTS + 1)]),
        "bits": (
            strings,
            ring,
            lambda a: a - 3 * torch.arange(BITS) - 1,
            [*(b * BITS + i for i in range(BITS) for b in (0, 1)), 2 * BITS],
        ),
    }


class Rival:
    """torchgfn on one environment."""

    def __init__(self, env: Any, inputs: int, loss: str, batch: int) -> None:
        from gfn.estimators import (  # pyright: ignore[reportMissingImports]
            DiscretePolicyEstimator,
            ScalarEstimator,
        )
        from gfn.gflownet import DBGFlowNet, TBGFlowNet  # pyright: ignore[reportMissingImports]
        from gfn.preprocessors import IdentityPreprocessor  # pyright: ignore[reportMissingImports]
        from gfn.utils.modules import MLP  # pyright: ignore[reportMissingImports]

        self.env, self.batch = env, batch
        seen = IdentityPreprocessor(output_dim=inputs)
        forward = MLP(inputs, env.n_actions, hidden_dim=WIDTH, n_hidden_layers=DEPTH)
        backward = MLP(inputs, env.n_actions - 1, trunk=forward.trunk)
        self.pf = DiscretePolicyEstimator(forward, env.n_actions, preprocessor=seen)
        pb = DiscretePolicyEstimator(backward, env.n_actions, preprocessor=seen, is_backward=True)
        if loss == "TB":
            self.gflownet: Any = TBGFlowNet(self.pf, pb)
            slow, fast = self.gflownet.pf_pb_parameters(), self.gflownet.logz_parameters()
        else:
            flow = ScalarEstimator(MLP(inputs, 1, trunk=forward.trunk), preprocessor=seen)
            self.gflownet = DBGFlowNet(self.pf, pb, flow)
            slow, fast = list(self.gflownet.parameters()), []
        groups = [{"params": slow}, *([{"params": fast, "lr": RATE * LOG_Z_RATE}] if fast else [])]
        self.optimiser = torch.optim.AdamW(groups, lr=RATE, weight_decay=0.01)

    def step(self) -> None:
        """One iteration."""
        with torch.no_grad():
            drawn = self.gflownet.sample_trajectories(self.env, n=self.batch)
        self.optimiser.zero_grad()
        given = drawn if not hasattr(self.gflownet, "to_training_samples") else self.gflownet.to_training_samples(drawn)
        self.gflownet.loss(self.env, given, recalculate_all_logprobs=True).backward()
        torch.nn.utils.clip_grad_norm_(self.gflownet.parameters(), 1.0)
        self.optimiser.step()

    def distance(self, dag: Dag, states: Callable[[Tensor], Tensor], actions: list[int]) -> float:
        """How far it is from R/Z, exactly."""

        def policy(some: Tensor) -> Tensor:
            with torch.no_grad():
                logits = self.pf(self.env.states_from_tensor(states(dag.active[some])))[:, actions]
            allowed = torch.cat([dag.after[some] >= 0, dag.exits[some][:, None]], 1)
            return logits.double().masked_fill(~allowed, -torch.inf).log_softmax(-1)

        return float((terminating(dag, policy) - dag.target).abs().sum())


def main() -> None:
    """Print both, environment by environment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loss", choices=["TB", "DB"], default="TB")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=1000)
    a = parser.parse_args()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import gfn.gym as gym  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        sys.exit(f"torchgfn is not here ({error.name}): pip install 'dissonance[torchgfn]'")
    torch.manual_seed(0)
    print(f"{a.loss}, batch {a.batch}, {a.iterations} iterations, {torch.get_num_threads()} threads")
    for name, (dag, env, states, actions) in environments(gym).items():
        there = env.log_reward(env.states_from_tensor(states(dag.active[dag.exits])))
        torch.testing.assert_close(there.double(), dag.log_reward[dag.exits], rtol=1e-5, atol=1e-5)
        rival = Rival(env, states(dag.active[:1]).shape[1], a.loss, a.batch)
        plan = TrainingPlan(10**9, a.batch, 0, 0.0, WIDTH, DEPTH)  # rates stay, as on the other side
        run = TrainingRun(a.loss, learning_rate=RATE, log_z_rate=LOG_Z_RATE)
        trainer, took = Trainer([run], [dag], plan), {"torchgfn": list[float](), "dissonance": list[float]()}
        for _ in range(a.iterations):
            for who, step in (("torchgfn", rival.step), ("dissonance", trainer.step)):
                began = time.process_time()
                step()
                took[who].append(time.process_time() - began)
        each = {who: 1e3 * statistics.median(times) for who, times in took.items()}
        far = {"torchgfn": rival.distance(dag, states, actions), "dissonance": trainer.fit()["l1"].item()}
        print(
            f"{name} ({dag.states} states): "
            + "; ".join(f"{who} {each[who]:.1f} ms an iteration, {far[who]:.3f} from R/Z" for who in each)
            + f"; ratio of the times {each['torchgfn'] / each['dissonance']:.1f}"
        )


if __name__ == "__main__":
    main()
