"""Brackets at gamma > 0 without a junction tree: never wrong, exact on trees, and never mistaken for a value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, Variable, incompatibility, inconsistency
from dissonance.bounds import cut, structural
from dissonance.bounds.dual import RelaxedDual
from dissonance.bounds.mixture import BlockMixture
from dissonance.bounds.regions import regions_of
from dissonance.bounds.structural import structural_terms
from dissonance.bounds.terms import SOFT
from dissonance.problem import prepare
from dissonance.solvers import Auto, Bounds


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would fit is cut, and entropies are conditioned on less."""
    monkeypatch.setattr(cut, "MOST_CELLS", 24)
    monkeypatch.setattr(structural, "CELLS", 12)


def ring(n: int = 6, seed: int = 0) -> PDG:
    rng = np.random.default_rng(seed)
    v = [Variable(f"X{i}", 2) for i in range(n)]
    pairs = [(i, (i + d) % n) for d in (1, 2) for i in range(n)]
    return PDG(
        *(Arc(f"{i}-{j}", v[i], v[j], rng.dirichlet([1, 1], 2)) for i, j in pairs),
        *(Arc(f"u{i}", (), x, rng.dirichlet([1, 1])) for i, x in enumerate(v)),
    )


def test_no_bracket_misses_the_exact_value(families: Any, small: None):
    missed, compared, gaps = families.wrong(40, seed=3, make=families.structural)
    assert missed == 0 and compared > 25 and len(gaps) > 15


def test_the_entropy_is_at_most_that_of_the_terms(small: None):
    pdg = ring()
    (component,) = prepare(pdg, Attention.uniform(pdg, gamma=0.5)).parts
    terms = structural_terms(component)
    entropies = terms.terms[-6:]
    assert all(t.kind == SOFT and t.beta == 0.5 and not t.log_p.any() for t in entropies)
    assert any(len(t.scope) < 4 for t in entropies)  # some of what they depend on is left out
    rng = np.random.default_rng(0)
    for sharp in (0.1, 1.0, 10.0):
        mu = rng.dirichlet(np.full(2**6, sharp)).reshape([2] * 6)
        bound = 0.0
        for t in entropies:
            marginal = mu.sum(tuple(v for v in range(6) if v not in t.scope)).ravel()
            rows = np.zeros(len(t.log_p))
            np.add.at(rows, t.entry, marginal)
            p = rows.reshape(-1, t.width)
            given = np.where(p > 0, p / np.maximum(p.sum(1, keepdims=True), 1e-300), 1.0)
            bound -= float((p * np.log(given)).sum())
        assert -float((mu * np.log(np.maximum(mu, 1e-300))).sum()) <= bound + 1e-12


def test_the_lower_bound_is_exact_on_trees():
    rng = np.random.default_rng(1)
    v = [Variable(f"X{i}", 3) for i in range(6)]
    pdg = PDG(
        *(Arc(f"a{i}", v[i], v[i + 1], rng.dirichlet([1, 1, 1], 3)) for i in range(5)),
        *(Arc(f"u{i}", (), v[i], rng.dirichlet([1, 1, 1])) for i in range(6)),
    )
    for gamma in (0.2, 1.0):
        attention = Attention.uniform(pdg, gamma=gamma)
        (component,) = prepare(pdg, attention).parts
        dual = RelaxedDual(regions_of(structural_terms(component)))
        x = dual.start
        for eps in (0.1, 0.01, 1e-3, 1e-4, 1e-5):
            x, _ = dual.raised(x, eps, 400)
        exact = inconsistency(pdg, attention)
        value, blur = dual.certified(x)
        assert exact.lower - 1e-3 <= value - blur <= exact.upper


