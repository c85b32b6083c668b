"""EM of state-space models along the sequences: against the generic engine and a textbook Kalman smoother."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from dissonance import DissonanceError, LinearGaussian
from dissonance.cpds import DiagonalGaussian
from dissonance.em import FittedStateSpace, gaussian_em, state_space, state_space_em
from reference import kalman

A, Q = np.array([[0.8, 0.2], [-0.1, 0.7]]), np.array([[0.5, 0.1], [0.1, 0.4]])
C, R = np.array([[1.0, 0.5], [0.2, -0.4]]), np.array([[0.6, 0.2], [0.2, 0.5]])
FIRST = np.zeros(2), np.eye(2)


def sequence(steps: int, seed: int = 0) -> np.ndarray:
    rng, z, y = np.random.default_rng(seed), np.zeros(2), []
    for _ in range(steps):
        z = np.array([[0.9, 0.2], [-0.2, 0.9]]) @ z + 0.3 * rng.normal(size=2)
        y.append(C @ z + 0.5 * rng.normal(size=2))
    return np.array(y)


def cpds(learnable: bool = False) -> tuple[LinearGaussian, LinearGaussian, LinearGaussian]:
    return (
        LinearGaussian(np.zeros((2, 0)), *FIRST, learnable=learnable),
        LinearGaussian(A, np.zeros(2), Q),
        LinearGaussian(C, np.zeros(2), R),
    )


def numbers(cpd: torch.nn.Module) -> list[np.ndarray]:
    assert isinstance(cpd, LinearGaussian)
    return [x.detach().numpy() for x in cpd.linear_gaussian()]


def test_states_and_evidence_are_those_of_the_textbook_gaps_included():
    y = sequence(30)
    y[3] = np.nan
    y[7, 0] = y[20, 1] = np.nan
    fitted = state_space_em(*cpds(), y, iterations=1)
    means, covariances, _, score = kalman.smooth(y, A, Q, C, R, *FIRST)
    assert fitted.bounds == [pytest.approx(score, abs=1e-9)]
    states = fitted.before.smooth()
    np.testing.assert_allclose(states.means, means, atol=1e-10)
    np.testing.assert_allclose(states.covariances, covariances, atol=1e-10)


def test_every_iteration_is_the_textbooks():
    """The textbook has no shifts: a sequence and its mirror image keep them at 0."""
    y = sequence(40)
    parameters = [A, Q, C, R]
    for iterations in (1, 2, 3):
        *parameters, score = kalman.em_step(y, *parameters, *FIRST)  # pyright: ignore[reportCallIssue]
        fitted = state_space_em(*cpds(), [y, -y], iterations=iterations)
        assert fitted.bounds[-1] == pytest.approx(score, abs=1e-8)
        for cpd, slope, noise in (
            (fitted.learned.transition, *parameters[:2]),
            (fitted.learned.emission, *parameters[2:]),
        ):
            found = numbers(cpd)
            np.testing.assert_allclose(found[0], slope, atol=1e-9)
            np.testing.assert_allclose(found[1], 0.0, atol=1e-9)
            np.testing.assert_allclose(found[2], noise, atol=1e-9)


def test_every_iteration_is_that_of_the_generic_engine_gaps_included():
    sequences = [sequence(5, seed) for seed in range(4)]
    for s in sequences:
        s[2, 1] = np.nan
    fitted = state_space_em(*cpds(learnable=True), sequences, iterations=2, tol=0.0)
    generic = fitted.instance.answer(4)
    for name, cpd in (
        ("initial", fitted.learned.initial),
        ("transition1", fitted.learned.transition),
        ("emission0", fitted.learned.emission),
    ):
        for one, two in zip(numbers(generic.pdg[name].cpd), numbers(cpd), strict=True):
            np.testing.assert_allclose(one, two, atol=2e-5)
    assert fitted.bounds[1] == pytest.approx(generic.bounds[3], abs=1e-4)  # an E-step, and what it finds
    data = {n: [s.ravel()[i] for s in sequences] for i, n in enumerate(seen(5))}
    again = gaussian_em(state_space(5, *cpds(learnable=True)), data).answer(4)
    np.testing.assert_allclose(again.bounds, generic.bounds, atol=1e-10)


def seen(steps: int) -> list[str]:
    return [f"x{t}_{j}" for t in range(steps) for j in range(2)]


def rises(fitted: FittedStateSpace) -> bool:
    return all(b >= a - 1e-9 for a, b in itertools.pairwise(fitted.bounds))


def test_sequences_of_several_lengths_and_a_likelihood_that_rises():
    y = [sequence(60, 1), sequence(25, 2), sequence(1, 3)]
    y[0][10:20, 0] = np.nan
    start = cpds()
    before = [p.detach().clone() for cpd in start for p in cpd.parameters()]
    fitted = state_space_em(*start, y, iterations=30)
    assert rises(fitted) and fitted.bounds[-1] > fitted.bounds[0] + 1
    for old, new in zip(before, [p for cpd in start for p in cpd.parameters()], strict=True):
        assert torch.equal(old, new.detach())  # what it started from is not touched
    separate = [kalman.smooth(s, A, Q, C, R, *FIRST)[3] for s in y]
    assert fitted.bounds[0] == pytest.approx(np.mean(separate), abs=1e-9)
    assert fitted.states.means.shape == (86, 2) and len(fitted.pdg.arcs) == 120
    with pytest.raises(DissonanceError, match="sequences of one length"):
        _ = fitted.instance


def test_other_families_are_learned_by_their_own_projection():
    initial, transition, _ = cpds()
    fitted = state_space_em(initial, transition, DiagonalGaussian(C, np.zeros(2), [0.6, 0.5]), sequence(50), 20)
    assert rises(fitted)
    assert numbers(fitted.learned.emission)[2][0, 1] == 0


@pytest.mark.parametrize(
    ("x", "why"),
    [
        (np.zeros((4, 3)), r"shape \(T, 2\) are needed, T >= 1, as emissions have it; found \(4, 3\)"),
        ([], "found none"),
        ([np.zeros((0, 2))], r"found \(0, 2\)"),
        (np.full((4, 2), math.inf), "hold inf"),
        (np.full((4, 2), math.nan), "nothing but NaN"),
    ],
)
def test_what_does_not_fit_is_refused(x: object, why: str):
    with pytest.raises(DissonanceError, match=why):
        state_space_em(*cpds(), x)
