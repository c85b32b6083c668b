"""Gaussians that are independent of each other and of the sources."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dissonance import numerics
from dissonance.cpds.base import CPD, Variables
from dissonance.cpds.gaussian import LinearGaussian, dimension
from dissonance.errors import DissonanceError


class IndependentGaussians(CPD):
    """p(T_1, ..., T_n | S) = prod_k N(T_k; b_k, Sigma_k): `Independent` for Euclidean variables.

    The Gaussians may be those of other arcs: their parameters are then shared.
    """

    def __init__(self, *parts: LinearGaussian) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.columns = 0

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """As many dimensions as the targets have."""
        size = sum(p.b.numel() for p in self._each)
        if size != dimension(targets) or any(p.A.shape[1] for p in self._each):
            raise DissonanceError(f"Gaussians of {size} dimensions in all for {dimension(targets)} of the targets.")
        self.columns = dimension(sources)
        return self

    @property
    def _each(self) -> list[LinearGaussian]:
        return [p for p in self.parts if isinstance(p, LinearGaussian)]

    def linear_gaussian(self) -> tuple[Tensor, Tensor, Tensor]:
        """A = 0, and b and Sigma of all of them."""
        b = torch.cat([p.b for p in self._each])
        Sigma = torch.block_diag(*(p.Sigma for p in self._each))  # noqa: N806
        return torch.zeros(len(b), self.columns, dtype=numerics.DTYPE), b, Sigma
