"""Gaussian distributions over Euclidean variables."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.cpds import LinearGaussian
from dissonance.cpds.gaussian import dimension
from dissonance.distributions.base import Distribution, Names, sample_count
from dissonance.errors import CapabilityError, DissonanceError, SizeError
from dissonance.variables import Variable

LOG_2PI = math.log(2 * math.pi)
ROOM = 4 * 2**30
"""Bytes that a covariance may take."""


class Gaussian(Distribution):
    """N(mean, covariance) over the values of Euclidean variables laid end to end, in the order of `variables`.

    The covariance may be singular: mu* at gamma = 0 can leave no room in some direction. Entropies are differential
    (they may be negative, and are -inf where the covariance is singular).
    """

    def __init__(self, variables: Iterable[Variable], mean: object, covariance: object) -> None:
        self.variables = tuple(variables)
        n = dimension(self.variables)
        self.mean, self.covariance = numerics.real(mean), numerics.real(covariance)
        if tuple(self.mean.shape) != (n,) or tuple(self.covariance.shape) != (n, n):
            raise DissonanceError(
                f"{n} dimensions need a mean ({n},) and a covariance ({n}, {n}); "
                f"found {tuple(self.mean.shape)} and {tuple(self.covariance.shape)}."
            )
        self._place: dict[str, range] = {}
        at = 0
        for v in self.variables:
            self._place[v.name] = range(at, at := at + dimension((v,)))

    def index(self, names: Iterable[str]) -> list[int]:
        """Where the dimensions of these variables are."""
        found: list[int] = []
        for n in names:
            self.variable(n)
            found += self._place[n]
        return found

    def marginal(self, *names: str) -> Gaussian:  # pyright: ignore[reportIncompatibleMethodOverride]
        """mu over these variables: a Gaussian."""
        if len(set(names)) != len(names):
            raise DissonanceError(f"a marginal is over distinct variables, found {names}.")
        i = self.index(names)
        return Gaussian((self.variable(n) for n in names), self.mean[i], self.covariance[i][:, i])

    def rows(self, sources: Iterable[Variable], targets: Iterable[Variable]) -> Tensor:
        """mu(S, T) as one matrix [[1, m'], [m, C]] of its mean and covariance: what a LinearGaussian projects."""
        return self._marginal(tuple(v.name for v in (*sources, *targets)))

    def _marginal(self, names: tuple[str, ...]) -> Tensor:
        i = self.index(names)
        mean = self.mean[i]
        top = torch.cat([torch.ones(1, dtype=numerics.DTYPE), mean])
        return torch.cat([top[None], torch.cat([mean[:, None], self.covariance[i][:, i]], 1)])

    def conditional(self, targets: Names, given: Names = ()) -> LinearGaussian:  # pyright: ignore[reportIncompatibleMethodOverride]
        """mu(targets | given) = N(A given + b, Sigma), as a cpd."""
        sources = [self.variable(n) for n in ((given,) if isinstance(given, str) else given)]
        wanted = [self.variable(n) for n in ((targets,) if isinstance(targets, str) else targets)]
        rows, columns = dimension(tuple(wanted)), dimension(tuple(sources))
        cpd = LinearGaussian(torch.zeros(rows, columns), torch.zeros(rows), 1.0, learnable=False)
        cpd.project(self.rows(sources, wanted).detach())
        return cpd

    def conditional_covariance(self, targets: Iterable[str], given: Iterable[str]) -> Tensor:
        """The covariance of the targets that is left when `given` is known: C_tt - C_ts C_ss^-1 C_st."""
        t, s = self.index(targets), self.index(given)
        if not s:
            return self.covariance[t][:, t]
        across = self.covariance[s][:, t]
        L, singular = torch.linalg.cholesky_ex(self.covariance[s][:, s])  # noqa: N806
        if int(singular):
            explained = across.T @ torch.linalg.pinv(self.covariance[s][:, s], hermitian=True) @ across
        else:
            half = torch.linalg.solve_triangular(L, across, upper=False)
            explained = half.T @ half
        return self.covariance[t][:, t] - explained

    def conditional_entropy(self, targets: Iterable[str], given: Iterable[str]) -> Tensor:
        """H(T | S) = 1/2 log det 2 pi e Cov(T|S)."""
        return gaussian_entropy(self.conditional_covariance(targets, given))

    def expected_log_prob(self, arc: tuple[Names, Names], cpd: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """E_mu[ log N(t; A s + b, Sigma) ] for (sources, targets) and (A, b, Sigma)."""
        A, b, Sigma = cpd  # noqa: N806
        s, t = self.index(arc[0]), self.index(arc[1])
        R = torch.cat([-A, torch.eye(len(t), dtype=numerics.DTYPE)], 1)  # noqa: N806
        i = [*s, *t]
        off = R @ self.mean[i] - b
        L = torch.linalg.cholesky(Sigma)  # noqa: N806
        spread = R @ self.covariance[i][:, i] @ R.T + torch.outer(off, off)
        log_det = 2 * L.diagonal().log().sum()
        return -0.5 * (len(t) * LOG_2PI + log_det + torch.cholesky_solve(spread, L).diagonal().sum())

    def log_prob(self, values: Mapping[str, object]) -> Tensor:
        """log of the density at {variable: vectors}, every variable named; leading axes are a batch."""
        x = torch.cat([numerics.real(values[v.name]) for v in self.variables], -1)
        return LinearGaussian(None, self.mean, self.covariance, learnable=False).log_prob([x], [])

    def probability(self, event: Mapping[str, Hashable]) -> Tensor:
        """Single values of a Euclidean variable have no probability."""
        raise CapabilityError("a single value of a Euclidean variable has probability 0; ask log_prob for the density.")

    def entropy(self, *names: str) -> Tensor:
        """H of these variables, in nats; of all of them if none is named."""
        return gaussian_entropy(self.marginal(*names).covariance) if names else self._entropy()

    def _entropy(self) -> Tensor:
        return gaussian_entropy(self.covariance)

    def sample(self, count: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Independent samples, one tensor (count, dim) a variable."""
        return self._sample(sample_count(count), generator)

    def _sample(self, count: int, generator: torch.Generator | None) -> dict[str, Tensor]:
        values, vectors = torch.linalg.eigh(self.covariance.detach())
        root = vectors * values.clamp(min=0).sqrt()
        z = torch.randn(count, len(values), dtype=numerics.DTYPE, generator=generator)
        x = self.mean.detach() + z @ root.T
        return {v.name: x[:, list(self._place[v.name])] for v in self.variables}

    def __repr__(self) -> str:
        return f"Gaussian({', '.join(v.name for v in self.variables)})"


def gaussian_entropy(covariance: Tensor) -> Tensor:
    """1/2 log det 2 pi e C; -inf if C is singular."""
    L, singular = torch.linalg.cholesky_ex(covariance)  # noqa: N806
    if int(singular):
        return torch.full((), -math.inf, dtype=numerics.DTYPE)
    return 0.5 * covariance.shape[0] * (1 + LOG_2PI) + L.diagonal().log().sum()


def check_covariance(dimensions: int, budget: int = ROOM) -> None:
    """Refuse a covariance that would not fit, before it is made."""
    need = 8 * 8 * dimensions**2  # with what is made on the way to it
    if need > budget:
        raise SizeError(
            f"a covariance of {dimensions} dimensions takes about {need / 2**30:.3g} GiB; the budget is "
            f"{budget / 2**30:.3g} GiB. Use fewer dimensions."
        )


def combined(variables: Iterable[Variable], parts: Iterable[Gaussian]) -> Gaussian:
    """Independent Gaussians as one over these variables, each standard normal that no part mentions."""
    variables = tuple(variables)
    n = dimension(variables)
    check_covariance(n)
    mean, covariance = torch.zeros(n, dtype=numerics.DTYPE), torch.eye(n, dtype=numerics.DTYPE)
    whole = Gaussian(variables, mean, covariance)
    for p in parts:
        i = torch.tensor(whole.index(v.name for v in p.variables))
        mean[i] = p.mean
        covariance[i[:, None], i] = p.covariance
    return whole
