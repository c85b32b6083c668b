"""Linear-Gaussian PDGs: closed forms, an independent minimiser, gradients, hard arcs, and what has no answer."""

from __future__ import annotations

import math
import time
from itertools import pairwise

import numpy as np
import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    Euclidean,
    LinearGaussian,
    Variable,
    incompatibility,
    inconsistency,
)
from dissonance.solvers import GaussianSolver
from reference import gaussian as reference

inf = math.inf
X, Y, Z = (Variable(n, Euclidean(1)) for n in "XYZ")
PLANE = Variable("P", Euclidean(2))


def normal(b: object, Sigma: object) -> LinearGaussian:
    """N(b, Sigma)."""
    return LinearGaussian(None, b, Sigma)


def spread(rng: np.random.Generator, d: int) -> np.ndarray:
    """A random covariance."""
    L = 0.5 * rng.normal(size=(d, d)) + np.eye(d)
    return L @ L.T


def random_pdg(seed: int, n: int = 4, arcs: int = 6) -> tuple[PDG, Attention]:
    """Arcs of any shape over a few variables of one or two dimensions, and a marginal on each so that mu is proper."""
    rng = np.random.default_rng(seed)
    gamma = float(rng.choice([0.0, 0.1, 0.7]))
    variables = [Variable(f"V{i}", Euclidean(int(rng.integers(1, 3)))) for i in range(n)]
    made = []
    for k in range(arcs + n):
        size = 1 if k < n else min(n, int(rng.integers(1, 4)))
        order = [variables[k]] if k < n else [variables[i] for i in rng.permutation(n)[:size]]
        cut = int(rng.integers(1, size + 1))
        targets, sources = order[:cut], order[cut:]
        d, e = sum(v.domain.dim for v in targets), sum(v.domain.dim for v in sources)
        A = 0.7 * rng.normal(size=(d, e)) if e else None
        made.append(Arc(f"a{k}", sources, targets, LinearGaussian(A, rng.normal(size=d), spread(rng, d))))
    alpha = {a.name: float(rng.choice([0.0, 0.5, 1.0])) for a in made}
    beta = {a.name: gamma * alpha[a.name] + float(rng.choice([0.0, 0.5, 1.5])) for a in made}
    beta |= {a.name: beta[a.name] + 0.2 for a in made[:n]}
    return PDG(*made, variables=variables), Attention.only(beta, alpha, gamma)


# -- closed forms ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("r", "s"), [(1.0, 1.0), (0.3, 2.0)])
def test_two_beliefs_about_one_variable_meet_in_their_weighted_geometric_mean(r: float, s: float):
    b, c = torch.tensor([0.5, -1.0]).double(), torch.tensor([2.0, 1.0]).double()
    B, C = [[2.0, 0.25], [0.25, 1.0]], [[0.5, 0.0], [0.0, 3.0]]
    found = inconsistency(
        PDG(Arc("p", (), PLANE, normal(b, B)), Arc("q", (), PLANE, normal(c, C))), Attention.only({"p": r, "q": s})
    )
    P, R = torch.linalg.inv(torch.tensor(B).double()), torch.linalg.inv(torch.tensor(C).double())
    precision = (r * P + s * R) / (r + s)
    mean = torch.linalg.solve(r * P + s * R, r * P @ b + s * R @ c)
    # -(r+s) log of the integral of p^(r/(r+s)) q^(s/(r+s)), term by term
    off, t = b - c, r + s
    between = torch.linalg.inv(torch.linalg.inv(P) / r + torch.linalg.inv(R) / s)
    value = 0.5 * off @ between @ off + 0.5 * (t * torch.logdet(precision) - r * torch.logdet(P) - s * torch.logdet(R))
    assert found.upper == pytest.approx(float(value), abs=1e-12)
    assert found.upper - found.lower < 1e-11
    assert torch.allclose(found.mu.mean, mean, atol=1e-12)
    assert torch.allclose(found.mu.covariance, torch.linalg.inv(precision), atol=1e-12)


