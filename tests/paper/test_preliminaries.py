"""Sections 1 and 2 of the paper: what can be an inconsistency, and what the structural deficiency measures."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dissonance import PDG, Arc, Attention, Factor, PointMass, Variable, inconsistency
from dissonance.distributions import Joint
from dissonance.scores import structural_deficiency

A, B, C = (Variable(n, 2) for n in "ABC")


def test_the_log_number_of_solutions_of_a_sat_problem_is_an_inconsistency():
    """Clauses as 0-1 factors, normalised by how many settings of their own variables satisfy them."""
    variables = [Variable(f"V{i}", 2) for i in range(5)]
    clauses = [((0, 1, 2), (1, 0, 1)), ((1, 3, 4), (0, 0, 1)), ((0, 2, 4), (0, 1, 0)), ((2, 3), (1, 1))]
    arcs = []
    for k, (scope, wanted) in enumerate(clauses):
        satisfied = np.ones((2,) * len(scope))
        satisfied[tuple(1 - w for w in wanted)] = 0.0  # every literal of the clause fails
        arcs.append(Arc(f"clause {k}", (), tuple(variables[i] for i in scope), Factor(satisfied)))
    pdg = PDG(*arcs)
    solutions = sum(
        all(any(x[i] == w for i, w in zip(*clause, strict=True)) for clause in clauses)
        for x in itertools.product((0, 1), repeat=5)
    )
    own = sum(math.log(2 ** len(scope) - 1) for scope, _ in clauses)
    found = inconsistency(pdg, Attention.uniform(pdg, gamma=1.0))
    assert found.upper == pytest.approx(own - math.log(solutions), abs=1e-9)


def test_parameters_may_be_a_variable_with_a_point_for_its_value():
    """The two pictures of a classifier: p_theta(Y|X), and p(Y|X, Theta) with theta ->> Theta."""
    rng = np.random.default_rng(0)
    tables = rng.dirichlet(np.ones(2), size=(3, 2))  # p(Y | Theta, X)
    q, x = rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(2))
    theta = Variable("Theta", 3)
    for value in range(3):
        inside = PDG(Arc("x", (), A, x), Arc("p", A, B, tables[value]), Arc("y", (), B, q))
        outside = PDG(
            Arc("x", (), A, x),
            Arc("p", (theta, A), B, tables),
            Arc("y", (), B, q),
            Arc("theta", (), theta, PointMass(value)),
        )
        hard = Attention.uniform(outside).replace(beta={"theta": math.inf})
        assert inconsistency(outside, hard).upper == pytest.approx(inconsistency(inside).upper, abs=1e-7)


def test_the_deficiency_of_a_network_is_zero_iff_its_independencies_hold():
    """A -> B -> C at alpha = 1: SDef(mu) is the conditional mutual information I(A; C | B)."""
    rng = np.random.default_rng(1)
    rows = [[0.5, 0.5], [0.5, 0.5]]
    network = PDG(Arc("a", (), A, [0.5, 0.5]), Arc("b", A, B, rows), Arc("c", B, C, rows))
    alpha = dict.fromkeys("abc", 1.0)
    for _ in range(20):
        mu = rng.dirichlet(np.ones(8)).reshape(2, 2, 2)
        ab, bc, b = mu.sum(2), mu.sum(0), mu.sum((0, 2))
        independent = ab[:, :, None] * bc[None] / b[:, None]
        information = float((mu * np.log(mu / independent)).sum())
        assert float(structural_deficiency(Joint((A, B, C), mu), network, alpha)) == pytest.approx(information)
        assert information > 0
        assert float(structural_deficiency(Joint((A, B, C), independent), network, alpha)) == pytest.approx(
            0, abs=1e-12
        )


@pytest.mark.parametrize("arcs", [1, 2, 3])
def test_attention_to_some_arcs_underestimates_and_more_of_them_never_less(arcs: int):
    rng = np.random.default_rng(2)
    pdg = PDG(
        *(Arc(f"p{i}", s, t, rng.dirichlet(np.ones(2), size=2)) for i, (s, t) in enumerate(((A, B), (B, A), (C, B)))),
        Arc("q", (), B, [0.9, 0.1]),
    )
    whole = inconsistency(pdg).upper
    names = [a.name for a in pdg.arcs]
    for some in itertools.combinations(names, arcs):
        assert inconsistency(pdg, Attention.only(dict.fromkeys(some, 1.0))).lower <= whole
