"""Gaussian densities at rows of numbers: the components of Gaussian mixtures, emissions of hidden Markov models."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from dissonance import numerics
from dissonance.cpds.observed import Observed, Sample
from dissonance.errors import CapabilityError, DissonanceError

Covariance = Literal["full", "tied", "diag"]

CHUNK = 2048
"""Rows that are looked at together: few enough for all settings at once to fit a cache."""


class ObservedGaussian(Observed):
    """p(x_n | s) = N(x_n; m_s, C_s) at the rows x_n of a data set, NaN where an entry is missing.

    `covariance`: "full" (a matrix for each setting of the sources), "tied" (one matrix for all) or "diag" (a variance
    for each setting and column), which rows with some entries missing need. theta = `means` and `scale`: C = L L', L =
    `scale` below its diagonal and exp of `scale` on it; for "diag" `scale` is the logarithm of the standard deviations.

    With `floor` > 0 the data is taken to be known up to noise of that variance: log p is its mean over the noise,
    log N(x; m, C) - floor tr(C^-1) / 2, whose maximum likelihood covariances have `floor` added to their diagonals.
    """

    def __init__(
        self, data: object, means: object, covariances: object, covariance: Covariance = "full", floor: float = 0.0
    ) -> None:
        x = _numbers(data, "the data", 2)
        m, c = _numbers(means, "means", 2), _numbers(covariances, "covariances", 3 if covariance == "full" else 2)
        settings, columns = m.shape
        wanted = {"full": (settings, columns, columns), "tied": (columns, columns), "diag": (settings, columns)}
        if covariance not in wanted:
            raise DissonanceError(f"covariance is one of {', '.join(map(repr, wanted))}; found {covariance!r}.")
        if x.shape[1] != columns or tuple(c.shape) != wanted[covariance]:
            raise DissonanceError(
                f"the data has {x.shape[1]} columns, means {columns} and {covariance!r} covariances the shape "
                f"{tuple(c.shape)}; {settings} settings of {columns} columns need {wanted[covariance]}."
            )
        if x.isinf().any():
            n, j = x.isinf().nonzero()[0].tolist()
            raise DissonanceError(f"row {n}, column {j} of the data is infinite.")
        super().__init__(_sample(x, covariance), settings)
        self.covariance: Covariance = covariance
        self.floor = float(floor)
        self.means = nn.Parameter(m.clone())
        self.scale = nn.Parameter(self._scale(c))

    def about(self, data: object) -> ObservedGaussian:
        """The same parameters, shared, at other rows."""
        return self.on(_sample(_numbers(data, "the data", 2), self.covariance))

    @property
    def factors(self) -> Tensor:
        """L of C = L L', (settings or 1, columns, columns); for "diag" the standard deviations (settings, columns)."""
        if self.covariance == "diag":
            return self.scale.exp()
        scale = self.scale if self.covariance == "full" else self.scale[None]
        return scale.tril(-1) + torch.diag_embed(scale.diagonal(dim1=-2, dim2=-1).exp())

    @property
    def covariances(self) -> Tensor:
        """C, in the shape it was given in."""
        L = self.factors  # noqa: N806
        if self.covariance == "diag":
            return L**2
        return L @ L.mT if self.covariance == "full" else (L @ L.mT)[0]

    def densities(self) -> Tensor:
        """log N(x_n; m_s, C_s), (settings, rows)."""
        return self._diagonal() if self.covariance == "diag" else self._whitened()

    def _diagonal(self) -> Tensor:
        """By one product of matrices, with everything relative to the middle of the data."""
        m, precision = self.means - self.sample["middle"][0], (-2 * self.scale).exp()
        linear = torch.cat([-0.5 * precision, m * precision], 1)
        constant = -0.5 * (precision * (m * m + self.floor) + 2 * self.scale + math.log(2 * math.pi))
        if "there" in self.sample.columns:
            linear, constant = torch.cat([linear, constant], 1), torch.zeros_like(constant)
        return torch.addmm(constant.sum(1, keepdim=True), linear, self.sample["powers"].T)

    def _whitened(self) -> Tensor:
        """|L^-1 (x - m)|^2 for all settings with one product of matrices, some rows at a time."""
        settings, columns = self.means.shape
        L = self.factors  # noqa: N806
        inverse = torch.linalg.solve_triangular(L, torch.eye(columns, dtype=L.dtype).expand_as(L), upper=False)
        inverse = inverse.expand(settings, columns, columns)
        white = inverse.reshape(settings * columns, columns)
        shift = (inverse @ self.means[..., None]).reshape(-1, 1)
        trace = self.floor * inverse.square().sum((1, 2)) if self.floor else 0.0
        logdet = 2 * torch.diagonal(L, dim1=-2, dim2=-1).log().sum(-1).expand(settings)
        constant = trace + logdet + columns * math.log(2 * math.pi)
        parts = [
            torch.addmm(-shift, white, x.T).reshape(settings, columns, len(x)).square().sum(1)
            for x in self.sample["x"].split(CHUNK)
        ]
        found = -0.5 * (torch.cat(parts, 1) + constant[:, None])
        return found * self.sample["there"] if "there" in self.sample.columns else found

    def expectations(self, joint: Tensor) -> Tensor:
        """Mass, first and second moments about the present means, (settings, ...): 1 + columns + columns^2 numbers, or
        for "diag" three rows of a number a column."""
        joint = joint.reshape(self.settings, -1)
        settings, columns = self.means.shape
        with torch.no_grad():
            if self.covariance == "diag":
                second, first, *there = (joint @ self.sample["powers"]).split(columns, 1)
                mass = there[0] if there else joint.sum(1, keepdim=True).expand_as(first)
                m = self.means - self.sample["middle"][0]
                return torch.stack([mass, first - m * mass, second - 2 * m * first + m * m * mass], 1)
            if "there" in self.sample.columns:
                joint = joint * self.sample["there"]
            first, second = torch.zeros_like(self.means), joint.new_zeros(settings, columns, columns)
            for x, weight in zip(self.sample["x"].split(CHUNK), joint.split(CHUNK, 1), strict=True):
                off = x.T - self.means[:, :, None]  # (settings, columns, rows)
                weighted = off * weight[:, None]
                first += weighted.sum(-1)
                second.baddbmm_(weighted, off.mT)
            return torch.cat([joint.sum(1, keepdim=True), first, second.flatten(1)], 1)

    @torch.no_grad()
    def match(self, expectations: Tensor, share: float = 1.0) -> None:
        """m <- m + share d,  C <- (1 - share) C + share S + share (1 - share) d d', for the mean m + d and covariance S
        under mu; what has no mass keeps its value."""
        columns = self.means.shape[1]
        if self.covariance == "diag":
            mass, first, second = expectations.unbind(1)
            some = mass > 0
            mass = torch.where(some, mass, 1.0)
            d = first / mass
            spread, square, alike = second / mass - d * d + self.floor, d * d, some
        else:
            mass, first = expectations[:, 0], expectations[:, 1 : columns + 1]
            some = mass > 0
            safe = torch.where(some, mass, 1.0)
            d = first / safe[:, None]
            square = d[:, :, None] * d[:, None, :]
            noise = self.floor * torch.eye(columns, dtype=d.dtype)
            spread = expectations[:, columns + 1 :].reshape(-1, columns, columns) / safe[:, None, None] - square
            alike = some[:, None, None]
            if self.covariance == "tied":
                w = mass / mass.sum()
                spread, square = (torch.einsum("k,kij->ij", w, y) for y in (spread, square))
                alike = some.any()
            spread, some = spread + noise, some[:, None]
        present = self.covariances
        target = (1 - share) * present + share * spread + share * (1 - share) * square if share < 1 else spread
        self.scale.copy_(torch.where(alike, self._scale(torch.where(alike, target, present)), self.scale))
        self.means.add_(torch.where(some, share * d, 0.0))

    def _scale(self, c: Tensor) -> Tensor:
        """The parameter that stands for covariances."""
        if self.covariance == "diag":
            bad = ~(c > 0).all(-1)
            if not bad.any():
                return 0.5 * c.log()
        else:
            L, wrong = torch.linalg.cholesky_ex((c + c.mT) / 2)  # noqa: N806
            bad = (wrong != 0) | ~torch.isfinite(c).flatten(-2).all(-1)
            if not bad.any():
                return L.tril(-1) + torch.diag_embed(L.diagonal(dim1=-2, dim2=-1).log())
        which = f"the covariance of setting {int(bad.nonzero()[0, 0])}" if bad.dim() else "the tied covariance"
        raise DissonanceError(
            f"{which} is not positive definite: too few different rows are left to it. Use fewer settings, or a floor."
        )