def test_two_numbers_by_hand():
    pdg = PDG(Arc("p", (), X, normal(0.0, 1.0)), Arc("q", (), X, normal(2.0, 1.0)))
    found = inconsistency(pdg)
    assert found.upper == pytest.approx(1.0, abs=1e-12)  # (2 - 0)^2 / 4: one variance, so only the means differ
    assert (float(found.mu.mean), float(found.mu.covariance)) == pytest.approx((1.0, 1.0))
    assert [row.contribution for row in found.by_arc()] == pytest.approx([0.5, 0.5])
    assert [row.saved_if_dropped for row in found.by_arc()] == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("gamma", [0.0, 0.4, 1.0])
def test_a_bayesian_network_is_consistent_and_its_joint_is_mu(gamma: float):
    pdg = PDG.from_bayesian_network(
        {X: ((), normal(1.0, 2.0)), Y: ((X,), LinearGaussian(0.5, 1.0, 0.3)), Z: ((X, Y), LinearGaussian([1.0, -2.0]))}
    )
    found = inconsistency(pdg, Attention.uniform(pdg, gamma=gamma))
    assert -1e-9 < found.lower <= 0 <= found.upper < 1e-11
    assert found.mu.mean.tolist() == pytest.approx([1.0, 1.5, -2.0])
    x, noise = torch.tensor([[1, 0, 0], [0.5, 1, 0], [0, -2, 1]]).double(), torch.diag(torch.tensor([2.0, 0.3, 1.0]))
    assert torch.allclose(found.mu.covariance, x @ noise.double() @ x.T, atol=1e-6)


def test_a_product_of_experts_is_one_step():
    pdg = PDG(
        Arc("p", (), (X, Y), normal([0.0, 1.0], [[1.0, 0.4], [0.4, 2.0]])),
        Arc("q", (), (Y, X), normal([0.5, 0.5], [[1.0, -0.2], [-0.2, 1.0]])),
        Arc("r", (), X, normal(1.0, 0.5)),
    )
    found = inconsistency(pdg, Attention.uniform(pdg, gamma=1.0))
    grid = torch.linspace(-8, 8, 401, dtype=torch.float64)
    x, y = torch.meshgrid(grid, grid, indexing="ij")
    x, y = x[..., None], y[..., None]
    log = sum(pdg[n].cpd.log_prob(t, []).detach() for n, t in (("p", [x, y]), ("q", [y, x]), ("r", [x])))
    area = float(grid[1] - grid[0]) ** 2
    assert found.upper == pytest.approx(-float(torch.logsumexp(log.reshape(-1), 0)) - math.log(area), abs=1e-9)
    density = log.exp() / log.exp().sum()
    assert float(found.mu.mean[0]) == pytest.approx(float((density * x[..., 0]).sum()), abs=1e-9)
    assert found.stats["steps"] == 0


def test_fine_tables_approach_the_gaussian_value():
    pdg = PDG(
        Arc("x", (), X, normal(0.3, 0.5)),
        Arc("y", X, Y, LinearGaussian(0.8, 0.0, 0.6)),
        Arc("q", (), Y, normal(-0.5, 0.4)),
    )
    attention = Attention.only({"x": 1.0, "y": 1.5, "q": 0.7})
    grid = np.linspace(-3.6, 3.6, 13)
    u, v = Variable("X", 13), Variable("Y", 13)

    def table(mean: object, variance: float) -> np.ndarray:
        p = np.exp(-((grid - np.asarray(mean)[..., None]) ** 2) / (2 * variance))
        return p / p.sum(-1, keepdims=True)

    coarse = PDG(
        Arc("x", (), u, table(0.3, 0.5)), Arc("y", u, v, table(0.8 * grid, 0.6)), Arc("q", (), v, table(-0.5, 0.4))
    )
    found, tables = inconsistency(pdg, attention), inconsistency(coarse, attention, solver="newton")
    assert tables.upper == pytest.approx(found.upper, abs=1e-4)
    assert float(tables.mu.marginal("Y") @ torch.from_numpy(grid)) == pytest.approx(float(found.mu.mean[1]), abs=1e-3)


