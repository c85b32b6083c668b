"""Linear-Gaussian cpds: a linear function of the sources plus Gaussian noise."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dissonance import numerics
from dissonance.cpds.base import CPD, Drawn, Values, Variables
from dissonance.errors import CapabilityError, DissonanceError
from dissonance.variables import Euclidean, Variable

WIDTHS = 14.0
"""How far the logarithm of a standard deviation may go from its start: 1e12 for the variance, either way."""

FAR = 1e15
"""How large other numbers of a linear-Gaussian cpd may be."""

NARROW, BROAD = 1e-15, 1e15
"""Between which standard deviations lie: beyond, squares of ratios leave double precision."""


class LinearGaussian(CPD):
    """p(t | s) = N(A s + b, Sigma), the values of several variables laid end to end in the order of the arc.

    theta = A, b and `scale`: Sigma = L L', L = `scale` below its diagonal and exp of `scale` on it, so that no step of
    an optimiser leaves the positive definite matrices. Without sources A has no columns: N(b, Sigma). Numbers stand
    for 1 x 1 matrices, and one number as Sigma for that multiple of the identity. Sigma must be positive definite: a
    deterministic map has no density.
    """

    A: nn.Parameter
    b: nn.Parameter
    scale: nn.Parameter

    def __init__(self, A: object = None, b: object = 0.0, Sigma: object = 1.0, *, learnable: bool = True) -> None:  # noqa: N803
        super().__init__()
        covariance, shift = _numbers(Sigma, "Sigma"), _numbers(b, "b").reshape(-1)
        slope = None if A is None else _numbers(A, "A")
        slope = slope if slope is None or slope.dim() == 2 else slope.reshape(1, -1)
        size = max(
            shift.numel(), 0 if slope is None else slope.shape[0], covariance.shape[0] if covariance.dim() else 0
        )
        slope = torch.zeros(size, 0, dtype=numerics.DTYPE) if slope is None else slope
        shift = shift.expand(size).clone() if shift.numel() == 1 else shift
        if covariance.numel() == 1:
            covariance = covariance.reshape(()) * torch.eye(size, dtype=numerics.DTYPE)
        if slope.shape[0] != size or shift.numel() != size or covariance.shape != (size, size):
            raise DissonanceError(
                f"A is {tuple(slope.shape)}, b {tuple(shift.shape)} and Sigma {tuple(covariance.shape)}; "
                "they need as many rows as the targets have dimensions, and Sigma as many columns."
            )
        self.A = nn.Parameter(slope, requires_grad=learnable)  # pyright: ignore[reportConstantRedefinition]
        self.b = nn.Parameter(shift, requires_grad=learnable)
        self.scale = nn.Parameter(_scale(covariance), requires_grad=learnable)

    bounded = True

    def learnable(self) -> LinearGaussian | None:
        """The same A, b and Sigma, free to move."""
        return None if self.A.requires_grad else copy.deepcopy(self).requires_grad_()

    def retracted(self, name: str, theta: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """No further from the start than double precision can hold the two together."""
        near = theta.nan_to_num().clamp(-FAR, FAR)
        if name == "scale":
            log_sd = start.diagonal(dim1=-2, dim2=-1)
            close = theta.diagonal(dim1=-2, dim2=-1).nan_to_num().clamp(log_sd - WIDTHS, log_sd + WIDTHS)
            near = near.tril(-1) + torch.diag_embed(close)
        left = (near != theta).flatten(1).any(1)
        return (near if left.any() else theta), left

    def approach(self, own: dict[str, Tensor], joint: Tensor, rate: dict[str, Tensor]) -> dict[str, Tensor]:
        """N(A s + b, Sigma) on its way to mu(t|s) = N(A* s + b*, S*), `rate` = chi beta h of each component.

            W(h) = W* + (W - W*) e^-rate            for W = (A, b)
            Sigma(h) = S* + (Sigma + D - S*) e^-rate - D e^(-2 rate),       D = (W - W*) E[(s, 1) (s, 1)'] (W - W*)'

        That is e^-rate of the way left for the second moment of t about A* s + b*. Components of `scale` with another
        rate than A and b take D as it was at the start; directions in which the sources do not vary keep their A.
        """
        A, b, scale, n = own["A"], own["b"], own["scale"], own["A"].shape[1]  # noqa: N806
        mean, C = joint[1:, 0], joint[1:, 1:]  # noqa: N806
        off = (A @ C[:n, :n] - C[n:, :n]) @ torch.linalg.pinv(C[:n, :n], hermitian=True)  # A - A*
        best = A - off
        S = C[n:, n:] - best @ C[:n, n:] - C[n:, :n] @ best.T + best @ C[:n, :n] @ best.T  # noqa: N806
        shift = mean[n:] - best @ mean[:n]
        gap = A @ mean[:n] + b - mean[n:]
        D = off @ C[:n, :n] @ off.T + torch.outer(gap, gap)  # noqa: N806
        L = self.factor(scale)  # noqa: N806
        new = scale.clone()
        for r in rate["scale"].unique().tolist():
            left = math.exp(-r)
            together = bool((rate["A"] == r).all() and (rate["b"] == r).all())
            Sigma = left * L @ L.T + (1 - left) * S + (1 - left) * (left if together else 1.0) * D  # noqa: N806
            new = torch.where(rate["scale"] == r, self.scaled((Sigma + Sigma.T) / 2), new)
        new = torch.where(rate["scale"] == 0, scale, new)
        return {"A": best + off * (-rate["A"]).exp(), "b": shift + (b - shift) * (-rate["b"]).exp(), "scale": new}

    @property
    def cholesky(self) -> Tensor:
        """L, lower triangular with a positive diagonal: Sigma = L L'."""
        return self.factor(self.scale)

    def factor(self, scale: Tensor) -> Tensor:
        """L that the parameter `scale` stands for."""
        return scale.tril(-1) + torch.diag(scale.diagonal().exp())

    def log_sd(self) -> Tensor:
        """log det L."""
        return self.scale.diagonal().sum()

    def scaled(self, covariance: Tensor) -> Tensor:
        """The parameter that stands for a covariance."""
        return _scale(covariance)

    @property
    def Sigma(self) -> Tensor:  # noqa: N802
        """The covariance of the noise."""
        return self.cholesky @ self.cholesky.T

    def linear_gaussian(self) -> tuple[Tensor, Tensor, Tensor]:
        """A, b and Sigma."""
        return self.A, self.b, self.Sigma

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """Check the sizes of A against the dimensions of the variables, which must be Euclidean."""
        rows, columns = dimension(targets), dimension(sources)
        if tuple(self.A.shape) != (rows, columns):
            raise DissonanceError(
                f"A is {self.A.shape[0]} x {self.A.shape[1]}, but ({', '.join(v.name for v in sources)}) -> "
                f"({', '.join(v.name for v in targets)}) needs {rows} x {columns}: a row for each dimension of the "
                "targets, a column for each dimension of the sources."
            )
        self.widths = [dimension([v]) for v in targets]
        return self

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """log N(t; A s + b, Sigma)."""
        return -self.surprisal(targets, sources)

    def surprisal(self, targets: Values, sources: Values) -> Tensor:
        """|L^-1 (t - A s - b)|^2 / 2 + log det L + (d/2) log 2 pi."""
        gap = torch.cat([numerics.real(v) for v in targets], -1) - self._mean(sources)
        size = self.b.numel()
        off = torch.linalg.solve_triangular(self.cholesky, gap.reshape(-1, size).mT, upper=False)  # (d, batch)
        constant = self.log_sd() + 0.5 * size * math.log(2 * math.pi)
        return 0.5 * off.square().sum(0).reshape(gap.shape[:-1]) + constant

    def draw(self, sources: Values, count: int, generator: torch.Generator) -> Drawn:
        """`count` reparameterised samples."""
        rows = len(sources[0]) if sources else 1
        drawn = self.rsample(sources, (count,) if sources else (count, 1), generator)  # (k, N, dim)
        values = drawn.movedim(0, 1).split(self.widths, -1)
        return Drawn(tuple(values), drawn.new_full((rows, count), 1 / count))

    def rsample(self, sources: Values, shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """t = A s + b + L z for standard normal z, differentiable in theta and s; the targets laid end to end."""
        mean = self._mean(sources)
        z = torch.randn((*shape, *mean.shape), dtype=numerics.DTYPE, generator=generator)
        return mean + z @ self.cholesky.T

    def _mean(self, sources: Values) -> Tensor:
        if not sources:
            return self.b
        return torch.cat([numerics.real(v) for v in sources], -1) @ self.A.T + self.b

    @torch.no_grad()
    def project(self, joint: Tensor) -> None:
        """N(A s + b, Sigma) <- mu(t | s), from the matrix [[1, m'], [m, C]] of mu's mean and covariance over (s, t).

        A = C_ts C_ss^-1 (least norm where the sources do not vary), b = m_t - A m_s, Sigma = C_tt - A C_st.
        """
        n = self.A.shape[1]
        mean, C = joint[0, 1:], joint[1:, 1:]  # noqa: N806
        A = C[n:, :n] @ torch.linalg.pinv(C[:n, :n], hermitian=True)  # noqa: N806
        self.scale.copy_(self.scaled(C[n:, n:] - A @ C[:n, n:]))
        self.A.copy_(A)
        self.b.copy_(mean[n:] - A @ mean[:n])

    def expectations(self, joint: Tensor) -> Tensor:
        """E_mu[x x'] of x = (1, s, t)."""
        x = joint[0]
        return torch.cat([joint[:1], torch.cat([joint[1:, :1], joint[1:, 1:] + torch.outer(x[1:], x[1:])], 1)])

    @torch.no_grad()
    def match(self, expectations: Tensor, share: float = 1.0) -> None:
        """As `project` does, or a share 1 - e^-rate of the way there, as `approach` does."""
        moments = expectations / expectations[0, 0]
        joint = moments.clone()
        joint[1:, 1:] -= torch.outer(moments[0, 1:], moments[0, 1:])
        if share == 1.0:
            self.project(joint)
            return
        own: dict[str, Tensor] = dict(self.named_parameters())
        rate = -math.log1p(-share)
        moved = self.approach(own, joint, {n: torch.full_like(x, rate) for n, x in own.items()})
        for n, x in own.items():
            x.copy_(moved[n])

    def extra_repr(self) -> str:
        """Its size, for printing."""
        return f"{self.A.shape[1]} -> {self.A.shape[0]}"


def dimension(variables: Sequence[Variable]) -> int:
    """The dimensions of Euclidean variables, added up."""
    total = 0
    for v in variables:
        if not isinstance(v.domain, Euclidean):
            raise CapabilityError(f"a LinearGaussian cpd needs Euclidean variables; {v.name} is {v.domain}.")
        total += v.domain.dim
    return total


def _numbers(values: object, what: str) -> Tensor:
    try:
        found = numerics.real(values).detach().clone()
    except DissonanceError:
        raise
    except (TypeError, ValueError) as error:
        raise DissonanceError(f"{what} is an array of numbers: {error}.") from None
    if found.dim() > 2:
        raise DissonanceError(f"{what} is no matrix.")
    if not torch.isfinite(found).all():
        raise DissonanceError(f"{what} holds a number that is not finite.")
    if what != "Sigma" and found.numel() and float(found.abs().max()) > FAR:
        raise DissonanceError(f"{what} holds {float(found.abs().max()):g}; numbers up to {FAR:g} are supported.")
    return found


def _scale(covariance: Tensor) -> Tensor:
    """The parameter that stands for a covariance."""
    even = torch.allclose(covariance, covariance.T, rtol=1e-9, atol=1e-12 * float(covariance.abs().max()))
    L, wrong = torch.linalg.cholesky_ex((covariance + covariance.T) / 2)  # noqa: N806
    if int(wrong) or not even:
        raise DissonanceError(
            "Sigma must be symmetric and positive definite; a deterministic map has no density "
            "(give it a small variance instead)."
        )
    sd = L.diagonal()
    if sd.numel() and not NARROW <= float(sd.min()) <= float(sd.max()) <= BROAD:
        raise DissonanceError(
            f"Sigma has a standard deviation of {float(sd.min()):.3g} to {float(sd.max()):.3g} given the dimensions "
            f"before; {NARROW:g} to {BROAD:g} is supported: choose other units."
        )
    return L.tril(-1) + torch.diag(sd.log())
