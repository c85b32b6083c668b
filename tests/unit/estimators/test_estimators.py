"""Models in the manner of scikit-learn: what they find is what the textbook and scikit-learn find."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from dissonance import DissonanceError, Variable
from dissonance.estimators import GaussianMixture, HiddenMarkovModel, LatentBayesianNetwork, NaiveBayesMixture
from reference import em as textbook


def two_clouds(seed: int = 0, count: int = 120) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 2)) * [1.0, 0.5] + np.where(np.arange(count)[:, None] % 2, 4.0, -4.0)


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_a_gaussian_mixture_stops_where_scikit_learn_stops(kind: str):
    sklearn = pytest.importorskip("sklearn.mixture")
    x, eye = two_clouds(), np.eye(2)
    means = np.array([[-1.0, 0.0], [1.0, 0.0]])
    covariances = {"full": np.stack([eye] * 2), "tied": eye, "diag": np.ones((2, 2))}[kind]
    ours = GaussianMixture(2, kind, means_init=means, covariances_init=covariances, floor=0.0).fit(x)
    theirs = sklearn.GaussianMixture(
        2, covariance_type=kind, weights_init=[0.5, 0.5], means_init=means, precisions_init=covariances, reg_covar=0.0
    ).fit(x)
    assert ours.converged_ and ours.n_iter_ == theirs.n_iter_
    assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, abs=1e-9)
    np.testing.assert_allclose(ours.weights_, theirs.weights_, atol=1e-9)
    np.testing.assert_allclose(ours.means_, theirs.means_, atol=1e-9)
    np.testing.assert_allclose(ours.covariances_, theirs.covariances_, atol=1e-9)
    new = two_clouds(1, 9)
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-9)
    np.testing.assert_allclose(ours.score_samples(new), theirs.score_samples(new), atol=1e-9)
    assert (ours.predict(new) == theirs.predict(new)).all()
    assert ours.score(new) == pytest.approx(theirs.score(new)) and ours.aic(new) == pytest.approx(theirs.aic(new))
    assert ours.bic(new) == pytest.approx(theirs.bic(new))


def test_a_seed_is_enough_to_find_the_clouds():
    found = [GaussianMixture(2, random_state=3).fit(two_clouds()) for _ in range(2)]
    np.testing.assert_array_equal(found[0].means_, found[1].means_)
    centres = found[0].means_[found[0].means_[:, 0].argsort()]
    np.testing.assert_allclose(centres, [[-4, -4], [4, 4]], atol=0.3)
    assert len(set(found[0].predict(two_clouds())[::2])) == 1


def test_a_floor_is_noise_of_that_variance_in_the_data():
    x = np.array([[0.0], [0.0], [0.0], [5.0], [6.0]])
    with pytest.raises(DissonanceError, match="the covariance of setting 0 is not positive definite"):
        GaussianMixture(2, means_init=[[0.0], [5.5]], floor=0.0, max_iter=200, tol=0.0).fit(x)
    fitted = GaussianMixture(2, means_init=[[0.0], [5.5]], floor=0.1, max_iter=50).fit(x)
    np.testing.assert_allclose(fitted.covariances_[:, 0, 0], [0.1, 0.35], atol=1e-3)
    bounds = fitted.lower_bounds_
    assert all(b >= a - 1e-12 for a, b in itertools.pairwise(bounds))


def test_one_iteration_does_not_converge():
    fitted = GaussianMixture(2, max_iter=1).fit(two_clouds())
    assert not fitted.converged_ and fitted.n_iter_ == 1


def test_missing_numbers_are_left_out():
    x = two_clouds()
    x[::5, 0] = np.nan
    fitted = GaussianMixture(2, "diag").fit(x)
    np.testing.assert_allclose(np.sort(fitted.means_[:, 1]), [-4, 4], atol=0.3)
    assert fitted.predict_proba([[np.nan, 4.0]]).max() > 0.99


def test_batches_find_the_clouds_too():
    for options in ({"batches": 4}, {"batches": 7, "chi": 0.7}):
        fitted = GaussianMixture(2, max_iter=40, **options).fit(two_clouds())
        np.testing.assert_allclose(np.sort(fitted.means_[:, 0]), [-4, 4], atol=0.4)
        assert fitted.n_iter_ == 40 and not fitted.converged_


def test_naive_bayes_is_the_textbooks_and_knows_labels():
    rng = np.random.default_rng(2)
    codes = np.stack([rng.integers(-1, 2, 40), rng.integers(-1, 3, 40)], 1)
    names = [["no", "yes"], ["blue", "green", "red"]]
    x = [[None if c < 0 else names[j][c] for j, c in enumerate(row)] for row in codes]
    weights, tables = np.array([0.3, 0.7]), [rng.dirichlet(np.ones(k), 2) for k in (2, 3)]
    fitted = NaiveBayesMixture(2, weights_init=weights, tables_init=tables, max_iter=3, tol=0.0).fit(x)
    for _ in range(3):
        r, _ = textbook.responsibilities(textbook.categorical_log_joint(codes, weights, tables))
        weights, tables = textbook.categorical_m_step(codes, r, (2, 3))
    np.testing.assert_allclose(fitted.weights_, weights, atol=1e-12)
    for ours, theirs in zip(fitted.tables_, tables, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    r, scores = textbook.responsibilities(textbook.categorical_log_joint(codes, weights, tables))
    np.testing.assert_allclose(fitted.predict_proba(x), r, atol=1e-12)
    np.testing.assert_allclose(fitted.score_samples(pd.DataFrame(x)), scores, atol=1e-12)
    assert fitted.categories_ == names and fitted.aic(x) == pytest.approx(-2 * scores.sum() + 2 * 7)


def test_a_hidden_markov_model_is_baum_welch_and_smooths():
    rng = np.random.default_rng(4)
    sequences = [rng.integers(3, size=int(k)).tolist() for k in (6, 3, 5)]
    start, move, emit = rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(2), 2), rng.dirichlet(np.ones(3), 2)
    fitted = HiddenMarkovModel(
        2, startprob_init=start, transmat_init=move, emissionprob_init=emit, max_iter=4, tol=0.0
    ).fit([["abc"[c] for c in s] for s in sequences])
    for _ in range(4):
        start, move, emit, _ = textbook.baum_welch(sequences, start, move, emit)
    np.testing.assert_allclose(fitted.startprob_, start, atol=1e-11)
    np.testing.assert_allclose(fitted.transmat_, move, atol=1e-11)
    np.testing.assert_allclose(fitted.emissionprob_, emit, atol=1e-11)
    (smoothed,) = fitted.predict_proba(["acab"])
    gamma, _, score = textbook.forward_backward(start, move, emit.T[[0, 2, 0, 1]])
    np.testing.assert_allclose(smoothed, gamma, atol=1e-11)
    assert fitted.score_samples(["acab"])[0] == pytest.approx(score, abs=1e-11)
    assert fitted.predict(["acab"])[0].tolist() == gamma.argmax(1).tolist()


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_gaussian_emissions_are_learned_from_sequences_of_any_length(kind: str):
    rng = np.random.default_rng(5)
    sequences = []
    for length in (9, 5, 12, 7):
        states = np.cumsum(rng.random(length) < 0.3) % 2
        sequences.append(rng.normal(size=(length, 2)) * 0.5 + np.where(states[:, None], 3.0, -3.0))
    fitted = HiddenMarkovModel(2, "gaussian", covariance_type=kind, max_iter=30).fit(sequences)
    assert fitted.converged_
    np.testing.assert_allclose(np.sort(fitted.means_[:, 0]), [-3, 3], atol=0.4)
    means, matrices = (
        fitted.means_,
        {
            "full": fitted.covariances_,
            "tied": [fitted.covariances_] * 2,
            "diag": [np.diag(v) for v in fitted.covariances_],
        }[kind],
    )
    for x, score in zip(sequences, fitted.score_samples(sequences), strict=True):
        parts = [textbook.log_normal(x, m, c) for m, c in zip(means, matrices, strict=True)]
        expected = textbook.forward_backward(fitted.startprob_, fitted.transmat_, np.exp(np.stack(parts, 1)))[2]
        assert score == pytest.approx(expected, abs=1e-9)


def test_a_network_learns_from_a_data_frame_and_predicts_what_is_hidden():
    season, rain, wet = Variable("Season", ["dry", "wet"]), Variable("Rain", ["no", "yes"]), Variable("Grass", 2)
    cpds = {
        season: ((), [0.5, 0.5]),
        rain: ([season], [[0.8, 0.2], [0.3, 0.7]]),
        wet: ([rain], [[0.9, 0.1], [0.2, 0.8]]),
    }
    data = {"Rain": ["yes", "no", "no", None, "yes", "no"], "Grass": [1, 0, 0, 1, 1, 0]}
    model = LatentBayesianNetwork(cpds, max_iter=3, tol=0.0).fit(pd.DataFrame(data))
    parents = {"Season": (), "Rain": ("Season",), "Grass": ("Rain",)}
    sizes = {"Season": 2, "Rain": 2, "Grass": 2}
    tables = {v.name: np.array(t) for v, (_, t) in cpds.items()}
    seen = [
        {"Grass": g} | ({} if r is None else {"Rain": int(r == "yes")}) for r, g in zip(*data.values(), strict=True)
    ]
    for _ in range(3):
        tables, _ = textbook.network_step(parents, sizes, tables, seen)
    for name, table in tables.items():
        np.testing.assert_allclose(model.table(name), table, atol=1e-12)
    _, scores = textbook.network_step(parents, sizes, tables, seen)
    np.testing.assert_allclose(model.score_samples(data), scores, atol=1e-12)
    assert model.predict(data, "Rain")[3] == "yes"
    assert model.predict_proba({"Grass": [0]}, "Season").shape == (1, 2)


X = [[0.0, 1.0], [1.0, 2.0], [2.0, 0.5]]
IMPOSSIBLE = HiddenMarkovModel(
    2,
    categories="abc",
    startprob_init=[1.0, 0.0],
    transmat_init=[[0.0, 1.0], [1.0, 0.0]],
    emissionprob_init=[[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]],
)
NETWORK = LatentBayesianNetwork({Variable("A", ["x", "y"]): ((), None)})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: GaussianMixture(2).fit([[1.0, 2.0], [1.0]]),
            r"X: rows of numbers of one length .* row 1 has 1 entries",
        ),
        (lambda: GaussianMixture(2).fit([1.0, 2.0]), r"an array \(rows, columns\) is needed, found the shape \(2,\)"),
        (lambda: GaussianMixture(4).fit(X), "4 components need at least as many rows, found 3"),
        (lambda: GaussianMixture(0).fit(X), "n_components: at least 1"),
        (lambda: GaussianMixture(2, "round").fit(X), "covariance is one of 'full', 'tied', 'diag'; found 'round'"),
        (lambda: GaussianMixture(2, means_init=[[0.0], [1.0]]).fit(X), "the data has 2 columns, means 1"),
        (
            lambda: GaussianMixture(2).fit([[0.0, math.nan], *X]),
            r"row 0, column 1 is missing \(NaN\): a 'full'",
        ),
        (lambda: GaussianMixture(2).fit([[0.0, math.inf], *X]), "X: row 0, column 1 is infinite"),
        (lambda: GaussianMixture(2).predict(X), r"this GaussianMixture is not fitted yet: call fit\(X\) first"),
        (
            lambda: GaussianMixture(1).fit(X).predict([[1.0, 2.0, 3.0]]),
            "X has 3 features, but Gaussian",
        ),
        (lambda: GaussianMixture(1, max_iter=0).fit(X), "max_iter: at least 1"),
        (lambda: GaussianMixture(1).fit(X, sample_weight=[1.0]), "weights: 3 non-negative numbers"),
        (
            lambda: NaiveBayesMixture(2, categories=[["red", "blue"]]).fit([["red"], ["bleu"]]),
            "row 1: unknown label 'bleu'. Did you mean 'blue'?",
        ),
        (lambda: NaiveBayesMixture(2).fit([["a", "b"], ["a"]]), "row 1 has 1 entries, row 0 has 2"),
        (
            lambda: NaiveBayesMixture(2).fit([["a"], ["b"]]).predict([["a", "b"]]),
            "X has 2 features, but Naive",
        ),
        (lambda: IMPOSSIBLE.fit(["ab", "abac"[:3] + "a"]), "sequence 1: 'a' at time 3 has probability 0"),
        (lambda: IMPOSSIBLE.fit(["ab", "axb"]), "sequence 1, time 1: unknown label 'x'"),
        (lambda: IMPOSSIBLE.fit(["ab", ""]), "sequence 1 is empty"),
        (
            lambda: HiddenMarkovModel(2, "poisson").fit(["ab"]),
            "'categorical' or 'gaussian', found 'poisson'",
        ),
        (
            lambda: LatentBayesianNetwork({Variable("A", ["x", "y"]): ((), [1.0, 0.0])}).fit({"A": ["x", "y"]}),
            "row 1 has probability 0 under the parameters",
        ),
        (lambda: NETWORK.fit({"A": ["x", "z"]}), "row 1, A: no value 'z'"),
        (lambda: NETWORK.fit({"B": ["x"]}), "the data has a column 'B', but no variable"),
        (lambda: NETWORK.fit([["x"]]), "X: columns by name are needed"),
        (lambda: NETWORK.fit({"A": ["x"]}).table("C"), "no variable named 'C'"),
    ],
)
def test_bad_input_is_named_in_one_line(call, message: str):
    with pytest.raises(DissonanceError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
