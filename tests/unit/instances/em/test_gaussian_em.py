"""EM with real-valued latent variables against closed forms, scikit-learn and a textbook Kalman smoother."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, DissonanceError, Euclidean, LinearGaussian, Variable
from dissonance.cpds import DiagonalGaussian
from dissonance.em import factor_analysis, gaussian_em, state_space
from reference import kalman

NAMES = [f"x{i}" for i in range(5)]


def rows(count: int = 150, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(5, 2))
    return rng.normal(size=(count, 2)) @ W.T + rng.normal(size=(count, 5)) * np.linspace(0.3, 1, 5) + 1.0


def named(x: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(NAMES, x.T, strict=True))


def test_probabilistic_pca_reaches_the_closed_form_of_tipping_and_bishop():
    """W W' + s^2 I has the leading eigenvectors of the covariance, and s^2 is the mean of the eigenvalues left over."""
    x = rows()
    fitted = gaussian_em(factor_analysis(NAMES, 2, isotropic=True), named(x)).answer(240)
    values, vectors = np.linalg.eigh(np.cov(x.T, bias=True))
    noise = values[:3].mean()
    W = vectors[:, 3:] * np.sqrt(values[3:] - noise)
    loading = fitted.pdg["loading"].cpd
    assert isinstance(loading, DiagonalGaussian)
    np.testing.assert_allclose((loading.A @ loading.A.T).detach(), W @ W.T, atol=1e-4)
    assert loading.scale.exp().square().item() == pytest.approx(noise, abs=1e-7)
    C = W @ W.T + noise * np.eye(5)
    best = -0.5 * (np.linalg.slogdet(2 * np.pi * C)[1] + np.trace(np.linalg.solve(C, np.cov(x.T, bias=True))))
    assert fitted.bounds[-1] == pytest.approx(best, abs=1e-7)
    assert fitted.log_likelihood(named(x)).mean().item() == pytest.approx(best, abs=1e-7)


def test_factor_analysis_is_that_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.decomposition")
    x = rows()
    theirs = sklearn.FactorAnalysis(2, tol=1e-12, max_iter=20_000).fit(x)
    fitted = gaussian_em(factor_analysis(NAMES, 2), named(x)).answer(500)
    assert fitted.bounds[-1] == pytest.approx(theirs.score(x), abs=1e-4)
    covariance = fitted.joint.marginal(*NAMES).covariance.numpy()
    np.testing.assert_allclose(covariance, theirs.get_covariance(), atol=0.02)


def test_no_step_lowers_the_bound_and_the_e_step_makes_it_the_likelihood():
    instance = gaussian_em(factor_analysis(NAMES, 2), named(rows(40)))
    run = instance.run(11)
    bounds = instance.read(run).bounds
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(bounds))
    fitted = instance.read(instance.run(3))  # the last step is an E-step: at the parameters of step 2
    assert fitted.bounds[-1] == pytest.approx(fitted.log_likelihood(named(rows(40))).mean().item(), abs=1e-8)


def test_entries_that_are_missing_are_hidden():
    """After an E-step the bound is the mean log-likelihood of what is there; it rises from step to step."""
    x = rows(60)
    x[np.random.default_rng(1).random(x.shape) < 0.15] = np.nan
    x[0] = [0.0, math.nan, 1.0, 2.0, math.nan]
    there = x[~np.isnan(x).all(1)]
    instance = gaussian_em(factor_analysis(NAMES, 2), named(x))
    fitted = instance.answer(5)
    assert all(b >= a - 1e-6 for a, b in zip(fitted.bounds, fitted.bounds[1:], strict=False))
    covariance, mean = fitted.joint.marginal(*NAMES).covariance.numpy(), fitted.joint.marginal(*NAMES).mean.numpy()
    expected = []
    for row in there:
        seen = ~np.isnan(row)
        C, off = covariance[np.ix_(seen, seen)], row[seen] - mean[seen]
        expected.append(-0.5 * (np.linalg.slogdet(2 * np.pi * C)[1] + off @ np.linalg.solve(C, off)))
    assert fitted.bounds[-1] == pytest.approx(np.mean(expected), abs=1e-5)
    assert fitted.log_likelihood(named(there)).numpy() == pytest.approx(np.array(expected), abs=1e-8)


def sequence(steps: int = 25) -> np.ndarray:
    rng, z, y = np.random.default_rng(3), np.zeros(2), []
    for _ in range(steps):
        z = np.array([[0.9, 0.2], [-0.2, 0.9]]) @ z + 0.3 * rng.normal(size=2)
        y.append([z[0] + 0.3 * z[1] + 0.5 * rng.normal()])
    return np.array(y)


