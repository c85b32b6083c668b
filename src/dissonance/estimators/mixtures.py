"""Mixtures: one hidden variable Z, and Gaussians or products of categoricals given it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from dissonance.arc import Arc
from dissonance.cpds import ObservedCategorical, ObservedGaussian, SoftmaxTable
from dissonance.cpds.observed_gaussian import Covariance
from dissonance.errors import DissonanceError
from dissonance.estimators.data import Array, category_draws, encoded, label_rows, matrix, missing
from dissonance.estimators.gaussians import gaussian_count, gaussian_draws, gaussian_start
from dissonance.estimators.latent import LatentModel, drawn, table_of
from dissonance.instances.em.latent import ROW, mixture
from dissonance.pdg import PDG
from dissonance.variables import Variable


@dataclass(eq=False, repr=False)
class Mixture(LatentModel):
    """What mixtures share: a component Z for every row, of `n_components`; `weights_init` is the start of p(Z)."""

    n_components: int = 1
    weights_init: object = field(default=None, kw_only=True)

    def _check(self) -> None:
        super()._check()
        if self.n_components < 1:
            raise DissonanceError(f"n_components: at least 1 is needed, found {self.n_components}.")

    def _weights(self) -> object:
        return np.full(self.n_components, 1 / self.n_components) if self.weights_init is None else self.weights_init

    @property
    def weights_(self) -> Array:
        """p(Z)."""
        return table_of(self._fitted(), "prior")

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """p(Z | x_n) of every row, (rows, components)."""
        return self._posterior(X)[1].mu.conditional("Z", ROW).numpy()

    def predict(self, X: Any) -> npt.NDArray[np.intp]:  # noqa: N803
        """The most probable component of every row."""
        return self.predict_proba(X).argmax(1)

    def fit_predict(self, X: Any, y: object = None, sample_weight: object = None) -> npt.NDArray[np.intp]:  # noqa: N803
        """`fit`, then `predict` of the same rows."""
        return self.fit(X, y, sample_weight).predict(X)

    def _components(self, count: int, generator: np.random.Generator) -> npt.NDArray[np.intp]:
        """So many draws of Z."""
        Z = Variable("Z", self.n_components)  # noqa: N806
        prior = PDG(Arc("prior", (), Z, SoftmaxTable(torch.as_tensor(self.weights_))))
        return np.array(drawn(prior, count, generator)["Z"], dtype=np.intp)


@dataclass(eq=False, repr=False)
class GaussianMixture(Mixture):
    """A mixture of Gaussians with "full", "tied" or "diag" covariances; missing entries (NaN) need "diag".

    The start: `means_init`, or rows drawn with far ones preferred (k-means++), and `covariances_init`, or that of all
    the data. `floor`: see `ObservedGaussian`.
    """

    covariance_type: Covariance = "full"
    means_init: object = field(default=None, kw_only=True)
    covariances_init: object = field(default=None, kw_only=True)
    floor: float = field(default=1e-6, kw_only=True)

    def _input(self) -> dict[str, bool]:
        return {"allow_nan": self.covariance_type == "diag"}

    def _read(self, X: Any) -> Array:  # noqa: N803
        return matrix(X)

    def _columns(self, x: Array) -> int:
        return x.shape[1]

    def _start(self, x: Array, generator: np.random.Generator) -> PDG:
        means, covariances = gaussian_start(x, self.n_components, self.covariance_type, self.floor, generator)
        means = means if self.means_init is None else self.means_init
        covariances = covariances if self.covariances_init is None else self.covariances_init
        return mixture(self._weights(), ObservedGaussian(x, means, covariances, self.covariance_type, self.floor))

    def _about(self, x: Array) -> PDG:
        old = self._cpd
        return mixture(self.weights_, ObservedGaussian(x, old.means, old.covariances, self.covariance_type, self.floor))

    @property
    def _cpd(self) -> ObservedGaussian:
        return cast(ObservedGaussian, self._fitted()["x"].cpd)

    @property
    def means_(self) -> Array:
        """The means, (components, columns)."""
        return self._cpd.means.detach().numpy()

    @property
    def covariances_(self) -> Array:
        """The covariances: a matrix each, one matrix, or a row of variances each."""
        return self._cpd.covariances.detach().numpy()

    def sample(self, n_samples: int = 1) -> tuple[Array, npt.NDArray[np.intp]]:
        """New rows drawn from the fitted mixture, and the component of each."""
        generator = np.random.default_rng(self.random_state)
        z = self._components(n_samples, generator)
        return gaussian_draws(self._cpd, z, generator), z

    def _count(self) -> int:
        return self.n_components - 1 + gaussian_count(self.means_, self.covariance_type)


@dataclass(eq=False, repr=False)
class NaiveBayesMixture(Mixture):
    """A mixture of products of categoricals: columns of labels that are independent given the component.

    Labels may be anything hashable; None, NaN and -1 are missing. `categories`: the labels of each column, by default
    those of the data. The start: `tables_init`, one table (components, labels) a column, or drawn at random.
    """

    categories: Sequence[Sequence[Hashable]] | None = field(default=None, kw_only=True)
    tables_init: Sequence[object] | None = field(default=None, kw_only=True)

    categories_: list[list[Hashable]] = field(init=False)

    def _input(self) -> dict[str, bool]:
        return {"allow_nan": True, "categorical": True, "string": True}

    def _read(self, X: Any) -> list[list[Any]]:  # noqa: N803
        return label_rows(X)

    def _columns(self, x: list[list[Any]]) -> int:
        return len(x[0])

    def _start(self, x: list[list[Any]], generator: np.random.Generator) -> PDG:
        if self.categories is None:
            self.categories_ = [
                sorted(dict.fromkeys(c for c in column if not missing(c)), key=str) for column in zip(*x, strict=True)
            ]
        else:
            self.categories_ = [list(c) for c in self.categories]
        tables = self.tables_init
        if tables is None:
            tables = [generator.dirichlet(np.full(max(1, len(c)), 5.0), self.n_components) for c in self.categories_]
        return mixture(self._weights(), ObservedCategorical(encoded(x, self.categories_), list(tables)))

    def _about(self, x: list[list[Any]]) -> PDG:
        return mixture(self.weights_, ObservedCategorical(encoded(x, self.categories_), list(self.tables_)))

    @property
    def tables_(self) -> list[Array]:
        """p(label | Z) of every column, (components, labels)."""
        p = cast(ObservedCategorical, self._fitted()["x"].cpd).tables().detach().numpy()
        return [p[:, j, : len(c)] for j, c in enumerate(self.categories_)]

    def sample(self, n_samples: int = 1) -> tuple[list[list[Hashable]], npt.NDArray[np.intp]]:
        """New rows of labels drawn from the fitted mixture, and the component of each."""
        generator = np.random.default_rng(self.random_state)
        z = self._components(n_samples, generator)
        columns = [
            [known[i] for i in category_draws(table[z], generator)]
            for table, known in zip(self.tables_, self.categories_, strict=True)
        ]
        return [list(row) for row in zip(*columns, strict=True)], z

    def _count(self) -> int:
        return self.n_components - 1 + self.n_components * sum(len(c) - 1 for c in self.categories_)
