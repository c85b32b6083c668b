"""Message passing against brute force, in batches, out of range, and on other devices."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dissonance.distributions.messages import LOG_SUM, Messages, calibrate
from dissonance.distributions.tree import Tree, coarsened, decompose

SCOPES = st.lists(
    st.lists(st.sampled_from("ABCDEF"), min_size=1, max_size=3, unique=True).map(tuple), min_size=1, max_size=7
)


def random_tree(scopes, seed: int) -> tuple[Tree, np.random.Generator]:
    """A forest over at most six small variables."""
    rng = np.random.default_rng(seed)
    names = sorted({v for s in scopes for v in s})
    return decompose({v: int(rng.integers(1, 4)) for v in names}, scopes), rng


def random_cells(tree: Tree, rng: np.random.Generator, problems: int, zeros: float) -> torch.Tensor:
    """(problems, cells), some of them impossible."""
    cells = rng.normal(scale=2.0, size=(problems, tree.cells))
    cells[rng.random(cells.shape) < zeros] = -math.inf
    return torch.from_numpy(cells)


def dense(tree: Tree, cells: torch.Tensor) -> np.ndarray:
    """sum_C log f_C(x_C) over all variables, in the order of the tree's sizes."""
    names = list(tree.sizes)
    total = np.zeros([tree.sizes[v] for v in names])
    first = 0
    for cluster, shape in zip(tree.clusters, tree.shapes, strict=True):
        table = cells[first : first + math.prod(shape)].numpy().reshape(shape)
        order = sorted(range(len(cluster)), key=lambda k: names.index(cluster[k]))
        total = total + table.transpose(order).reshape([tree.sizes[v] if v in cluster else 1 for v in names])
        first += math.prod(shape)
    return total


def projected(tree: Tree, joint: np.ndarray) -> np.ndarray:
    """A joint's marginals in every cell of every cluster."""
    names = list(tree.sizes)
    parts = []
    for cluster in tree.clusters:
        kept = [names.index(v) for v in cluster]
        table = joint.sum(tuple(k for k in range(len(names)) if k not in kept))
        parts.append(table.transpose([sorted(kept).index(k) for k in kept]).reshape(-1))
    return np.concatenate(parts)


@given(SCOPES, st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.2, 0.7]))
@settings(max_examples=60)
def test_the_passes_are_the_brute_force_sums_and_maxima(scopes, seed: int, zeros: float):
    tree, rng = random_tree(scopes, seed)
    cells = random_cells(tree, rng, 3, zeros)
    passes = Messages(tree)
    log_z, marginals = passes.calibrate(cells)
    best, states = passes.most_probable(cells)
    least = passes.minimum(-cells)
    for k in range(3):
        joint = dense(tree, cells[k])
        if np.isneginf(joint).all():
            assert log_z[k] == best[k] == -math.inf and least[k] == math.inf
            assert (marginals[k] == 0).all()
            continue
        z = np.exp(joint).sum()
        assert float(log_z[k]) == pytest.approx(math.log(z), abs=1e-12)
        np.testing.assert_allclose(marginals[k], projected(tree, np.exp(joint) / z), atol=1e-14)
        assert float(best[k]) == pytest.approx(joint.max(), abs=1e-12)
        assert joint[tuple(states[k].tolist())] == pytest.approx(joint.max(), abs=1e-12)
        assert float(least[k]) == pytest.approx(-joint.max(), abs=1e-12)


@given(SCOPES, st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3]))
@settings(max_examples=25)
def test_many_problems_are_each_one_alone(scopes, seed: int, zeros: float):
    tree, rng = random_tree(scopes, seed)
    cells = random_cells(tree, rng, 4, zeros)
    passes = Messages(tree)
    together = (passes.log_partition(cells), *passes.calibrate(cells), *passes.most_probable(cells))
    for k, one in enumerate(cells):
        alone = (passes.log_partition(one), *passes.calibrate(one), *passes.most_probable(one))
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_allclose(a[k], b, atol=1e-13)


@given(SCOPES, st.integers(0, 2**32 - 1), st.sampled_from([1, 8, 64, 10**6]))
@settings(max_examples=40)
def test_merged_clusters_hold_the_same_distribution(scopes, seed: int, limit: int):
    tree, _ = random_tree(scopes, seed)
    merged = coarsened(tree, limit)
    assert all(math.prod(s) <= limit or s in tree.shapes for s in merged.shapes)
    assert all(-1 <= p < i for i, p in enumerate(merged.parent))
    assert all(merged.home(s) is not None for s in scopes)
    for v in tree.sizes:  # running intersection
        tops = [i for i, c in enumerate(merged.clusters) if v in c and v not in merged.separators[i]]
        assert len(tops) == 1
    if limit == 10**6:
        assert len(merged.clusters) == sum(p < 0 for p in tree.parent)


