"""Log-likelihoods of densities: what the floor of Gaussian cpds adds to the objective of EM is no part of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from torch import Tensor

from dissonance import numerics
from dissonance.cpds import Observed, ObservedGaussian
from dissonance.instances.em.fitted import believed, evidence
from dissonance.instances.em.instance import Alternate
from dissonance.lir import Trace
from dissonance.pdg import PDG

T = TypeVar("T", bound=Observed)


def density(cpd: T) -> T:
    """The cpd with its parameters shared and log densities at the rows: without the term -floor tr(C^-1) / 2."""
    if not isinstance(cpd, ObservedGaussian) or not cpd.floor:
        return cpd
    made = cpd.on(cpd.sample)
    made.floor = 0.0
    return made


def densities(p: PDG) -> PDG:
    """The beliefs with log densities at the rows."""
    floored = [(a, a.cpd) for a in p if isinstance(a.cpd, ObservedGaussian) and a.cpd.floor]
    return p.replace(*(a.with_cpd(density(cpd)) for a, cpd in floored)) if floored else p


class LastExpectation:
    """A callback that remembers the parameters at the last E-step, for the mean log-likelihood of its rows."""

    def __init__(self, refocus: Alternate) -> None:
        self.refocus, self.iteration = refocus, 0
        self.keys = [f"{a.name}.{n}" for part in refocus.parts for a in part.p for n, _ in a.cpd.named_parameters()]
        self.theta: dict[str, Tensor] = {}

    def __call__(self, step: int, traces: Sequence[Trace]) -> None:
        """After an E-step, keep the parameters of the beliefs."""
        if step % 2:
            theta = traces[0].theta
            self.iteration, self.theta = step // 2, {key: theta[key].clone() for key in self.keys}

    def likelihood(self) -> float:
        """sum_n d(n) log p(x_n), of the parts that the E-step looked at."""
        parts = self.refocus.expected(self.iteration)
        found = [
            numerics.times(part.d.cpd.table(), evidence(believed(densities(p), part.d.targets[0]))).sum().item()
            for part in parts
            for p in [PDG(*part.p).at(self.theta)]
        ]
        return sum(found) / len(found)
