"""Where a study lives: its settings, what its search found, its finished runs; resumed where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import torch

from dissonance.errors import DissonanceError
from dissonance.gflownets.trainer import TrainingRun
from dissonance.studies import sums
from dissonance.studies.folder import StudyFolder
from dissonance.studies.gflownet.confirmation import Confirmation, Point, Progress, TrainingOutcome, jobs
from dissonance.studies.gflownet.rows import read_rows, write_rows
from dissonance.studies.gflownet.search import Found, Search, reachable, without_password
from dissonance.studies.gflownet.settings import Pair, Settings
from dissonance.workers.base import Here, Workers

ELSEWHERE = "search.storage"
"""The file that names the data base of a search which is not kept in the folder."""
TOGETHER = {"cuda": 128, "cpu": 32}
"""How many runs are trained at once: on a GPU more of them take hardly longer."""


@dataclass(frozen=True)
class Trial:
    """A finished trial of the search: a row of search.csv."""

    clamp: str
    loss: str
    reward: str
    trial: int
    learning_rate: float
    beta2: float
    clip: float
    log_z_rate: float
    l1: float  # exact, after the iterations of the search

    @property
    def pair(self) -> Pair:
        """What it is a trial of."""
        return Pair(self.loss, self.reward, self.clamp)


@dataclass(frozen=True)
class Machine:
    """What a study is computed on."""

    device: torch.device | str = "cpu"
    together: int | None = None  # runs that are trained at once
    storage: str | None = None  # of the search: the URL of a data base; by default a journal in the folder
    workers: Workers = field(default_factory=Here)

    @property
    def at_once(self) -> int:
        """How many runs are trained at once."""
        return self.together or TOGETHER[torch.device(self.device).type]


class GflownetFolder(StudyFolder):
    """The folder of a study of GFlowNets: all that is published is made of search.csv, runs.csv and traces.csv."""

    def __init__(self, path: Path | str, settings: Settings) -> None:
        """Claim the folder for these settings; a folder that holds another study is refused."""
        super().__init__(path, settings.identity)
        self.settings = settings

    @property
    def finished(self) -> bool:
        """Whether all runs are there."""
        return set(self._keys()) <= {o.key for o in self._confirmation(Machine()).outcomes()}

    def _keys(self) -> list[tuple[str, str, str, int, int]]:
        s = self.settings
        pairs = [pair for clamp in s.clamps for pair in s.pairs(clamp)]
        return [(p.clamp, p.loss, p.reward, rank, seed) for p in pairs for rank in range(s.top) for seed in s.seeds]

    def _confirmation(self, machine: Machine) -> Confirmation:
        return Confirmation(self.settings, self.path, machine.device, machine.at_once, machine.workers)

    # -- computing -----------------------------------------------------------------------------------------------------

    def search(self, machine: Machine | None = None, progress: Progress | None = None) -> None:
        """Run the trials that are missing and keep what they found in search.csv."""
        machine = machine or Machine()
        if not self._searched():
            storage = self._storage(machine.storage)
            begun = Search.at(self.settings, storage, machine.device, machine.at_once, machine.workers)
            with reachable(storage), closing(begun) as search:
                if machine.storage:
                    sums.write_summed(self.path / ELSEWHERE, f"{without_password(storage)}\n".encode())
                search(progress)
                self.keep(search.found())

    def _storage(self, given: str | None) -> str | Path:
        """Where the trials are kept; a search that was begun in another place is refused, not begun again."""
        journal, elsewhere = self.path / "search.journal", self.path / ELSEWHERE
        if given and journal.exists():
            raise DissonanceError(f"{journal}: holds trials of this study: give no --storage, or delete the file.")
        if not given and elsewhere.exists():
            kept = sums.read_verified(elsewhere).decode(errors="replace").strip()
            raise DissonanceError(f"{self.path}: its trials are kept in {kept}: give that as --storage.")
        return given or journal

    def confirm(self, machine: Machine | None = None, progress: Progress | None = None) -> None:
        """Run what is missing of the confirmation; the search must be finished."""
        self._confirmation(machine or Machine())(jobs(self.settings, self._found()), progress)

    def keep(self, found: Sequence[Found]) -> None:
        """Write search.csv."""
        rows = [
            Trial(
                f.pair.clamp, f.pair.loss, f.pair.reward, f.trial,
                f.run.learning_rate, f.run.beta2, f.run.clip, f.run.log_z_rate, f.l1,
            )
            for f in found
        ]  # fmt: skip
        write_rows(self.path / "search.csv", Trial, rows)

    def _searched(self) -> bool:
        """Whether search.csv has all trials."""
        count: dict[Pair, int] = {}
        for t in self.trials():
            count[t.pair] = count.get(t.pair, 0) + 1
        wanted = [pair for clamp in self.settings.searched for pair in self.settings.pairs(clamp)]
        return all(count.get(pair, 0) >= self.settings.trials for pair in wanted)

    def _found(self) -> list[Found]:
        """What search.csv says was found: the digits that are written there are those that are confirmed."""
        return [
            Found(
                t.pair,
                t.trial,
                TrainingRun(t.loss, self.settings.search_seed, t.learning_rate, t.beta2, t.clip, t.log_z_rate, t.clamp),
                t.l1,
            )
            for t in self.trials()
        ]

    # -- results -------------------------------------------------------------------------------------------------------

    def trials(self) -> list[Trial]:
        """All trials of a finished search, the best of each pair first."""
        return read_rows(self.path / "search.csv", Trial)

    def outcomes(self) -> list[TrainingOutcome]:
        """The finished runs of these settings, in order."""
        known = {o.key: o for o in self._confirmation(Machine()).outcomes()}
        return [known[key] for key in self._keys() if key in known]

    def traces(self) -> list[Point]:
        """How the finished runs came there."""
        wanted = set(self._keys())
        points = self._confirmation(Machine()).traces()
        return [p for p in points if (p.clamp, p.loss, p.reward, p.rank, p.seed) in wanted]
