"""One Newton system of a small problem, factored as a whole: a few large operations instead of many small ones.

The quadratic programme of `elimination.py` without hard arcs is one symmetric system

    | G   X | |  mu |   | g |
    | X'  0 | | -d  | = | e |        X: the unknowns over the cells
"""

from __future__ import annotations

import torch
from torch import Tensor

from dissonance.solvers.batch import Batch
from dissonance.solvers.elimination import Step

SMALL = 4_000_000
"""Problems times the cube of their cells and unknowns, up to which a batch is factored as a whole."""


class Whole:
    """The LU factors of the systems of a batch, G = diagonal + V diag(weight) V' with V = M - R q."""

    def __init__(
        self, batch: Batch, parts: tuple[Tensor, Tensor, Tensor], q: Tensor, weight: Tensor, diagonal: Tensor
    ) -> None:
        M, R, frame = parts
        self.roots, n = batch.structure.roots, batch.structure.cells
        V = M - R * q[:, None, :]
        self.system = frame.repeat(len(q), 1, 1)
        self.system[:, :n, :n] = (V * weight[:, None, :]) @ V.mT
        self.system[:, :n, :n].diagonal(dim1=-2, dim2=-1).add_(diagonal)
        self.live: Tensor | None = None
        if batch.alive is not None:
            cells = batch.alive.to(q.dtype)
            self.live = torch.cat([cells, (cells @ frame[:n, n:].abs() > 0).to(q.dtype)], 1)
            self.system *= self.live[:, :, None] * self.live[:, None, :]
            self.system.diagonal(dim1=-2, dim2=-1).add_(1 - self.live)
        self.LU, self.pivots, _ = torch.linalg.lu_factor_ex(self.system)

    def solve(self, g: Tensor, refinements: int, mass: float = 1.0) -> Step:
        """mu and d for any g (P, cells) and roots of this mass; the residual is solved for as often as asked."""
        right = torch.cat([g, (mass * self.roots).expand(len(g), -1)], 1)
        right = (right if self.live is None else right * self.live)[..., None]
        x = torch.linalg.lu_solve(self.LU, self.pivots, right)
        for _ in range(refinements):
            x = x + torch.linalg.lu_solve(self.LU, self.pivots, right - self.system @ x)
        mu, d = x[..., 0].split([g.shape[1], len(self.roots)], 1)
        return Step(mu, -d, g.new_zeros(len(g), 0))