def test_a_state_space_model_learns_as_by_the_kalman_smoother():
    """A single sequence: log p(y) and the smoothed states, and a likelihood that rises."""
    y = sequence()
    now = 0.5 * np.eye(2), 0.5 * np.eye(2), np.array([[1.0, 0.5]]), np.eye(1)
    first = np.zeros(2), np.eye(2)
    initial = LinearGaussian(np.zeros((2, 0)), first[0], first[1], learnable=False)
    transition, emission = LinearGaussian(now[0], np.zeros(2), now[1]), LinearGaussian(now[2], [0.0], now[3])
    model = state_space(len(y), initial, transition, emission)
    instance = gaussian_em(model, {f"x{t}": v for t, v in enumerate(y)})
    start = instance.answer(1)
    exact = kalman.smooth(y, *now, *first)
    assert start.bounds[-1] == pytest.approx(exact[3], abs=1e-5)
    smoothed = start.posterior("Z7", {f"x{t}": v[0] for t, v in enumerate(y)})
    np.testing.assert_allclose(smoothed.mean, exact[0][7], atol=1e-8)
    np.testing.assert_allclose(smoothed.covariance, exact[1][7], atol=1e-8)
    fitted = instance.answer(9)
    assert all(b >= a - 1e-6 for a, b in zip(fitted.bounds, fitted.bounds[1:], strict=False))
    assert fitted.bounds[-1] > exact[3] + 5


def test_without_shifts_every_iteration_is_the_textbooks():
    """The textbook has no shifts: a sequence and its mirror image keep them at 0."""
    y = sequence(12)
    parameters = 0.5 * np.eye(2), 0.5 * np.eye(2), np.array([[1.0, 0.5]]), np.eye(1)
    first = np.zeros(2), np.eye(2)
    both = np.stack([y[:, 0], -y[:, 0]])
    initial = LinearGaussian(np.zeros((2, 0)), first[0], first[1], learnable=False)
    transition = LinearGaussian(parameters[0], np.zeros(2), parameters[1])
    model = state_space(12, initial, transition, LinearGaussian(parameters[2], [0.0], parameters[3]))
    instance = gaussian_em(model, {f"x{t}": both[:, t] for t in range(12)})
    for iteration in (1, 2, 3):
        *parameters, _ = kalman.em_step(y, *parameters, *first)
        found = instance.answer(2 * iteration).pdg
        for name, A, noise in (("transition1", *parameters[:2]), ("emission0", *parameters[2:])):
            cpd = found[name].cpd
            assert isinstance(cpd, LinearGaussian)
            np.testing.assert_allclose(cpd.A.detach(), A, atol=1e-5)
            np.testing.assert_allclose(cpd.Sigma.detach(), noise, atol=1e-5)
            np.testing.assert_allclose(cpd.b.detach(), 0.0, atol=1e-9)


def test_a_diagonal_gaussian_projects_to_the_variances_and_flows_there():
    cpd = DiagonalGaussian(torch.zeros(2, 1), [0.0, 0.0], [1.0, 2.0])
    joint = torch.tensor([[1.0, 0, 1, 2], [0, 1, 0.5, 0.2], [1, 0.5, 2, 0.3], [2, 0.2, 0.3, 3]], dtype=torch.float64)
    own = {n: p.detach().clone() for n, p in cpd.named_parameters()}
    moved = cpd.approach(own, joint, {n: torch.full_like(p, 60.0) for n, p in own.items()})
    cpd.project(joint)
    np.testing.assert_allclose(cpd.Sigma.detach(), np.diag([2 - 0.25, 3 - 0.04]), atol=1e-12)
    for n, p in cpd.named_parameters():
        np.testing.assert_allclose(moved[n], p.detach(), atol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gaussian_em(factor_analysis(NAMES, 2), {"x9": [1.0]}), r"a column 'x9', but no variable"),
        (lambda: gaussian_em(factor_analysis(NAMES, 2), {"Z": [1.0]}), r"Z is Euclidean\(2\); what is seen has one"),
        (lambda: gaussian_em(factor_analysis(NAMES, 2), {"x0": [1.0], "x1": []}), "columns of one length"),
        (lambda: gaussian_em(factor_analysis(NAMES, 2), {"x0": [math.nan]}), "every entry of the data is missing"),
        (lambda: factor_analysis(NAMES, 5), "factors: 1 to 4 for 5 columns"),
        (lambda: DiagonalGaussian(None, [0.0], [-1.0]), "variances are positive"),
    ],
)
def test_what_does_not_fit_is_refused(call, message: str):
    with pytest.raises(DissonanceError, match=message):
        call()


def test_a_model_with_nothing_to_learn_is_refused():
    X, Z = Variable("X", Euclidean(1)), Variable("Z", Euclidean(1))
    fixed = LinearGaussian(None, [0.0], [[1.0]], learnable=False)
    p = PDG(Arc("z", (), Z, fixed), Arc("x", Z, X, LinearGaussian([[1.0]], [0.0], [[1.0]], learnable=False)))
    with pytest.raises(DissonanceError, match="no arc of p has parameters to learn"):
        gaussian_em(p, {"X": [0.0, 1.0]})
