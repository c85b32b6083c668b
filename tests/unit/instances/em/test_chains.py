"""Hidden Markov models of any length: compiled passes against the generic engine and against textbook Baum-Welch."""

from __future__ import annotations

import numpy as np
import pytest

from dissonance import DissonanceError
from dissonance.estimators import HiddenMarkovModel
from dissonance.lir.parameters import Parameters
from reference import em as textbook


def sequences(seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, 2)) + 3 * (np.cumsum(rng.random(n) < 0.3) % 2)[:, None] for n in (7, 4, 1, 9)]


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_every_iteration_is_that_of_the_run_of_lir(kind: str):
    """theta_EM^(t) = theta_LIR^(2t), missing observations and sequences of different lengths among them."""
    x = sequences()
    x[0][2] = np.nan
    for iterations in (1, 2, 5):
        fitted = HiddenMarkovModel(2, "gaussian", covariance_type=kind, max_iter=iterations, tol=0.0).fit(x)
        generic = fitted.fitted_.instance.answer(2 * iterations)  # pyright: ignore
        assert generic.bounds[1::2] == pytest.approx(fitted.lower_bounds_, abs=1e-10)
        cpd = generic.pdg["x0"].cpd
        np.testing.assert_allclose(fitted.means_, cpd.means.detach(), atol=1e-10)
        np.testing.assert_allclose(fitted.covariances_, cpd.covariances.detach(), atol=1e-10)
        move = generic.pdg["transition1"].cpd.logits.softmax(-1).detach()
        np.testing.assert_allclose(fitted.transmat_, move, atol=1e-10)
        np.testing.assert_allclose(fitted.fitted_.pdg["initial"].cpd.table().detach(), fitted.startprob_)
        assert fitted.score_samples(x) == pytest.approx(generic.evidence.numpy(), abs=1e-9)


def test_thousands_of_steps_are_textbook_baum_welch():
    rng = np.random.default_rng(1)
    states = np.cumsum(rng.random(3000) < 0.05) % 2
    codes = np.where(rng.random(3000) < 0.2, 2, states)
    start, move, emit = (
        np.array([0.6, 0.4]),
        np.array([[0.8, 0.2], [0.3, 0.7]]),
        np.array([[0.5, 0.3, 0.2], [0.3, 0.4, 0.3]]),
    )
    init = {"startprob_init": start, "transmat_init": move, "emissionprob_init": emit, "categories": [0, 1, 2]}
    fitted = HiddenMarkovModel(2, max_iter=3, tol=0.0, **init).fit([codes.tolist()])
    for _ in range(3):
        start, move, emit, _ = textbook.baum_welch([codes.tolist()], start, move, emit)
    np.testing.assert_allclose(fitted.transmat_, move, atol=1e-9)
    np.testing.assert_allclose(fitted.emissionprob_, emit, atol=1e-9)
    assert fitted.predict_proba([codes.tolist()])[0].shape == (3000, 2)


def test_tied_arcs_are_counted_once_each():
    """What the engine keeps about arcs that share parameters is linear in their number."""
    p = HiddenMarkovModel(2, max_iter=1).fit(["ab" * 150]).fitted_.pdg
    parameters = Parameters([p])
    tied = parameters.tied(parameters.arcs[1])
    assert len(tied) == 299
    assert len({id(x) for x in parameters._tied.values()}) == 3  # initial, transitions, emissions


def test_weights_count_sequences_as_often():
    x = sequences()[:2]
    init = {"means_init": [[0.0, 0.0], [3.0, 3.0]], "covariances_init": np.ones((2, 2))}
    model = HiddenMarkovModel(2, "gaussian", max_iter=3, transmat_init=[[0.7, 0.3], [0.3, 0.7]], **init)
    weighted = model.fit(x, sample_weight=[2.0, 1.0]).means_
    np.testing.assert_allclose(weighted, model.fit([x[0], x[0], x[1]]).means_, atol=1e-10)


def test_an_impossible_observation_is_named_however_long_the_sequence():
    alternate = HiddenMarkovModel(
        2,
        categories="ab",
        startprob_init=[1.0, 0.0],
        transmat_init=[[0.0, 1.0], [1.0, 0.0]],
        emissionprob_init=[[1.0, 0.0], [0.0, 1.0]],
    )
    with pytest.raises(DissonanceError, match=r"sequence 0: 'a' at time 2001 has probability 0"):
        alternate.fit(["ab" * 1000 + "aa"])
