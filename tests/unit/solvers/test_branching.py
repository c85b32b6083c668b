"""Lower bounds where the incompatibility is not convex, against brute force in plain numpy."""

from __future__ import annotations

import math
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from dissonance import PDG, Arc, Attention, Deterministic, Variable, inconsistency
from dissonance.problem import prepare
from dissonance.solvers import ConcaveConvex, Newton
from dissonance.solvers.branching import Branching
from dissonance.solvers.least_concave import least_concave

inf = math.inf
Array = np.ndarray
A, B = Variable("A", 2), Variable("B", 2)
MECHANISMS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), (0,)),
    ((), (1,)),
    ((0,), (1,)),
    ((1,), (0,)),
    ((), (0, 1)),
]


class Belief(NamedTuple):
    """Sources and targets as axes of mu, the table, beta and alpha."""

    sources: tuple[int, ...]
    targets: tuple[int, ...]
    p: Array
    beta: float
    alpha: float


def marginal(mu: Array, axes: tuple[int, ...]) -> Array:
    """(points, values of the axes...) of mu (points, 2, 2)."""
    dropped = tuple(1 + i for i in range(mu.ndim - 1) if i not in axes)
    kept = sorted(axes)
    return mu.sum(axis=dropped).transpose(0, *(1 + kept.index(i) for i in axes))


def entropy(x: Array) -> Array:
    x = x.reshape(len(x), -1)
    return -(x * np.log(np.where(x > 0, x, 1.0))).sum(1)


def incompatibilities(mu: Array, beliefs: list[Belief], gamma: float) -> Array:
    """Eqs. 1 and 2, written out."""
    total = -gamma * entropy(mu)
    for s, t, p, beta, alpha in beliefs:
        joint = marginal(mu, (*s, *t))
        spread = entropy(joint) - (entropy(marginal(mu, s)) if s else 0.0)
        surprise = -(joint * np.log(p)).reshape(len(mu), -1).sum(1)
        total = total + beta * (surprise - spread) + gamma * alpha * spread
    return total


def fine_grid(steps: int) -> Array:
    """All joint distributions of two binary variables in multiples of 1 / steps, (points, 2, 2)."""
    every = [x for x in product(range(steps + 1), repeat=3) if sum(x) <= steps]
    return np.array([(*x, steps - sum(x)) for x in every]).reshape(-1, 2, 2) / steps


GRID = fine_grid(40)


def random_beliefs(seed: int) -> tuple[list[Belief], float]:
    rng = np.random.default_rng(seed)
    beliefs: list[Belief] = []
    for _ in range(rng.integers(2, 5)):
        s, t = MECHANISMS[rng.integers(5)]
        p = rng.dirichlet(np.ones(2 ** len(t)), size=2 ** len(s)).reshape((2,) * (len(s) + len(t)))
        beliefs.append(Belief(s, t, p, float(rng.normal(0.3, 1.0)), float(rng.normal(0.5, 1.0))))
    return beliefs, float(rng.choice([0.0, 0.5, 1.0]))


def attended(beliefs: list[Belief], gamma: float) -> tuple[PDG, Attention]:
    both = A, B
    arcs = [
        Arc(f"b{i}", [both[j] for j in x.sources], [both[j] for j in x.targets], x.p) for i, x in enumerate(beliefs)
    ]
    beta = {a.name: x.beta for a, x in zip(arcs, beliefs, strict=True)}
    alpha = {a.name: x.alpha for a, x in zip(arcs, beliefs, strict=True)}
    return PDG(*arcs, variables=both), Attention.only(beta, alpha, gamma)


@pytest.mark.parametrize("seed", range(25))
def test_the_bracket_holds_the_minimum_of_a_fine_grid(seed: int):
    beliefs, gamma = random_beliefs(seed)
    values = incompatibilities(GRID, beliefs, gamma)
    result = inconsistency(*attended(beliefs, gamma))
    assert result.converged
    least = float(values.min())
    assert result.lower <= least and result.upper <= least + 1e-9 * max(1.0, abs(least))
    near = GRID[values.argmin()] + np.random.default_rng(seed).normal(0, 0.01, (20000, 2, 2))
    near = np.clip(near, 0, None) / np.clip(near, 0, None).sum((1, 2), keepdims=True)
    finer = min(values.min(), incompatibilities(near, beliefs, gamma).min())
    assert result.lower > finer - 0.02  # the grid is not far above the infimum


def test_a_search_that_stops_early_is_below_and_rises_with_the_parts_it_looks_at():
    """Three variables of three values, in a ring whose mechanisms count for more than its cpds."""
    rng = np.random.default_rng(0)
    ring = [Variable(x, 3) for x in "XYZ"]
    pdg = PDG(*(Arc(f"p{i}", ring[i], ring[i - 1], rng.dirichlet(np.ones(3), 3)) for i in range(3)))
    attention = Attention.uniform(pdg, beta=0.5, alpha=1.5, gamma=1.0)
    found = [inconsistency(pdg, attention, solver=ConcaveConvex(nodes=n)) for n in (0, 20, 60)]
    lowers, uppers = [r.lower for r in found], [r.upper for r in found]
    assert -inf < lowers[0] < lowers[1] < lowers[2] <= min(uppers)
    assert not found[1].converged
    hurried = inconsistency(pdg, attention, solver=ConcaveConvex(nodes=1000, seconds=0.0))
    assert lowers[0] <= hurried.lower < lowers[2]


