"""Message schedules as refocus procedures: which focus comes next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dissonance.errors import DissonanceError, suggest
from dissonance.focus import Attention, Focus
from dissonance.inconsistency import inconsistency
from dissonance.instances.belief_propagation.factor_graph import FactorGraph
from dissonance.instances.belief_propagation.tied import Tied
from dissonance.lir import Choice, Refocus, Trace
from dissonance.pdg import PDG


@dataclass(frozen=True)
class Order:
    """Named foci in a fixed order, over and over; `order` is one sweep."""

    foci: Mapping[str, Focus]
    order: Sequence[str]
    name: str = "order"

    def __post_init__(self) -> None:
        for n in self.order:
            if n not in self.foci:
                raise DissonanceError(f"no focus named {n!r}.{suggest(n, self.foci)}")

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """The next focus of the schedule."""
        return self.foci[self.order[step % len(self.order)]]


@dataclass(frozen=True)
class Residual:
    """The focus that has most to resolve: residual belief propagation.

    A focus can lower its inconsistency by J(m) - min J, which is -(1 + beta) log sum m^(beta/(1 + beta))
    nu^(1/(1 + beta)) of the message m as it is and the message nu that it would become; the largest wins.
    """

    foci: Mapping[str, Focus]
    pdg: PDG
    name: str = "residual"
    _known: dict[tuple[str, bytes], float] = field(default_factory=dict, repr=False)

    @cached_property
    def _local(self) -> dict[str, tuple[PDG, Attention, Attention]]:
        """What each focus sees: its arcs, with the moving belief and without."""
        found: dict[str, tuple[PDG, Attention, Attention]] = {}
        for name, focus in self.foci.items():
            a = focus.attention
            soft = [n for n, b in a.beta.items() if b != math.inf or n in focus.control.chi]
            seen = {v.name for n in soft for v in self.pdg[n].scope}
            hard = [self.pdg[n] for n in a.beta if n not in soft]
            ties = [x for x in hard if any(v.name in seen for v in x.scope)]
            arcs = PDG(*(self.pdg[n] for n in soft), *ties)
            near = Attention.only(
                {x.name: a.beta[x.name] for x in arcs},
                {x.name: a.alpha[x.name] for x in arcs if x.name in a.alpha},
                a.gamma,
            )
            found[name] = arcs, near, near.replace(beta=dict.fromkeys(focus.control.chi, 0.0))
        return found

    def gains(self, trace: Trace) -> dict[str, float]:
        """By how much each focus can lower its inconsistency at the present theta."""
        found: dict[str, float] = {}
        for name, (pdg, with_it, without) in self._local.items():
            theta = {key: trace.theta[key] for key in pdg.theta}
            key = name, b"".join(x.numpy().tobytes() for x in theta.values())
            if key not in self._known:
                values = [inconsistency(pdg, a, solver=Tied(), theta=theta).upper for a in (with_it, without)]
                self._known[key] = values[0] - values[1]
            found[name] = self._known[key]
        return found

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """The one with most to gain; of equals the first."""
        gains = self.gains(trace)
        return self.foci[max(gains, key=lambda n: gains[n])]


def flooding(graph: FactorGraph) -> list[str]:
    """All X->a, then all a->X, then all beliefs: a two-phase sweep."""
    out = [f"{r.name}->{phi.name}" for phi in graph.factors for r in graph.around[phi.name]]
    back = [f"{phi.name}->{r.name}" for phi in graph.factors for r in graph.around[phi.name]]
    return [*out, *back, *(r.name for r in graph.regions)]


def sequential(graph: FactorGraph) -> list[str]:
    """Region by region, factor by factor: X->a, then what a has to tell its other regions; then all beliefs."""
    order: list[str] = []
    for r in graph.regions:
        for a in r.neighbours:
            others = [s for s in graph.around[a] if s is not r] or [r]
            order += [f"{r.name}->{a}", *(f"{a}->{s.name}" for s in others)]
    return [*order, *(r.name for r in graph.regions)]


def schedule_named(
    schedule: str | Sequence[str] | Refocus, foci: Mapping[str, Focus], graph: FactorGraph, pdg: PDG
) -> Refocus:
    """The schedule of that name, a sweep through foci by their names, or any refocus."""
    if callable(schedule):
        return schedule
    if not isinstance(schedule, str):
        return Order(foci, tuple(schedule))
    named = {
        "flooding": lambda: Order(foci, tuple(flooding(graph)), "flooding"),
        "sequential": lambda: Order(foci, tuple(sequential(graph)), "sequential"),
        "random": lambda: Choice(*foci.values()),
        "residual": lambda: Residual(foci, pdg),
    }
    if schedule not in named:
        raise DissonanceError(f"no schedule named {schedule!r}.{suggest(schedule, named)}")
    return named[schedule]()
