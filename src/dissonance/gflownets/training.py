"""Training to the end: evaluated on the way, kept on disk, resumed where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.gflownets.dag import Dag
from dissonance.gflownets.trained import Trained
from dissonance.gflownets.trainer import Trainer, TrainingPlan, TrainingRun, filled
from dissonance.io import sealed
from dissonance.io.locked import alone


@dataclass
class TrainingRecord:
    """What was seen of a training: the loss of every iteration, and how far the runs were from their targets."""

    losses: Tensor  # (runs, iterations)
    iterations: list[int] = field(default_factory=list)  # when the fit was computed
    fits: list[dict[str, Tensor]] = field(default_factory=list)  # columns (runs,)

    def last(self, column: str) -> list[float]:
        """A column of the latest fit: l1, jsd, kl, mode_mass, log_z_error or coverage; a number for each run."""
        return self.fits[-1][column].tolist()

    def trace(self, column: str) -> Tensor:
        """A column over the iterations it was computed at, (runs, times)."""
        return torch.stack([fit[column] for fit in self.fits], 1)


def train(
    runs: Sequence[TrainingRun],
    dags: Dag | Sequence[Dag],
    plan: TrainingPlan | None = None,
    *,
    device: torch.device | str = "cpu",
    every: int | None = None,
    checkpoint: Path | str | None = None,
    keep_every: int = 500,
    progress: Callable[[int, int], None] | None = None,
) -> Trained:
    """Train these runs together; compute their exact fit `every` so many iterations, and at the end.

    With a `checkpoint`, the training is kept in that file every `keep_every` iterations, and goes on from there when
    the same runs are trained again.

    >>> from dissonance.gflownets import hyper_grid
    >>> grid = hyper_grid(2, 4)
    >>> trained = train([TrainingRun("DB", learning_rate=0.01)], grid, TrainingPlan(50, 32, 0, width=32, depth=1))
    >>> trained.policies[0].frame().columns.tolist()
    ['state', 'reward', 'target', 'probability']
    """
    graphs = [dags] * len(runs) if isinstance(dags, Dag) else list(dags)
    trainer = Trainer(runs, graphs, plan, device)
    end = trainer.plan.iterations
    record = TrainingRecord(torch.full((len(runs), end), float("nan"), device=trainer.device))
    path = None if checkpoint is None else Path(checkpoint)
    with nullcontext() if path is None else _alone(path):
        if path is not None and path.exists():
            _restore(path, trainer, record)
        while trainer.iteration < end:
            at = trainer.iteration
            record.losses[:, at] = trainer.step()
            if trainer.iteration == end or (every and trainer.iteration % every == 0):
                record.iterations.append(trainer.iteration)
                record.fits.append(trainer.fit())
            if path is not None and (trainer.iteration % keep_every == 0 or trainer.iteration == end):
                _keep(path, trainer, record)
            if progress is not None:
                progress(trainer.iteration, end)
    record.losses = record.losses.cpu()
    return Trained(trainer, record)


def _alone(path: Path) -> AbstractContextManager[None]:
    """Hold a checkpoint for this training alone; its folder is made if need be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DissonanceError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}.") from None
    return alone(path)


def _keep(path: Path, trainer: Trainer, record: TrainingRecord) -> None:
    """Write the checkpoint, all or nothing: a kill leaves the former one whole."""
    state = trainer.state() | {"losses": record.losses.cpu(), "at": record.iterations, "fits": record.fits}
    sealed.write_state(path, state)


def _restore(path: Path, trainer: Trainer, record: TrainingRecord) -> None:
    state = sealed.read_state(path, "a checkpoint of a training")
    trainer.restore(state)
    filled(record.losses, state["losses"], "losses")
    record.iterations, record.fits = list(state["at"]), list(state["fits"])
