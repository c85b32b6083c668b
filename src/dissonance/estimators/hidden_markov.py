"""Hidden Markov models in the manner of scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from dissonance.arc import Arc
from dissonance.cpds import Observed, ObservedCategorical, ObservedGaussian, SoftmaxTable, Table
from dissonance.cpds.observed import Sample
from dissonance.cpds.observed_gaussian import Covariance
from dissonance.errors import DissonanceError
from dissonance.estimators.data import Array, category_draws, encoded, matrix, missing, sequences
from dissonance.estimators.gaussians import gaussian_count, gaussian_draws, gaussian_start
from dissonance.estimators.latent import LatentModel, drawn
from dissonance.instances.em.chains import Chains, Smoothed
from dissonance.instances.em.instance import shares
from dissonance.instances.em.latent import hidden_markov
from dissonance.pdg import PDG
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

    learned_: tuple[SoftmaxTable, SoftmaxTable, Observed] = field(init=False)
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
        return chains_pdg(x, self._begin(x, generator))

    def _about(self, x: list[Any]) -> PDG:
        return chains_pdg(x, self._chains(x))

    def fit(self, X: Any, y: object = None, sample_weight: object = None) -> HiddenMarkovModel:  # noqa: N803
        """Expectation-maximisation on the sequences X; y is not looked at.

        With full M-steps on all sequences (`chi`, `batches` as they are by default) in time linear in the observations,
        by compiled passes along the sequences; `fitted_.run` is the run of LIR that it is, made when it is asked for.
        """
        self._check()
        x = self._read(X)
        chains = self._begin(x, np.random.default_rng(self.random_state), sample_weight)
        self._refuse_impossible(chains.smooth(), x)
        if self.batches != 1 or self.chi != math.inf:
            super().fit(X, y, sample_weight)
            p = self.fitted_.pdg
            move = p["transition1"].cpd.get_parameter("logits") if "transition1" in p else chains.move.logits
            start, emission = p["initial"].cpd, p["x0"].cpd
            self.learned_ = cast(SoftmaxTable, start), SoftmaxTable(logits=move), cast(Observed, emission)
            return self
        self.fitted_ = chains.fit(self.max_iter, self.tol, partial(chains_pdg, x))
        self.learned_ = chains.start, chains.move, chains.emission
        self.n_features_in_ = self._columns(x)
        self.lower_bounds_ = self.fitted_.bounds
        self.n_iter_, self.converged_ = len(self.fitted_.bounds), self.fitted_.settled
        return self

    def _begin(self, x: list[Any], generator: np.random.Generator, weights: object = None) -> Chains:
        """The sequences and the parameters before learning."""
        k = self.n_components
        start = np.full(k, 1 / k) if self.startprob_init is None else self.startprob_init
        move = generator.dirichlet(np.full(k, 5.0), k) if self.transmat_init is None else self.transmat_init
        if self.emissions == "categorical":
            seen = dict.fromkeys(c for sequence in x for c in sequence if not missing(c))
            self.categories_ = sorted(seen, key=str) if self.categories is None else list(self.categories)
            table = self.emissionprob_init
            table = generator.dirichlet(np.full(len(self.categories_), 5.0), k) if table is None else table
            emission: Observed = ObservedCategorical(self._codes(x), [table])
        else:
            means, covariances = gaussian_start(np.concatenate(x), k, self.covariance_type, self.floor, generator)
            means = means if self.means_init is None else self.means_init
            covariances = covariances if self.covariances_init is None else self.covariances_init
            emission = ObservedGaussian(np.concatenate(x), means, covariances, self.covariance_type, self.floor)
        tables = SoftmaxTable(start), SoftmaxTable(move)
        for table, axes in zip(tables, (1, 2), strict=True):
            if table.logits.shape != (k,) * axes:
                wanted = " x ".join([str(k)] * axes)
                raise DissonanceError(f"{k} states need {wanted} probabilities, found {tuple(table.logits.shape)}.")
        tables[0].check(())
        tables[1].check((Variable("Z", k),))
        return Chains(*tables, emission, [len(s) for s in x], shares(weights, len(x)).numpy())

    def _chains(self, x: list[Any]) -> Chains:
        """Other sequences under the parameters that were learned."""
        start, move, emission = self._learned()
        if isinstance(emission, ObservedCategorical):
            codes = torch.from_numpy(self._codes(x))
            about: Observed = emission.on(Sample(codes=torch.where(codes < 0, emission.logits.shape[-1], codes)))
        else:
            about = cast(ObservedGaussian, emission).about(np.concatenate(x))
        return Chains(start, move, about, [len(s) for s in x], np.full(len(x), 1 / len(x)))

    def _codes(self, x: list[Any]) -> npt.NDArray[np.intp]:
        """The labels of all sequences as numbers, (observations, 1)."""
        each = [encoded([[c] for c in s], [self.categories_], f"sequence {n}, time") for n, s in enumerate(x)]
        return np.concatenate(each).astype(np.intp)

    def _refuse_impossible(self, found: Smoothed, x: list[Any]) -> None:
        for n, t in enumerate(found.impossible.tolist()):
            if t >= 0:
                where = f"sequence {n}: {x[n][t]!r} at time {t}"
                raise DissonanceError(f"{where} has probability 0 under the parameters.")

    def _learned(self) -> tuple[SoftmaxTable, SoftmaxTable, Observed]:
        if not hasattr(self, "learned_"):
            raise self._missing_fit()
        return self.learned_

    def _smoothed(self, X: Any) -> tuple[list[Any], Smoothed]:  # noqa: N803
        self._learned()
        x = self._read(X)
        self._expected(x)
        return x, self._chains(x).smooth()

    @property
    def startprob_(self) -> Array:
        """p(Z_0)."""
        return torch.softmax(self._learned()[0].logits, -1).detach().numpy()

    @property
    def transmat_(self) -> Array:
        """p(Z_t | Z_t-1)."""
        return torch.softmax(self._learned()[1].logits, -1).detach().numpy()

    @property
    def emissionprob_(self) -> Array:
        """p(label | Z), (components, labels)."""
        return cast(ObservedCategorical, self._learned()[2]).tables()[:, 0].detach().numpy()

    @property
    def means_(self) -> Array:
        """The means of Gaussian emissions."""
        return cast(ObservedGaussian, self._learned()[2]).means.detach().numpy()

    @property
    def covariances_(self) -> Array:
        """The covariances of Gaussian emissions."""
        return cast(ObservedGaussian, self._learned()[2]).covariances.detach().numpy()

    def score_samples(self, X: Any) -> Array:  # noqa: N803
        """log p(x_n) of every sequence; -inf where one is impossible."""
        return self._smoothed(X)[1].evidence

    def predict_proba(self, X: Any) -> list[Array]:  # noqa: N803
        """p(Z_t | x) at every time of every sequence, an array (times, components) each."""
        x, found = self._smoothed(X)
        self._refuse_impossible(found, x)
        return np.split(found.states, np.cumsum([len(s) for s in x])[:-1])

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
        return gaussian_draws(cast(ObservedGaussian, self._learned()[2]), states, generator)

    def _count(self) -> int:
        k = self.n_components
        if self.emissions == "categorical":
            return k * k - 1 + k * (len(self.categories_) - 1)
        return k * k - 1 + gaussian_count(self.means_, self.covariance_type)


def chains_pdg(x: list[Any], chains: Chains) -> PDG:
    """The chains of sequences x as a PDG with a variable for every time."""
    emission, lengths = chains.emission, list(map(len, x))
    longest = max(lengths)
    if isinstance(emission, ObservedCategorical):
        nothing = emission.logits.shape[-1]
        codes = torch.full((len(x), longest), nothing)
        for n, part in enumerate(emission.sample["codes"][:, 0].split(lengths)):
            codes[n, : len(part)] = part
        each: list[Observed] = [emission.on(Sample(codes=codes[:, t : t + 1])) for t in range(longest)]
    else:
        padded = np.full((len(x), longest, x[0].shape[1]), np.nan)
        for n, s in enumerate(x):
            padded[n, : len(s)] = s
        each = [cast(ObservedGaussian, emission).about(padded[:, t]) for t in range(longest)]
    start, move = (torch.softmax(t.logits, -1).detach() for t in (chains.start, chains.move))
    return hidden_markov(start, move, each, lengths)
