"""Gaussians that a model has one of for each component: where they start, what they draw, how many parameters."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dissonance.cpds import ObservedGaussian
from dissonance.cpds.observed_gaussian import Covariance
from dissonance.estimators.data import Array, completed, spread_out


def gaussian_start(
    x: Array, count: int, covariance: Covariance, floor: float, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Rows far from each other as means, and the covariance of all the data as everyone's."""
    filled = completed(x)
    c = np.atleast_2d(np.cov(filled.T, bias=True)) + (floor + 1e-12) * np.eye(x.shape[1])
    shaped = {"full": np.repeat(c[None], count, 0), "tied": c, "diag": np.repeat(np.diag(c)[None], count, 0)}
    return spread_out(filled, count, generator), shaped.get(covariance, c)


def gaussian_draws(cpd: ObservedGaussian, states: npt.NDArray[np.intp], generator: np.random.Generator) -> Array:
    """A vector x = m + L z for each state, (states, columns)."""
    means, factors = cpd.means.detach().numpy(), cpd.factors.detach().numpy()
    z = generator.normal(size=(len(states), means.shape[1]))
    if cpd.covariance == "diag":
        return means[states] + factors[states] * z
    each = np.broadcast_to(factors, (len(means), *factors.shape[1:]))  # "tied": one for all
    return means[states] + np.einsum("nij,nj->ni", each[states], z)


def gaussian_count(means: Array, covariance: Covariance) -> int:
    """How many free parameters Gaussians have."""
    settings, columns = means.shape
    one = columns * (columns + 1) // 2
    return settings * columns + {"full": settings * one, "tied": one, "diag": settings * columns}[covariance]
