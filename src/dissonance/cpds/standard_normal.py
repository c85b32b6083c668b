"""StandardNormal: N(0, I), the prior of most latent variables."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.cpds.base import CPD, Drawn, Values, Variables
from dissonance.cpds.gaussian import dimension
from dissonance.errors import DissonanceError


class StandardNormal(CPD):
    """p(t) = N(t; 0, I) over all dimensions of the targets; nothing to learn.

    It is LinearGaussian(None, 0, 1) without matrices: no solve and no change of precision at every score.
    """

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """The targets are Euclidean and there are no sources."""
        if sources:
            raise DissonanceError(
                f"a standard normal has no sources, found {', '.join(v.name for v in sources)}: use LinearGaussian."
            )
        self.widths = [dimension([v]) for v in targets]
        return self

    def linear_gaussian(self) -> tuple[Tensor, Tensor, Tensor]:
        """No A, b = 0, Sigma = I."""
        size = sum(self.widths)
        zeros = torch.zeros(size, dtype=numerics.DTYPE)
        return zeros[:, None][:, :0], zeros, torch.eye(size, dtype=numerics.DTYPE)

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """-|t|^2 / 2 - (d/2) log 2 pi."""
        return -self.surprisal(targets, sources)

    def surprisal(self, targets: Values, sources: Values) -> Tensor:
        """|t|^2 / 2 + (d/2) log 2 pi."""
        constant = 0.5 * sum(self.widths) * math.log(2 * math.pi)
        t = targets[0] if len(targets) == 1 else torch.cat(list(targets), -1)
        return torch.linalg.vecdot(t, t).mul(0.5).add(constant)

    def draw(self, sources: Values, count: int, generator: torch.Generator) -> Drawn:
        """`count` samples."""
        drawn = torch.randn((1, count, sum(self.widths)), dtype=numerics.DTYPE, generator=generator)
        return Drawn(tuple(drawn.split(self.widths, -1)), drawn.new_full((1, count), 1 / count))
