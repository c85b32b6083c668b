"""Convexity is judged mechanism by mechanism, and an upper bound is what mu costs, whatever the other weights."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dissonance import PDG, Arc, Attention, Variable, incompatibility, inconsistency
from dissonance.problem import prepare

X, Y = Variable("X", 2), Variable("Y", 3)


@pytest.mark.parametrize(
    ("big", "beta"), [(1e6, 1 - 9e-7), (1e6, 1 - 1e-9), (1e13, -1.0), (1e13, 0.5), (1e13, 1 - 1e-4)]
)
def test_a_mechanism_is_not_convex_because_another_is_heavy(big, beta):
    pdg = PDG(
        Arc("big", (), X, [0.3, 0.7]),
        Arc("odd", X, Y, [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]),
        Arc("other", (), Y, [0.1, 0.2, 0.7]),
    )
    attention = Attention.only({"big": big, "odd": beta, "other": 1.0}, {"odd": 1.0}, 1.0)
    assert prepare(pdg, attention).parts[0].convex.tolist() == [False]
    result = inconsistency(pdg, attention)
    assert result.solver == "concave-convex" and result.lower <= result.upper
    assert float(incompatibility(result.mu, pdg, attention)) == pytest.approx(result.upper, abs=1e-8 + 2e-14 * big)


def test_weights_that_cancel_up_to_rounding_are_convex():
    pdg = PDG(Arc("p", X, Y, [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]), Arc("q", (), X, [0.3, 0.7]))
    attention = Attention.only({"p": 0.3, "q": 1.0}, {"p": 3.0}, 0.1)  # 3 * 0.1 > 0.3
    assert prepare(pdg, attention).parts[0].convex.tolist() == [True]
    result = inconsistency(pdg, attention)
    assert result.converged
    assert float(incompatibility(result.mu, pdg, attention)) == pytest.approx(result.upper, abs=1e-9)


def test_upper_bounds_are_what_their_mu_scores():
    rng = np.random.default_rng(17)
    for seed in range(60):
        variables = [Variable(name, int(rng.integers(2, 4))) for name in "ABC"[: int(rng.integers(1, 4))]]
        gamma = float(rng.choice([0.0, 0.1, 1.0, 3.0]))
        arcs: list[Arc] = []
        beta: dict[str, float] = {}
        alpha: dict[str, float] = {}
        for j in range(int(rng.integers(1, 5))):
            scope = rng.permutation(len(variables))[: int(rng.integers(1, min(3, len(variables) + 1)))].tolist()
            cut = int(rng.integers(0, len(scope)))
            s, t = [variables[i] for i in scope[:cut]], [variables[i] for i in scope[cut:]]
            rows = math.prod(v.size for v in s)
            p = rng.dirichlet(np.ones(math.prod(v.size for v in t)), rows).reshape([v.size for v in (*s, *t)])
            weight = float(10 ** rng.uniform(0, 13)) if rng.random() < 0.4 else float(rng.random())
            arcs.append(Arc(f"p{j}", s, t, p))
            beta[f"p{j}"] = weight
            if gamma and rng.random() < 0.7:
                alpha[f"p{j}"] = weight / gamma * (1 + float(rng.choice([0, -1e-3, 1e-7, 9e-7, 1e-3, 1e-16])))
        pdg, attention = PDG(*arcs, variables=variables), Attention.only(beta, alpha, gamma)
        result = inconsistency(pdg, attention)
        blur = 1e-6 * max(1.0, abs(result.upper)) + 1e-13 * sum(beta.values())
        assert float(incompatibility(result.mu, pdg, attention)) == pytest.approx(result.upper, abs=blur), seed
