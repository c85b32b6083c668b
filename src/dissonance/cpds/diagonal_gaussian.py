"""Linear-Gaussian cpds whose noise is independent from dimension to dimension."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dissonance import numerics
from dissonance.cpds.gaussian import WIDTHS, LinearGaussian
from dissonance.errors import DissonanceError


class DiagonalGaussian(LinearGaussian):
    """p(t | s) = N(A s + b, diag(variances)): one variance for each dimension of the targets, or one number for all.

    What factor analysis (a variance each) and probabilistic PCA (one for all) say of their data. theta = A, b and
    `scale`, the logarithms of the standard deviations.
    """

    def __init__(self, A: object = None, b: object = 0.0, variances: object = 1.0, *, learnable: bool = True) -> None:  # noqa: N803
        given = numerics.real(variances).detach().reshape(-1)
        if not bool((given > 0).all()) or not bool(torch.isfinite(given).all()):
            raise DissonanceError("variances are positive numbers, one for each dimension or one for all.")
        super().__init__(A, b, given[0] if given.numel() == 1 else torch.diag(given), learnable=learnable)
        self.scale = nn.Parameter(0.5 * given.log(), requires_grad=learnable)  # (d,) or (1,)

    def factor(self, scale: Tensor) -> Tensor:
        """The standard deviations, as a diagonal matrix."""
        return torch.diag(scale.exp().expand(self.b.numel()))

    def log_sd(self) -> Tensor:
        """The logarithms of the standard deviations, added up."""
        return self.scale.expand(self.b.numel()).sum()

    def scaled(self, covariance: Tensor) -> Tensor:
        """The variances alone, or their mean, as the parameter has them."""
        variances = covariance.diagonal()
        return 0.5 * (variances.mean()[None] if self.scale.numel() == 1 else variances).log()

    def retracted(self, name: str, theta: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """No further from the start than double precision can hold the two together."""
        if name != "scale":
            return super().retracted(name, theta, start)
        near = theta.nan_to_num().clamp(start - WIDTHS, start + WIDTHS)
        left = (near != theta).flatten(1).any(1)
        return (near if left.any() else theta), left
