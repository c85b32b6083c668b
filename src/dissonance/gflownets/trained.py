"""What a training ends with: policies to sample from, and how they came about."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.gflownets import plain
from dissonance.gflownets.dag import Dag
from dissonance.gflownets.exact import Terminating
from dissonance.gflownets.policy import Parts
from dissonance.gflownets.trainer import Trainer, TrainingRun
from dissonance.gflownets.trajectories import Trajectories

if TYPE_CHECKING:
    import pandas

    from dissonance.gflownets.training import TrainingRecord


class Policy:
    """The policy of one run, as it was when it was asked for."""

    def __init__(self, trainer: Trainer, number: int) -> None:
        self.run: TrainingRun = trainer.runs[number]
        self.dag: Dag = trainer.dags[number]
        self._walk, self._log_partition = trainer.walk, float(trainer.log_partition()[number])
        self._parts: Parts = {name: part[number : number + 1].clone() for name, part in trainer.parts.items()}

    def __repr__(self) -> str:
        loss = self.run.loss if isinstance(self.run.loss, str) else type(self.run.loss).__name__
        return f"Policy({self.dag.name}, {loss}, seed {self.run.seed}: {self.distance:.3g} from R/Z)"

    @property
    def log_partition(self) -> float | None:
        """log Z as it was learned; None where the loss needs none."""
        return None if self._log_partition != self._log_partition else self._log_partition

    @cached_property
    def terminating(self) -> Tensor:
        """(states,): how likely the policy ends in each state, exactly."""
        return Terminating.of(self.dag, self._walk)(self._parts)[0].cpu()

    @property
    def distance(self) -> float:
        """The sum over states of |p(s) - R(s) / Z|: 0 if the policy samples the reward, at most 2."""
        return float((self.terminating - self.dag.target).abs().sum())

    def trajectories(self, count: int, generator: torch.Generator | None = None) -> Trajectories:
        """Walks of the policy, from the start to an exit; by default the next random numbers of torch."""
        if count < 1:
            raise DissonanceError(f"a number of samples is at least 1, found {count}.")
        uniform = torch.rand(1, count, self._walk.longest, generator=generator).to(self._walk.after.device)
        return plain.rollout(self._parts, self._walk, uniform)

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """States in which walks of the policy end, (count,)."""
        return self.trajectories(count, generator).ends()[0].cpu()

    def frame(self) -> pandas.DataFrame:
        """A row for every exit, the likeliest first: its state, reward, R/Z, and how likely the policy ends there."""
        try:
            import pandas
        except ImportError:
            raise DissonanceError("a data frame needs pandas: pip install pandas. `terminating` holds it.") from None
        exits = self.dag.exits.nonzero()[:, 0]
        names = exits.tolist() if self.dag.labels is None else [self.dag.labels[s] for s in exits.tolist()]
        columns = {
            "state": names,
            "reward": self.dag.log_reward[exits].exp().tolist(),
            "target": self.dag.target[exits].tolist(),
            "probability": self.terminating[exits].tolist(),
        }
        return pandas.DataFrame(columns).sort_values("probability", ascending=False, ignore_index=True, kind="stable")


class Trained(NamedTuple):
    """A training that is done: `trainer` could go on, `record` is what was seen of it."""

    trainer: Trainer
    record: TrainingRecord

    def __repr__(self) -> str:
        distances = [f"{x:.3g}" for x in self.record.last("l1")]
        shown = ", ".join(distances[:6]) + (", ..." if len(distances) > 6 else "")
        runs = f"{len(distances)} run{'s' * (len(distances) > 1)}"
        return f"Trained({runs}, {self.trainer.iteration} iterations, {shown} from R/Z)"

    @property
    def policies(self) -> list[Policy]:
        """The policy of every run."""
        return [Policy(self.trainer, k) for k in range(len(self.trainer.runs))]