def chain(n: int, size: int = 2) -> Tree:
    """V0 - V1 - ... - Vn."""
    names = [f"V{i}" for i in range(n + 1)]
    return decompose(dict.fromkeys(names, size), list(pairwise(names)))


def test_a_long_chain_neither_underflows_nor_overflows():
    tree = chain(1200)
    for shift in (-50.0, 50.0):
        cells = torch.full((tree.cells,), shift, dtype=torch.float64)
        assert float(Messages(tree).log_partition(cells)) == pytest.approx(1200 * shift + 1201 * math.log(2), rel=1e-13)


def test_what_numbers_cannot_hold_is_done_in_logarithms():
    tree = Tree({"A": 2, "B": 2}, (("A",), ("A", "B")), (-1, 0))
    cells = torch.tensor([0.0, -2000.0, -math.inf, -math.inf, -1.0, -3.0], dtype=torch.float64)
    fine = torch.zeros(6, dtype=torch.float64)
    expected = -2001 + math.log1p(math.exp(-2.0))
    for problems in (cells, torch.stack([fine, cells, fine])):
        log_z, marginals = Messages(tree).calibrate(problems)
        log_z, marginals = log_z.reshape(-1), marginals.reshape(-1, 6)
        middle = len(log_z) // 2
        assert float(log_z[middle]) == pytest.approx(expected, rel=1e-15)
        assert marginals[middle, :4].tolist() == [0, 1, 0, 0]
        assert float(marginals[middle, 4]) == pytest.approx(1 / (1 + math.exp(-2.0)), rel=1e-14)
        if len(log_z) > 1:
            assert float(log_z[0]) == pytest.approx(math.log(4), rel=1e-15) and (marginals[2, :2] == 0.5).all()


def test_a_star_whose_product_underflows_is_exact():
    n = 400
    sizes = {"A": 2} | {f"B{i}": 2 for i in range(n)}
    tree = decompose(sizes, [("A", f"B{i}") for i in range(n)])
    column = torch.tensor([[0.1, 0.9], [0.3, 0.7]], dtype=torch.float64)  # f(A, B); B is then seen to be 0
    tables = []
    for cluster in tree.clusters:
        leaf = column * torch.tensor([1.0, 0.0], dtype=torch.float64)
        tables.append((leaf if cluster[0] == "A" else leaf.T).log())
    log_z, found = calibrate(tree, tables)
    weights = n * np.log([0.1, 0.3])
    assert float(log_z) == pytest.approx(np.logaddexp(*weights), rel=1e-13)
    k = tree.clusters[0].index("A")
    np.testing.assert_allclose(found[0].sum(1 - k), np.exp(weights - np.logaddexp(*weights)), atol=1e-12, rtol=0)


def test_numbers_and_logarithms_agree():
    tree, rng = random_tree([("A", "B", "C"), ("C", "D"), ("D", "E"), ("D", "F")], 3)
    cells = random_cells(tree, rng, 5, 0.2)
    passes = Messages(tree)
    up = passes.upward(passes._rows(cells), LOG_SUM)
    log_z, marginals = passes.calibrate(cells)
    np.testing.assert_allclose(up.log_z, log_z, atol=1e-12)
    rows = passes.downward(up, LOG_SUM).exp().index_select(0, passes._back)
    np.testing.assert_allclose(rows.T, marginals, atol=1e-13)


@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_marginals_have_the_right_gradient(zeros: float):
    tree, rng = random_tree([("A", "B"), ("B", "C"), ("C", "D"), ("C", "E")], 5)
    cells = random_cells(tree, rng, 2, 0.0)
    direction = torch.from_numpy(rng.normal(size=cells.shape))
    gone = torch.from_numpy(rng.random(cells.shape) < zeros)
    cells[gone] = -math.inf

    def score(x: torch.Tensor) -> torch.Tensor:
        log_z, marginals = Messages(tree).calibrate(x)
        return log_z.sum() + (marginals * direction).sum()

    live = cells.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(score(live), live)
    assert gradient.isfinite().all() and (gradient[gone] == 0).all()
    step = torch.where(gone, 0.0, torch.from_numpy(rng.normal(size=cells.shape)))
    slope = float(score(cells + 1e-6 * step) - score(cells - 1e-6 * step)) / 2e-6
    assert float((gradient * step).sum()) == pytest.approx(slope, rel=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_the_device_is_that_of_the_cells():
    tree, rng = random_tree([("A", "B"), ("B", "C"), ("C", "D", "E")], 2)
    cells = random_cells(tree, rng, 50, 0.2)
    host, device = Messages(tree), Messages(tree, "cuda")
    for a, b in zip(host.calibrate(cells), device.calibrate(cells.cuda()), strict=True):
        np.testing.assert_allclose(a, b.cpu(), atol=1e-13)
    best, states = device.most_probable(cells.cuda())
    assert best.is_cuda and states.is_cuda
    np.testing.assert_allclose(best.cpu(), host.most_probable(cells)[0], atol=1e-13)
