"""What EM has learned, how probable the data are under it, and when it has converged."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Arc
from dissonance.cpds import Table
from dissonance.focus import Attention
from dissonance.inconsistency import Inconsistency, inconsistency
from dissonance.lir import Run, Trace
from dissonance.pdg import PDG
from dissonance.variables import Variable

DATA = "d"
"""The arc of the data; with batches d@0, d@1, ..."""


@dataclass(frozen=True)
class Fitted:
    """What EM has learned: the beliefs p at their new parameters, and the run it took."""

    pdg: PDG
    row: Variable
    run: Run
    entropy: float

    @property
    def bounds(self) -> list[float]:
        """The mean ELBO of the rows in focus before every step of LIR; after an E-step it is their log-likelihood."""
        known: dict[frozenset[str], tuple[float, int]] = {}
        found: list[float] = []
        for row in self.run.trace.rows[:-1]:
            attended = frozenset(row.beta)
            if attended not in known:
                known[attended] = (self.entropy, 1) if DATA in attended else self._parts(attended)
            apart, count = known[attended]
            found.append(-(row.local_upper + apart) / count)
        return found

    def _parts(self, attended: Collection[str]) -> tuple[float, int]:
        """What the inconsistency of several parts leaves out, sum H(d), beside what it has of other parts, -sum log|V|
        over their variables; and how many parts are in focus."""
        arcs = [a for a in self.run.pdg if a.name in attended]
        data = [a.cpd.table() for a in arcs if a.name.startswith(f"{DATA}@")]
        seen = {v.name for a in arcs for v in a.scope}
        others = sum(math.log(v.size) for v in self.run.pdg.variables if v.name not in seen)
        return others + sum(float(numerics.entropy(d)) for d in data), len(data)

    @cached_property
    def result(self) -> Inconsistency:
        """The beliefs against the data: mu* is d(row) p(hidden | row)."""
        return believed(self.pdg, self.row)

    @property
    def evidence(self) -> Tensor:
        """log p(x_n) of every row, as a density: without what a floor adds to the objective."""
        from dissonance.instances.em.likelihood import densities

        plain = densities(self.pdg)
        return evidence(self.result if plain is self.pdg else believed(plain, self.row))

    def posterior(self, *names: str) -> Tensor:
        """p(hidden | x_n) of these variables, (rows, sizes...)."""
        return self.result.mu.conditional(names, self.row.name)


def believed(pdg: PDG, row: Variable) -> Inconsistency:
    """Beliefs p(hidden, x_row) against rows that are equally likely, at alpha = beta = gamma = 1."""
    with torch.no_grad():
        return inconsistency(*_with_data(pdg, row))


def _with_data(pdg: PDG, row: Variable) -> tuple[PDG, Attention]:
    soft = {a.name: 1.0 for a in pdg}
    data = Arc("d", (), row, Table(torch.full((row.size,), 1 / row.size, dtype=numerics.DTYPE)))
    return pdg + data, Attention.only({**soft, "d": math.inf}, soft, 1.0)


def evidence(result: Inconsistency) -> Tensor:
    """log p(x_n) of every row; -inf where the beliefs make it impossible."""
    found = [s.evidence for s in result.answers if s.evidence is not None]
    assert len(found) == 1 and found[0] is not None  # what is not connected to the rows says nothing about them
    return found[0]


@dataclass(frozen=True)
class Settled:
    """A callback that ends EM when an iteration gains less than `tol` nats a row, as its E-step shows it."""

    tol: float

    def __call__(self, step: int, traces: Sequence[Trace]) -> bool:
        """Whether every run has converged."""
        if step % 2 or step < 4:
            return False
        gains = [t.rows[step - 3].local_upper - t.rows[step - 1].local_upper for t in traces]
        return all(abs(g) < self.tol for g in gains)