# -- the infimum -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_bounds_meet_at_the_minimum_that_another_optimiser_finds(seed: int):
    pdg, attention = random_pdg(seed, n=3, arcs=4)
    found = inconsistency(pdg, attention)
    value, _, _ = reference.minimum(pdg, attention)
    assert found.converged
    assert found.lower <= value + 1e-9
    assert found.upper == pytest.approx(value, abs=1e-6)
    assert found.upper <= value + 1e-9
    assert float(incompatibility(found.mu, pdg, attention).detach()) == pytest.approx(found.upper, abs=1e-6)


def test_a_chain_with_arcs_both_ways_is_what_another_optimiser_finds():
    rng = np.random.default_rng(3)
    chain = [Variable(f"V{i}", Euclidean(1)) for i in range(4)]
    arcs = [Arc("first", (), chain[0], normal(1.0, 0.5)), Arc("last", (), chain[3], normal(-1.0, 0.5))]
    for i, (a, b) in enumerate(pairwise(chain)):
        arcs += [
            Arc(f"f{i}", a, b, LinearGaussian(rng.normal(), rng.normal(), 0.4)),
            Arc(f"b{i}", b, a, LinearGaussian(rng.normal(), rng.normal(), 0.9)),
        ]
    pdg = PDG(*arcs, variables=chain)
    for gamma in (0.0, 0.3):
        attention = Attention.uniform(pdg, gamma=gamma)
        found = inconsistency(pdg, attention)
        value, m, C = reference.minimum(pdg, attention)
        assert found.upper - found.lower < 1e-9 * max(1, found.upper)
        assert found.upper == pytest.approx(value, abs=1e-8)
        assert np.allclose(found.mu.mean, m, atol=1e-4)
        if gamma:  # at gamma = 0 there are many: nobody says how the ends of the chain go together
            assert np.allclose(found.mu.covariance, C, atol=1e-4)


@pytest.mark.parametrize("gamma", [0.0, 0.2])
def test_no_perturbed_gaussian_costs_less_than_the_lower_bound(gamma: float):
    pdg, attention = random_pdg(11)
    attention = attention.replace(gamma=gamma, alpha=dict.fromkeys(attention.alpha, 0.2))
    attention = attention.replace(beta={k: max(b, 0.2) for k, b in attention.beta.items()})
    found = inconsistency(pdg, attention)
    rng = np.random.default_rng(0)
    n = len(found.mu.mean)
    for size in (1e-3, 1e-1):
        for _ in range(10):
            E = torch.from_numpy(np.eye(n) + size * rng.normal(size=(n, n)))
            C = E @ found.mu.covariance @ E.T
            m = found.mu.mean + size * torch.from_numpy(rng.normal(size=n))
            assert float(reference.incompatibility(pdg, attention, m, C)) >= found.lower


def test_a_grid_of_a_hundred_variables_takes_seconds():
    rng = np.random.default_rng(0)
    grid = [[Variable(f"V{i},{j}", Euclidean(1)) for j in range(5)] for i in range(20)]
    arcs = [Arc("root", (), grid[0][0], normal(0.0, 1.0))]
    for i in range(20):
        for j in range(5):
            for k, h in ((i + 1, j), (i, j + 1)):
                if k < 20 and h < 5:
                    name, A = f"{i},{j}-{k},{h}", 0.5 * rng.normal()
                    arcs.append(Arc(name, grid[i][j], grid[k][h], LinearGaussian(A, rng.normal(), 0.5)))
    pdg = PDG(*arcs)
    began = time.process_time()
    found = inconsistency(pdg, Attention.uniform(pdg, gamma=0.3))
    assert found.converged
    assert time.process_time() - began < 20


def test_large_vectors_in_closed_form():
    d = 300
    rng = np.random.default_rng(0)
    V, W = Variable("V", Euclidean(d)), Variable("W", Euclidean(d))
    pdg = PDG(
        Arc("p", (), V, normal(rng.normal(size=d), spread(rng, d))),
        Arc("q", (), V, normal(rng.normal(size=d), spread(rng, d))),
        Arc("w", V, W, LinearGaussian(rng.normal(size=(d, d)), np.zeros(d), 1.0)),
    )
    found = inconsistency(pdg)
    assert found.upper - found.lower < 1e-9 * found.upper
    assert found.stats["steps"] == 0


# -- gradients ---------------------------------------------------------------------------------------------------------


