"""Training GFlowNets on sets, strings of bits and grids: our trainer beside torchgfn and gfnx, in one run, in turn.

    python benchmarks/environments.py                       # 12 elements of which 6 are chosen, and 8 bits
    python benchmarks/environments.py --loss DB
    python benchmarks/environments.py --gfnx PYTHON         # gfnx too, which needs a numpy of its own: bits and a grid

PYTHON is that of an environment with `pip install gfnx equinox optax`; gfnx has no sets. All have the same network (two
hidden layers of 64 with heads for P_F and a learned P_B), loss, batch, Adam's rates and number of iterations, each from
weights of its own. Printed: milliseconds of CPU an iteration, the median of blocks of twenty in turn, and the exact
distance sum |pi - R/Z| at the end, of the others' policies as well: they are asked for P_F at every state.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dissonance.gflownets import Dag, TrainingPlan, TrainingRun, bit_strings, hyper_grid, subsets
from dissonance.gflownets.paths import terminating
from dissonance.gflownets.trainer import Trainer

ELEMENTS, CHOSEN, BITS, WIDTH, DEPTH = 12, 6, 8, 64, 2
DIMENSIONS, HEIGHT = 3, 8
RATE, LOG_Z_RATE = 3e-3, 10.0
BLOCK = 20


def set_reward(sets: Tensor) -> Tensor:
    """Neighbouring elements are worth more together."""
    x = sets.double()
    return (0.8 * (x[..., 1:] * x[..., :-1]).sum(-1)).exp()


def energy(spins: Tensor) -> Tensor:
    """Of a ring of spins, -1 and 1, that would rather agree with their neighbours."""
    x = spins.double()
    return -0.5 * (x * x.roll(1, -1)).sum(-1)


@dataclass(frozen=True)
class Case:
    """A graph of ours, and what others need to train on the same one."""

    dag: Dag
    torchgfn: tuple[Any, Callable[[Tensor], Tensor], list[int]] | None = None
    """Their environment, our states as they have them, and where their actions are among ours."""
    gfnx: dict[str, Any] | None = None
    """What `rivals/gfnx_training.py` is told of the environment."""


def cases(gym: Any | None) -> dict[str, Case]:
    """Sets, strings of bits, and a grid."""
    sets = subsets(ELEMENTS, CHOSEN, set_reward)
    strings = bit_strings(BITS, lambda b: (-energy(2 * b - 1)).exp())
    grid = hyper_grid(DIMENSIONS, HEIGHT)

    class Ring(torch.nn.Module):
        def forward(self, states: Tensor) -> Tensor:
            return energy(states).float()

    of_sets = of_strings = None
    if gym is not None:
        adding = gym.SetAddition(ELEMENTS, CHOSEN, lambda states: set_reward(states).float(), fixed_length=True)
        of_sets = adding, lambda a: (a - 2 * torch.arange(ELEMENTS)).float(), [*range(ELEMENTS + 1)]
        actions = [*(b * BITS + i for i in range(BITS) for b in (0, 1)), 2 * BITS]
        ring = gym.DiscreteEBM(BITS, energy=Ring(), alpha=1.0)
        of_strings = ring, lambda a: a - 3 * torch.arange(BITS) - 1, actions
    digits = strings.active - 3 * torch.arange(BITS)
    bits = {"kind": "bits", "size": 3, "length": BITS, "digits": ((digits + 2) % 3).tolist()}  # unset is their 2
    coordinates = grid.active - HEIGHT * torch.arange(DIMENSIONS)
    steps = {"kind": "grid", "size": HEIGHT, "length": DIMENSIONS, "digits": coordinates.tolist()}
    for told, dag in ((bits, strings), (steps, grid)):
        told["log_reward"] = dag.log_reward[dag.exits].tolist()
    return {"sets": Case(sets, of_sets), "bits": Case(strings, of_strings, bits), "grid": Case(grid, None, steps)}


def far(dag: Dag, logits: Callable[[Tensor], Tensor]) -> float:
    """How far a policy is from R/Z, exactly; `logits` of states, those of stopping last."""

    def policy(some: Tensor) -> Tensor:
        allowed = torch.cat([dag.after[some] >= 0, dag.exits[some][:, None]], 1)
        return logits(some).double().masked_fill(~allowed, -torch.inf).log_softmax(-1)

    return float((terminating(dag, policy) - dag.target).abs().sum())


class Ours:
    """Our trainer, with some runs side by side."""

    def __init__(self, case: Case, loss: str, batch: int, runs: int) -> None:
        plan = TrainingPlan(10**9, batch, 0, 0.0, WIDTH, DEPTH)  # rates stay, as on the other side
        each = [TrainingRun(loss, seed=k, learning_rate=RATE, log_z_rate=LOG_Z_RATE) for k in range(runs)]
        self.trainer = Trainer(each, [case.dag] * runs, plan)

    def steps(self, n: int) -> float:
        """CPU seconds of some iterations of a run."""
        began = time.process_time()
        for _ in range(n):
            self.trainer.step()
        return (time.process_time() - began) / len(self.trainer.runs)

    def distance(self) -> float:
        """How far it is from R/Z, exactly, on average over the runs."""
        return self.trainer.fit()["l1"].mean().item()


class Torchgfn:
    """torchgfn on one environment."""

    def __init__(self, case: Case, loss: str, batch: int) -> None:
        from gfn.estimators import (  # pyright: ignore[reportMissingImports]
            DiscretePolicyEstimator,
            ScalarEstimator,
        )
        from gfn.gflownet import DBGFlowNet, TBGFlowNet  # pyright: ignore[reportMissingImports]
        from gfn.preprocessors import IdentityPreprocessor  # pyright: ignore[reportMissingImports]
        from gfn.utils.modules import MLP  # pyright: ignore[reportMissingImports]

        assert case.torchgfn is not None
        self.dag, self.batch, (env, self.states, self.actions) = case.dag, batch, case.torchgfn
        self.env, inputs = env, self.states(case.dag.active[:1]).shape[1]
        there = env.log_reward(env.states_from_tensor(self.states(self.dag.active[self.dag.exits])))
        torch.testing.assert_close(there.double(), self.dag.log_reward[self.dag.exits], rtol=1e-5, atol=1e-5)
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

    def steps(self, n: int) -> float:
        """CPU seconds of some iterations."""
        began = time.process_time()
        for _ in range(n):
            self.step()
        return time.process_time() - began

    def distance(self) -> float:
        """How far it is from R/Z, exactly."""

        def logits(some: Tensor) -> Tensor:
            with torch.no_grad():
                return self.pf(self.env.states_from_tensor(self.states(self.dag.active[some])))[:, self.actions]

        return far(self.dag, logits)


class Gfnx:
    """gfnx on one environment, in a process of its own."""

    def __init__(self, case: Case, python: str, batch: int) -> None:
        assert case.gfnx is not None
        self.dag = case.dag
        one = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        env = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": one, "PYTHONPATH": ""}
        command = [python, str(Path(__file__).parent / "rivals" / "gfnx_training.py")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        rates = {"rate": RATE, "log_z_rate": LOG_Z_RATE, "batch": batch, "seed": 0}
        self.compiled_in: float = self.ask(json.dumps({**case.gfnx, "width": WIDTH, "depth": DEPTH, **rates}))[
            "compiled_in"
        ]

    def ask(self, line: str) -> Any:
        """What it answers."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        if not (answer := self.process.stdout.readline()):
            sys.exit("gfnx has stopped: see its message above.")
        return json.loads(answer)

    def steps(self, n: int) -> float:
        """CPU seconds of some iterations."""
        return self.ask(str(n))["seconds"]

    def distance(self) -> float:
        """How far it is from R/Z, exactly."""
        found = torch.tensor(self.ask("policy"))
        self.process.communicate()
        moves = self.dag.after.shape[1]
        whole = torch.cat([found, torch.zeros(len(found), moves + 1 - found.shape[1])], 1)  # strings: no action to stop
        return far(self.dag, lambda some: whole[some])


