"""Models with latent variables in the manner of scikit-learn: `fit`, `predict_proba`, `score_samples`.

Each is thin: it makes the beliefs of `em_latent`, runs the instance `em` until it settles, and reads the answer.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from dissonance.cpds import ObservedCategorical, ObservedGaussian, SoftmaxTable
from dissonance.cpds.observed_gaussian import Covariance
from dissonance.errors import DissonanceError
from dissonance.estimators.data import Array, completed, encoded, labels, matrix, missing, spread_out
from dissonance.inconsistency import Inconsistency
from dissonance.instances.em.fitted import Fitted, Settled, believed, evidence
from dissonance.instances.em.instance import Rate, em
from dissonance.instances.em.latent import ROW, mixture
from dissonance.lir import Record
from dissonance.pdg import PDG

Self = TypeVar("Self", bound="LatentModel")


class LatentModel(ABC):
    """Beliefs about hidden variables and data, fitted by EM.

    `tol`: stop when an iteration gains less than so many nats a row; `max_iter` iterations at most. `batches` and `chi`
    are those of `em`. `random_state` seeds the start. After `fit`: `converged_`, `n_iter_`, `lower_bound_` (the mean
    log-likelihood of the last E-step), `lower_bounds_` (of every E-step), `fitted_` (the run and all it found).
    """

    fitted_: Fitted
    converged_: bool
    n_iter_: int
    lower_bounds_: list[float]

    def __init__(
        self,
        *,
        tol: float = 1e-3,
        max_iter: int = 100,
        random_state: int = 0,
        batches: int = 1,
        chi: Rate = math.inf,
    ) -> None:
        self.tol, self.max_iter, self.random_state = tol, max_iter, random_state
        self.batches, self.chi = batches, chi

    @abstractmethod
    def _start(self, X: Any, generator: np.random.Generator) -> PDG:  # noqa: N803
        """The beliefs about data, before learning."""

    @abstractmethod
    def _about(self, X: Any) -> PDG:  # noqa: N803
        """The beliefs as fitted, about other data."""

    @abstractmethod
    def _count(self) -> int:
        """How many free parameters there are."""

    def fit(self: Self, X: Any, y: object = None, sample_weight: object = None) -> Self:  # noqa: N803
        """Expectation-maximisation on the rows of X; y is not looked at."""
        if self.max_iter < 1:
            raise DissonanceError(f"max_iter: at least 1 iteration is needed, found {self.max_iter}.")
        p = self._start(X, np.random.default_rng(self.random_state))
        row = p.variable(ROW)
        self._possible(believed(p, row), X)
        instance = em(p, row, weights=sample_weight, batches=self.batches, chi=self.chi)
        settled = [Settled(self.tol)] if self.batches == 1 else []
        run = instance.run(2 * self.max_iter, callbacks=settled, trace=Record(globally=False))
        self.fitted_ = instance.read(run)
        self.lower_bounds_ = self.fitted_.bounds[1::2]
        self.n_iter_ = run.steps // 2
        self.converged_ = bool(settled) and settled[0](run.steps, [run.trace])
        return self

    @property
    def lower_bound_(self) -> float:
        """The mean log-likelihood of the last E-step (with batches: its part's)."""
        return self.lower_bounds_[-1]

    def _fitted(self) -> PDG:
        if not hasattr(self, "fitted_"):
            raise DissonanceError(f"this {type(self).__name__} is not fitted yet: call fit(X) first.")
        return self.fitted_.pdg

    def _result(self, X: Any) -> tuple[PDG, Inconsistency]:  # noqa: N803
        self._fitted()
        p = self._about(X)
        return p, believed(p, p.variable(ROW))

    def _possible(self, result: Inconsistency, X: Any) -> None:  # noqa: N803
        """Raise if a row has probability 0."""
        impossible = (evidence(result) == -math.inf).nonzero()
        if len(impossible):
            raise DissonanceError(f"{self._blame(int(impossible[0, 0]), X)} has probability 0 under the parameters.")

    def _blame(self, n: int, X: Any) -> str:  # noqa: N803
        """What is impossible, in words."""
        return f"row {n}"

    def score_samples(self, X: Any) -> Array:  # noqa: N803
        """log p(x_n) of every row; -inf where a row is impossible."""
        return evidence(self._result(X)[1]).numpy()

    def score(self, X: Any, y: object = None) -> float:  # noqa: N803
        """The mean log-likelihood of the rows."""
        return float(self.score_samples(X).mean())

    def bic(self, X: Any) -> float:  # noqa: N803
        """The Bayesian information criterion; lower is better."""
        scores = self.score_samples(X)
        return float(-2 * scores.sum() + self._count() * math.log(len(scores)))

    def aic(self, X: Any) -> float:  # noqa: N803
        """Akaike's information criterion; lower is better."""
        return float(-2 * self.score_samples(X).sum() + 2 * self._count())


class _Mixture(LatentModel):
    """What mixtures share: one hidden variable Z."""

    def __init__(self, n_components: int = 1, *, weights_init: object = None, **options: Any) -> None:
        super().__init__(**options)
        if n_components < 1:
            raise DissonanceError(f"n_components: at least 1 is needed, found {n_components}.")
        self.n_components, self.weights_init = n_components, weights_init

    def _weights(self) -> object:
        return np.full(self.n_components, 1 / self.n_components) if self.weights_init is None else self.weights_init

    @property
    def weights_(self) -> Array:
        """p(Z)."""
        return table_of(self._fitted(), "prior")

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """p(Z | x_n) of every row, (rows, components)."""
        _, result = self._result(X)
        self._possible(result, X)
        return result.mu.conditional("Z", ROW).numpy()

    def predict(self, X: Any) -> npt.NDArray[np.intp]:  # noqa: N803
        """The most probable component of every row."""
        return self.predict_proba(X).argmax(1)


class GaussianMixture(_Mixture):
    """A mixture of Gaussians with "full", "tied" or "diag" covariances; missing entries (NaN) need "diag".

    The start: `means_init`, or rows drawn with far ones preferred (k-means++), and `covariances_init`, or that of all
    the data. `floor`: see `ObservedGaussian`.
    """

    def __init__(
        self,
        n_components: int = 1,
        covariance_type: Covariance = "full",
        *,
        means_init: object = None,
        covariances_init: object = None,
        floor: float = 1e-6,
        **options: Any,
    ) -> None:
        super().__init__(n_components, **options)
        self.covariance_type: Covariance = covariance_type
        self.means_init, self.covariances_init, self.floor = means_init, covariances_init, floor

    def _start(self, X: Any, generator: np.random.Generator) -> PDG:  # noqa: N803
        x = matrix(X)
        means, covariances = gaussian_start(x, self.n_components, self.covariance_type, self.floor, generator)
        means = means if self.means_init is None else self.means_init
        covariances = covariances if self.covariances_init is None else self.covariances_init
        return mixture(self._weights(), ObservedGaussian(x, means, covariances, self.covariance_type, self.floor))

    def _about(self, X: Any) -> PDG:  # noqa: N803
        x, old = matrix(X), self._cpd
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

    def _count(self) -> int:
        return self.n_components - 1 + gaussian_count(self.means_, self.covariance_type)


class NaiveBayesMixture(_Mixture):
    """A mixture of products of categoricals: columns of labels that are independent given the component.

    Labels may be anything hashable; None, NaN and -1 are missing. `categories`: the labels of each column, by default
    those of the data. The start: `tables_init`, one table (components, labels) a column, or drawn at random.
    """

    categories_: list[list[Hashable]]

    def __init__(
        self,
        n_components: int = 1,
        *,
        categories: Sequence[Sequence[Hashable]] | None = None,
        tables_init: Sequence[object] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(n_components, **options)
        self.categories, self.tables_init = categories, tables_init

    def _start(self, X: Any, generator: np.random.Generator) -> PDG:  # noqa: N803
        cells = labels(X)
        if self.categories is None:
            self.categories_ = [
                sorted({c for c in column if not missing(c)}, key=str) for column in zip(*cells, strict=True)
            ]
        else:
            self.categories_ = [list(c) for c in self.categories]
        tables = self.tables_init
        if tables is None:
            tables = [generator.dirichlet(np.full(max(1, len(c)), 5.0), self.n_components) for c in self.categories_]
        return mixture(self._weights(), ObservedCategorical(self._codes(cells), list(tables)))

    def _about(self, X: Any) -> PDG:  # noqa: N803
        return mixture(self.weights_, ObservedCategorical(self._codes(labels(X)), list(self.tables_)))

    def _codes(self, cells: list[list[Any]]) -> npt.NDArray[np.int64]:
        return encoded(cells, self.categories_)

    @property
    def tables_(self) -> list[Array]:
        """p(label | Z) of every column, (components, labels)."""
        p = cast(ObservedCategorical, self._fitted()["x"].cpd).tables().detach().numpy()
        return [p[:, j, : len(c)] for j, c in enumerate(self.categories_)]

    def _count(self) -> int:
        return self.n_components - 1 + self.n_components * sum(len(c) - 1 for c in self.categories_)


def gaussian_start(
    x: Array, count: int, covariance: Covariance, floor: float, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Rows far from each other as means, and the covariance of all the data as everyone's."""
    filled = completed(x)
    c = np.atleast_2d(np.cov(filled.T, bias=True)) + (floor + 1e-12) * np.eye(x.shape[1])
    shaped = {"full": np.repeat(c[None], count, 0), "tied": c, "diag": np.repeat(np.diag(c)[None], count, 0)}
    return spread_out(filled, count, generator), shaped.get(covariance, c)


def gaussian_count(means: Array, covariance: Covariance) -> int:
    """How many free parameters Gaussians have."""
    settings, columns = means.shape
    one = columns * (columns + 1) // 2
    return settings * columns + {"full": settings * one, "tied": one, "diag": settings * columns}[covariance]


def table_of(p: PDG, name: str) -> Array:
    """The probabilities of an arc."""
    cpd = p[name].cpd
    return (cpd.table() if isinstance(cpd, SoftmaxTable) else cpd.log_table().exp()).detach().numpy()
