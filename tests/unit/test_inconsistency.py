"""The front door: value, bounds, blame, mu, and training."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    DissonanceError,
    PointMass,
    SimplexTable,
    SoftmaxTable,
    Variable,
    inconsistency,
)
from dissonance.solvers import SOLVERS, Newton
from strategies import SOFT, Style, random_case

inf = math.inf
X, Y, Z = Variable("X", ["no", "yes"]), Variable("Y", 3), Variable("Z", 2)
P, Q = np.array([0.9, 0.1]), np.array([0.2, 0.8])


def rivals() -> PDG:
    return PDG(Arc("p", (), X, SoftmaxTable(P)), Arc("q", (), X, Q))


CLOSED = -2 * math.log(np.sqrt(P * Q).sum())


# -- the result --------------------------------------------------------------------------------------------------------


def test_without_attention_every_arc_counts_once_and_structure_does_not():
    result = inconsistency(rivals())
    assert result.attention == Attention.uniform(rivals()) and result.gamma == 0
    assert result.lower <= CLOSED <= result.upper and result.converged
    assert result.value.dtype == torch.float64 and float(result.value.detach()) == result.upper


def test_the_function_is_not_hidden_by_its_module():
    import dissonance.inconsistency

    assert callable(dissonance.inconsistency) and dissonance.inconsistency is inconsistency


def test_repr_and_stats_tell_what_happened():
    result = inconsistency(rivals(), solver="newton")
    assert repr(result).startswith("Inconsistency(0.693147") and repr(result).endswith(", newton)")
    assert result.stats["components"] == result.stats["clusters"] == 1 and result.stats["cells"] == 2
    assert result.stats["steps"] >= 1 and result.stats["residual"] == 0 and result.seconds > 0


def test_the_names_of_all_solvers_that_ran_are_reported():
    pdg = rivals() + Arc("z", (), Z, [0.5, 0.5])
    assert inconsistency(pdg, Attention.only({"p": 1.0, "q": 1.0, "z": inf})).solver == "newton + pinned"
    assert inconsistency(pdg, Attention.only()).solver == "auto"


def test_an_unknown_solver_suggests_the_nearest():
    with pytest.raises(DissonanceError, match=r"no solver named 'newtn'. Did you mean 'newton'\?"):
        inconsistency(rivals(), solver="newtn")
    assert {"auto", "newton", "clique-tree", "joint", "pinned", "sum-product", "concave-convex"} <= set(SOLVERS)


def test_a_tighter_tolerance_gives_a_tighter_bracket():
    case = random_case(8, SOFT)
    for tol in (1e-4, 1e-7, 1e-10):
        result = inconsistency(case.pdg, case.attention, solver=Newton(tol=tol))
        assert result.converged
        assert result.upper - result.lower <= tol * max(1.0, result.upper)


def test_an_infinite_inconsistency_has_no_mu_and_no_gradient():
    pdg = PDG(Arc("p", (), X, PointMass("no")), Arc("q", (), X, PointMass("yes")), Arc("r", (), X, SoftmaxTable(P)))
    result = inconsistency(pdg)
    assert result.lower == result.upper == float(result.value) == inf and not result.value.requires_grad
    with pytest.raises(DissonanceError, match="contradict each other outright"):
        _ = result.mu


def test_mu_answers_queries_over_all_variables_of_the_pdg():
    pdg = rivals() + PDG(Arc("y", X, Y, [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]), variables=(X, Y, Z))
    mu = inconsistency(pdg).mu
    assert [v.name for v in mu.variables] == ["X", "Y", "Z"]
    mean = np.sqrt(P * Q) / np.sqrt(P * Q).sum()
    np.testing.assert_allclose(mu.marginal("X"), mean, atol=1e-6)
    assert float(mu.probability({"X": "yes", "Z": 1})) == pytest.approx(mean[1] / 2, abs=1e-6)
    np.testing.assert_allclose(mu.conditional("Y", "X"), [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]], atol=1e-6)
    np.testing.assert_allclose(mu.marginal("Z", "X"), np.outer([0.5, 0.5], mean), atol=1e-6)


# -- blame -------------------------------------------------------------------------------------------------------------


def test_contributions_add_up_to_the_value_without_structure():
    for seed in range(15):
        case = random_case(seed, SOFT)
        result = inconsistency(case.pdg, case.attention)
        rows = result.by_arc(saved=False)
        assert [r.name for r in rows] == [a.name for a in case.pdg.arcs]
        assert sum(r.contribution for r in rows) == pytest.approx(result.upper, abs=1e-5 * max(1.0, result.upper))
        for r in rows:
            assert r.beta == case.attention.beta[r.name] and r.saved_if_dropped is None
            assert r.contribution == pytest.approx(r.beta * r.divergence) and r.divergence >= 0


@pytest.mark.parametrize("style", [SOFT, Style(gammas=(0.3, 1.0)), Style(hard=0.3, zeros=0.1)])
def test_what_dropping_an_arc_saves_is_the_difference_of_two_solves(style: Style):
    for seed in range(10):
        case = random_case(seed, style)
        result = inconsistency(case.pdg, case.attention)
        for row in result.by_arc():
            without = inconsistency(case.pdg, case.attention.without(row.name))
            expected = result.upper - without.upper
            assert row.saved_if_dropped == pytest.approx(expected, abs=1e-7 * max(1.0, abs(result.upper)))


def test_at_gamma_zero_dropping_saves_at_least_the_contribution():
    """Without the arc the old mu still costs the rest: value - contribution, and the new optimum is no more."""
    for seed in range(15):
        case = random_case(seed, SOFT)
        result = inconsistency(case.pdg, case.attention)
        for row in result.by_arc():
            assert row.saved_if_dropped >= row.contribution - 1e-5 * max(1.0, result.upper)


def test_blame_in_closed_form():
    mean = np.sqrt(P * Q) / np.sqrt(P * Q).sum()
    rows = {r.name: r for r in inconsistency(rivals()).by_arc()}
    for name, p in (("p", P), ("q", Q)):
        assert rows[name].divergence == pytest.approx(float((mean * np.log(mean / p)).sum()), abs=1e-6)
        assert rows[name].saved_if_dropped == pytest.approx(CLOSED, abs=1e-7)


def test_an_unattended_arc_is_listed_and_innocent():
    result = inconsistency(rivals() + Arc("r", (), X, [0.5, 0.5]), Attention.only({"p": 1.0, "q": 1.0}))
    row = result.by_arc()[2]
    assert (row.name, row.beta, row.contribution, row.saved_if_dropped) == ("r", 0, 0, 0) and row.divergence > 0


def test_dropping_an_arc_that_is_believed_never_costs_anything():
    for seed in range(10):
        case = random_case(seed, SOFT)
        for row in inconsistency(case.pdg, case.attention).by_arc():
            assert row.saved_if_dropped is not None and row.saved_if_dropped >= 0


def test_a_hard_arc_has_no_divergence_but_may_save_a_lot():
    rows = {r.name: r for r in inconsistency(rivals(), Attention.only({"p": inf, "q": 1.0})).by_arc()}
    kl = float((P * np.log(P / Q)).sum())
    assert rows["p"].divergence == rows["p"].contribution == 0
    assert rows["p"].saved_if_dropped == pytest.approx(kl, abs=1e-7)
    assert rows["q"].contribution == pytest.approx(kl, abs=1e-7)


def test_dropping_either_side_of_one_contradiction_saves_everything_of_two_nothing():
    point = PDG(Arc("no", (), X, PointMass("no")), Arc("yes", (), X, PointMass("yes")), Arc("p", (), X, P))
    saved = {r.name: r.saved_if_dropped for r in inconsistency(point).by_arc()}
    assert saved == {"no": inf, "yes": inf, "p": 0}
    two = point + PDG(Arc("z0", (), Z, PointMass(0)), Arc("z1", (), Z, PointMass(1)))
    rows = inconsistency(two).by_arc()
    assert all(r.saved_if_dropped == 0 for r in rows)
    assert all(math.isnan(r.divergence) for r in rows)


def test_progress_is_reported():
    seen = []
    inconsistency(rivals()).by_arc(progress=lambda done, total: seen.append((done, total)))
    assert seen and seen[-1] == (2, 2)


# -- learning ----------------------------------------------------------------------------------------------------------


def test_adam_lowers_the_inconsistency_to_zero():
    rng = np.random.default_rng(0)
    pdg = PDG(
        Arc("x", (), X, SoftmaxTable(rng.dirichlet(np.ones(2)))),
        Arc("xy", X, Y, SoftmaxTable(rng.dirichlet(np.ones(3), size=2))),
        Arc("y", (), Y, [0.5, 0.2, 0.3]),
        Arc("yx", Y, X, SoftmaxTable(rng.dirichlet(np.ones(2), size=3))),
    )
    before = inconsistency(pdg).lower
    optimiser = torch.optim.Adam(pdg.parameters(), lr=0.1)
    for _ in range(120):
        optimiser.zero_grad()
        result = inconsistency(pdg)
        result.value.backward()
        optimiser.step()
    assert before > 0.05 and inconsistency(pdg).upper < 1e-4
    np.testing.assert_allclose(pdg["y"].cpd.table(), [0.5, 0.2, 0.3])


def test_a_hard_arc_can_be_trained_too():
    pdg = PDG(Arc("p", (), Y, SoftmaxTable([0.8, 0.1, 0.1])), Arc("q", (), Y, [0.2, 0.3, 0.5]))
    optimiser = torch.optim.Adam(pdg.parameters(), lr=0.1)
    for _ in range(100):
        optimiser.zero_grad()
        inconsistency(pdg, Attention.only({"p": inf, "q": 1.0})).value.backward()
        optimiser.step()
    np.testing.assert_allclose(pdg["p"].cpd.table().detach(), [0.2, 0.3, 0.5], atol=1e-2)


@pytest.mark.parametrize("family", [SoftmaxTable, SimplexTable])
def test_the_value_is_a_loss_like_any_other(family):
    pdg = PDG(Arc("p", (), X, family(P)), Arc("q", (), X, Q))
    scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    (scale * inconsistency(pdg).value).backward()
    assert float(scale.grad) == pytest.approx(CLOSED, abs=1e-7)
    assert next(pdg.parameters()).grad.abs().max() > 0.1


def test_only_what_requires_grad_gets_one():
    pdg = PDG(Arc("p", (), X, SoftmaxTable(P)), Arc("q", (), X, SoftmaxTable(Q)))
    pdg["q"].cpd.requires_grad_(False)
    inconsistency(pdg).value.backward()
    assert pdg["p"].cpd.logits.grad is not None and pdg["q"].cpd.logits.grad is None