def main() -> None:
    """Print all, environment by environment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loss", choices=["TB", "DB"], default="TB")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=1, help="of our trainer side by side; times are of each")
    parser.add_argument("--gfnx", metavar="PYTHON", help="a Python that has gfnx (loss TB only)")
    a = parser.parse_args()
    if a.gfnx and a.loss != "TB":
        sys.exit("gfnx is asked for trajectory balance here: leave --loss out.")
    gym = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import gfn.gym as gym  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        if not a.gfnx:
            sys.exit(f"torchgfn is not here ({error.name}): pip install 'dissonance[torchgfn]'; or --gfnx PYTHON")
        print(f"torchgfn is not here ({error.name}) and is left out.")
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    print(f"{a.loss}, batch {a.batch}, {a.iterations} iterations, {threads} threads; ours: {a.runs} at once")
    for name, case in cases(gym).items():
        rivals: dict[str, Any] = {"torchgfn": Torchgfn(case, a.loss, a.batch)} if case.torchgfn else {}
        if a.gfnx and case.gfnx:
            rivals["gfnx"] = Gfnx(case, a.gfnx, a.batch)
        if not rivals:
            continue
        everyone: dict[str, Any] = {**rivals, "dissonance": Ours(case, a.loss, a.batch, a.runs)}
        blocks = [
            {who: 1e3 * x.steps(BLOCK) / BLOCK for who, x in everyone.items()} for _ in range(a.iterations // BLOCK)
        ]
        each = {who: statistics.median(b[who] for b in blocks) for who in everyone}
        print(f"{name} ({case.dag.states} states)")
        for who, x in everyone.items():
            ratio = "" if who == "dissonance" else f", {each[who] / each['dissonance']:.2f} of our time"
            start = f", {x.compiled_in:.1f} s to compile" if who == "gfnx" else ""
            print(f"  {who:10} {each[who]:5.2f} ms an iteration, {x.distance():.3f} from R/Z{ratio}{start}")


if __name__ == "__main__":
    main()
