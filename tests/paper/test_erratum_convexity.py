"""Errata 1, 4 and 5: the inconsistency is neither convex nor quasi-convex in theta, and its gradient can vanish."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, PointMass, SoftmaxTable, Table, Variable, inconsistency

X, Y = Variable("X", 2), Variable("Y", 2)


def exactly(result, value: float) -> bool:
    """Whether a value lies in the certified bracket, up to the rounding of the value itself."""
    return result.converged and result.lower - 1e-13 <= value <= result.upper + 1e-13


# -- erratum 1: log-concavity is not enough ----------------------------------------------------------------------------


def along_a_logit(t: float) -> float:
    w = Variable("W", 3)
    p = SoftmaxTable(logits=[t, 6.0, -t])
    return inconsistency(PDG(Arc("p", (), w, p), Arc("q", (), w, [0.49, 0.02, 0.49]))).upper


def test_a_log_concave_family_gives_a_value_that_is_not_convex():
    ends, middle = [along_a_logit(-12.0), along_a_logit(12.0)], along_a_logit(0.0)
    assert ends == pytest.approx([0.696, 0.696], abs=5e-4)
    assert middle == pytest.approx(3.116, abs=5e-4)
    for t, found in ((-12.0, ends[0]), (0.0, middle)):
        p = np.exp([t, 6.0, -t]) / np.exp([t, 6.0, -t]).sum()
        assert found == pytest.approx(-2 * math.log(np.sqrt(p * [0.49, 0.02, 0.49]).sum()), abs=1e-7)


@pytest.mark.parametrize(("t", "expected"), [(0.0, 0.0), (0.5, 0.693), (1.0, 0.0)])
def test_with_structure_two_controlled_tables_are_not_convex_either(t: float, expected: float):
    p = np.array([t, 1 - t])
    pdg = PDG(Arc("p", (), X, p), Arc("q", (), X, p))
    result = inconsistency(pdg, Attention.uniform(pdg, gamma=1.0))
    assert result.upper == pytest.approx(expected, abs=5e-4)
    assert exactly(result, -math.log((p * p).sum()))


def test_tables_in_their_own_coordinates_are_convex_without_structure():
    rng = np.random.default_rng(0)
    for _ in range(10):
        (p0, p1), q = rng.dirichlet(np.ones(3), size=2), rng.dirichlet(np.ones(3))
        w = Variable("W", 3)
        ends = [inconsistency(PDG(Arc("p", (), w, p), Arc("q", (), w, q))) for p in (p0, p1, 0.5 * (p0 + p1))]
        assert ends[2].lower <= 0.5 * (ends[0].upper + ends[1].upper)


# -- erratum 4: not quasi-convex in a conditional table ----------------------------------------------------------------


def evidence(likelihood: tuple[float, float]) -> PDG:
    """p(Y|X) and the evidence Y = 1."""
    table = [[1 - a, a] for a in likelihood]
    return PDG(Arc("p", X, Y, table), Arc("Y=1", (), Y, PointMass(1)))


@pytest.mark.parametrize(("likelihood", "expected"), [((0.9, 0.1), 0.105), ((0.5, 0.5), 0.693), ((0.1, 0.9), 0.105)])
def test_evidence_is_not_quasi_convex_in_the_table(likelihood: tuple[float, float], expected: float):
    result = inconsistency(evidence(likelihood), Attention.only({"p": 1.0, "Y=1": math.inf}))
    assert result.upper == pytest.approx(expected, abs=5e-4)
    assert exactly(result, -math.log(max(likelihood)))


@pytest.mark.parametrize(("above", "expected"), [((0.6, 0.9), 0.0102), ((0.75, 0.75), 0.0693), ((0.9, 0.6), 0.0102)])
def test_the_interior_version(above: tuple[float, float], expected: float):
    pdg = PDG(Arc("p", X, Y, [[1 - a, a] for a in above]), Arc("q", (), Y, [0.5, 0.5]))
    result = inconsistency(pdg)
    assert result.upper == pytest.approx(expected, abs=6e-5)
    nearest = min(above)
    assert exactly(result, -2 * math.log(math.sqrt(0.5 * nearest) + math.sqrt(0.5 * (1 - nearest))))


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("gamma", [0.1, 0.5])
@pytest.mark.parametrize("hard", [True, False])
def test_the_formula_of_evidence_with_structure(beta: float, gamma: float, hard: bool):
    likelihood = np.array([0.9, 0.3])
    attention = Attention.only({"p": beta, "Y=1": math.inf if hard else 2.0}, {}, gamma)
    result = inconsistency(evidence(tuple(likelihood)), attention)
    assert exactly(result, -gamma * math.log((likelihood ** (beta / gamma)).sum()))
    posterior = likelihood ** (beta / gamma) / (likelihood ** (beta / gamma)).sum()
    np.testing.assert_allclose(result.mu.marginal("X"), posterior, atol=1e-5)


# -- erratum 5: a row without mass gets no gradient --------------------------------------------------------------------


def conflicted(rows: list[list[float]]) -> PDG:
    return PDG(
        Arc("r", X, Y, [[0.8, 0.2], [0.7, 0.3]]),
        Arc("s", X, Y, [[0.2, 0.8], [0.7, 0.3]]),
        Arc("p", X, Y, SoftmaxTable(rows)),
    )


def test_gradient_flow_is_stuck_where_the_minimum_is_zero():
    pdg = conflicted([[0.5, 0.5], [0.001, 0.999]])
    result = inconsistency(pdg)
    assert result.upper == pytest.approx(0.4463, abs=5e-5)
    assert exactly(result, -3 * math.log(2 * (0.8 * 0.2 * 0.5) ** (1 / 3)))
    result.value.backward()
    assert pdg["p"].cpd.logits.grad.abs().max() < 1e-6
    assert exactly(inconsistency(conflicted([[0.5, 0.5], [0.7, 0.3]])), 0.0)


def test_structure_without_a_kink_is_convex_in_one_conditional_table():
    """gamma >= beta_a >= gamma alpha_a: the table of evidence is convex again."""

    def at(t: float) -> tuple[float, float]:
        table = torch.tensor([[1 - a, a] for a in (0.9 - 0.8 * t, 0.1 + 0.8 * t)])
        pdg = PDG(Arc("p", X, Y, Table(table)), Arc("Y=1", (), Y, PointMass(1)))
        result = inconsistency(pdg, Attention.only({"p": 1.0, "Y=1": math.inf}, {"p": 1.0}, 1.0))
        return result.lower, result.upper

    assert at(0.5)[0] <= 0.5 * (at(0.0)[1] + at(1.0)[1])
