"""The confirmation: the best hyperparameters of every pair, with seeds the search has not seen, exactly evaluated."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dissonance.errors import FormatError
from dissonance.gflownets.exact import Fit, sampled
from dissonance.gflownets.losses import LIMIT
from dissonance.gflownets.trainer import Trainer
from dissonance.gflownets.training import TrainingRecord, train
from dissonance.studies.gflownet.rows import read_rows, write_rows
from dissonance.studies.gflownet.search import Found
from dissonance.studies.gflownet.settings import Job, Settings
from dissonance.workers.base import Here, Watch, Workers

log = logging.getLogger("dissonance")

Progress = Callable[[float, int], None]
TAIL = 100
"""Iterations whose mean is the final loss."""


@dataclass(frozen=True)
class TrainingOutcome:
    """What a run came to: a row of runs.csv."""

    clamp: str
    loss: str
    reward: str
    rank: int
    seed: int
    learning_rate: float
    beta2: float
    clip: float
    log_z_rate: float
    l1: float  # exact, like the next three
    jsd: float
    kl: float
    mode_mass: float
    log_z_error: float
    coverage: float  # modes that any trajectory of the training ended in
    sampled_l1: float  # of so many samples, as published
    sampled_jsd: float
    final_loss: float
    to_twice_final: float  # share of the iterations before the loss is first at most twice the final one
    frozen: float  # share of the iterations whose loss was cut off by the clamp of the batch
    stuck: int  # iterations whose gradient was not finite
    seconds: float  # of the batch of runs it was trained in, divided by how many there were

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        """Which run it is."""
        return self.clamp, self.loss, self.reward, self.rank, self.seed


@dataclass(frozen=True)
class Point:
    """A run at an iteration: a row of traces.csv."""

    clamp: str
    loss: str
    reward: str
    rank: int
    seed: int
    iteration: int
    l1: float
    jsd: float
    training_loss: float  # mean since the point before


def jobs(settings: Settings, found: Sequence[Found]) -> list[Job]:
    """All runs of the confirmation."""
    best: dict[str, list[Found]] = {}
    for f in found:
        best.setdefault(f.pair.name, []).append(f)
    return [
        Job(pair, rank, replace(best[settings.source(pair).name][rank].run, clamp=clamp, seed=seed))
        for clamp in settings.clamps
        for pair in settings.pairs(clamp)
        for rank in range(settings.top)
        for seed in settings.seeds
    ]


class _Runs(NamedTuple):
    """Runs that are trained at once, and where they leave what is half done, if they do."""

    settings: Settings
    device: torch.device | str
    jobs: Sequence[Job]
    checkpoint: Path | None


def _trained(runs: _Runs, watch: Watch) -> tuple[list[TrainingOutcome], list[Point]]:
    """What they come to, and how."""
    settings, jobs, checkpoint = runs.settings, runs.jobs, runs.checkpoint
    began, graphs = time.perf_counter(), settings.graphs()
    given = [j.run for j in jobs], [graphs[j.pair.reward] for j in jobs], settings.plan(settings.iterations)

    def run() -> tuple[Trainer, TrainingRecord]:
        options: dict[str, Any] = {"device": runs.device, "every": settings.every, "checkpoint": checkpoint}
        return train(*given, **options, progress=lambda at, end: watch(at / end))

    try:
        trainer, record = run()
    except FormatError as error:  # of another batch, or damaged
        if checkpoint is None:
            raise
        log.info("%s The training starts anew.", error)
        checkpoint.unlink()
        trainer, record = run()
    each = (time.perf_counter() - began) / len(jobs)
    return _outcomes(jobs, trainer, record, settings.samples, each), _points(jobs, record)


@dataclass(frozen=True)
class Confirmation:
    """The runs of a study in a folder: each batch of them is kept when it is finished, and checkpointed before."""

    settings: Settings
    folder: Path
    device: torch.device | str = "cpu"
    together: int = 128
    workers: Workers = field(default_factory=Here)

    def __call__(self, todo: Sequence[Job], progress: Progress | None = None) -> None:
        """Run those that are missing."""
        known = {o.key for o in self.outcomes()}
        left = [j for j in todo if (j.pair.clamp, j.pair.loss, j.pair.reward, j.rank, j.run.seed) not in known]
        cut = [left[first : first + self.together] for first in range(0, len(left), self.together)]
        parts = [0.0] * len(cut)

        def watch(i: int, part: float) -> None:
            parts[i] = part
            if progress:
                done = len(todo) - len(left) + sum(len(some) * x for some, x in zip(cut, parts, strict=True))
                progress(done, len(todo))

        kept = self._checkpoint if self.workers.same_files else None
        self.workers.each(_trained, [_Runs(self.settings, self.device, some, kept) for some in cut], self._keep, watch)

    @property
    def _checkpoint(self) -> Path:
        """Where a batch of runs leaves what is half done."""
        return self.folder / "checkpoint.pt"

    def _keep(self, _: int, found: tuple[list[TrainingOutcome], list[Point]]) -> None:
        """Keep what a batch of runs came to."""
        write_rows(self.folder / "traces.csv", Point, [*self.traces(), *found[1]])
        write_rows(self.folder / "runs.csv", TrainingOutcome, [*self.outcomes(), *found[0]])
        self._checkpoint.unlink(missing_ok=True)

    def outcomes(self) -> list[TrainingOutcome]:
        """All finished runs."""
        return read_rows(self.folder / "runs.csv", TrainingOutcome)

    def traces(self) -> list[Point]:
        """How the finished runs came there."""
        known = {o.key for o in self.outcomes()}
        points = read_rows(self.folder / "traces.csv", Point)
        return [p for p in points if (p.clamp, p.loss, p.reward, p.rank, p.seed) in known]


def _outcomes(
    some: Sequence[Job], trainer: Trainer, record: TrainingRecord, samples: int, seconds: float
) -> list[TrainingOutcome]:
    published = _sampled(trainer, samples)
    final = record.losses[:, -TAIL:].mean(1)
    first = (record.losses <= 2 * final.unsqueeze(1)).int().argmax(1) / record.losses.shape[1]
    frozen = ((record.losses >= LIMIT) & trainer.kinds.whole.cpu().unsqueeze(1)).double().mean(1)
    columns = {name: column.tolist() for name, column in record.fits[-1].items()}
    rows: list[TrainingOutcome] = []
    for i, job in enumerate(some):
        run = asdict(job.run)
        rows.append(
            TrainingOutcome(
                job.pair.clamp,
                job.pair.loss,
                job.pair.reward,
                job.rank,
                job.run.seed,
                *(run[name] for name in ("learning_rate", "beta2", "clip", "log_z_rate")),
                **{name: column[i] for name, column in columns.items()},
                sampled_l1=published.l1[i].item(),
                sampled_jsd=published.jsd[i].item(),
                final_loss=final[i].item(),
                to_twice_final=first[i].item(),
                frozen=frozen[i].item(),
                stuck=int(trainer.stuck[i]),
                seconds=seconds,
            )
        )
    return rows


def _sampled(trainer: Trainer, samples: int) -> Fit:
    """The published metrics: those of samples of the policy, drawn from its exact distribution."""
    generator = torch.Generator(trainer.device).manual_seed(0)
    fits: list[Fit] = []
    for some, found in trainer.terminating_by_parts():
        target, modes = trainer.targets(some)
        fits.append(Fit.of(sampled(found, samples, generator), target, modes))
    return Fit(**{f.name: torch.cat([getattr(fit, f.name) for fit in fits]) for f in fields(Fit)})


def _points(some: Sequence[Job], record: TrainingRecord) -> list[Point]:
    l1, jsd = record.trace("l1"), record.trace("jsd")
    rows: list[Point] = []
    for i, job in enumerate(some):
        before = 0
        for k, at in enumerate(record.iterations):
            mean = _mean(record.losses[i, before:at])
            where = (job.pair.clamp, job.pair.loss, job.pair.reward, job.rank, job.run.seed)
            rows.append(Point(*where, at, l1[i, k].item(), jsd[i, k].item(), mean))
            before = at
    return rows


def _mean(values: Tensor) -> float:
    return values.double().mean().item()