def _sample(x: Tensor, covariance: Covariance) -> Sample:
    """The rows; for "diag" their squares and they themselves, relative to their middle, and what is there of them."""
    missing = x.isnan()
    if covariance != "diag":
        if not missing.any():
            return Sample(x=x)
        partly = missing.any(1) & ~missing.all(1)
        if partly.any():
            n = int(partly.nonzero()[0, 0])
            j = int(missing[n].nonzero()[0, 0])
            raise CapabilityError(
                f"row {n}, column {j} is missing (NaN): a {covariance!r} covariance has no closed-form projection "
                'then. Use covariance="diag", or leave incomplete rows out.'
            )
        return Sample(x=torch.where(missing, 0.0, x), there=(~missing).all(1).to(x.dtype))
    middle = torch.where(missing, 0.0, x).sum(0) / (~missing).sum(0).clamp(min=1)
    x = torch.where(missing, 0.0, x - middle)
    columns = {"middle": middle.expand(len(x), -1)}
    if missing.any():
        columns["there"] = ~missing
        return Sample(powers=torch.cat([x * x, x, (~missing).to(x.dtype)], 1), **columns)
    return Sample(powers=torch.cat([x * x, x], 1), **columns)


def _numbers(values: object, what: str, axes: int) -> Tensor:
    try:
        found = values.detach() if isinstance(values, Tensor) else torch.from_numpy(np.array(values, np.float64))
    except (TypeError, ValueError) as error:
        raise DissonanceError(f"{what}: an array of numbers is needed ({error}).") from None
    if found.dim() != axes:
        raise DissonanceError(f"{what}: an array of {axes} axes is needed, found {found.dim()}.")
    return found.to(numerics.DTYPE, copy=True) if isinstance(values, Tensor) else found
