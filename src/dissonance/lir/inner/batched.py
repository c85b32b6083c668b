"""The inner problem of tables: all runs in one batch, each under its own attention, from where it stopped before."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dissonance.answer import Answer, Solver
from dissonance.arc import Arc
from dissonance.lir.inner.base import Attentions, Inner, SolvedTables
from dissonance.lir.inner.compromise import Compromise, of_cells
from dissonance.lir.inner.one_by_one import OneByOne
from dissonance.lir.parameters import Parameters, Stacked
from dissonance.problem import Batch
from dissonance.proof import ProvedBounds
from dissonance.solvers import Newton
from dissonance.solvers.convex.selection import GAMMA, extrapolate
from dissonance.solvers.convex.support import structure_of
from dissonance.solvers.front import Starts, chosen, is_narrow, solve_rows


class Batched(Inner):
    """The problems of all runs, solved by any solver through the front; warm-started."""

    def __init__(self, parameters: Parameters, solver: Solver) -> None:
        self._parameters, self.solver = parameters, solver
        self.names = [a.name for a in parameters.arcs]
        self.blank = Batch.over(parameters.pdgs[0].variables, parameters.arcs, len(parameters))
        self.starts = Starts(len(parameters))
        self.last: Answer | None = None
        self.other = OneByOne(parameters, solver)

    @property
    def parameters(self) -> Parameters:
        """Parameters of the runs."""
        return self._parameters

    def alone(self, k: int) -> Batched:
        """Return the inner problem of run k."""
        return Batched(self.parameters.one(k), self.solver)

    def fork(self) -> Batched:
        """Return a copy with the same memory, which is changed independently from here on."""
        made = object.__new__(Batched)
        made.__dict__.update(self.__dict__, starts=self.starts.copy())
        return made

    def dump(self) -> dict[str, Any]:
        """Return where the runs stopped, what they were asked last and what was answered, as plain tensors."""
        points = {key: [torch.from_numpy(x) for x in both] for key, both in self.starts.points.items()}
        last: list[Tensor] = []
        if self.last is not None and len(self.last.known) == len(self.names):  # all there is to know is in the joint
            answer = self.last
            columns = *answer.part.numbers, answer.joint, answer.slope, *vars(answer.bounds).values()
            last = [*map(torch.from_numpy, columns)]
        return {"points": points, "last": last}

    def restore(self, known: dict[str, Any]) -> None:
        """Restore what was dumped."""
        self.starts.points = {key: (at.numpy().copy(), of.numpy().copy()) for key, (at, of) in known["points"].items()}
        if last := [x.numpy().copy() for x in known["last"]]:
            batch = self.blank.with_numbers(*last[:4])
            self.last = Answer.given(batch, ProvedBounds(*last[6:]), self.solver.name, *last[4:6])

    def _batch(self, log_p: Tensor, a: Attentions) -> Batch:
        return self.blank.with_numbers(log_p.numpy(), a.beta.numpy(), a.alpha.numpy(), a.gamma.numpy())

    def solve(self, theta: Stacked, attention: Attentions) -> SolvedTables:
        """Return bounds, mu(s,t), and derivatives."""
        with torch.no_grad():
            batch = self._batch(self.parameters.log_tables(theta), attention)
        if self.last is not None and batch.same(self.last.part).all():
            return SolvedTables(self.parameters, theta, self.last, 0)
        self.last = solve_rows(batch, self.solver, self.starts, last=self.last)
        return SolvedTables(self.parameters, theta, self.last, torch.as_tensor(self.last.steps))

    def precise_joint(self, log_p: Tensor, attention: Attentions, runs: Tensor, arc: Arc) -> Tensor:
        """Return mu(s,t) of an arc in some runs to the last digits: iterate until mu itself settles."""
        span = self.parameters.spans[arc.name]
        found = torch.zeros_like(log_p[:, span])
        batch, arcs = self._batch(log_p[runs], attention.take(runs)), [self.names.index(arc.name)]
        found[runs] = torch.from_numpy(solve_rows(batch, self.solver, settle=True, keep=arcs).rows(arc))
        return found

    def compromise(self, theta: Stacked, attention: Attentions) -> Compromise:
        """Return mu* of all runs at once; of each by itself if some need another solver."""
        with torch.no_grad():
            batch = self._batch(self.parameters.log_tables(theta), attention)
        gamma, found = batch.gamma, None
        if (gamma > 0).all():
            found = self._selected(batch, batch)
        elif not (gamma > 0).any():
            weighs = (batch.alpha > 0) & (batch.beta > 0)
            ratio = np.where(weighs, batch.beta / np.maximum(batch.alpha, 1e-300), np.inf).min(1)
            alpha = np.where(batch.beta == 0, 0.0, batch.alpha)
            curved = batch.with_numbers(batch.log_p, batch.beta, alpha, GAMMA * np.minimum(ratio, 1.0))
            found = self._selected(batch, curved)
        return self.other.compromise(theta, attention) if found is None else found

    def _selected(self, batch: Batch, curved: Batch) -> Compromise | None:
        """Return the minimisers at gamma > 0, or their limit as gamma -> 0+ from those of `curved` problems.

        None unless Newton solves all of them in one structure.
        """
        if len(batch.groups()) > 1 or not is_narrow(batch):
            return None
        (solver, _), *others = chosen(self.solver, batch)
        if others or not isinstance(solver, Newton) or (s := structure_of(curved, solver.tree(curved))) is None:
            return None
        if curved is not batch:
            return of_cells(s, extrapolate(s, curved).mu)
        settled, fine = solver.settled(s, batch)
        return of_cells(s, settled.mu) if fine.all() else None
