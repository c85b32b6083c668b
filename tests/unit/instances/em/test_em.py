"""EM as LIR: every E-step and every M-step is the textbook's."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, DissonanceError, Record, SoftmaxTable, Variable
from dissonance.cpds import ObservedCategorical, ObservedGaussian
from dissonance.cpds.observed import Sample
from dissonance.em import em, hidden_markov, mixture, network, rows
from reference import em as textbook
from shared_files import SHARED, shared_json

VECTORS = shared_json("vectors", "em.json")
EVERY = Record(snapshots=1)


def probabilities(logits: torch.Tensor) -> np.ndarray:
    return torch.softmax(logits, -1).numpy()


def gaussian_data(seed: int = 0, count: int = 60, columns: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, columns)) + 2 * rng.normal(size=(3, columns))[rng.integers(3, size=count)] + 5


@pytest.mark.skipif(VECTORS is None, reason=f"no vectors under {SHARED}")
@pytest.mark.parametrize("which", [0, 1], ids=["categorical", "gaussian"])
def test_every_step_is_that_of_the_shared_vectors(which: int):
    case, tolerance = VECTORS["cases"][which], VECTORS["tolerance"]
    if case["kind"] == "categorical_mixture":
        start = np.array(case["theta0"])
        emission = ObservedCategorical(case["X"], [start[:, j] for j in range(start.shape[1])])
    else:
        emission = ObservedGaussian(case["X"], case["mu0"], case["Sigma0"])
    p = mixture(case["pi0"], emission)
    run = em(p, p.variable("row")).run(2 * len(case["iterates"]), trace=EVERY)
    entropy = math.log(len(case["X"]))  # the rows are distinct values, whatever they hold
    for t, iterate in enumerate(case["iterates"]):
        after_e, after_m = run.trace.snapshots[2 * t + 1], run.trace.snapshots[2 * t + 2]
        np.testing.assert_allclose(probabilities(after_e["q(Z).logits"]), iterate["q"], atol=tolerance)
        np.testing.assert_allclose(probabilities(after_m["prior.logits"]), iterate["pi"], atol=tolerance)
        if case["kind"] == "categorical_mixture":
            np.testing.assert_allclose(probabilities(after_m["x.logits"]), iterate["theta"], atol=tolerance)
        else:
            np.testing.assert_allclose(after_m["x.means"], iterate["mu"], atol=tolerance)
            L = after_m["x.scale"].tril(-1) + torch.diag_embed(after_m["x.scale"].diagonal(dim1=1, dim2=2).exp())
            np.testing.assert_allclose(L @ L.mT, iterate["Sigma"], atol=tolerance)
        for step, expected in ((2 * t + 1, "inconsistency_after_E"), (2 * t + 2, "inconsistency_after_M")):
            row = run.trace.rows[step]
            assert row.global_lower - tolerance <= iterate[expected] - entropy <= row.global_upper + tolerance


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_every_step_of_a_gaussian_mixture_is_the_textbooks(kind: str):
    x, weights = gaussian_data(), np.array([0.2, 0.3, 0.5])
    means, eye = x[[3, 20, 41]], np.eye(3)
    start = {"full": np.stack([eye] * 3), "tied": eye, "diag": np.ones((3, 3))}[kind]
    p = mixture(weights, ObservedGaussian(x, means, start, kind))
    run = em(p, p.variable("row")).run(16, trace=EVERY)
    covariances = start
    for t in range(8):
        matrices = {"full": covariances, "tied": [covariances] * 3, "diag": [np.diag(v) for v in covariances]}[kind]
        parts = [textbook.log_normal(x, m, c) for m, c in zip(means, matrices, strict=True)]
        r, scores = textbook.responsibilities(np.log(weights) + np.stack(parts, 1))
        np.testing.assert_allclose(probabilities(run.trace.snapshots[2 * t + 1]["q(Z).logits"]), r, atol=1e-11)
        assert run.trace.rows[2 * t + 1].local_upper == pytest.approx(-scores.mean() - math.log(len(x)), abs=1e-11)
        weights, means, covariances = textbook.gaussian_m_step(x, r, kind)
        after = run.trace.snapshots[2 * t + 2]
        np.testing.assert_allclose(probabilities(after["prior.logits"]), weights, atol=1e-12)
        np.testing.assert_allclose(after["x.means"], means, atol=1e-11)
    learned = em(p, p.variable("row")).answer(16)
    np.testing.assert_allclose(learned.pdg["x"].cpd.covariances.detach(), covariances, atol=1e-11)
    np.testing.assert_allclose(p["x"].cpd.means.detach(), x[[3, 20, 41]])  # the beliefs given are not changed


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_twenty_iterations_are_scikit_learns(kind: str):
    sklearn = pytest.importorskip("sklearn.mixture")
    x = gaussian_data(1, 200)
    means, eye = x[[1, 70, 150]], np.eye(3)
    start = {"full": np.stack([eye] * 3), "tied": eye, "diag": np.ones((3, 3))}[kind]
    p = mixture(np.full(3, 1 / 3), ObservedGaussian(x, means, start, kind))
    instance = em(p, p.variable("row"))
    run = instance.run(40, trace=EVERY)
    theirs = sklearn.GaussianMixture(
        3,
        covariance_type=kind,
        weights_init=np.full(3, 1 / 3),
        means_init=means,
        precisions_init=start,
        reg_covar=0.0,
        warm_start=True,
        max_iter=1,
        tol=0.0,
    )
    with pytest.warns(sklearn._base.ConvergenceWarning):
        for t in range(20):
            theirs.fit(x)
            after = run.trace.snapshots[2 * t + 2]
            np.testing.assert_allclose(probabilities(after["prior.logits"]), theirs.weights_, atol=1e-8)
            np.testing.assert_allclose(after["x.means"], theirs.means_, atol=1e-8)
    learned = instance.read(run)
    np.testing.assert_allclose(learned.pdg["x"].cpd.covariances.detach(), theirs.covariances_, atol=1e-8)
    np.testing.assert_allclose(learned.posterior("Z"), theirs.predict_proba(x), atol=1e-8)
    np.testing.assert_allclose(learned.evidence, theirs.score_samples(x), atol=1e-8)


def test_every_step_of_naive_bayes_with_missing_entries_is_the_textbooks():
    rng = np.random.default_rng(3)
    sizes = (2, 3, 4)
    codes = np.stack([rng.integers(-1, k, size=50) for k in sizes], 1)
    weights, tables = np.array([0.4, 0.6]), [rng.dirichlet(np.ones(k), 2) for k in sizes]
    p = mixture(weights, ObservedCategorical(codes, tables))
    run = em(p, p.variable("row")).run(10, trace=EVERY)
    for t in range(5):
        r, _ = textbook.responsibilities(textbook.categorical_log_joint(codes, weights, tables))
        np.testing.assert_allclose(probabilities(run.trace.snapshots[2 * t + 1]["q(Z).logits"]), r, atol=1e-12)
        weights, tables = textbook.categorical_m_step(codes, r, sizes)
        after = run.trace.snapshots[2 * t + 2]
        np.testing.assert_allclose(probabilities(after["prior.logits"]), weights, atol=1e-12)
        for j, table in enumerate(tables):
            np.testing.assert_allclose(probabilities(after["x.logits"])[:, j, : sizes[j]], table, atol=1e-12)


def test_missing_numbers_count_as_probability_one():
    x = gaussian_data(4, 40, 2)
    x[::3, 0], x[1::7, 1], x[5] = np.nan, np.nan, np.nan
    means, variances = np.array([[4.0, 4.0], [6.0, 6.0]]), np.ones((2, 2))
    p = mixture([0.5, 0.5], ObservedGaussian(x, means, variances, "diag"))
    learned = em(p, p.variable("row")).answer(2)
    there = ~np.isnan(x)
    log_p = np.where(there[:, None], -0.5 * ((x[:, None] - means) ** 2 + np.log(2 * np.pi)), 0.0).sum(-1)
    r, _ = textbook.responsibilities(math.log(0.5) + log_p)
    assert r[5] == pytest.approx([0.5, 0.5])
    filled = np.where(there, x, 0.0)
    expected = (r.T @ filled) / (r.T @ there)
    np.testing.assert_allclose(learned.pdg["x"].cpd.means.detach(), expected, atol=1e-12)
    square = np.einsum("nk,nkd->kd", r, np.where(there[:, None], (x[:, None] - expected) ** 2, 0.0)) / (r.T @ there)
    np.testing.assert_allclose(learned.pdg["x"].cpd.covariances.detach(), square, atol=1e-12)


def sequences_as_emissions(sequences: list[list[int]], emit: np.ndarray) -> list[ObservedCategorical]:
    longest = max(map(len, sequences))
    codes = torch.full((len(sequences), longest), -1)
    for n, s in enumerate(sequences):
        codes[n, : len(s)] = torch.tensor(s)
    first = ObservedCategorical(codes[:, :1], [emit])
    shifted = torch.where(codes < 0, emit.shape[1], codes)
    return [first, *(first.on(Sample(codes=shifted[:, t : t + 1])) for t in range(1, longest))]


def test_every_iteration_of_a_hidden_markov_model_is_baum_welch():
    rng = np.random.default_rng(5)
    sequences = [rng.integers(3, size=int(k)).tolist() for k in (7, 4, 6, 1)]
    sequences[0][2] = -1
    start, move, emit = rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(2), 2), rng.dirichlet(np.ones(3), 2)
    p = hidden_markov(start, move, sequences_as_emissions(sequences, emit), [len(s) for s in sequences])
    run = em(p, p.variable("row")).run(8, trace=EVERY)
    for t in range(4):
        start, move, emit, scores = textbook.baum_welch(sequences, start, move, emit)
        assert run.trace.rows[2 * t + 1].local_upper == pytest.approx(-np.mean(scores) - math.log(4), abs=1e-12)
        after = run.trace.snapshots[2 * t + 2]
        np.testing.assert_allclose(probabilities(after["initial.logits"]), start, atol=1e-12)
        np.testing.assert_allclose(probabilities(after["transition1.logits"]), move, atol=1e-12)
        np.testing.assert_allclose(probabilities(after["transition5.logits"]), move, atol=1e-12)
        np.testing.assert_allclose(probabilities(after["x0.logits"])[:, 0], emit, atol=1e-12)


def diamond() -> tuple[dict, dict, dict, list[dict]]:
    """A -> B, A -> C, (B, C) -> D, with C hidden and entries of the others missing."""
    rng = np.random.default_rng(6)
    sizes = {"A": 2, "B": 3, "C": 2, "D": 2}
    parents = {"A": (), "B": ("A",), "C": ("A",), "D": ("B", "C")}
    tables = {v: rng.dirichlet(np.ones(k), [sizes[u] for u in parents[v]]) for v, k in sizes.items()}
    data = [{v: int(rng.integers(k)) for v, k in sizes.items() if v != "C" and rng.random() < 0.8} for _ in range(25)]
    return parents, sizes, tables, data


def test_every_iteration_on_a_network_is_that_by_enumeration():
    parents, sizes, tables, data = diamond()
    variables = {v: Variable(v, k) for v, k in sizes.items()}
    cpds = {variables[v]: ([variables[u] for u in parents[v]], t) for v, t in tables.items()}
    p = network(cpds, {v: [row.get(v) for row in data] for v in "ABD"})
    run = em(p, p.variable("row")).run(8, trace=EVERY)
    for t in range(4):
        tables, scores = textbook.network_step(parents, sizes, tables, data)
        assert run.trace.rows[2 * t + 1].local_upper == pytest.approx(-np.mean(scores) - math.log(25), abs=1e-12)
        for v, table in tables.items():
            found = probabilities(run.trace.snapshots[2 * t + 2][f"{v}.logits"])
            np.testing.assert_allclose(found, table, atol=1e-12)


def test_no_step_raises_the_inconsistency():
    x = gaussian_data(7)
    p = mixture(np.full(3, 1 / 3), ObservedGaussian(x, x[:3], np.stack([np.eye(3)] * 3)))
    values = em(p, p.variable("row")).run(30).trace.column("global_upper")
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(values)) and values[-1] < values[0] - 0.1


def test_weights_are_repetitions():
    x = gaussian_data(8, 20)
    counts = np.arange(20) % 4
    start = (x[[1, 6]], np.stack([np.eye(3)] * 2))
    once = mixture([0.5, 0.5], ObservedGaussian(x, *start))
    often = mixture([0.5, 0.5], ObservedGaussian(np.repeat(x, counts, 0), *start))
    first = em(once, once.variable("row"), weights=counts).answer(10)
    second = em(often, often.variable("row")).answer(10)
    np.testing.assert_allclose(first.pdg["x"].cpd.means.detach(), second.pdg["x"].cpd.means.detach(), atol=1e-12)
    assert first.bounds[-1] == pytest.approx(second.bounds[-1], abs=1e-12)


# -- partial steps and batches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_a_partial_m_step_goes_a_share_of_the_way_in_mean_parameters(kind: str):
    x, chi = gaussian_data(9), 0.7
    share = 1 - math.exp(-chi)
    means, c = x[[3, 20]], np.cov(x.T)
    start = {"full": np.stack([c] * 2), "tied": c, "diag": np.stack([np.diag(c)] * 2)}[kind]
    p = mixture([0.3, 0.7], ObservedGaussian(x, means, start, kind))
    learned = em(p, p.variable("row"), chi=chi).answer(2)
    matrices = {"full": start, "tied": [start] * 2, "diag": [np.diag(v) for v in start]}[kind]
    parts = [textbook.log_normal(x, m, s) for m, s in zip(means, matrices, strict=True)]
    r, _ = textbook.responsibilities(np.log([0.3, 0.7]) + np.stack(parts, 1))
    weights, aims, spread = textbook.gaussian_m_step(x, r, "full")
    np.testing.assert_allclose(
        probabilities(learned.pdg["prior"].cpd.logits.detach()), (1 - share) * np.array([0.3, 0.7]) + share * weights
    )
    mixed = (1 - share) * means + share * aims
    np.testing.assert_allclose(learned.pdg["x"].cpd.means.detach(), mixed, atol=1e-12)
    outer = np.einsum("ki,kj->kij", mixed, mixed)
    second = (1 - share) * (np.stack(matrices) + np.einsum("ki,kj->kij", means, means))
    second = second + share * (spread + np.einsum("ki,kj->kij", aims, aims)) - outer  # E[x x'] is what moves straight
    expected = {"full": second, "tied": np.einsum("k,kij->ij", weights, second), "diag": second.diagonal(0, 1, 2)}[kind]
    np.testing.assert_allclose(learned.pdg["x"].cpd.covariances.detach(), expected, atol=1e-11)


def test_generalised_em_never_raises_the_inconsistency_and_ends_where_em_ends():
    x = gaussian_data(10)
    p = mixture(np.full(2, 0.5), ObservedGaussian(x, x[:2], np.stack([np.cov(x.T)] * 2)))
    partial = em(p, p.variable("row"), chi=0.5).answer(160)
    assert all(b >= a - 1e-12 for a, b in itertools.pairwise(partial.bounds))
    assert partial.bounds[-1] == pytest.approx(em(p, p.variable("row")).answer(100).bounds[-1], abs=1e-4)


def test_batches_with_full_control_are_incremental_em():
    rng = np.random.default_rng(11)
    codes = rng.integers(3, size=(12, 2))
    weights, tables = np.array([0.4, 0.6]), [rng.dirichlet(np.ones(3), 2) for _ in range(2)]
    p = mixture(weights, ObservedCategorical(codes, tables))
    instance = em(p, p.variable("row"), batches=3)
    learned = instance.answer(14)
    r, _ = textbook.responsibilities(textbook.categorical_log_joint(codes, weights, tables))
    weights, tables = textbook.categorical_m_step(codes, r, (3, 3))
    for t in range(6):  # Neal and Hinton: renew the posterior of one batch, then the parameters from all posteriors
        some = slice(4 * (t % 3), 4 * (t % 3) + 4)
        r[some] = textbook.responsibilities(textbook.categorical_log_joint(codes[some], weights, tables))[0]
        weights, tables = textbook.categorical_m_step(codes, r, (3, 3))
    np.testing.assert_allclose(learned.pdg["prior"].cpd.table().detach(), weights, atol=1e-12)
    np.testing.assert_allclose(learned.pdg["x"].cpd.tables().detach()[:, 1], tables[1], atol=1e-12)


def test_batches_with_finite_control_are_steps_towards_each_batchs_m_step():
    rng = np.random.default_rng(12)
    codes = rng.integers(3, size=(11, 2))
    weights, tables = np.array([0.4, 0.6]), [rng.dirichlet(np.ones(3), 2) for _ in range(2)]
    p = mixture(weights, ObservedCategorical(codes, tables))
    learned = em(p, p.variable("row"), batches=3, chi=lambda t: -math.log1p(-((t + 2) ** -0.6))).answer(10)
    for t, some in enumerate([slice(0, 4), slice(4, 8), slice(8, 11), slice(0, 4), slice(4, 8)]):
        share = (t + 2) ** -0.6
        r, _ = textbook.responsibilities(textbook.categorical_log_joint(codes[some], weights, tables))
        aim, aims = textbook.categorical_m_step(codes[some], r, (3, 3))
        weights = weights + share * (aim - weights)
        tables = [a + share * (b - a) for a, b in zip(tables, aims, strict=True)]
    np.testing.assert_allclose(learned.pdg["prior"].cpd.table().detach(), weights, atol=1e-12)
    np.testing.assert_allclose(learned.pdg["x"].cpd.tables().detach()[:, 0], tables[0], atol=1e-12)


# -- what is refused ---------------------------------------------------------------------------------------------------


def small() -> PDG:
    return mixture([0.5, 0.5], ObservedGaussian(np.arange(6.0)[:, None], [[1.0], [4.0]], [[1.0], [1.0]], "diag"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: em(p, rows(7)), "'row' is not a variable of the beliefs"),
        (lambda p: em(p, p.variable("row"), weights=[1.0]), "weights: 6 non-negative numbers are needed"),
        (lambda p: em(p, p.variable("row"), batches=0), "batches: 1 to 6"),
        (lambda p: em(p, p.variable("row"), batches=4), "6 rows in 4 batches: incremental EM"),
        (lambda p: em(PDG(Arc("d", (), rows(2), [0.5, 0.5])), rows(2)), "nothing is hidden"),
        (
            lambda p: em(
                PDG(Arc("p", (), Variable("Z", 2), [0.5, 0.5]), Arc("x", Variable("Z", 2), rows(2), [[1, 0], [0, 1]])),
                rows(2),
            ),
            "no arc of p has parameters",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(make, message: str):
    with pytest.raises(DissonanceError, match=message) as caught:
        make(small())
    assert "\n" not in str(caught.value)


def test_a_checkpoint_goes_on_where_it_was(tmp_path):
    p = small()
    whole = em(p, p.variable("row")).run(6)
    em(p, p.variable("row")).run(3, checkpoint=tmp_path / "em.ckpt")
    again = em(p, p.variable("row")).run(6, checkpoint=tmp_path / "em.ckpt")
    assert all(torch.equal(whole.theta[k], v) for k, v in again.theta.items())


def test_the_prior_need_not_be_learned():
    x = np.arange(6.0)[:, None]
    fixed = PDG(
        Arc("prior", (), Variable("Z", 2), [0.5, 0.5]),
        Arc("x", Variable("Z", 2), rows(6), ObservedGaussian(x, [[1.0], [4.0]], [[1.0], [1.0]], "diag")),
    )
    learned = em(fixed, rows(6)).answer(4)
    assert learned.pdg["x"].cpd.means[0, 0] < 1.1 and not isinstance(learned.pdg["prior"].cpd, SoftmaxTable)
