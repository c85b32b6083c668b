"""What models with latent variables share: `fit` runs the instance `em` until it settles, the rest reads the answer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np
import torch

from dissonance.cpds import SoftmaxTable
from dissonance.errors import DissonanceError
from dissonance.estimators.base import Estimator
from dissonance.estimators.data import Array
from dissonance.focus import Attention
from dissonance.inconsistency import Inconsistency, inconsistency
from dissonance.instances.em.chains import FittedChains
from dissonance.instances.em.fitted import Fitted, Settled, believed, evidence
from dissonance.instances.em.instance import Alternate, Rate, em
from dissonance.instances.em.latent import ROW
from dissonance.instances.em.likelihood import LastExpectation, densities
from dissonance.lir import Record
from dissonance.pdg import PDG

Self = TypeVar("Self", bound="LatentModel")


@dataclass(eq=False, repr=False)
class LatentModel(Estimator, ABC):
    """Beliefs about hidden variables and data, fitted by EM.

    `tol`: stop when an iteration gains less than so many nats a row; `max_iter` iterations at most. `batches` and `chi`
    are those of `em`. `random_state` seeds the start, and each call of `sample`. After `fit`: `converged_`, `n_iter_`,
    `lower_bound_` (the mean log-likelihood of the last E-step), `lower_bounds_` (of every E-step, less the term of a
    floor, and with batches the mean ELBO: what EM raises), `n_features_in_` (columns of X), `fitted_` (the run and all
    it found).
    """

    tol: float = field(default=1e-3, kw_only=True)
    max_iter: int = field(default=100, kw_only=True)
    random_state: int | np.random.Generator | None = field(default=0, kw_only=True)
    batches: int = field(default=1, kw_only=True)
    chi: Rate = field(default=math.inf, kw_only=True)

    fitted_: Fitted | FittedChains = field(init=False)
    converged_: bool = field(init=False)
    n_iter_: int = field(init=False)
    n_features_in_: int = field(init=False)
    lower_bounds_: list[float] = field(init=False)

    @abstractmethod
    def _read(self, X: Any) -> Any:  # noqa: N803
        """X checked, as x: what the other methods take."""

    @abstractmethod
    def _columns(self, x: Any) -> int:
        """How many columns x has."""

    @abstractmethod
    def _start(self, x: Any, generator: np.random.Generator) -> PDG:
        """The beliefs about data, before learning."""

    @abstractmethod
    def _about(self, x: Any) -> PDG:
        """The beliefs as fitted, about other data."""

    @abstractmethod
    def _count(self) -> int:
        """How many free parameters there are."""

    def _check(self) -> None:
        """Raise if an argument of the constructor is invalid."""
        if self.max_iter < 1:
            raise DissonanceError(f"max_iter: at least 1 iteration is needed, found {self.max_iter}.")

    def fit(self: Self, X: Any, y: object = None, sample_weight: object = None) -> Self:  # noqa: N803
        """Expectation-maximisation on the rows of X; y is not looked at."""
        self._check()
        x = self._read(X)
        p = self._start(x, np.random.default_rng(self.random_state))
        row = p.variable(ROW)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        instance = em(p, row, weights=weights, batches=self.batches, chi=self.chi)
        settled = [Settled(self.tol)] if self.batches == 1 else []
        last = LastExpectation(cast(Alternate, instance.refocus))
        try:
            run = instance.run(2 * self.max_iter, callbacks=[last, *settled], trace=Record(globally=False))
        except DissonanceError:
            self._possible(believed(p, row))  # says which row it is, if it is one
            raise
        fitted = instance.read(run)
        bounds = fitted.bounds[1::2]
        if not np.isfinite(bounds).all():
            self._possible(believed(p, row))
        self.fitted_, self.lower_bounds_, self.n_features_in_ = fitted, bounds, self._columns(x)
        self._likelihood = bounds[-1] if self.batches == 1 and densities(p) is p else last.likelihood()
        self.n_iter_ = run.steps // 2
        self.converged_ = bool(settled) and settled[0](run.steps, [run.trace])
        return self

    @property
    def lower_bound_(self) -> float:
        """The mean log-likelihood of the last E-step (with batches: its part's)."""
        self._fitted()
        return self._likelihood

    def _fitted(self) -> PDG:
        if not hasattr(self, "fitted_"):
            raise self._missing_fit()
        return self.fitted_.pdg

    def _result(self, X: Any) -> tuple[Any, Inconsistency]:  # noqa: N803
        """X as x, and the fitted beliefs against it."""
        self._fitted()
        x = self._read(X)
        self._expected(x)
        p = self._about(x)
        return x, believed(p, p.variable(ROW))

    def _posterior(self, X: Any) -> tuple[Any, Inconsistency]:  # noqa: N803
        """The same; raises if a row is impossible."""
        x, result = self._result(X)
        self._possible(result)
        return x, result

    def _expected(self, x: Any) -> None:
        """Raise if x has not the columns that `fit` has seen."""
        found = self._columns(x)
        if found != self.n_features_in_:
            raise DissonanceError(
                f"X has {found} features, but {type(self).__name__} is expecting {self.n_features_in_} features as "
                "input, as in fit."
            )

    def _possible(self, result: Inconsistency) -> None:
        """Raise if a row has probability 0 under the beliefs."""
        impossible = (evidence(result) == -math.inf).nonzero()
        if len(impossible):
            raise DissonanceError(f"row {int(impossible[0, 0])} has probability 0 under the parameters.")

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


def drawn(p: PDG, count: int, generator: np.random.Generator) -> dict[str, list[Hashable]]:
    """Independent draws of the variables of a Bayesian network: from mu* at alpha = beta = gamma = 1."""
    if count < 1:
        raise DissonanceError(f"n_samples: at least 1 is needed, found {count}.")
    with torch.no_grad():
        mu = inconsistency(p, Attention.uniform(p, gamma=1.0)).mu
    return mu.sample(count, torch.Generator().manual_seed(int(generator.integers(2**63))))


def table_of(p: PDG, name: str) -> Array:
    """The probabilities of an arc."""
    cpd = p[name].cpd
    return (cpd.table() if isinstance(cpd, SoftmaxTable) else cast(Any, cpd).log_table().exp()).detach().numpy()
