"""The search: hyperparameters of every pair by Optuna, trials of all pairs trained together."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from zlib import crc32

import torch

from dissonance.errors import CapabilityError, DissonanceError, FormatError
from dissonance.gflownets.losses import loss_named
from dissonance.gflownets.trainer import TrainingRun
from dissonance.gflownets.training import train
from dissonance.studies.gflownet.settings import Pair, Settings
from dissonance.workers.base import Here, Watch, Workers

BETA2 = (0.99, 0.999, 0.9999)
STARTUP = 10
"""Trials of a pair that are drawn at random before the sampler learns from them."""
PATIENCE = 5
"""Seconds until the lock of a process that was killed is taken from it."""
LINE = 1 << 16
"""Bytes that a line of the journal has at most."""
IDENTITY = (
    "dimensions", "height", "base", "asked", "search_iterations", "search_seed", "batch", "capacity", "width", "depth"
)  # fmt: skip
"""Settings that all trials of a search share."""
Progress = Callable[[float, int], None]


@dataclass(frozen=True)
class Found:
    """A finished trial: where hyperparameters led."""

    pair: Pair
    trial: int
    run: TrainingRun
    l1: float


class _Trials(NamedTuple):
    """Trials that are trained at once: each a run and its reward."""

    settings: Settings
    device: torch.device | str
    runs: Sequence[tuple[TrainingRun, str]]


def _l1(trials: _Trials, watch: Watch) -> list[float]:
    """How far each is from its target in the end."""
    settings, runs = trials.settings, [run for run, _ in trials.runs]
    graphs, plan = settings.graphs(), settings.plan(settings.search_iterations)
    rewards = [graphs[reward] for _, reward in trials.runs]
    _, record = train(runs, rewards, plan, device=trials.device, progress=lambda at, end: watch(at / end))
    return record.last("l1")


@dataclass(frozen=True)
class Search:
    """The searches of a study in one storage; trials that a kill left unfinished are run again, finished ones never."""

    settings: Settings
    storage: Any
    device: torch.device | str = "cpu"
    together: int = 128  # runs that are trained at once
    workers: Workers = field(default_factory=Here)
    studies: dict[Pair, Any] = field(default_factory=dict[Pair, Any])  # opened so far

    @classmethod
    def at(
        cls,
        settings: Settings,
        where: str | Path,
        device: torch.device | str = "cpu",
        together: int = 128,
        workers: Workers | None = None,
    ) -> Search:
        """Searches kept in a journal file, or in the data base of a URL such as postgresql://host/name."""
        return cls(settings, _storage(where), device, together, workers or Here())

    def __call__(self, progress: Progress | None = None) -> None:
        """Run all trials that are missing."""
        total = sum(self.settings.trials for clamp in self.settings.searched for _ in self.settings.pairs(clamp))
        while batch := self._ask():
            done = total - sum(self.settings.trials - self._finished(p) for p in self._pairs())
            cut = [batch[first : first + self.together] for first in range(0, len(batch), self.together)]
            parts = [0.0] * len(cut)

            def watch(i: int, part: float, done: int = done, cut: Any = cut, parts: list[float] = parts) -> None:
                parts[i] = part
                if progress:
                    progress(done + sum(len(some) * x for some, x in zip(cut, parts, strict=True)), total)

            def tell(i: int, l1: list[float], cut: Any = cut) -> None:
                self._tell(cut[i], l1)

            pieces = [_Trials(self.settings, self.device, [(run, p.reward) for p, _, run in some]) for some in cut]
            self.workers.each(_l1, pieces, tell, watch)

    def close(self) -> None:
        """Leave the data base, if it is one."""
        if engine := getattr(self.storage, "engine", None):
            self.storage.remove_session()
            engine.dispose()

    def _pairs(self) -> list[Pair]:
        return [pair for clamp in self.settings.searched for pair in self.settings.pairs(clamp)]

    def _ask(self) -> list[tuple[Pair, int, TrainingRun]]:
        """Trials to run now: of each pair those that are left of `asked` at once, be they begun or not yet.

        What is asked depends on the finished trials only, so that a search that was killed comes to the same.
        """
        batch: list[tuple[Pair, int, TrainingRun]] = []
        for pair in self._pairs():
            begun = self._begun(pair)
            finished = self._finished(pair)
            end = min(self.settings.trials, (finished // self.settings.asked + 1) * self.settings.asked)
            study = self._study(pair)
            for number in range(finished + len(begun), end):
                study.sampler = self._sampler(pair, number)
                trial = study.ask(self._space(pair))
                begun.append((trial.number, trial.params))
            batch += [(pair, number, self._run(pair, params)) for number, params in begun]
        return batch

    def _begun(self, pair: Pair) -> list[tuple[int, dict[str, Any]]]:
        """Trials that a kill left unfinished; one that it left half-asked is given up."""
        optuna, study = _optuna(), self._study(pair)
        kept: list[tuple[int, dict[str, Any]]] = []
        for t in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
            if set(t.params) == set(self._space(pair)):
                kept.append((t.number, t.params))
            else:
                study.tell(t.number, state=optuna.trial.TrialState.FAIL)
        return kept

    def _tell(self, batch: Sequence[tuple[Pair, int, TrainingRun]], l1: Sequence[float]) -> None:
        for (pair, number, _), value in zip(batch, l1, strict=True):
            try:
                self._study(pair).tell(number, value if value == value else 2.0)  # 2 is the worst L1 there is
            except ValueError as error:  # it has been told already
                raise DissonanceError(
                    f"trial {number} of {pair.name}: {str(error).rstrip('.').lower()}; another command searches in the "
                    "same storage: let it finish first."
                ) from None

    def _finished(self, pair: Pair) -> int:
        return len(self._study(pair).get_trials(deepcopy=False, states=(_optuna().trial.TrialState.COMPLETE,)))

    def _space(self, pair: Pair) -> dict[str, Any]:
        """The published ranges."""
        d = _optuna().distributions
        space = {
            "learning_rate": d.FloatDistribution(1e-5, 1e-1, log=True),
            "beta2": d.CategoricalDistribution(BETA2),
            "clip": d.FloatDistribution(1e-2, 10, log=True),
        }
        if loss_named(pair.loss).learned:
            space["log_z_rate"] = d.FloatDistribution(10, 1000, log=True)
        return space

    def _run(self, pair: Pair, params: dict[str, Any]) -> TrainingRun:
        return TrainingRun(pair.loss, self.settings.search_seed, clamp=pair.clamp, **params)

    def _study(self, pair: Pair) -> Any:
        """The search of a pair, opened once; one of other settings is refused."""
        if pair not in self.studies:
            study = _optuna().create_study(
                study_name=pair.name, storage=self.storage, load_if_exists=True, direction="minimize"
            )
            mine = {name: getattr(self.settings, name) for name in IDENTITY}
            theirs = study.user_attrs.get("settings", mine)
            for name, value in mine.items():
                if theirs.get(name) != value:
                    raise DissonanceError(
                        f"the storage holds a search of {pair.name} with {name} {theirs.get(name)}, not {value}: "
                        "give another."
                    )
            if "settings" not in study.user_attrs:
                study.set_user_attr("settings", mine)
            self.studies[pair] = study
        return self.studies[pair]

    def _sampler(self, pair: Pair, number: int) -> Any:
        """What suggests a trial, with a seed of its own; it takes trials that still run for bad ones."""
        optuna = _optuna()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the constant liar has been experimental since 2021
            seed = crc32(f"{pair.name}-{number}".encode())
            return optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP, constant_liar=True)

    def found(self) -> list[Found]:
        """All finished trials, the best of each pair first."""
        rows: list[Found] = []
        for pair in self._pairs():
            trials = self._study(pair).get_trials(deepcopy=False, states=(_optuna().trial.TrialState.COMPLETE,))
            for t in sorted(trials, key=lambda t: (t.value, t.number)):
                rows.append(Found(pair, t.number, self._run(pair, t.params), t.value))
        return rows


def check_installed() -> None:
    """Raise if the search has not what it needs."""
    _optuna()


def _optuna() -> ModuleType:
    try:
        optuna = import_module("optuna")
    except ImportError:
        raise CapabilityError("the search needs Optuna: pip install 'dissonance[gflownet]'.") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _storage(where: str | Path) -> Any:
    """The journal in a file, or the data base."""
    optuna = _optuna()
    try:
        if "://" in str(where):
            return optuna.storages.RDBStorage(str(where))
        path = Path(where)
        path.parent.mkdir(parents=True, exist_ok=True)
        _mend(path)
        lock = optuna.storages.journal.JournalFileSymlinkLock(str(path), grace_period=PATIENCE)
        return optuna.storages.JournalStorage(_journal(optuna, path, lock))
    except FormatError:
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if isinstance(error.__cause__, ModuleNotFoundError):
            reason = f"it needs the package {error.__cause__.name!r}, which is not installed"
        reason = reason.rstrip(".").replace(str(where), without_password(where))
        raise DissonanceError(f"the storage {without_password(where)} cannot be used: {reason}.") from None


def _journal(optuna: ModuleType, path: Path, lock: Any) -> Any:
    """Return a journal whose every line has a checksum, which covers the checksum of the line before it."""

    class Journal(optuna.storages.journal.JournalFileBackend):
        def __init__(self) -> None:
            super().__init__(str(path), _NoLock())
            self.sums = [0]  # of the line before line 0, 1, ... as far as they were read

        def append_logs(self, logs: list[dict[str, Any]]) -> None:
            lock.acquire()
            try:
                known, chained = _last_sum(path), list[dict[str, Any]]()
                for log in logs:
                    known = _crc(log, known)
                    chained.append(log | {"crc": known})
                super().append_logs(chained)
            finally:
                lock.release()

        def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
            first = min(log_number_from, len(self.sums) - 1)
            try:
                for number, log in enumerate(super().read_logs(first), first):
                    known = log.pop("crc", None)
                    if known != _crc(log, self.sums[number]):
                        raise ValueError
                    self.sums[number + 1 :] = [known]
                    if number >= log_number_from:
                        yield log
            except (ValueError, AttributeError):
                raise FormatError(f"{path}: is damaged. Delete it to search anew.") from None

    return Journal()


class _NoLock:
    """The lock of a journal file that is locked already."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None: ...


def _last_sum(journal: Path) -> int:
    """The checksum of the last line, 0 if there is none."""
    with journal.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LINE))
        lines = file.read().splitlines()
    try:
        return json.loads(lines[-1])["crc"] if lines else 0
    except (ValueError, KeyError, TypeError):
        raise FormatError(f"{journal}: is damaged. Delete it to search anew.") from None


def _crc(log: dict[str, Any], before: int) -> int:
    return crc32(json.dumps(log, sort_keys=True).encode(), before)


@contextmanager
def reachable(storage: str | Path) -> Generator[None, None, None]:
    """Say it in one line if the data base is lost on the way, or the file cannot be written."""
    lost = (_optuna().exceptions.StorageInternalError, import_module("sqlalchemy.exc").SQLAlchemyError, OSError)
    try:
        yield
    except lost as error:
        reason = str(error.__cause__ or error).strip().splitlines()[0].rstrip(".")
        raise DissonanceError(
            f"the storage {without_password(storage)} was lost: {reason}; the same command goes on from here."
        ) from None


def without_password(storage: str | Path) -> str:
    """Where trials are kept, without a password."""
    return re.sub(r"(?<=://)([^:/@]*):[^@]*(?=@)|(?<=[?&])password=[^&]*&?", r"\1", str(storage)).rstrip("?&")


def _mend(journal: Path) -> None:
    """Cut off a line that was not written to its end: it would make the journal unreadable."""
    if journal.exists():
        content = journal.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            journal.write_bytes(whole)
