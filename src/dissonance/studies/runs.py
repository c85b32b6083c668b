"""A batch of runs of the synthetic study: PDGs of one structure under every strategy, by either solver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from dissonance.focus import Attention, Control, Focus
from dissonance.inconsistency import inconsistencies
from dissonance.lir import Descent, Record, Trace, lirs
from dissonance.lir.refocus import Greedy, Hub, Learned, Partial, Refocus, Smooth, Surprisal, Uniform
from dissonance.pdg import PDG
from dissonance.studies.outcomes import Outcome
from dissonance.studies.published import published

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

Watch = Callable[[float], None]
"""Called with how much of a batch is done, up to 1."""


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


def exact(runs: Runs, checkpoint: Path | None = None, watch: Watch | None = None) -> list[Outcome]:
    """LIR with certified solves and the published outer loop: 10 steps of Adam at rate 0.005 a timestep."""
    found = lirs(
        [pdg for _, _, pdg, _ in runs],
        runs.refocus,
        seeds=[seed for *_, seed in runs],
        steps=runs.steps,
        flow=Descent(),
        trace=Record(globally=True, distortion=0),
        checkpoint=checkpoint,
        callbacks=[] if watch is None else [lambda done, _: watch(done / runs.steps)],
        progress=False,
    )
    if any(run.interrupted for run in found):
        raise KeyboardInterrupt
    return [
        Outcome(
            structure=runs.structure,
            strategy=strategy,
            replicate=replicate,
            initial=run.before.upper,
            final=run.after.upper,
            initial_lower=run.before.lower,
            initial_upper=run.before.upper,
            final_lower=run.after.lower,
            final_upper=run.after.upper,
            tv_mu=run.distortion_tv,
            inconsistency=tuple(run.trace.column("global_upper")),
            tv_theta=tuple(runs.rows * tv for tv in run.trace.column("tv_theta")),
            solves=sum(run.trace.column("solves")),
            solver_steps=sum(run.trace.column("newton_steps")),
            seconds=sum(run.trace.column("seconds")),
        )
        for (strategy, replicate, _, _), run in zip(runs, found, strict=True)
    ]


def paper(runs: Runs, checkpoint: Path | None = None, watch: Watch | None = None) -> list[Outcome]:
    """The published loop; what it says it did, between certified values of where it began and where it ended."""
    began = time.perf_counter()
    pdgs = [pdg for _, _, pdg, _ in runs]
    traces = published(pdgs, Foci(runs, watch), runs.steps)
    thetas = [theta for t in range(runs.steps + 1) for theta in traces.thetas(pdgs, t)]
    with torch.no_grad():
        certified = inconsistencies(pdgs * (runs.steps + 1), thetas=thetas)
    seconds = (time.perf_counter() - began) / len(pdgs)
    outcomes: list[Outcome] = []
    for k, (strategy, replicate, *_) in enumerate(runs):
        exactly = certified[k :: len(pdgs)]
        outcomes.append(
            Outcome(
                structure=runs.structure,
                strategy=strategy,
                replicate=replicate,
                initial=float(traces.initial[k]),
                final=float(traces.final[k]),
                initial_lower=exactly[0].lower,
                initial_upper=exactly[0].upper,
                final_lower=exactly[-1].lower,
                final_upper=exactly[-1].upper,
                tv_mu=float(traces.tv_mu[k]),
                inconsistency=tuple(at.upper for at in exactly),
                tv_theta=tuple(traces.tv_theta[k].tolist()),
                solves=traces.solves,
                solver_steps=traces.iterations,
                seconds=seconds,
            )
        )
    return outcomes


class Foci:
    """The foci of all runs, timestep by timestep, from the same procedures that LIR uses."""

    def __init__(self, runs: Runs, watch: Watch | None) -> None:
        self.refocus, self.steps, self.watch = runs.refocus, runs.steps, watch
        self.pdgs = [pdg for _, _, pdg, _ in runs]
        self.generators = [torch.Generator().manual_seed(seed) for *_, seed in runs]
        self.traces = [Trace(Focus(Attention.uniform(p), Control({a.name: 1.0 for a in p.arcs}))) for p in self.pdgs]

    def __call__(self, step: int) -> list[Focus]:
        """One for each run."""
        if self.watch is not None:
            self.watch(step / self.steps)
        each = zip(self.refocus, self.pdgs, self.generators, self.traces, strict=True)
        return [refocus(pdg, step, generator, trace) for refocus, pdg, generator, trace in each]


SOLVERS: dict[str, Callable[[Runs, Path | None, Watch | None], list[Outcome]]] = {"exact": exact, "paper": paper}
"""How a batch is run; a checkpoint, where the solver keeps one, lets a batch that was stopped go on."""
