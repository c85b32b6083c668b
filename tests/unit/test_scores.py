"""OInc, SDef and incompatibility at a given mu."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dissonance import PDG, Arc, Attention, DissonanceError, SoftmaxTable, Variable, incompatibility, inconsistency
from dissonance.distributions import Joint
from dissonance.scores import arc_divergence, by_arc, divergences, observational_incompatibility, structural_deficiency
from reference import dense
from strategies import MIXED, Case, cases, random_case, random_joint

X, Y = Variable("X", 2), Variable("Y", 2)
inf = math.inf


@given(cases(MIXED), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5]))
@settings(max_examples=60)
def test_scores_agree_with_the_plain_scorer(case: Case, seed: int, zeros: float):
    table = random_joint(np.random.default_rng(seed), case.pdg.variables, zeros)
    mu = Joint(case.pdg.variables, table)
    found = by_arc(mu, case.pdg)
    assert [float(s.divergence) for s in found.values()] == pytest.approx(dense.divergences(case.pdg, table), abs=1e-12)
    assert [float(s.conditional_entropy) for s in found.values()] == pytest.approx(
        dense.conditional_entropies(case.pdg, table), abs=1e-12
    )
    total = float(incompatibility(mu, case.pdg, case.attention))
    expected = dense.incompatibility(case.pdg, case.attention, table, slack=1e-8)
    assert total == (inf if expected == inf else pytest.approx(expected, abs=1e-11))


@given(cases(MIXED), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5]))
@settings(max_examples=30)
def test_the_divergences_of_many_arcs_agree_with_the_plain_scorer(case: Case, seed: int, zeros: float):
    table = random_joint(np.random.default_rng(seed), case.pdg.variables, zeros)
    found = divergences(Joint(case.pdg.variables, table), case.pdg.arcs)
    assert [float(x) for x in found] == pytest.approx(dense.divergences(case.pdg, table), abs=1e-12)


def test_an_unattended_arc_costs_nothing_even_if_infinite():
    pdg = PDG(Arc("p", (), X, [1.0, 0.0]), Arc("q", (), X, [0.5, 0.5]))
    mu = Joint([X], [0.5, 0.5])
    assert float(observational_incompatibility(mu, pdg, {"q": 1.0})) == 0
    assert float(observational_incompatibility(mu, pdg, {"q": 1.0, "p": 1e-9})) == inf
    assert float(observational_incompatibility(mu, pdg, {"p": -1.0})) == -inf


def test_a_hard_arc_is_all_or_nothing():
    pdg = PDG(Arc("p", (), X, [0.25, 0.75]))
    assert float(incompatibility(Joint([X], [0.25, 0.75]), pdg, Attention.only({"p": inf}))) == 0
    assert float(incompatibility(Joint([X], [0.26, 0.74]), pdg, Attention.only({"p": inf}))) == inf


def test_a_hard_arc_that_holds_up_to_rounding_costs_nothing():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        a, b = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4), size=3)
        s, t = Variable("S", 3), Variable("T", 4)
        pdg = PDG(Arc("a", (), s, a), Arc("b", s, t, b))
        mu = Joint([s, t], a[:, None] * b)
        assert float(incompatibility(mu, pdg, Attention.only({"a": inf, "b": inf}))) == 0


def test_mass_on_what_a_hard_arc_calls_impossible_is_infinite_however_small():
    pdg = PDG(Arc("p", (), X, [1.0, 0.0]))
    assert float(incompatibility(Joint([X], [1.0, 1e-12]), pdg, Attention.only({"p": inf}))) == inf


def test_a_contradiction_outweighs_disbelief():
    pdg = PDG(Arc("p", (), X, [1.0, 0.0]), Arc("q", (), X, [1.0, 0.0]), Arc("r", (), X, [0.5, 0.5]))
    mu = Joint([X], [0.4, 0.6])
    assert float(incompatibility(mu, pdg, Attention.only({"p": -1.0}))) == -inf
    assert float(incompatibility(mu, pdg, Attention.only({"p": -1.0, "q": 1.0}))) == inf
    assert float(incompatibility(mu, pdg, Attention.only({"p": -1.0, "r": inf}))) == inf


def test_with_no_arcs_the_deficiency_is_minus_the_entropy():
    mu = Joint([X, Y], [[0.1, 0.2], [0.3, 0.4]])
    assert float(structural_deficiency(mu, PDG(variables=(X, Y)), {})) == -float(mu.entropy())


def test_gamma_zero_ignores_structure_and_alpha_zero_ignores_an_arc():
    pdg = PDG(Arc("p", X, Y, [[0.9, 0.1], [0.2, 0.8]]))
    mu = Joint([X, Y], [[0.1, 0.2], [0.3, 0.4]])
    oinc = float(observational_incompatibility(mu, pdg, {"p": 2.0}))
    assert float(incompatibility(mu, pdg, Attention.only({"p": 2.0}, {"p": 1.0}))) == oinc
    assert float(incompatibility(mu, pdg, Attention.only({"p": 2.0}, {}, 0.5))) == pytest.approx(
        oinc - 0.5 * float(mu.entropy())
    )


def test_scores_are_differentiable_in_theta_and_in_mu():
    pdg = PDG(Arc("p", X, Y, SoftmaxTable([[0.9, 0.1], [0.2, 0.8]])))
    table = torch.tensor([[0.1, 0.2], [0.3, 0.4]], dtype=torch.float64, requires_grad=True)
    arc_divergence(Joint([X, Y], table), pdg["p"]).backward()
    m = table.detach()
    p = pdg["p"].cpd.table().detach()
    np.testing.assert_allclose(pdg["p"].cpd.logits.grad, m.sum(1, keepdim=True) * p - m, atol=1e-14)
    np.testing.assert_allclose(table.grad, torch.log(m / m.sum(1, keepdim=True) / p), atol=1e-13)


def test_scores_at_another_theta():
    pdg = PDG(Arc("p", (), X, SoftmaxTable([0.5, 0.5])))
    theta = {"p.logits": torch.log(torch.tensor([0.2, 0.8], dtype=torch.float64))}
    mu = Joint([X], [0.2, 0.8])
    assert float(incompatibility(mu, pdg, Attention.only({"p": 1.0}), theta)) == pytest.approx(0, abs=1e-15)


def test_an_unknown_arc_in_the_attention_is_an_error():
    with pytest.raises(DissonanceError, match="no arc named 'q'"):
        incompatibility(Joint([X], [0.5, 0.5]), PDG(Arc("p", (), X, [0.5, 0.5])), Attention.only({"q": 1.0}))


def test_any_mu_scores_at_least_the_inconsistency():
    rng = np.random.default_rng(0)
    case = random_case(17)
    result = inconsistency(case.pdg, case.attention)
    for _ in range(50):
        mu = Joint(case.pdg.variables, random_joint(rng, case.pdg.variables))
        assert float(incompatibility(mu, case.pdg, case.attention)) >= result.lower


def test_incompatibilities_take_an_attention_for_its_weights():
    pdg = PDG(Arc("p", (), X, [0.9, 0.1]), Arc("q", (), X, [0.2, 0.8]))
    mu, attention = inconsistency(pdg).mu, Attention.only({"p": 2.0}, {"p": 0.5, "q": 1.0})
    by_attention, by_weights = (observational_incompatibility(mu, pdg, w) for w in (attention, attention.beta))
    assert by_attention == by_weights > 0
    assert structural_deficiency(mu, pdg, attention) == structural_deficiency(mu, pdg, attention.alpha)
