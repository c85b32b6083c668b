"""Sweeps on a GPU: tables stay there from the first sweep to the last.

The foci of a shape and colour are solved in one batch (`solvers/convex/device.py`) and moved at once. Those whose
bounds do not meet there, such as foci with impossible cells, are solved by the compiled code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dissonance.lir.sweep.neighbourhoods import FociBatch
from dissonance.lir.sweep.sweeping import FociShape, Ints, Piece, SweepTables
from dissonance.solvers import Newton
from dissonance.solvers.convex.device import DeviceBatch, small_enough
from dissonance.solvers.convex.program import Arcs, first_guess
from dissonance.solvers.stack import Answers

TOGETHER = 1 << 27
"""Numbers of the systems that are factored at once: 1 GiB."""


class DeviceTables(SweepTables):
    """The same as tensors on a device."""

    xp = torch

    def __init__(self, of: SweepTables, device: str) -> None:
        self.of, self.pdg, self.first, self.device = of, of.pdg, of.first, device
        beta, chi, *self.log_p = (torch.from_numpy(x).to(device) for x in (of.beta, of.chi, *of.log_p))
        self.beta, self.chi = beta, chi

    def array(self, x: Tensor | Ints) -> Tensor:
        """As a tensor on the device."""
        return torch.as_tensor(x, device=self.device)

    def shape(self, batch: FociBatch, solver: Newton) -> FociShape:
        """What these foci have in common; they are solved on the device if they are small enough."""
        return DeviceFociShape(self, batch, solver)

    def visited(self, pieces: Sequence[Piece], tol: float, move: bool) -> list[tuple[float, float, int]]:
        """What visits of foci of one colour have found, piece by piece."""
        with torch.inference_mode():
            return [piece.visit(self, tol, move) for piece in pieces]

    def copied(self) -> list[Tensor]:
        """The tables as they are now."""
        return [x.clone() for x in self.log_p]

    def put(self, log_p: Sequence[Tensor]) -> None:
        """Set all tables."""
        self.log_p = [x.to(self.device, copy=True) for x in log_p]


class DeviceFociShape(FociShape):
    """Foci of one shape on a device.

    The numbers of a program are linear in beta log p and in beta, and mu(s,t) is in mu: the matrices are what the
    compiled code makes of unit vectors.
    """

    def __init__(self, tables: DeviceTables, batch: FociBatch, solver: Newton) -> None:
        super().__init__(tables.of, batch, solver)
        s, device = self.stack.possible(self.stack.plain), tables.device
        self.batch = DeviceBatch(s, device) if small_enough(s) else None
        entries, arcs, cells = len(s.arc_of), len(self.columns), s.flat_layout[1].cells
        self.most = max(1, TOGETHER // (cells + s.flat_layout[1].unknowns) ** 2)
        units = Arcs(np.eye(entries), np.ones((entries, arcs)), np.zeros((entries, arcs)), np.zeros(entries))
        weights = Arcs(np.zeros((arcs, entries)), np.eye(arcs), np.zeros((arcs, arcs)), np.zeros(arcs))
        arrays = s.numbers(units).c, s.weights(weights), s.joint(np.eye(cells)), s.arc_of, s.layout.table
        self.costs, self.weights, self.joints, self.arc_of, self.table = (
            torch.from_numpy(x).to(device) for x in arrays
        )

    def solve(self, log_p: Any, beta: Any, near: Any) -> tuple[Answers, Any]:
        """Answers, on the device and without derivatives, and where the solver stopped."""
        found, at = Answers.blank(*log_p.shape, device=log_p.device), None
        if self.batch is not None:
            found, at = self._together(self.batch, log_p, beta, near)
        left = found.open(self.solver.tol)
        if left.any():
            answers, _ = super().solve(log_p[left].cpu().numpy(), beta[left].cpu().numpy(), None)
            found.put(left, Answers(*(x.to(log_p.device) for x in answers.tensors)))
        return found, at

    def _together(self, batch: DeviceBatch, log_p: Tensor, beta: Tensor, near: Any) -> tuple[Answers, Tensor]:
        """As many as can be solved there."""
        problems = batch.of(
            (beta[:, self.arc_of] * log_p) @ self.costs, beta @ self.weights, first_guess(log_p[:, self.table].exp())
        )
        tol, enough = (torch.full_like(beta[:, 0], x * self.solver.tol) for x in (1e-2, 0.5))
        at, mu, bounds, steps = problems.solve(tol, enough, None if near is None else (near, near.isfinite().all(1)))
        lower, upper = bounds[:, 0].clamp(min=0.0), bounds[:, 1]  # divergences are not negative
        joint = mu @ self.joints
        return Answers(torch.minimum(lower, upper), upper, steps, joint, torch.zeros_like(joint)), at
