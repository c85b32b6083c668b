"""The synthetic study: structures x cpd draws x strategies, in batches that are kept as they finish.

A batch is some draws of a structure under every strategy. What it comes to depends on the settings and on nothing else:
not on what was computed before, not on how many processes compute. So a study that was stopped goes on where it was,
and ends with the same numbers.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from dissonance import __version__
from dissonance.errors import DissonanceError, FormatError, suggest
from dissonance.io import files, load, sealed
from dissonance.pdg import PDG
from dissonance.studies.folder import StudyFolder
from dissonance.studies.outcomes import StrategyOutcome
from dissonance.studies.runs import BLIND, REFOCUS, SOLVERS, STRATEGIES, Runs
from dissonance.studies.structures import ROWS, generator, structures

log = logging.getLogger("dissonance")

TOGETHER = 25
"""How many draws a batch has at most. Fixed: it is part of what makes the numbers the same."""
CPDS = 0
SEEDS = 1
"""Places in the study's stream of random numbers: of the cpds, of the strategies."""


@dataclass(frozen=True)
class DrawBatch:
    """Some draws of a structure under every strategy."""

    place: int
    structure: str
    replicates: range

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"{self.structure}.{self.replicates.start}-{self.replicates.stop - 1}.json"


@dataclass(frozen=True)
class Synthetic:
    """What the study runs; the defaults are the published settings with exact solves."""

    replicates: int = 50
    strategies: tuple[str, ...] = STRATEGIES
    structures: int = 4
    solver: str = "exact"
    rows: str = "uniform-normalised"
    authors: str | None = None
    seed: int = 0
    steps: int = 20
    hub_weight: float = 0.1

    def __post_init__(self) -> None:
        for name, least in (("replicates", 1), ("structures", 1), ("steps", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise DissonanceError(f"{name} must be at least {least}, found {getattr(self, name)}.")
        if not 0 <= self.hub_weight <= 1:
            raise DissonanceError(f"the hub weight must be between 0 and 1, found {self.hub_weight:g}.")
        for value, known, word in ((self.solver, SOLVERS, "solver"), (self.rows, ROWS, "distribution of rows")):
            if value not in known:
                raise DissonanceError(f"no {word} named {value!r}.{suggest(value, known)}")
        if not self.strategies:
            raise DissonanceError(f"a study needs a strategy. Known: {', '.join(STRATEGIES)}.")
        for s in self.strategies:
            if s not in REFOCUS:
                raise DissonanceError(f"no strategy named {s!r}.{suggest(s, REFOCUS)}")
            if self.solver == "paper" and s not in BLIND:
                raise DissonanceError(f"the strategy {s!r} needs mu*, which the published loop does not compute.")
            if self.strategies.count(s) > 1:
                raise DissonanceError(f"the strategy {s!r} is named twice.")

    def batches(self) -> Iterator[DrawBatch]:
        """All of the study, in order."""
        for k, (name, count) in enumerate(self._sizes()):
            for first in range(0, count, TOGETHER):
                yield DrawBatch(k, name, range(first, min(first + TOGETHER, count)))

    def runs(self, batch: DrawBatch) -> int:
        """How many runs a batch has."""
        return len(batch.replicates) * len(self.strategies)

    def _sizes(self) -> list[tuple[str, int]]:
        """The structures and how many draws each has."""
        if self.authors is None:
            return [(s.name, self.replicates) for s in structures(self.structures, self.seed)]
        found = [(folder.name, len(paths)) for folder, paths in self._authors()]
        return [(name, min(self.replicates, count)) for name, count in found]

    def _authors(self) -> list[tuple[Path, list[Path]]]:
        root = Path(self.authors or "")
        root = root / "replicates" if (root / "replicates").is_dir() else root
        found = [(folder, sorted(folder.glob("rep_*.json"))) for folder in sorted(root.glob("*/"))]
        there = [(folder, paths) for folder, paths in found if paths][: self.structures]
        if not there:
            raise DissonanceError(f"{self.authors}: no replicates: no files named rep_*.json in folders of structures.")
        return there

    def pdgs(self, batch: DrawBatch) -> list[PDG]:
        """The PDGs of a batch, with learnable cpds."""
        if self.authors is not None:
            _, paths = self._authors()[batch.place]
            return [load(paths[r], learnable=True)[0] for r in batch.replicates]
        structure = structures(self.structures, self.seed)[batch.place]
        return [structure.draw(self.rows, generator(self.seed, CPDS, batch.place, r)) for r in batch.replicates]

    def seeds(self, batch: DrawBatch) -> list[int]:
        """A seed for the strategy of each run: the same for every strategy."""
        return [generator(self.seed, SEEDS, batch.place, r).initial_seed() for r in batch.replicates]

    def runs_of(self, batch: DrawBatch) -> Runs:
        """The runs of a batch."""
        pdgs = self.pdgs(batch)
        if any([(v.name, v.size) for v in p.variables] != [(v.name, v.size) for v in pdgs[0].variables] for p in pdgs):
            raise DissonanceError(f"{batch.structure}: the replicates do not have the same variables.")
        draws = (batch.structure, batch.replicates, pdgs, self.seeds(batch))
        return Runs(*draws, self.strategies, self.steps, self.hub_weight)

    @property
    def settings(self) -> dict[str, object]:
        """All settings in words."""
        return {**asdict(self), "strategies": " ".join(self.strategies)}

    @property
    def identity(self) -> dict[str, object]:
        """What two studies share exactly when they come to the same numbers."""
        read = hashlib.sha256()
        if self.authors is not None:
            for _, paths in self._authors():
                for path in paths[: self.replicates]:
                    read.update(files.read(path)[0])
        return {"version": __version__} | self.settings | {"authors": self.authors and read.hexdigest()}


# -- a folder ----------------------------------------------------------------------------------------------------------


class SyntheticFolder(StudyFolder):
    """The folder of a synthetic study: batches that are kept as they finish."""

    def __init__(self, path: Path, study: Synthetic) -> None:
        """Claim the folder for the study; a folder that holds another study is refused."""
        super().__init__(path, study.identity)
        self.study, self.batches = study, self.subfolder("batches")

    def kept(self, batch: DrawBatch) -> list[StrategyOutcome] | None:
        """The outcomes of a batch, if it is finished."""
        path = self.batches / batch.name
        if not path.exists():
            return None
        try:
            found = msgspec.convert(json.loads(sealed.unseal(path, "a batch")[0]), list[StrategyOutcome])
        except (FormatError, ValueError):
            found = []
        wanted = {(batch.structure, s, r) for s in self.study.strategies for r in batch.replicates}
        if len(found) == len(wanted) and {(o.structure, o.strategy, o.replicate) for o in found} == wanted:
            return found
        log.warning("%s: is damaged, or not all of a batch: it is computed again.", path)
        return None

    def checkpoint(self, batch: DrawBatch) -> Path:
        """Where a batch leaves what is half done."""
        return self.batches / f"{batch.name}.checkpoint"

    def keep(self, batch: DrawBatch, found: Sequence[StrategyOutcome]) -> None:
        """Keep what a batch came to."""
        sealed.seal(self.batches / batch.name, f"{json.dumps([asdict(o) for o in found])}\n".encode())
        self.checkpoint(batch).unlink(missing_ok=True)

    def outcomes(self) -> list[StrategyOutcome]:
        """All of a finished study: by structure, strategy and replicate."""
        order = {s: i for i, s in enumerate(self.study.strategies)}
        batches = [(b, self.kept(b)) for b in self.study.batches()]
        if lost := [b.name for b, kept in batches if kept is None]:
            raise FormatError(
                f"{self.batches / lost[0]}: is not there, or not whole; the same command goes on from here."
            )
        found = [(b.place, o) for b, kept in batches for o in kept or ()]
        found.sort(key=lambda x: (x[0], order[x[1].strategy], x[1].replicate))
        return [o for _, o in found]
