"""Scores are log densities, whatever the floor: they integrate to 1, and are of the weights and Gaussians found."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dissonance.estimators import GaussianMixture, HiddenMarkovModel
from reference import em as textbook

KINDS = ["full", "tied", "diag"]
FLOORS = [1e-6, 1e-2, 0.1]


def clouds(count: int = 200, columns: int = 2) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, columns)) * 0.7 + np.where(np.arange(count)[:, None] % 2, 2.0, -2.0)


def matrices(model: Any) -> list[np.ndarray]:
    """The covariance of each component."""
    c = model.covariances_
    by_kind = {"full": c, "tied": [c] * model.n_components, "diag": [np.diag(v) for v in c]}
    return list(by_kind[model.covariance_type])


def log_joint(model: Any, x: np.ndarray) -> np.ndarray:
    """log p(z) p(x | z), (rows, components), of the weights, means and covariances that the model shows."""
    parts = [textbook.log_normal(x, m, c) for m, c in zip(model.means_, matrices(model), strict=True)]
    return np.stack(parts, 1) + np.log(model.weights_)


@pytest.mark.parametrize("floor", FLOORS)
def test_a_density_integrates_to_one(floor: float):
    x = np.random.default_rng(1).normal(size=(200, 1))
    grid = np.linspace(-12, 12, 4001)
    for kind in KINDS:
        fitted = GaussianMixture(2, kind, floor=floor).fit(x)
        assert np.exp(fitted.score_samples(grid[:, None])).sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("floor", FLOORS)
@pytest.mark.parametrize("kind", KINDS)
def test_scores_and_posteriors_are_those_of_the_mixture_that_is_shown(kind: str, floor: float):
    x = clouds()
    fitted = GaussianMixture(2, kind, floor=floor, max_iter=5, tol=0.0).fit(x)
    r, scores = textbook.responsibilities(log_joint(fitted, x))
    np.testing.assert_allclose(fitted.score_samples(x), scores, atol=1e-9)
    np.testing.assert_allclose(fitted.predict_proba(x), r, atol=1e-9)
    np.testing.assert_allclose(fitted.fitted_.evidence, scores, atol=1e-9)
    parameters = 1 + 4 + {"full": 6, "tied": 3, "diag": 4}[kind]
    assert fitted.score(x) == pytest.approx(scores.mean())
    assert fitted.aic(x) == pytest.approx(-2 * scores.sum() + 2 * parameters)
    assert fitted.bic(x) == pytest.approx(-2 * scores.sum() + parameters * np.log(len(x)))


@pytest.mark.parametrize("options", [{}, {"chi": 0.7}, {"batches": 4}, {"batches": 3, "chi": 0.7}])
def test_the_lower_bound_is_the_log_likelihood_at_the_last_e_step(options: dict[str, Any]):
    x = clouds()
    before, fitted = (GaussianMixture(2, floor=0.1, max_iter=n, tol=0.0, **options).fit(x) for n in (3, 4))
    parts = np.array_split(np.arange(len(x)), options.get("batches", 1))
    looked_at = parts[2] if options == {"batches": 4} else parts[3 % len(parts)]
    assert fitted.lower_bound_ == pytest.approx(before.score_samples(x)[looked_at].mean(), abs=1e-9)
    if len(parts) == 1:
        assert fitted.lower_bound_ > fitted.lower_bounds_[-1]  # EM raises it less the term of the floor


@pytest.mark.parametrize(("batches", "chi"), [(1, math.inf), (4, math.inf), (5, 0.7), (3, 0.7)])
def test_the_lower_bounds_are_mean_elbos_however_the_rows_are_cut(batches: int, chi: float):
    x = clouds(60)
    given: dict[str, Any] = {"floor": 0.0, "tol": 0.0, "batches": batches, "chi": chi}
    fitted = GaussianMixture(2, max_iter=8, **given).fit(x)
    if chi == math.inf:  # the first E-step is on all rows, and incremental EM never falls
        start = GaussianMixture(2, max_iter=1, floor=0.0).fit(x).lower_bounds_[0]
        assert fitted.lower_bounds_[0] == pytest.approx(start, abs=1e-9)
        assert all(b >= a - 1e-12 for a, b in pairwise(fitted.lower_bounds_))
    else:  # a part after the other, each after its own E-step
        before = GaussianMixture(2, max_iter=7, **given).fit(x)
        rows = np.array_split(np.arange(len(x)), batches)[7 % batches]
        assert fitted.lower_bounds_[-1] == pytest.approx(before.score_samples(x)[rows].mean(), abs=1e-9)
        assert fitted.lower_bound_ == pytest.approx(fitted.lower_bounds_[-1], abs=1e-9)


def test_the_lower_bound_weighs_the_rows_as_the_data_does():
    x, weights = clouds(20), np.arange(20.0)
    before, fitted = (GaussianMixture(2, floor=0.1, max_iter=n, tol=0.0).fit(x, None, weights) for n in (3, 4))
    assert fitted.lower_bound_ == pytest.approx(before.score_samples(x) @ weights / weights.sum(), abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mixture_stops_at_the_lower_bound_of_scikit_learn_where_the_floor_is_small(kind: str):
    sklearn = pytest.importorskip("sklearn.mixture")
    x, means, eye = clouds(), np.array([[-1.0, -1.0], [1.0, 1.0]]), np.eye(2)
    covariances = {"full": np.stack([eye] * 2), "tied": eye, "diag": np.ones((2, 2))}[kind]
    given: dict[str, Any] = {"covariance_type": kind, "means_init": means, "max_iter": 3, "tol": 0.0}
    ours = GaussianMixture(2, covariances_init=covariances, floor=1e-6, **given).fit(x)
    theirs = sklearn.GaussianMixture(2, weights_init=[0.5, 0.5], precisions_init=covariances, reg_covar=1e-6, **given)
    with pytest.warns(UserWarning, match="did not converge"):
        theirs.fit(x)
    assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, abs=1e-10)
    np.testing.assert_allclose(ours.score_samples(x), theirs.score_samples(x), atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"chi": 0.7}])
@pytest.mark.parametrize("kind", KINDS)
def test_hidden_markov_models_score_densities(kind: str, options: dict[str, Any]):
    x = [clouds(n) for n in (5, 3, 8, 1)]

    def fitted(iterations: int) -> HiddenMarkovModel:
        model = HiddenMarkovModel(
            2, "gaussian", covariance_type=kind, floor=0.1, max_iter=iterations, tol=0.0, **options
        )
        return model.fit(x)

    before, model = fitted(2), fitted(3)
    for found in (before, model):
        for sequence, score, p in zip(x, found.score_samples(x), found.predict_proba(x), strict=True):
            parts = [textbook.log_normal(sequence, m, c) for m, c in zip(found.means_, matrices(found), strict=True)]
            emitted = np.exp(np.stack(parts, 1))
            gamma, _, expected = textbook.forward_backward(found.startprob_, found.transmat_, emitted)
            assert score == pytest.approx(expected, abs=1e-9)
            np.testing.assert_allclose(p, gamma, atol=1e-9)
    assert model.lower_bound_ == pytest.approx(before.score(x), abs=1e-9)
    assert model.aic(x) == pytest.approx(
        -2 * model.score_samples(x).sum() + 2 * (3 + 4 + {"full": 6, "tied": 3}.get(kind, 4))
    )
