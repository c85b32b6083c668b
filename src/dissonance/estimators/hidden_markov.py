"""Hidden Markov models in the manner of scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from dissonance.cpds import Observed, ObservedCategorical, ObservedGaussian, SoftmaxTable, Table
from dissonance.cpds.observed import Sample
from dissonance.cpds.observed_gaussian import Covariance
from dissonance.errors import DissonanceError
from dissonance.estimators.data import Array, category_draws, encoded, matrix, missing, sequences
from dissonance.estimators.gaussians import gaussian_count, gaussian_draws, gaussian_start
from dissonance.estimators.latent import LatentModel, drawn, table_of
from dissonance.instances.em.fitted import believed, evidence
from dissonance.instances.em.latent import ROW, hidden_markov
from dissonance.pdg import PDG, Arc
from dissonance.variables import Variable


@dataclass(eq=False, repr=False)
class HiddenMarkovModel(LatentModel):
    """A hidden Markov model of sequences of labels, or of vectors (Gaussian emissions, `covariance_type`).

    X is a list of sequences, which may differ in length; None or NaN is a missing observation. `emissions`:
    "categorical" or "gaussian". The start: `startprob_init`, `transmat_init`, and for labels `emissionprob_init`, for
    vectors `means_init` and `covariances_init`; what is not given is drawn at random.
    """

    n_components: int = 1
    emissions: str = "categorical"
    categories: Sequence[Hashable] | None = field(default=None, kw_only=True)
    startprob_init: object = field(default=None, kw_only=True)
    transmat_init: object = field(default=None, kw_only=True)
    emissionprob_init: object = field(default=None, kw_only=True)
    means_init: object = field(default=None, kw_only=True)
    covariances_init: object = field(default=None, kw_only=True)
    covariance_type: Covariance = field(default="diag", kw_only=True)
    floor: float = field(default=1e-6, kw_only=True)

    categories_: list[Hashable] = field(init=False)

    def _input(self) -> dict[str, bool]:
        return {"two_d_array": False, "three_d_array": True, "allow_nan": True}

    def _check(self) -> None:
        super()._check()
        if self.n_components < 1:
            raise DissonanceError(f"n_components: at least 1 is needed, found {self.n_components}.")
        if self.emissions not in ("categorical", "gaussian"):
            raise DissonanceError(f"emissions: 'categorical' or 'gaussian', found {self.emissions!r}.")

    def _read(self, X: Any) -> list[Any]:  # noqa: N803
        found = sequences(X)
        if self.emissions == "categorical":
            return found
        vectors = [matrix(s, f"sequence {n}") for n, s in enumerate(found)]
        if len(widths := {s.shape[1] for s in vectors}) > 1:
            raise DissonanceError(f"the vectors of all sequences need one length; found {sorted(widths)}.")
        return vectors

    def _columns(self, x: list[Any]) -> int:
        return 1 if self.emissions == "categorical" else x[0].shape[1]

    def _start(self, x: list[Any], generator: np.random.Generator) -> PDG:
        k = self.n_components
        start = np.full(k, 1 / k) if self.startprob_init is None else self.startprob_init
        move = generator.dirichlet(np.full(k, 5.0), k) if self.transmat_init is None else self.transmat_init
        if self.emissions == "categorical":
            seen = {c for sequence in x for c in sequence if not missing(c)}
            self.categories_ = sorted(seen, key=str) if self.categories is None else list(self.categories)
            table = self.emissionprob_init
            table = generator.dirichlet(np.full(len(self.categories_), 5.0), k) if table is None else table
            return hidden_markov(start, move, self._categorical(x, table), list(map(len, x)))
        means, covariances = gaussian_start(np.concatenate(x), k, self.covariance_type, self.floor, generator)
        means = means if self.means_init is None else self.means_init
        covariances = covariances if self.covariances_init is None else self.covariances_init
        return hidden_markov(start, move, self._gaussian(x, means, covariances), list(map(len, x)))

    def _about(self, x: list[Any]) -> PDG:
        if self.emissions == "categorical":
            emissions: Sequence[Observed] = self._categorical(x, self.emissionprob_)
        else:
            emissions = self._gaussian(x, self.means_, self.covariances_)
        return hidden_markov(self.startprob_, self.transmat_, emissions, list(map(len, x)))

    def _categorical(self, given: list[Any], table: object) -> list[ObservedCategorical]:
        codes = np.full((len(given), max(map(len, given))), -1)
        for n, sequence in enumerate(given):
            where = f"sequence {n}, time"
            codes[n, : len(sequence)] = encoded([[c] for c in sequence], [self.categories_], where)[:, 0]
        first = ObservedCategorical(codes[:, :1], [table])
        missing = first.logits.shape[-1]
        each = torch.from_numpy(np.where(codes < 0, missing, codes))
        return [first, *(first.on(Sample(codes=each[:, t : t + 1])) for t in range(1, codes.shape[1]))]

    def _gaussian(self, given: list[Array], means: object, covariances: object) -> list[ObservedGaussian]:
        padded = np.full((len(given), max(map(len, given)), given[0].shape[1]), np.nan)
        for n, s in enumerate(given):
            padded[n, : len(s)] = s
        first = ObservedGaussian(padded[:, 0], means, covariances, self.covariance_type, self.floor)
        return [first, *(first.about(padded[:, t]) for t in range(1, padded.shape[1]))]

    def _blame(self, n: int, x: list[Any], beliefs: Callable[[list[Any]], PDG]) -> str:
        """The first observation that makes a sequence impossible, by bisection."""
        sequence = x[n]
        low, high = 0, len(sequence)  # a prefix of `low` is possible, one of `high` is not
        while high - low > 1:
            middle = (low + high) // 2
            p = beliefs([sequence[:middle]])
            possible = math.isfinite(float(evidence(believed(p, p.variable(ROW)))[0]))
            low, high = (middle, high) if possible else (low, middle)
        return f"sequence {n}: {sequence[high - 1]!r} at time {high - 1}"

    @property
    def startprob_(self) -> Array:
        """p(Z_0)."""
        return table_of(self._fitted(), "initial")

    @property
    def transmat_(self) -> Array:
        """p(Z_t | Z_t-1)."""
        p = self._fitted()
        if "transition1" not in p:  # every sequence was of one observation: nothing was learned
            return np.full((self.n_components,) * 2, 1 / self.n_components)
        return torch.softmax(cast(SoftmaxTable, p["transition1"].cpd).logits, -1).detach().numpy()

    @property
    def emissionprob_(self) -> Array:
        """p(label | Z), (components, labels)."""
        return cast(ObservedCategorical, self._fitted()["x0"].cpd).tables()[:, 0].detach().numpy()

    @property
    def means_(self) -> Array:
        """The means of Gaussian emissions."""
        return cast(ObservedGaussian, self._fitted()["x0"].cpd).means.detach().numpy()

    @property
    def covariances_(self) -> Array:
        """The covariances of Gaussian emissions."""
        return cast(ObservedGaussian, self._fitted()["x0"].cpd).covariances.detach().numpy()

    def predict_proba(self, X: Any) -> list[Array]:  # noqa: N803
        """p(Z_t | x) at every time of every sequence, an array (times, components) each."""
        x, result = self._posterior(X)
        times = [f"Z{t}" for t in range(max(map(len, x)))]
        each = np.stack([result.mu.conditional(z, ROW).numpy() for z in times], 1)
        return [each[n, : len(s)] for n, s in enumerate(x)]

    def predict(self, X: Any) -> list[npt.NDArray[np.intp]]:  # noqa: N803
        """The most probable state at every time of every sequence, each time by itself."""
        return [p.argmax(1) for p in self.predict_proba(X)]

    def fit_predict(self, X: Any, y: object = None, sample_weight: object = None) -> list[npt.NDArray[np.intp]]:  # noqa: N803
        """`fit`, then `predict` of the same sequences."""
        return self.fit(X, y, sample_weight).predict(X)

    def sample(self, n_samples: int = 1, length: int = 10) -> tuple[list[Any], list[npt.NDArray[np.intp]]]:
        """New sequences of one length drawn from the fitted model, and the states of each."""
        if length < 1:
            raise DissonanceError(f"length: at least 1 is needed, found {length}.")
        generator = np.random.default_rng(self.random_state)
        Z = [Variable(f"Z{t}", self.n_components) for t in range(length)]  # noqa: N806
        start, move = Table(torch.from_numpy(self.startprob_)), Table(torch.from_numpy(self.transmat_))
        moves = [Arc(f"transition{t}", Z[t - 1], Z[t], move) for t in range(1, length)]
        found = drawn(PDG(Arc("initial", (), Z[0], start), *moves), n_samples, generator)
        states = np.array([found[z.name] for z in Z], dtype=np.intp).T  # (sequences, times)
        return [self._emitted(z, generator) for z in states], list(states)

    def _emitted(self, states: npt.NDArray[np.intp], generator: np.random.Generator) -> Any:
        """What a sequence of states shows: a list of labels, or vectors (times, columns)."""
        if self.emissions == "categorical":
            return [self.categories_[i] for i in category_draws(self.emissionprob_[states], generator)]
        return gaussian_draws(cast(ObservedGaussian, self._fitted()["x0"].cpd), states, generator)

    def _count(self) -> int:
        k = self.n_components
        if self.emissions == "categorical":
            return k * k - 1 + k * (len(self.categories_) - 1)
        return k * k - 1 + gaussian_count(self.means_, self.covariance_type)