def check_gradients(pdg: PDG, attention: Attention, tol: float = 1e-5) -> None:
    """value.backward() against differences of the upper bound, a random direction an arc."""
    found = inconsistency(pdg, attention, solver=GaussianSolver(tol=1e-9))
    found.value.backward()
    generator = torch.Generator().manual_seed(1)
    for name, p in pdg.theta.items():
        if not p.numel() or attention.beta.get(name.split(".")[0], 0.0) == 0:
            continue
        way = torch.randn(p.shape, generator=generator, dtype=p.dtype)
        way = way.tril() if name.endswith("scale") else way
        ends = []
        for h in (1e-4, -1e-4):
            theta = {k: (v + h * way if k == name else v).detach() for k, v in pdg.theta.items()}
            ends.append(inconsistency(pdg, attention, theta=theta, solver=GaussianSolver(tol=1e-9)).upper)
        assert float((p.grad * way).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-4, abs=tol), name


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_gradients_are_those_of_finite_differences(seed: int):
    check_gradients(*random_pdg(seed, n=3, arcs=3))


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_hard_arcs_have_gradients_through_their_multipliers(gamma: float):
    pdg = PDG(
        Arc("x", (), X, normal(0.5, 0.8)),
        Arc("hard", X, Y, LinearGaussian(0.7, 0.1, 0.5)),
        Arc("y", (), Y, normal(2.0, 0.5)),
        Arc("back", Y, X, LinearGaussian(0.2, 0.3, 1.5)),
        Arc("z", Y, Z, LinearGaussian(1.0, 0.0, 0.4)),
        Arc("leaf", Y, Z, LinearGaussian(0.5, 1.0, 0.7)),
    )
    attention = Attention.uniform(pdg, gamma=gamma).replace(beta={"hard": inf, "leaf": inf})
    check_gradients(pdg, attention)


def test_a_pinned_mu_is_differentiated_by_substitution():
    pdg = PDG(
        Arc("x", (), X, normal(0.5, 0.8)),
        Arc("y", X, Y, LinearGaussian(0.7, 0.1, 0.5)),
        Arc("q", (), Y, normal(2.0, 0.5)),
    )
    attention = Attention.only(
        {"x": inf, "y": inf, "q": -1.0}, {"q": 1.0}, 0.3
    )  # not convex, but nothing is left to choose
    check_gradients(pdg, attention)
    found = inconsistency(pdg, attention)
    assert found.upper == pytest.approx(float(incompatibility(found.mu, pdg, attention).detach()), abs=1e-10)


# -- hard arcs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_a_hard_arc_is_the_limit_of_a_heavy_one(gamma: float):
    pdg, attention = random_pdg(4, n=3, arcs=4)
    attention = attention.replace(gamma=gamma, alpha=dict.fromkeys(attention.alpha, 0.5))
    attention = attention.replace(beta={k: max(b, 0.3) for k, b in attention.beta.items()})
    hard = inconsistency(pdg, attention.replace(beta={"a4": inf}))
    assert hard.converged
    assert hard.stats["residual"] < 1e-8
    away = [hard.upper - inconsistency(pdg, attention.replace(beta={"a4": b})).upper for b in (1e3, 1e4)]
    assert away[0] > away[1] > 0
    assert away[0] / away[1] == pytest.approx(10, rel=0.1)  # of the order of 1 / beta


def test_hard_arcs_that_contradict_each_other_make_it_infinite():
    base = PDG(
        Arc("p", (), X, normal(0.0, 1.0)), Arc("y", X, Y, LinearGaussian(1.0)), Arc("b", Y, X, LinearGaussian(0.2))
    )
    for other in (normal(1.0, 1.0), normal(0.0, 2.0)):
        pdg = base + Arc("q", (), X, other)
        found = inconsistency(pdg, Attention.uniform(pdg).replace(beta={"p": inf, "q": inf}))
        assert (found.lower, found.upper, found.converged) == (inf, inf, True)
    pdg = base + Arc("q", (), X, normal(0.0, 1.0))
    assert inconsistency(pdg, Attention.uniform(pdg).replace(beta={"p": inf, "q": inf})).converged
