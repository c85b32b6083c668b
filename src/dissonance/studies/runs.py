"""A batch of runs of the synthetic study: PDGs of one structure under every strategy, by either solver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dissonance.inconsistency import inconsistencies
from dissonance.lir import Descent, Published, Record, Run, Value, lirs
from dissonance.lir.flows.descent import ADAM
from dissonance.lir.refocus import Greedy, Hub, Learned, Partial, Refocus, Smooth, Surprisal, Uniform
from dissonance.pdg import PDG
from dissonance.studies.outcomes import StrategyOutcome
from dissonance.workers.base import Watch

STRATEGIES = ("uniform", "partial", "hub", "smooth", "greedy", "learned")
"""Those of the paper (smooth is named there without numbers), and two of ours."""

REFOCUS: dict[str, Callable[[float], Refocus]] = {
    "uniform": lambda _: Uniform(),
    "partial": lambda _: Partial(),
    "hub": lambda weight: Hub(weight, anywhere=True),
    "smooth": lambda _: Smooth(),
    "greedy": lambda _: Greedy(),
    "surprisal": lambda _: Surprisal(),
    "learned": lambda _: Learned(),
}
"""The refocus procedure of a strategy, by the weight that hub focus leaves the other arcs."""

BLIND = ("uniform", "partial", "hub", "smooth")
"""Strategies that do not look at mu*, which the published loop does not know."""


@dataclass(frozen=True)
class Runs:
    """PDGs that differ in their numbers only, each with a seed, and the strategies for all of them."""

    structure: str
    replicates: Sequence[int]
    pdgs: Sequence[PDG]
    seeds: Sequence[int]
    strategies: Sequence[str]
    steps: int = 20
    hub_weight: float = 0.1

    def __iter__(self) -> Iterator[tuple[str, int, PDG, int]]:
        """Strategy, replicate, PDG and seed of every run."""
        for strategy in self.strategies:
            for replicate, pdg, seed in zip(self.replicates, self.pdgs, self.seeds, strict=True):
                yield strategy, replicate, pdg, seed

    @property
    def refocus(self) -> list[Refocus]:
        """What the strategy of every run does."""
        return [REFOCUS[strategy](self.hub_weight) for strategy, *_ in self]

    @property
    def rows(self) -> int:
        """How many rows the tables of one of the PDGs have."""
        return sum(a.cpd.table().numel() // a.cpd.table().shape[-1] for a in self.pdgs[0].arcs)


def exact(runs: Runs, checkpoint: Path | None = None, watch: Watch | None = None) -> list[StrategyOutcome]:
    """LIR with certified solves and the published outer loop: 10 steps of Adam at rate 0.005 a timestep."""
    found = _lirs(runs, checkpoint, watch, flow=Descent())
    certified = [[Value(row.global_lower, row.global_upper) for row in run.trace.rows] for run in found]
    return _outcomes(runs, found, certified)


def paper(runs: Runs, checkpoint: Path | None = None, watch: Watch | None = None) -> list[StrategyOutcome]:
    """LIR with the published inner and outer loop: what it says it did, and certified values of where it really was."""
    record = Record(snapshots=1)
    found = _lirs(runs, checkpoint, watch, flow=ADAM, solver=Published(accumulate=True), tol=0.0, trace=record)
    pdgs, steps = [pdg for _, _, pdg, _ in runs], range(runs.steps + 1)
    with torch.no_grad():
        exactly = inconsistencies(pdgs * len(steps), thetas=[run.trace.snapshots[t] for t in steps for run in found])
    certified = [[Value(x.lower, x.upper) for x in exactly[k :: len(pdgs)]] for k in range(len(pdgs))]
    return _outcomes(runs, found, certified)


def _lirs(runs: Runs, checkpoint: Path | None, watch: Watch | None, **options: Any) -> list[Run]:
    found = lirs(
        [pdg for _, _, pdg, _ in runs],
        runs.refocus,
        seeds=[seed for *_, seed in runs],
        steps=runs.steps,
        checkpoint=checkpoint,
        callbacks=[] if watch is None else [lambda done, _: watch(done / runs.steps)],
        progress=False,
        **options,
    )
    if any(run.interrupted for run in found):
        raise KeyboardInterrupt
    return found


def _outcomes(runs: Runs, found: Sequence[Run], certified: Sequence[Sequence[Value]]) -> list[StrategyOutcome]:
    return [
        StrategyOutcome(
            structure=runs.structure,
            strategy=strategy,
            replicate=replicate,
            initial=run.before.upper,
            final=run.after.upper,
            initial_lower=values[0].lower,
            initial_upper=values[0].upper,
            final_lower=values[-1].lower,
            final_upper=values[-1].upper,
            tv_mu=run.distortion_tv,
            inconsistency=tuple(v.upper for v in values),
            tv_theta=tuple(runs.rows * tv for tv in run.trace.column("tv_theta")),
            solves=sum(run.trace.column("solves")),
            solver_steps=sum(run.trace.column("newton_steps")),
            seconds=sum(run.trace.column("seconds")),
        )
        for (strategy, replicate, _, _), run, values in zip(runs, found, certified, strict=True)
    ]


SOLVERS: dict[str, Callable[[Runs, Path | None, Watch | None], list[StrategyOutcome]]] = {
    "exact": exact,
    "paper": paper,
}
"""How a batch is run; a checkpoint, where the solver keeps one, lets a batch that was stopped go on."""
