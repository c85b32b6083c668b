"""The search: hyperparameters of every pair by Optuna, trials of all pairs trained together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

import torch

from dissonance.errors import CapabilityError, DissonanceError
from dissonance.gflownets.losses import loss_named
from dissonance.gflownets.trainer import Run
from dissonance.gflownets.training import train
from dissonance.studies.gflownet.settings import Pair, Settings

BETA2 = (0.99, 0.999, 0.9999)
STARTUP = 10
"""Trials of a pair that are drawn at random before the sampler learns from them."""
Progress = Callable[[float, int], None]


@dataclass(frozen=True)
class Found:
    """A finished trial: where hyperparameters led."""

    pair: Pair
    trial: int
    run: Run
    l1: float


@dataclass(frozen=True)
class Search:
    """The searches of a study in one storage; trials that a kill left unfinished are run again, finished ones never."""

    settings: Settings
    storage: Any
    device: torch.device | str = "cpu"
    together: int = 128  # runs that are trained at once
    studies: dict[Pair, Any] = field(default_factory=dict[Pair, Any])  # opened so far

    @classmethod
    def at(
        cls, settings: Settings, where: str | Path, device: torch.device | str = "cpu", together: int = 128
    ) -> Search:
        """Searches kept in a journal file, or in the data base of a URL such as postgresql://host/name."""
        optuna = _optuna()
        if "://" not in str(where):
            Path(where).parent.mkdir(parents=True, exist_ok=True)
            backend = optuna.storages.journal.JournalFileBackend(str(where))
            return cls(settings, optuna.storages.JournalStorage(backend), device, together)
        try:
            return cls(settings, optuna.storages.RDBStorage(str(where)), device, together)
        except Exception as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise DissonanceError(f"the storage {_without_password(str(where))} cannot be used: {reason[0]}") from None

    def __call__(self, progress: Progress | None = None) -> None:
        """Run all trials that are missing."""
        total = sum(self.settings.trials for clamp in self.settings.searched for _ in self.settings.pairs(clamp))
        while batch := self._ask():
            done = total - sum(self.settings.trials - self._finished(p) for p in self._pairs())
            for first in range(0, len(batch), self.together):
                some = batch[first : first + self.together]

                def watch(at: int, end: int, done: int = done + first, count: int = len(some)) -> None:
                    if progress:
                        progress(done + count * at / end, total)

                self._tell(some, self._l1([run for _, _, run in some], [p.reward for p, _, _ in some], watch))

    def _pairs(self) -> list[Pair]:
        return [pair for clamp in self.settings.searched for pair in self.settings.pairs(clamp)]

    def _l1(self, runs: Sequence[Run], rewards: Sequence[str], watch: Callable[[int, int], None]) -> list[float]:
        graphs = self.settings.graphs()
        plan = self.settings.plan(self.settings.search_iterations)
        _, record = train(runs, [graphs[r] for r in rewards], plan, device=self.device, progress=watch)
        return record.last("l1")

    def _ask(self) -> list[tuple[Pair, int, Run]]:
        """Trials to run now: those a kill left unfinished, else as many new ones of each pair as are asked at once."""
        batch: list[tuple[Pair, int, Run]] = []
        for pair in self._pairs():
            study = self._study(pair)
            running = study.get_trials(deepcopy=False, states=(_optuna().trial.TrialState.RUNNING,))
            batch += [(pair, t.number, self._run(pair, t.params)) for t in running if self._params(t.params, pair)]
            missing = self.settings.trials - self._finished(pair) - len(running)
            for _ in range(min(missing, self.settings.asked)):
                trial = study.ask(self._space(pair))
                batch.append((pair, trial.number, self._run(pair, trial.params)))
        return batch

    def _params(self, params: dict[str, Any], pair: Pair) -> bool:
        return set(params) == set(self._space(pair))

    def _tell(self, batch: Sequence[tuple[Pair, int, Run]], l1: Sequence[float]) -> None:
        for (pair, number, _), value in zip(batch, l1, strict=True):
            self._study(pair).tell(number, value if value == value else 2.0)  # 2 is the worst L1 there is

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

    def _run(self, pair: Pair, params: dict[str, Any]) -> Run:
        return Run(pair.loss, self.settings.search_seed, clamp=pair.clamp, **params)

    def _study(self, pair: Pair) -> Any:
        """The search of a pair, opened once; its sampler starts from a seed of its own."""
        if pair not in self.studies:
            optuna = _optuna()
            seed = crc32(pair.name.encode())
            sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP, constant_liar=True)
            self.studies[pair] = optuna.create_study(
                study_name=pair.name, storage=self.storage, sampler=sampler, load_if_exists=True, direction="minimize"
            )
        return self.studies[pair]

    def found(self) -> list[Found]:
        """All finished trials, the best of each pair first."""
        rows: list[Found] = []
        for pair in self._pairs():
            trials = self._study(pair).get_trials(deepcopy=False, states=(_optuna().trial.TrialState.COMPLETE,))
            for t in sorted(trials, key=lambda t: (t.value, t.number)):
                rows.append(Found(pair, t.number, self._run(pair, t.params), t.value))
        return rows


def _optuna() -> ModuleType:
    try:
        optuna = import_module("optuna")
    except ImportError:
        raise CapabilityError("the search needs Optuna: pip install 'dissonance[gflownet]'.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _without_password(url: str) -> str:
    """The URL, fit to be shown."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
