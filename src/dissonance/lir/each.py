"""The inner problem by any solver, through the front door: for what cannot be batched."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from dissonance.cpds import CPD
from dissonance.inconsistency import Inconsistency, inconsistencies
from dissonance.lir.inner import Attentions, Solved, rows_of
from dissonance.lir.parameters import Parameters, Stacked
from dissonance.numerics import DTYPE
from dissonance.pdg import PDG, Arc
from dissonance.solvers import Solver
from dissonance.variables import shape


class _LogTable(CPD):
    """A table whose logarithms are the parameters, free of any family: what derivatives in log p are taken in."""

    def __init__(self, log_p: Tensor) -> None:
        super().__init__()
        self.log_p = nn.Parameter(log_p)

    def log_table(self) -> Tensor:
        """The logarithms."""
        return self.log_p


class Each:
    """Any solver, through the front door: for what cannot be batched."""

    def __init__(self, parameters: Parameters, solver: Solver) -> None:
        self._parameters, self.solver = parameters, solver
        self.names = [a.name for a in parameters.arcs]

    @property
    def parameters(self) -> Parameters:
        """What the runs are runs of."""
        return self._parameters

    def alone(self, k: int) -> Each:
        """The same for run k by itself."""
        return Each(self.parameters.one(k), self.solver)

    def fork(self) -> Each:
        """Itself: it remembers nothing."""
        return self

    def dump(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def restore(self, known: dict[str, Any]) -> None:
        """Nothing to do."""

    @cached_property
    def bare(self) -> PDG:
        """The PDG with bare tables in place of its cpds."""
        arcs = self.parameters.arcs
        shapes = [shape(a.scope) for a in arcs]
        bare = [
            Arc(a.name, a.sources, a.targets, _LogTable(torch.zeros(s, dtype=DTYPE)))
            for a, s in zip(arcs, shapes, strict=True)
        ]
        return PDG(*bare, variables=self.parameters.pdgs[0].variables)

    def solve(self, theta: Stacked, attention: Attentions) -> Solved:
        """Bounds, mu(s,t), and derivatives."""
        if self.parameters.tabular:
            with torch.no_grad():
                log_p = self.parameters.log_tables(theta)
            return self.tables(log_p, attention)
        leaves = {k: v.detach().requires_grad_() for k, v in theta.items()}
        thetas = [self.parameters.of(k, leaves) for k in range(len(attention))]
        found, solved = self._ask(list(self.parameters.pdgs), attention, thetas, 0)
        total = torch.stack([r.value for r in found]).sum()
        gradient = {k: torch.zeros_like(v) for k, v in theta.items()}
        if total.requires_grad:
            slopes = torch.autograd.grad(total, list(leaves.values()), allow_unused=True, materialize_grads=True)
            gradient = dict(zip(theta, slopes, strict=True))
        return replace(solved, gradient=gradient, results=found)

    def tables(self, log_p: Tensor, attention: Attentions) -> Solved:
        """The same from tables (P, entries) alone."""
        leaf = log_p.detach().requires_grad_()
        spans = self.parameters.spans
        found, solved = self._ask([self.bare] * len(leaf), attention, self.thetas(leaf), log_p.shape[1])
        total = torch.stack([r.value for r in found]).sum()
        if total.requires_grad:
            (slope,) = torch.autograd.grad(total, leaf)
            solved.slope.copy_(torch.where(torch.isfinite(solved.upper)[:, None], slope.nan_to_num(0.0), 0.0))
        for k, result in enumerate(found):
            for arc in self.parameters.arcs:
                rows = rows_of(result, arc)
                if rows is not None:
                    solved.joint[k, spans[arc.name]] = rows.reshape(-1)
        return solved

    def sharp(self, log_p: Tensor, attention: Attentions, runs: Tensor) -> Tensor:
        """mu(s,t) as the solver found it."""
        found = torch.zeros_like(log_p)
        found[runs] = self.tables(log_p[runs], attention.take(runs)).joint
        return found

    def ask(self, theta: Stacked, attention: Attentions) -> list[Inconsistency]:
        """The results themselves."""
        thetas = [self.parameters.of(k, theta) for k in range(len(attention))]
        attentions = [attention.one(k, self.names) for k in range(len(attention))]
        with torch.no_grad():
            return inconsistencies(self.parameters.pdgs, attentions, solver=self.solver, thetas=thetas)

    def thetas(self, log_p: Tensor) -> list[dict[str, Tensor]]:
        """Tables (P, entries) as the parameters of `bare`."""
        shapes = {a.name: shape(a.scope) for a in self.parameters.arcs}
        return [{f"{n}.log_p": row[at].reshape(shapes[n]) for n, at in self.parameters.spans.items()} for row in log_p]

    def _ask(
        self, pdgs: list[PDG], attention: Attentions, thetas: list[dict[str, Tensor]], entries: int
    ) -> tuple[list[Inconsistency], Solved]:
        attentions = [attention.one(k, self.names) for k in range(len(attention))]
        with torch.enable_grad():
            found = inconsistencies(pdgs, attentions, solver=self.solver, thetas=thetas)
        solved = Solved.blank(len(found), entries)
        for k, r in enumerate(found):
            solved.lower[k], solved.upper[k], solved.steps[k] = r.lower, r.upper, int(r.stats["steps"])
        return found, solved
