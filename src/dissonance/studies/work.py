"""Computing what is left of a study, in this process, in several, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from dissonance.studies.outcomes import StrategyOutcome
from dissonance.studies.runs import SOLVERS, Runs
from dissonance.studies.synthetic import SyntheticFolder
from dissonance.workers.base import Watch, Workers
from dissonance.workers.processes import Processes

Progress = Callable[[float, int], None]
"""Called with how many runs are done, parts of runs counted in, and of how many."""


class _Piece(NamedTuple):
    """A batch to run: by which solver, and where it leaves what is half done, if it does."""

    solver: str
    runs: Runs
    checkpoint: Path | None


def compute(folder: SyntheticFolder, *, workers: Workers | None = None, progress: Progress | None = None) -> None:
    """Compute the batches of the folder's study that are not kept yet; by default in this process.

    What processes of this machine have half done is kept too; what a cluster has half done is not.
    """
    workers, study = workers or Processes(1), folder.study
    batches = list(study.batches())
    todo = [b for b in batches if folder.kept(b) is None]
    todo.sort(key=lambda b: -b.place)  # the larger structures first: no process is left alone with one at the end
    total = sum(map(study.runs, batches))
    parts = dict.fromkeys(range(len(todo)), 0.0)

    def report(i: int, part: float) -> None:
        parts[i] = max(parts[i], part)
        if progress:
            progress(total - sum((1 - p) * study.runs(todo[k]) for k, p in parts.items()), total)

    def finished(i: int, found: list[StrategyOutcome]) -> None:
        folder.keep(todo[i], found)
        report(i, 1.0)

    if todo:
        report(0, 0.0)
        pieces = (
            _Piece(study.solver, study.runs_of(b), folder.checkpoint(b) if workers.same_files else None) for b in todo
        )
        workers.each(_outcomes, pieces, finished, report)
    folder.tidy()


def _outcomes(piece: _Piece, watch: Watch) -> list[StrategyOutcome]:
    """What a batch comes to."""
    return SOLVERS[piece.solver](piece.runs, piece.checkpoint, watch)
