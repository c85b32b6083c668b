"""Sweeps on a GPU: tables stay there from the first sweep to the last.

The foci of a shape and colour are solved in one batch (`solvers/convex/device.py`) and moved at once. Those whose
bounds do not meet there, such as foci with impossible cells, are solved by the compiled code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from dissonance.lir.sweep.sweeping import FociShape, Ints, Piece, ShapeSpec, SolvedFoci, SweepTables, Visit
from dissonance.proof import Accuracy, ProvedBounds
from dissonance.solvers import Newton
from dissonance.solvers.convex.device import DeviceBatch, small_enough
from dissonance.solvers.convex.program import first_guess

TOGETHER = 1 << 27
"""Numbers of the systems that are factored at once: 1 GiB."""


class DeviceTables(SweepTables):
    """The same as tensors on a device."""

    xp = torch

    @classmethod
    def of_host(cls, tables: SweepTables, device: str) -> DeviceTables:
        """Tables brought to the device."""
        log_p, weights = (
            [torch.from_numpy(x).to(device) for x in xs] for xs in (tables.log_p, (tables.beta, tables.chi))
        )
        return cls(cast(Any, log_p), *cast(Any, weights))

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return cast(Tensor, self.beta).device

    def array(self, x: Ints) -> Tensor:
        """As a tensor on the device."""
        return torch.as_tensor(x, device=self.device)

    def on_host(self, x: Tensor) -> Tensor:
        """One of its tensors on the CPU."""
        return x.cpu()

    def shape(self, spec: ShapeSpec, solver: Newton) -> FociShape:
        """What foci of this shape have in common; they are solved on the device if they are small enough."""
        return DeviceFociShape(spec, solver, self.device)

    def visited(self, pieces: Sequence[Piece], tol: float, move: bool) -> list[Visit]:
        """The foci of one colour, piece by piece."""
        with torch.inference_mode():
            return [piece.visit(self, tol, move) for piece in pieces]

    def sum_of(self, values: Tensor) -> list[float]:
        """The sum, as the device adds it up."""
        return [float(values.sum())]

    def copied(self) -> DeviceTables:
        """The same, to be moved."""
        return DeviceTables([x.clone() for x in self.log_p], self.beta, self.chi)

    def apart(self, start: Sequence[Any]) -> list[float]:
        """The total variation of all rows of all tables from those of the start."""
        return [0.5 * float((x.exp() - y.exp()).abs().sum()) for x, y in zip(self.log_p, start, strict=True)]


class DeviceFociShape(FociShape):
    """Foci of one shape on a device.

    The numbers of a program are linear in beta log p and in beta, and mu(s,t) is in mu: the matrices are what the
    compiled code makes of unit vectors.
    """

    def __init__(self, spec: ShapeSpec, solver: Newton, device: torch.device) -> None:
        super().__init__(spec, solver)
        s = self.structure
        assert s is not None
        self.batch = DeviceBatch(s, str(device)) if small_enough(s) else None
        entries, arcs, cells = len(s.arc_of), len(self.columns), s.flat_layout[1].cells
        self.most = max(1, TOGETHER // (cells + s.flat_layout[1].unknowns) ** 2)
        units = self.blank.with_numbers(
            np.eye(entries), np.ones((entries, arcs)), np.zeros((entries, arcs)), np.zeros(entries)
        )
        weights = self.blank.with_numbers(
            np.zeros((arcs, entries)), np.eye(arcs), np.zeros((arcs, arcs)), np.zeros(arcs)
        )
        arrays = s.numbers(units).c, s.weights(weights), s.joint(np.eye(cells)), s.arc_of, s.layout.table
        self.costs, self.weights, self.joints, self.arc_of, self.table = (
            torch.from_numpy(x).to(device) for x in arrays
        )

    def solve(self, log_p: Any, beta: Any, near: Any) -> tuple[SolvedFoci, Any]:
        """Return what was found, on the device, and where the solver stopped."""
        count, on = len(beta), {"dtype": log_p.dtype, "device": log_p.device}
        left, near = torch.ones(count, dtype=torch.bool, device=log_p.device), near
        steps = torch.zeros(count, dtype=torch.long, device=log_p.device)
        found = SolvedFoci(torch.zeros(count, **on), torch.zeros(count, **on), steps, torch.zeros_like(log_p))
        if self.batch is not None:
            found, left, near = self._together(self.batch, log_p, beta, near)
        if left.any():
            answers, _ = super().solve(log_p[left].cpu().numpy(), beta[left].cpu().numpy(), None)
            for mine, theirs in zip(found, answers, strict=True):
                mine[left] = torch.from_numpy(theirs).to(log_p.device)
        return found, near

    def _together(self, batch: DeviceBatch, log_p: Tensor, beta: Tensor, near: Any) -> tuple[SolvedFoci, Tensor, Any]:
        """Solve as many as can be solved there; which are left."""
        problems = batch.of(
            (beta[:, self.arc_of] * log_p) @ self.costs, beta @ self.weights, first_guess(log_p[:, self.table].exp())
        )
        tol, enough = (torch.full_like(beta[:, 0], x * self.solver.tol) for x in (1e-2, 0.5))
        at, mu, bounds, steps = problems.solve(tol, enough, near)
        low, high, weight = (x.numpy(force=True) for x in (bounds[:, 0], bounds[:, 1], beta))
        accuracy = Accuracy(self.blank.shape.rows, None, weight, np.zeros_like(weight), np.zeros(len(weight)))
        proved = ProvedBounds.proved(accuracy, low, high, tol=self.solver.tol)
        lower, upper, open_ = (torch.from_numpy(x).to(log_p.device) for x in (proved.lower, proved.upper, ~proved.met))
        return SolvedFoci(lower, upper, steps, mu @ self.joints), open_, (at, at.isfinite().all(1))
