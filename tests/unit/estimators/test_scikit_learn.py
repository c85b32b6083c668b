"""scikit-learn's own checks of estimators, and what they mean for those whose data is no array."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

from dissonance import DissonanceError, Variable
from dissonance.estimators import (
    Estimator,
    GaussianMixture,
    HiddenMarkovModel,
    LatentBayesianNetwork,
    NaiveBayesMixture,
    NotFittedError,
)
from fresh import python

try:
    from sklearn.utils.estimator_checks import estimator_checks_generator
except ImportError:
    estimator_checks_generator = None

A, B = Variable("A", ["x", "y"]), Variable("B", ["u", "v"])
NETWORK = LatentBayesianNetwork({A: ((), [0.3, 0.7]), B: ([A], [[0.9, 0.1], [0.2, 0.8]])}, max_iter=3)
ESTIMATORS = [GaussianMixture(2), NaiveBayesMixture(2), HiddenMarkovModel(2), NETWORK]
DATA = [
    np.random.default_rng(0).normal(size=(30, 2)),
    [["a", 1], ["b", 2], ["a", 2], ["b", 1], ["a", 1]],
    ["abab", "bba", "aab"],
    {"A": ["x", "y", "y", None], "B": ["u", "v", "v", "u"]},
]


UNKNOWN = "check_sample_weight_equivalence_on_dense_data"
"""It predicts rows that were left out of the fit; to a mixture of categoricals their numbers are unknown labels."""


def checks() -> list[object]:
    """Every check of scikit-learn for estimators that take arrays, as it is named there."""
    if estimator_checks_generator is None:
        return [pytest.param(None, None, marks=pytest.mark.skip("scikit-learn >= 1.6 is not installed"))]
    found = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Estimator .* does not inherit from")
        for made in (GaussianMixture(), GaussianMixture(covariance_type="diag"), NaiveBayesMixture()):
            for estimator, check in estimator_checks_generator(made):
                name = getattr(check, "func", check).__name__
                unknown = isinstance(made, NaiveBayesMixture) and name == UNKNOWN
                marks = [pytest.mark.xfail(raises=DissonanceError, reason="unknown labels are refused")] * unknown
                found.append(pytest.param(estimator, check, id=f"{estimator!r}-{name}", marks=marks))
    return found


@pytest.mark.parametrize(("estimator", "check"), checks())
def test_scikit_learn_finds_nothing_wrong(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="sklearn")
        check(estimator)


@pytest.mark.parametrize(("estimator", "data"), list(zip(ESTIMATORS, DATA, strict=True)))
def test_parameters_are_what_the_constructor_was_given(estimator: Estimator, data: object):
    sklearn = pytest.importorskip("sklearn.base")
    copy = sklearn.clone(estimator.set_params(tol=0.5))
    assert copy is not estimator and copy.get_params()["tol"] == 0.5 and not hasattr(copy, "fitted_")
    assert set(copy.get_params()) == set(estimator.get_params()) >= {"tol", "max_iter", "random_state"}
    assert copy.fit(data) is copy and copy.n_features_in_ > 0
    assert pickle.loads(pickle.dumps(copy)).score(data) == copy.score(data)
    with pytest.raises(DissonanceError, match="has no parameter 'max_iters'"):
        copy.set_params(max_iters=3)


def test_a_repr_says_what_is_not_the_default():
    assert repr(GaussianMixture()) == "GaussianMixture()"
    found = repr(GaussianMixture(3, "diag", tol=0.1))
    assert found == "GaussianMixture(n_components=3, covariance_type='diag', tol=0.1)"
    assert "\n" not in repr(GaussianMixture(means_init=np.zeros((9, 9)))) and len(repr(NETWORK)) < 150


def test_what_fit_finds_is_no_attribute_before():
    made = GaussianMixture()
    assert not hasattr(made, "means_") and not hasattr(made, "lower_bound_")
    with pytest.raises(NotFittedError, match=r"call fit\(X\) first"):
        _ = made.means_


def test_a_fit_predicts_what_it_was_fitted_to():
    for made, data in zip(ESTIMATORS[:3], DATA, strict=False):
        found = made.fit_predict(data)
        assert all(np.array_equal(a, b) for a, b in zip(found, made.predict(data), strict=True))
    assert NETWORK.fit_predict(DATA[3], "A") == ["x", "y", "y", "x"]


def test_samples_of_a_gaussian_mixture_have_its_moments():
    x = np.concatenate([np.random.default_rng(1).normal(size=(60, 2)) * [1, 0.2], [[9.0, 9.0], [9.5, 8.0], [8.0, 9.5]]])
    for kind in ("full", "tied", "diag"):
        fitted = GaussianMixture(2, kind, means_init=[[0, 0], [9, 9]]).fit(x)
        drawn, z = fitted.sample(40_000)
        assert drawn.shape == (40_000, 2)
        np.testing.assert_allclose(np.bincount(z) / len(z), fitted.weights_, atol=0.01)
        mine = drawn[z == 0]
        covariance = {"full": lambda c: c[0], "tied": lambda c: c, "diag": lambda c: np.diag(c[0])}[kind]
        np.testing.assert_allclose(mine.mean(0), fitted.means_[0], atol=0.03)
        np.testing.assert_allclose(np.cov(mine.T), covariance(fitted.covariances_), atol=0.05)
        np.testing.assert_array_equal(fitted.sample(3)[0], fitted.sample(3)[0])


def test_samples_of_labels_have_their_probabilities():
    fitted = NaiveBayesMixture(2).fit(DATA[1])
    rows, z = fitted.sample(20_000)
    for j, (table, known) in enumerate(zip(fitted.tables_, fitted.categories_, strict=True)):
        share = [[np.mean([rows[n][j] == c for n in np.flatnonzero(z == k)]) for c in known] for k in range(2)]
        np.testing.assert_allclose(share, table, atol=0.02)


def test_samples_of_a_hidden_markov_model_move_as_it_does():
    fitted = HiddenMarkovModel(2, random_state=1, max_iter=5).fit(DATA[2])
    sequences, states = fitted.sample(4_000, length=4)
    assert len(sequences) == 4_000 and {len(s) for s in sequences} == {4}
    z = np.array(states)
    moves = np.zeros((2, 2))
    np.add.at(moves, (z[:, 2], z[:, 3]), 1)
    np.testing.assert_allclose(moves / moves.sum(1, keepdims=True), fitted.transmat_, atol=0.04)
    shown = np.array([[c == "a" for c in s] for s in sequences])
    np.testing.assert_allclose([shown[z == k].mean() for k in range(2)], fitted.emissionprob_[:, 0], atol=0.03)
    vectors, _ = HiddenMarkovModel(1, "gaussian").fit([np.zeros((3, 2)), np.ones((2, 2))]).sample(2, length=5)
    assert [v.shape for v in vectors] == [(5, 2), (5, 2)]


def test_samples_of_a_network_have_hidden_columns_too():
    fitted = LatentBayesianNetwork(NETWORK.cpds, max_iter=3).fit({"B": ["u", "v", "v"]})
    drawn = fitted.sample(20_000)
    a = np.array(drawn["A"])
    np.testing.assert_allclose([(a == x).mean() for x in "xy"], fitted.table("A"), atol=0.02)
    u = [(np.array(drawn["B"])[a == x] == "u").mean() for x in "xy"]
    np.testing.assert_allclose(u, fitted.table("B")[:, 0], atol=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GaussianMixture().fit(DATA[0]).sample(0), "n_samples: at least 1"),
        (lambda: HiddenMarkovModel().fit(["ab"]).sample(length=0), "length: at least 1"),
        (lambda: HiddenMarkovModel(0).fit(["ab"]), "n_components: at least 1"),
        (lambda: NaiveBayesMixture().fit(["a", "b"]), r"row 0 is 'a'. Reshape your data: \[\[x\] for x in X\]"),
        (lambda: GaussianMixture().fit([[{}]]), "X: rows of numbers are needed"),
    ],
)
def test_what_cannot_be_is_named_in_one_line(call, message: str):
    with pytest.raises(DissonanceError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_scikit_learn_is_not_needed():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from dissonance.estimators import GaussianMixture\n"
        "print(GaussianMixture(1).fit([[0.0], [1.0]]).set_params(tol=0.1).predict([[0.5]]))\n"
        "try: GaussianMixture().means_\n"
        "except ValueError as e: print(e)"
    )
    done = python("-c", code)
    assert done.stdout.splitlines() == ["[0]", "this GaussianMixture is not fitted yet: call fit(X) first."]
