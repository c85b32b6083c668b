"""Opinion pools: closed forms, what each preserves, and the likeliest population."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, DissonanceError, Variable, inconsistency
from dissonance.instances import likeliest, linear_pool, log_pool, pooled_counts

X, S = Variable("X", ["a", "b", "c"]), Variable("S", 2)
P = torch.tensor([[[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]], [[0.6, 0.3, 0.1], [0.3, 0.4, 0.3]]], dtype=torch.float64)
ROWS = [Arc(f"e{k}", S, X, p) for k, p in enumerate(P)]
FLAT = [Arc(f"e{k}", (), X, p[0]) for k, p in enumerate(P)]
WEIGHTS = [3.0, 1.0]


def geometric(p: torch.Tensor, weights: list[float]) -> torch.Tensor:
    w = torch.tensor(weights, dtype=torch.float64) / sum(weights)
    return torch.softmax((w.reshape(-1, *[1] * (p.dim() - 1)) * p.log()).sum(0), -1)


def test_the_linear_pool_is_the_average_and_the_logarithmic_one_the_geometric_mean():
    for arcs, p in ((FLAT, P[:, 0]), (ROWS, P)):
        linear, log = linear_pool(arcs, WEIGHTS), log_pool(arcs, {"e0": 3.0, "e1": 1.0})
        assert (linear.table - (0.75 * p[0] + 0.25 * p[1])).abs().max() < 1e-9
        assert (log.table - geometric(p, WEIGHTS)).abs().max() < 1e-6
        assert linear.result.upper < 1e-9 < log.result.upper
    assert (linear_pool(FLAT).table - P[:, 0].mean(0)).abs().max() < 1e-9
    arc = log_pool(FLAT, WEIGHTS).arc("all", beta=2.0)
    assert arc.name == "all" and arc.beta == 2.0


def test_what_logarithmic_pooling_costs_is_known_in_closed_form():
    found = log_pool(FLAT, WEIGHTS)
    expected = -torch.log((P[0, 0] ** 0.75 * P[1, 0] ** 0.25).sum())
    assert found.result.upper == pytest.approx(float(expected), abs=1e-8)


def test_linear_pools_commute_with_margins_and_logarithmic_ones_with_updates():
    Y = Variable("Y", 2)
    rng = np.random.default_rng(0)
    joints = [torch.from_numpy(rng.dirichlet(np.ones(6)).reshape(3, 2)) for _ in range(2)]
    both = [Arc(f"e{k}", (), (X, Y), t) for k, t in enumerate(joints)]
    margins = [Arc(f"e{k}", (), X, t.sum(1)) for k, t in enumerate(joints)]
    likelihood = torch.tensor([0.9, 0.2, 0.5], dtype=torch.float64)
    updated = [Arc(a.name, (), X, (t := a.cpd.table() * likelihood) / t.sum()) for a in margins]

    def gaps(pool: object) -> tuple[float, float]:
        margin = (pool(both).table.sum(1) - pool(margins).table).abs().max()  # pyright: ignore[reportCallIssue]
        first = pool(margins).table * likelihood  # pyright: ignore[reportCallIssue]
        update = (first / first.sum() - pool(updated).table).abs().max()  # pyright: ignore[reportCallIssue]
        return float(margin), float(update)

    assert gaps(linear_pool)[0] < 1e-9 and gaps(linear_pool)[1] > 1e-3
    assert gaps(log_pool)[0] > 1e-3 and gaps(log_pool)[1] < 1e-6


def test_counts_of_one_population_add_up():
    small = Arc.from_table("small", {"no": 160, "yes": 40}, of="X")
    large = Arc.from_table("large", {"no": 990, "yes": 10}, of="X")
    pooled = pooled_counts([small, large])
    assert pooled.beta == 1200.0 and float(pooled.cpd.table()[1]) == pytest.approx(50 / 1200)
    weighted = linear_pool([small, large], [200, 1000]).table
    assert (weighted - pooled.cpd.table()).abs().max() < 1e-9
    found = likeliest(small, large)
    assert (found.mu.table - pooled.cpd.table()).abs().max() < 1e-9 and found.gap < 1e-6


def test_what_two_samples_of_200_at_20_percent_and_1000_at_1_percent_make_depends_on_what_is_meant():
    small = Arc.from_table("small", {"no": 160, "yes": 40}, of="Buys")
    large = Arc.from_table("large", {"no": 990, "yes": 10}, of="Buys")
    assert (small.beta, large.beta) == (200.0, 1000.0)
    odds = 0.2 ** (1 / 6) * 0.01 ** (5 / 6) / (0.8 ** (1 / 6) * 0.99 ** (5 / 6))
    assert inconsistency(PDG(small, large)).mu["Buys"]["yes"] == pytest.approx(odds / (1 + odds), rel=1e-6)
    assert 100 * odds / (1 + odds) == pytest.approx(1.7, abs=0.05)
    assert 100 * float(pooled_counts([small, large]).cpd.table()[1]) == pytest.approx(4.2, abs=0.05)
    assert 100 * likeliest(small, large).mu["Buys"]["yes"] == pytest.approx(4.2, abs=0.05)
    apart = linear_pool([small, large])
    assert 100 * float(apart.table[1]) == pytest.approx(10.5)
    for name, percent in (("small", 20.0), ("large", 1.0)):
        assert 100 * float(apart.of(name)[1]) == pytest.approx(percent)
    with pytest.raises(DissonanceError, match="Did you mean 'small'"):
        apart.of("smal")
    with pytest.raises(DissonanceError, match="every source is a population of its own in a linear pool"):
        log_pool([small, large]).of("small")


def test_the_tables_of_the_sources_of_a_pool_are_theirs_row_by_row():
    pool = linear_pool(ROWS, WEIGHTS)
    for arc, p in zip(ROWS, P, strict=True):
        assert (pool.of(arc.name) - p).abs().max() < 1e-9


def test_the_likeliest_population_of_samples_of_different_shapes_is_stationary():
    rng = np.random.default_rng(4)
    n = rng.multinomial(300, np.full(6, 1 / 6)).reshape(3, 2).astype(float)
    m = np.array([80.0, 0.0, 20.0])
    joint = Arc.from_table(
        "joint", {(x, y): n[i, y] for i, x in enumerate("abc") for y in range(2)}, of=["X", "Y"], counts=True
    )
    margin = Arc.from_table("margin", dict(zip("abc", m, strict=True)), of="X", counts=True)
    found = likeliest(joint, margin)
    total = n.sum(1) + m  # the margin adds up, and within it the joint alone speaks
    expected = n / n.sum(1, keepdims=True) * (total / total.sum())[:, None]
    assert np.abs(found.mu.table.numpy() - expected).max() < 1e-5
    p, q = n / n.sum(), m / m.sum()
    kl = n.sum() * (p * np.log(p / expected)).sum() + (m[m > 0] * np.log(q[m > 0] / expected.sum(1)[m > 0])).sum()
    assert found.divergence == pytest.approx(kl, abs=1e-4)


def test_what_cannot_be_pooled_is_refused():
    other = Arc("y", (), Variable("Y", 3), [0.2, 0.3, 0.5])
    for make, said in (
        (lambda: linear_pool([]), "at least one arc"),
        (lambda: linear_pool([FLAT[0], other]), "not tables about the same"),
        (lambda: log_pool(FLAT, [1.0]), "2 arcs need as many weights, found 1"),
        (lambda: log_pool(FLAT, {"e0": 1.0}), "no weight of 'e1'"),
        (lambda: log_pool(FLAT, {"e0": 1.0, "e2": 1.0}), "no arc named 'e2'"),
        (lambda: log_pool(FLAT, [0.0, 0.0]), "all weights are 0"),
        (lambda: log_pool(FLAT, [-1.0, 2.0]), "must be a number from 0 on"),
        (lambda: pooled_counts(FLAT), "has no counts to add up"),
        (lambda: likeliest(FLAT[0]), "tables of counts without sources"),
    ):
        with pytest.raises(DissonanceError, match=said):
            make()
    sure = [Arc("p", (), X, [1, 0, 0]), Arc("q", (), X, [0, 1, 0])]
    with pytest.raises(DissonanceError, match="share no possible value"):
        _ = log_pool(sure).table
