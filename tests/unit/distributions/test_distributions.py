"""Joint, CliqueTree and calibration against dense arithmetic."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dissonance import DissonanceError, SizeError, Variable
from dissonance.distributions import CliqueTree, Joint
from dissonance.distributions.messages import calibrate
from dissonance.distributions.tree import Tree, decompose

LETTERS = "ABCDEF"
SCOPES = [("A", "B"), ("B", "C"), ("C", "D", "B"), ("D", "E"), ("F",)]
SIZES = dict(zip(LETTERS, (2, 3, 2, 2, 3, 2), strict=True))
VARIABLES = tuple(Variable(n, [f"{n}{i}" for i in range(k)]) for n, k in SIZES.items())


def random_logs(seed: int, zeros: float = 0.0) -> tuple[Tree, list[torch.Tensor]]:
    """Cluster potentials with some zeros, but not everywhere."""
    rng = np.random.default_rng(seed)
    tree = decompose(SIZES, SCOPES)
    logs = []
    for shape in tree.shapes:
        table = rng.normal(scale=2.0, size=shape)
        table[rng.random(shape) < zeros] = -math.inf
        table[(0,) * len(shape)] = 0.0
        logs.append(torch.from_numpy(table))
    return tree, logs


def product(tree: Tree, logs: list[torch.Tensor]) -> np.ndarray:
    """exp of the sum of potentials over A..F, by broadcasting."""
    terms: list = []
    for cluster, log in zip(tree.clusters, logs, strict=True):
        terms += [log.exp().numpy(), [LETTERS.index(v) for v in cluster]]
    return np.einsum(*terms, list(range(6)))


def both(seed: int, zeros: float = 0.0) -> tuple[CliqueTree, Joint]:
    """The same distribution on a tree and as one table."""
    tree, logs = random_logs(seed, zeros)
    dense = product(tree, logs)
    _, tables = calibrate(tree, logs)
    return CliqueTree(VARIABLES, tree, tables), Joint(VARIABLES, dense / dense.sum())


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 0.6]))
@settings(max_examples=40)
def test_calibration_is_the_brute_force_sum(seed: int, zeros: float):
    tree, logs = random_logs(seed, zeros)
    dense = product(tree, logs)
    log_z, tables = calibrate(tree, logs)
    assert float(log_z) == pytest.approx(math.log(dense.sum()), abs=1e-12)
    for cluster, table in zip(tree.clusters, tables, strict=True):
        kept = [LETTERS.index(v) for v in cluster]
        expected = dense.sum(tuple(i for i in range(6) if i not in kept)) / dense.sum()
        order = sorted(kept)
        np.testing.assert_allclose(table, expected.transpose([order.index(k) for k in kept]), atol=1e-14)


def test_calibration_of_the_impossible_has_no_mass():
    tree, logs = random_logs(0)
    log_z, _ = calibrate(tree, [torch.full_like(x, -torch.inf) for x in logs])
    assert log_z == -torch.inf


def test_calibration_is_differentiable_to_the_marginals():
    tree, logs = random_logs(5)
    logs = [x.requires_grad_() for x in logs]
    log_z, tables = calibrate(tree, logs)
    for gradient, table in zip(torch.autograd.grad(log_z, logs), tables, strict=True):
        np.testing.assert_allclose(gradient, table.detach(), atol=1e-14)


def test_calibration_does_not_overflow():
    tree, logs = random_logs(1)
    shifted = [x * 500 for x in logs]
    log_z, tables = calibrate(tree, shifted)
    assert math.isfinite(log_z) and all(t.isfinite().all() for t in tables)


@pytest.mark.parametrize("zeros", [0.0, 0.5])
def test_every_marginal_of_up_to_three_variables_in_any_order(zeros: float):
    sparse, dense = both(3, zeros)
    for k in range(4):
        for names in itertools.permutations(LETTERS, k):
            np.testing.assert_allclose(sparse.marginal(*names), dense.marginal(*names), atol=1e-14)
    np.testing.assert_allclose(sparse.joint().table, dense.table, atol=1e-14)


def test_conditionals_across_clusters_are_uniform_where_there_is_no_mass():
    sparse, dense = both(4, 0.6)
    for targets, given_names in (("A", "E"), (("A", "F"), ("E", "C")), ("B", ()), (("E", "A"), "D")):
        np.testing.assert_allclose(
            sparse.conditional(targets, given_names), dense.conditional(targets, given_names), atol=1e-12
        )
    points = Joint(VARIABLES[:2], [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert points.conditional("B", "A").tolist() == [[1, 0, 0], [1 / 3, 1 / 3, 1 / 3]]


def test_entropies_and_probabilities():
    sparse, dense = both(6, 0.3)
    p = dense.table.numpy()
    assert float(dense.entropy()) == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum(), abs=1e-13)
    assert float(sparse.entropy()) == pytest.approx(float(dense.entropy()), abs=1e-12)
    assert float(sparse.entropy("A", "E")) == pytest.approx(float(dense.entropy("A", "E")), abs=1e-12)
    event = {"E": "E2", "A": "A1"}
    assert float(sparse.probability(event)) == pytest.approx(float(p.sum((1, 2, 3, 5))[1, 2]), abs=1e-14)
    assert float(sparse.probability({})) == pytest.approx(1, abs=1e-14)


def test_sampling_frequencies_follow_mu(generator: torch.Generator):
    sparse, dense = both(7, 0.3)
    count = 20_000
    for mu in (sparse, dense):
        drawn = mu.sample(count, generator)
        assert set(drawn) == set(LETTERS) and all(len(v) == count for v in drawn.values())
        for names in (("A", "E"), ("C", "D"), ("F", "B")):
            expected = dense.marginal(*names).numpy()
            seen = np.zeros_like(expected)
            for labels in zip(*(drawn[n] for n in names), strict=True):
                seen[tuple(int(label[1:]) for label in labels)] += 1
            # every cell within five standard deviations, and none where there is no mass
            assert (np.abs(seen / count - expected) <= 5 * np.sqrt(expected * (1 - expected) / count)).all()
            assert (seen[expected == 0] == 0).all()


def test_the_same_generator_gives_the_same_samples():
    sparse, dense = both(8)
    for mu in (sparse, dense):
        one, two = (mu.sample(50, torch.Generator().manual_seed(3)) for _ in range(2))
        assert one == two


def test_unknown_or_repeated_names_are_errors():
    sparse, dense = both(9)
    for mu in (sparse, dense):
        with pytest.raises(DissonanceError, match=r"no variable named 'G'"):
            mu.marginal("A", "G")
        with pytest.raises(DissonanceError, match="distinct"):
            mu.marginal("A", "A")
        with pytest.raises(DissonanceError, match=r"no value 'A7'. Known: A0, A1"):
            mu.probability({"A": "A7"})


@pytest.mark.parametrize("table", [[0.5, 0.6], [1.2, -0.2], [math.nan, 1.0], [0.3, 0.3, 0.4]])
def test_what_is_no_joint_distribution_is_refused(table):
    with pytest.raises(DissonanceError):
        Joint([Variable("X", 2)], table)


def test_a_marginal_too_large_to_hold_is_refused_before_it_is_made():
    n = 40
    sizes = {f"V{i}": 2 for i in range(n)}
    tree = decompose(sizes, [(f"V{i}", f"V{i + 1}") for i in range(n - 1)])
    mu = CliqueTree(
        [Variable(v, 2) for v in sizes], tree, [torch.full(s, 0.25, dtype=torch.float64) for s in tree.shapes]
    )
    assert float(mu.entropy()) == pytest.approx(n * math.log(2))
    np.testing.assert_allclose(mu.marginal("V0", "V39"), 0.25)
    tracemalloc.start()
    with pytest.raises(SizeError, match=r"the marginal over 40 variables would need 1\.1e\+12 cells"):
        mu.joint()
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_many_marginals_are_those_of_the_dense_table(seed: int):
    tree, joint = both(seed)
    scopes = [(), *(s for r in (1, 2, 3) for s in itertools.permutations(LETTERS, r))]  # most of them across clusters
    for names, found in zip(scopes, tree.marginals(scopes), strict=True):
        rest = tuple(i for i, n in enumerate(LETTERS) if n not in names)
        kept = [n for n in LETTERS if n in names]
        expected = joint.table.numpy().sum(rest).transpose([kept.index(n) for n in names])
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_many_marginals_refuse_what_one_refuses():
    tree, joint = both(0)
    for mu in (tree, joint):
        with pytest.raises(DissonanceError, match="no variable named 'Z'"):
            mu.marginals([("A",), ("Z",)])
        with pytest.raises(DissonanceError, match="distinct"):
            mu.marginals([("A", "A")])
