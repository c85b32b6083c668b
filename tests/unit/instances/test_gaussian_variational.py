"""Mean field over Euclidean variables against its closed form, step by step."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from dissonance import PDG, Arc, DissonanceError, Euclidean, LinearGaussian, Variable
from dissonance.instances import gaussian_variational

A, B, C, Y = (Variable(n, Euclidean(1)) for n in "ABCY")


def model() -> PDG:
    return PDG(
        Arc("a", (), A, LinearGaussian(None, [0.5], [[1.0]])),
        Arc("b", A, B, LinearGaussian([[0.8]], [0.0], [[0.5]])),
        Arc("c", (A, B), C, LinearGaussian([[0.5, -1.0]], [0.2], [[0.7]])),
        Arc("y", (B, C), Y, LinearGaussian([[1.0, 1.0]], [0.0], [[0.4]])),
    )


def posterior() -> tuple[np.ndarray, np.ndarray, float]:
    """The precision and mean of (A, B, C) given Y = 2, and log p(Y = 2): by noise pushed through the model."""
    L = np.array([[1, 0, 0, 0], [-0.8, 1, 0, 0], [-0.5, 1, 1, 0], [0, -1, -1, 1]], dtype=float)
    P = L.T @ np.diag(1 / np.array([1.0, 0.5, 0.7, 0.4])) @ L
    mean = np.linalg.solve(L, [0.5, 0.0, 0.2, 0.0])
    variance = np.linalg.inv(P)[3, 3]
    score = -0.5 * ((2 - mean[3]) ** 2 / variance + np.log(2 * np.pi * variance))
    return P[:3, :3], mean[:3] - np.linalg.solve(P[:3, :3], P[:3, 3] * (2 - mean[3])), score


def least_gap(P: np.ndarray, *blocks: list[int]) -> float:
    """The least KL(q || posterior) of a q whose blocks are independent: each has its own part of the precision."""
    parts = sum(np.linalg.slogdet(P[np.ix_(block, block)])[1] for block in blocks)
    return 0.5 * float(parts - np.linalg.slogdet(P)[1])


def test_mean_field_is_coordinate_ascent_at_every_step():
    """m_i = mu_i - sum_j P_ij (m_j - mu_j) / P_ii and variance 1/P_ii."""
    P, mu, score = posterior()
    instance = gaussian_variational(model(), {"Y": 2.0})
    m, variances = np.zeros(3), np.ones(3)
    for step in range(1, 7):
        i = (step - 1) % 3
        others = [j for j in range(3) if j != i]
        m[i] = mu[i] - P[i, others] @ (m[others] - mu[others]) / P[i, i]
        variances[i] = 1 / P[i, i]
        found = instance.answer(step).q
        np.testing.assert_allclose([found[n].mean.item() for n in "ABC"], m, atol=1e-6)
        np.testing.assert_allclose([found[n].covariance.item() for n in "ABC"], variances, atol=1e-6)
    answer = instance.answer(75)
    assert answer.log_evidence == pytest.approx(score, abs=1e-6)
    assert answer.gap == pytest.approx(least_gap(P, [0], [1], [2]), abs=1e-5)
    assert all(y >= x - 1e-8 for x, y in zip(answer.elbos[:-1], answer.elbos[1:], strict=True))


def test_a_block_of_two_keeps_how_they_depend_on_each_other():
    P, mu, _ = posterior()
    answer = gaussian_variational(model(), {"Y": 2.0}, blocks=[("A", "B")]).answer(94)
    pair = answer.q["A, B"]
    np.testing.assert_allclose(pair.covariance, np.linalg.inv(P[:2, :2]), atol=1e-6)
    np.testing.assert_allclose(pair.mean, mu[:2], atol=1e-5)
    assert answer.gap == pytest.approx(least_gap(P, [0, 1], [2]), abs=1e-6)
    assert answer.gap < least_gap(P, [0], [1], [2]) - 0.1


def test_conditional_factors_that_contain_the_posterior_reach_it():
    """q(A) q(B | A) q(C | A, B) is any Gaussian: after three rounds of coordinate ascent it is the posterior."""
    P, mu, score = posterior()
    answer = gaussian_variational(model(), {"Y": 2.0}, given={"B": ["A"], "C": ["A", "B"]}).answer(9)
    np.testing.assert_allclose(answer.joint.covariance, np.linalg.inv(P), atol=1e-6)
    np.testing.assert_allclose(answer.joint.mean, mu, atol=1e-6)
    assert answer.elbo == pytest.approx(score, abs=1e-6) and answer.gap == pytest.approx(0.0, abs=1e-6)


def chain_gap(P: np.ndarray) -> float:
    """The least KL(q || posterior) of q(A) q(B | A) q(C | B), over its slopes and variances."""

    def kl(z: np.ndarray) -> float:
        L = np.array([[1, 0, 0], [-z[0], 1, 0], [0, -z[1], 1]])
        M = np.linalg.inv(L)
        C = M @ np.diag(np.exp(z[2:5])) @ M.T
        return 0.5 * (np.trace(P @ C) - 3 - z[2:5].sum() - np.linalg.slogdet(P)[1])

    return float(minimize(kl, np.zeros(5), method="BFGS", options={"gtol": 1e-10}).fun)


def test_a_chain_of_conditional_factors_is_as_near_as_any():
    P, *_ = posterior()
    answer = gaussian_variational(model(), {"Y": 2.0}, given={"B": ["A"], "C": ["B"]}).answer(45)
    assert answer.gap == pytest.approx(chain_gap(P), abs=1e-5)
    assert all(y >= x - 1e-8 for x, y in zip(answer.elbos[:-1], answer.elbos[1:], strict=True))
    assert answer.gap < least_gap(P, [0], [1], [2]) - 0.1


def test_a_block_may_depend_on_a_variable_of_another():
    P, *_ = posterior()
    answer = gaussian_variational(model(), {"Y": 2.0}, blocks=[("B", "C")], given={"B": ["A"], "C": ["A"]}).answer(6)
    np.testing.assert_allclose(answer.joint.marginal("A", "B", "C").covariance, np.linalg.inv(P), atol=1e-6)
    assert set(answer.q) == {"A", "B, C"}


def test_what_does_not_fit_is_refused():
    with pytest.raises(DissonanceError, match="'D' is no hidden variable"):
        gaussian_variational(model(), {"Y": 2.0}, given={"A": ["D"]})
    with pytest.raises(DissonanceError, match="form a cycle"):
        gaussian_variational(model(), {"Y": 2.0}, given={"A": ["B"], "B": ["A"]})
    with pytest.raises(DissonanceError, match="one block is the exact posterior"):
        gaussian_variational(model(), {"Y": 2.0}, blocks=[("A", "B", "C")])
    with pytest.raises(DissonanceError, match="'D' is no variable"):
        gaussian_variational(model(), {"Y": 2.0}, blocks=[("A", "D")])
    with pytest.raises(DissonanceError, match="2 numbers of it are seen"):
        gaussian_variational(model(), {"Y": [2.0, 1.0]})