def test_every_mu_in_its_simplices_costs_at_least_the_bound_of_the_part():
    beliefs, gamma = random_beliefs(23)
    (component,) = prepare(*attended(beliefs, gamma)).parts
    eased = least_concave(component)
    s = Newton().structure(eased, component.tree)
    assert s is not None
    branching = Branching(s, s.numbers(eased), s.weights(eased)[0])
    assert branching.rows
    rng = np.random.default_rng(0)
    values = incompatibilities(GRID, beliefs, gamma)
    cells = branching.matrices.every @ GRID.reshape(len(GRID), 4).T  # one cluster, (A, B)
    for _ in range(8):
        simplices = {r: rng.dirichlet([1.0, 1.0], 2) for r in range(len(branching.rows)) if rng.random() < 0.7}
        lower, _ = branching.bound(simplices, 1e-8)
        inside = np.ones(len(GRID), dtype=bool)
        for r, v in simplices.items():
            inside &= (np.linalg.inv(v.T) @ cells[branching.rows[r].entries] >= -1e-12).all(0)
        assert values[inside].min(initial=inf) >= lower - 1e-9


def test_what_is_convex_in_disguise_needs_no_search():
    """-H(A,B) + H(B|A) is -H(A): beta < gamma alpha, and convex all the same."""
    pdg = PDG(Arc("ab", A, B, [[0.9, 0.1], [0.4, 0.6]]), Arc("a", (), A, [0.3, 0.7]))
    attention = Attention.only({"ab": 0.5, "a": 1.0}, {"ab": 1.2, "a": 0.5}, 1.0)
    (component,) = prepare(pdg, attention).parts
    assert not component.convex.any() and least_concave(component).convex.all()
    beliefs = [
        Belief((0,), (1,), np.array([[0.9, 0.1], [0.4, 0.6]]), 0.5, 1.2),
        Belief((), (0,), np.array([0.3, 0.7]), 1.0, 0.5),
    ]
    result = inconsistency(pdg, attention, solver=ConcaveConvex(nodes=0))
    assert result.converged and result.lower <= incompatibilities(GRID, beliefs, 1.0).min() <= result.upper + 0.005


@pytest.mark.parametrize("seed", range(6))
def test_hard_beliefs_are_kept_and_bounded(seed: int):
    """mu(A) is fixed, so that two conditionals are left: a fine grid of them."""
    rng = np.random.default_rng(seed)
    a, p, q = np.array([0.3, 0.7]), rng.dirichlet(np.ones(2), 2), rng.dirichlet(np.ones(2))
    pdg = PDG(Arc("a", (), A, a), Arc("p", A, B, p), Arc("q", (), B, q))
    attention = Attention.only({"a": inf, "p": -0.8, "q": 1.0}, {"a": 1.0, "p": 0.0, "q": 0.5}, 0.5)
    x, y = np.meshgrid(*2 * [np.linspace(0, 1, 301)], indexing="ij")
    mu = np.stack([a[0] * x, a[0] * (1 - x), a[1] * y, a[1] * (1 - y)], -1).reshape(-1, 2, 2)
    beliefs = [
        Belief((), (0,), a, 0.0, 1.0),
        Belief((0,), (1,), p, -0.8, 0.0),
        Belief((), (1,), q, 1.0, 0.5),
    ]
    least = incompatibilities(mu, beliefs, 0.5).min()
    result = inconsistency(pdg, attention)
    assert result.converged and result.lower <= least and least - 1e-3 <= result.upper <= least + 1e-9


def test_disbelief_in_what_hard_arcs_allow_only_rarely_has_no_lower_end():
    """The local starts may all miss the little mass that makes it -inf; the search for it does not."""
    rare = PDG(Arc("rare", (), A, [1 - 1e-4, 1e-4]), Arc("never", (), A, [1.0, 0.0]), Arc("b", A, B, [[0.5, 0.5]] * 2))
    assert inconsistency(rare, Attention.only({"rare": inf, "never": -1.0, "b": -1.0})).upper == -inf
    ruled_out = PDG(Arc("first", (), A, [1.0, 0.0]), Arc("never", (), A, [1.0, 0.0]), Arc("b", A, B, [[0.5, 0.5]] * 2))
    found = inconsistency(ruled_out, Attention.only({"first": inf, "never": -1.0, "b": -1.0}))
    assert found.upper == pytest.approx(-math.log(2))


def test_a_large_alpha_makes_targets_a_function_of_sources():
    """alpha -> inf is a minimum over functions f: B = f(A); alpha = inf itself is refused."""
    p, q = [[0.8, 0.2], [0.3, 0.7]], [0.45, 0.55]
    pdg = PDG(Arc("p", A, B, p), Arc("q", (), B, q))

    def functional(f: tuple[int, ...]) -> float:
        hard = PDG(Arc("p", A, B, p), Arc("q", (), B, q), Arc("f", A, B, Deterministic(dict(enumerate(f)))))
        return inconsistency(hard, Attention.only({"p": 1.0, "q": 1.0, "f": inf}, {}, 1.0)).upper

    least = min(functional(f) for f in product((0, 1), repeat=2))
    found = inconsistency(pdg, Attention.only({"p": 1.0, "q": 1.0}, {"p": 1000.0}, 1.0))
    assert found.converged and found.upper == pytest.approx(least, abs=1e-6)