@pytest.mark.parametrize("gamma", [0.1, 0.7, 1.0])
def test_the_upper_bound_is_the_incompatibility_of_a_distribution(gamma: float, small: None):
    pdg = ring(8)
    attention = Attention.uniform(pdg, gamma=gamma)
    exact, found = inconsistency(pdg, attention), inconsistency(pdg, attention, solver=Bounds(seconds=2.0, seed=1))
    mu: Any = found.mu
    assert isinstance(mu, BlockMixture) and len(mu.products[0].parts) > 1
    names = [f"X{i}" for i in range(8)]
    joint = sum(share * _product(product.parts, names) for share, product in zip(mu.shares, mu.products, strict=True))
    assert float(joint.sum()) == pytest.approx(1, abs=1e-12) and sum(mu.shares) == pytest.approx(1)
    value = -gamma * float(-(joint * joint.clamp(min=1e-300).log()).sum())  # with the entropy of the mixture itself
    for a in pdg.arcs:
        keep = [names.index(v.name) for v in a.scope]
        pair = joint.sum([i for i in range(8) if i not in keep]).permute(*np.argsort(np.argsort(keep)).tolist())
        assert torch.allclose(pair, mu.marginal(*(v.name for v in a.scope)), atol=1e-14)
        rows = pair.reshape(-1, 2)
        q = rows / rows.sum(1, keepdim=True)
        value += float((rows * (q.log() - a.cpd.table().reshape(-1, 2).log())).sum())
        value += gamma * float(-(rows * q.log()).sum())
    assert exact.lower <= value <= found.upper + 1e-12
    assert float(incompatibility(mu, pdg, attention)) == pytest.approx(found.upper, abs=1e-9)
    drawn = mu.sample(4000, torch.Generator().manual_seed(0))
    assert np.mean([x == 1 for x in drawn["X3"]]) == pytest.approx(mu["X3"][1], abs=0.05)


def _product(parts: Any, names: list[str]) -> torch.Tensor:
    found, order = torch.ones((), dtype=torch.float64), list[str]()
    for part in parts:
        own = [n for n in names if n in {v.name for v in part.variables}]
        found, order = torch.tensordot(found, part.marginal(*own), 0), order + own
    return found.permute([order.index(n) for n in names])


def test_a_product_that_fits_is_exact():
    pdg = ring()
    attention = Attention.uniform(pdg, gamma=0.5)
    exact, found = inconsistency(pdg, attention), inconsistency(pdg, attention, solver=Bounds(seconds=5.0))
    assert found.upper == pytest.approx(exact.upper, abs=1e-2) and found.lower <= exact.upper


def test_hard_and_impossible_arcs_stay_in_a_block(small: None):
    x, y, z = (Variable(name, 2) for name in "XYZ")
    others = [Variable(f"W{i}", 2) for i in range(4)]
    rng = np.random.default_rng(0)
    pdg = PDG(
        Arc("hard", x, y, [[0.8, 0.2], [0.3, 0.7]]),
        Arc("rule", y, z, [[1.0, 0.0], [0.5, 0.5]]),
        *(Arc(f"a{i}", a, w, rng.dirichlet([1, 1], 2)) for i, w in enumerate(others) for a in (x,)),
        *(Arc(f"b{i}", w, z, rng.dirichlet([1, 1], 2)) for i, w in enumerate(others)),
        Arc("x", (), x, [0.9, 0.1]),
    )
    attention = Attention({"hard": math.inf}, {"hard": 0.5}, gamma=0.3)
    exact, found = inconsistency(pdg, attention), inconsistency(pdg, attention, solver=Bounds(seconds=1.0))
    assert found.lower <= exact.upper + 1e-9 and exact.lower - 1e-9 <= found.upper < math.inf
    assert float(found.mu.marginal("Y", "Z")[0, 1]) < 1e-9
    pair = found.mu.marginal("X", "Y")
    assert torch.allclose(pair / pair.sum(1, keepdim=True), pdg["hard"].cpd.table(), atol=1e-9)


@pytest.mark.parametrize("gamma", [0.3, 1.0])  # at 1 it is a factor graph, whose messages do not fit
def test_auto_brackets_what_no_tree_fits_and_says_so(gamma: float, families: Any):
    pdg = families.regular(60, True)
    attention = Attention.uniform(pdg, gamma=gamma)
    found = inconsistency(pdg, attention, solver=Auto(seconds=0.0, budget=2**20))
    assert found.solver == "bounds" and found.is_bracket and not found.converged
    exact = inconsistency(pdg, attention)
    assert exact.solver != "bounds"
    assert found.lower <= exact.upper and exact.lower <= found.upper < 1.3 * exact.upper
    assert "between" in repr(found) and "a bracket, not a value" in found.caution
    assert sum(row.contribution for row in found.by_arc()) > 0


def test_the_same_seed_gives_the_same_bracket(small: None):
    pdg = ring()
    attention = Attention.uniform(pdg, gamma=0.4)
    one, two = (inconsistency(pdg, attention, solver=Bounds(seconds=0.0, seed=5)) for _ in range(2))
    assert (one.lower, one.upper) == (two.lower, two.upper)
