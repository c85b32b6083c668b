"""Soft evidence: Jeffrey's rule, virtual evidence, I-projections, and reports in conflict."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dissonance import PDG, Attention, DissonanceError, Report, Variable, condition, inconsistency, query
from dissonance.evidence import Likelihood
from reference import ipf

inf = math.inf
Rain = Variable("Rain", ["no", "yes"])
Sprinkler = Variable("Sprinkler", ["off", "on"])
Grass = Variable("Grass", ["dry", "damp", "wet"])
RAIN = np.array([0.8, 0.2])
SPRINKLER = np.array([[0.6, 0.4], [0.9, 0.1]])
GRASS = np.array([[[0.9, 0.08, 0.02], [0.1, 0.3, 0.6]], [[0.1, 0.3, 0.6], [0.01, 0.09, 0.9]]])
GARDEN = PDG.from_bayesian_network(
    {Rain: ((), RAIN), Sprinkler: ([Rain], SPRINKLER), Grass: ([Sprinkler, Rain], GRASS)}
)
JOINT = np.einsum("r,rs,srg->rsg", RAIN, SPRINKLER, GRASS)


def posterior(updated) -> np.ndarray:
    return updated.marginal("Rain", "Sprinkler", "Grass").numpy()


def kl(p: np.ndarray, q: np.ndarray) -> float:
    return float((p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum())


def test_a_label_is_plain_evidence():
    updated, exact = condition(GARDEN, {"Grass": "wet"}), query(GARDEN, {"Grass": "wet"})
    for name, marginal in exact.marginals.items():
        assert updated.marginals[name].tolist() == pytest.approx(marginal.tolist(), abs=1e-12)
    assert updated.upper == pytest.approx(-float(exact.log_partition), abs=1e-9)
    assert updated.lower <= -float(exact.log_partition) <= updated.upper
    assert updated.probability({"Rain": "yes", "Grass": "wet"}) == pytest.approx(float(exact.marginals["Rain"][1]))


def test_a_certain_report_on_one_variable_is_jeffreys_rule():
    r = np.array([0.2, 0.3, 0.5])
    updated = condition(GARDEN, {"Grass": r})
    before = JOINT.sum((0, 1))
    assert posterior(updated) == pytest.approx(JOINT / before * r, abs=1e-8)
    assert updated.upper == pytest.approx(kl(r, before), abs=1e-7)


def test_jeffreys_rule_with_one_value_certain_is_conditioning():
    sure = condition(GARDEN, {"Grass": [0.0, 0.0, 1.0]})
    assert posterior(sure) == pytest.approx(posterior(condition(GARDEN, {"Grass": "wet"})), abs=1e-8)


@pytest.mark.parametrize("confidence", [0.1, 1.0, 7.0])
def test_confidence_interpolates_geometrically_between_the_model_and_the_report(confidence: float):
    r = np.array([0.6, 0.3, 0.1])
    before = JOINT.sum((0, 1))
    m = before ** (1 / (1 + confidence)) * r ** (confidence / (1 + confidence))
    updated = condition(GARDEN, Report("Grass", r, confidence))
    assert posterior(updated) == pytest.approx(JOINT / before * m / m.sum(), abs=1e-7)
    assert updated.upper == pytest.approx(-(1 + confidence) * math.log(m.sum()), abs=1e-7)


def test_a_report_of_little_confidence_is_ignored_and_one_of_much_is_obeyed():
    r = [0.1, 0.1, 0.8]
    assert posterior(condition(GARDEN, Report("Grass", r, 1e-8))) == pytest.approx(JOINT, abs=1e-7)
    much, obeyed = condition(GARDEN, Report("Grass", r, 1e6)), condition(GARDEN, {"Grass": r})
    assert posterior(much) == pytest.approx(posterior(obeyed), abs=1e-5)
    assert much.upper <= obeyed.upper + 1e-9


def test_several_certain_reports_are_the_fixed_point_of_iterative_proportional_fitting():
    grass, rain = np.array([0.3, 0.3, 0.4]), np.array([0.45, 0.55])
    both = np.array([[0.3, 0.25], [0.3, 0.15]])
    updated = condition(GARDEN, {"Grass": grass}, {"Rain": rain}, Report("Sprinkler", [0.7, 0.3]))
    fitted = ipf.fit(JOINT, [((2,), grass), ((0,), rain), ((1,), np.array([0.7, 0.3]))])
    assert posterior(updated) == pytest.approx(fitted, abs=1e-7)
    assert updated.lower - 1e-9 <= kl(fitted, JOINT) <= updated.upper + 1e-9
    pair = condition(GARDEN, Report(["Sprinkler", "Rain"], both), {"Grass": grass})
    assert posterior(pair) == pytest.approx(ipf.fit(JOINT, [((1, 0), both), ((2,), grass)]), abs=1e-7)


def test_a_certain_conditional_report_makes_surprising_conditions_less_probable():
    """The I-projection onto mu(T|S) = r has mu(s) ~ p(s) exp -KL(r(.|s) || p(.|s)): Judy Benjamin's problem."""
    table = np.array([[0.2, 0.8], [0.5, 0.5]])
    updated = condition(GARDEN, Report("Sprinkler", table, given="Rain"))
    surprise = np.array([kl(table[r], SPRINKLER[r]) for r in range(2)])
    rain = RAIN * np.exp(-surprise)
    expected = np.einsum("r,rs,srg->rsg", rain / rain.sum(), table, GRASS)
    assert posterior(updated) == pytest.approx(expected, abs=1e-7)
    assert updated.upper == pytest.approx(-math.log(rain.sum()), abs=1e-7)
    held = condition(GARDEN, Report("Sprinkler", table, given="Rain"), {"Rain": RAIN})
    assert posterior(held) == pytest.approx(np.einsum("r,rs,srg->rsg", RAIN, table, GRASS), abs=1e-7)


def test_a_likelihood_is_virtual_evidence():
    ratios = np.array([1.0, 2.0, 6.0])
    updated = condition(GARDEN, Likelihood("Grass", ratios))
    tilted = JOINT * ratios
    assert posterior(updated) == pytest.approx(tilted / tilted.sum(), abs=1e-12)
    assert updated.upper == pytest.approx(-math.log(tilted.sum() / 6), abs=1e-9)
    scaled = condition(GARDEN, Likelihood("Grass", 0.1 * ratios))
    assert scaled.upper == pytest.approx(updated.upper, abs=1e-9)
    jeffrey = condition(GARDEN, {"Grass": updated.marginals["Grass"]})
    assert posterior(jeffrey) == pytest.approx(posterior(updated), abs=1e-7)  # every likelihood is some report


def test_the_confidence_of_a_likelihood_is_how_often_it_was_observed():
    ratios = [1.0, 2.0, 6.0]
    thrice = condition(GARDEN, *[Likelihood("Grass", ratios)] * 3)
    once = condition(GARDEN, Likelihood("Grass", ratios, 3.0))
    assert posterior(thrice) == pytest.approx(posterior(once), abs=1e-12)
    assert thrice.upper == pytest.approx(once.upper, abs=1e-9)
    assert [r.name for r in thrice.reports] == [f"likelihood of Grass{x}" for x in ("", " (2)", " (3)")]


def test_pyagrum_agrees_about_virtual_evidence():
    gum = pytest.importorskip("pyagrum")
    bn = gum.fastBN("Rain[2]->Sprinkler[2]->Grass[3]<-Rain")
    bn.cpt("Rain").fillWith(RAIN.tolist())
    for r in range(2):
        bn.cpt("Sprinkler")[{"Rain": r}] = SPRINKLER[r].tolist()
        for s in range(2):
            bn.cpt("Grass")[{"Rain": r, "Sprinkler": s}] = GRASS[s, r].tolist()
    engine = gum.LazyPropagation(bn)
    engine.setEvidence({"Grass": [0.1, 0.4, 0.9], "Sprinkler": [0.3, 0.5]})
    engine.makeInference()
    updated = condition(GARDEN, Likelihood("Grass", [0.1, 0.4, 0.9]), Likelihood("Sprinkler", [0.3, 0.5]))
    for name in ("Rain", "Sprinkler", "Grass"):
        assert updated.marginals[name].tolist() == pytest.approx(engine.posterior(name).tolist(), abs=1e-12)


def test_witnesses_in_conflict_are_reconciled_by_their_confidence():
    one, other = [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]
    even = condition(GARDEN, Report("Grass", one, 50.0), Report("Grass", other, 50.0)).marginals["Grass"]
    assert float(even[0]) == pytest.approx(float(even[2]), abs=0.02)
    uneven = condition(GARDEN, Report("Grass", one, 50.0), Report("Grass", other, 5.0)).marginals["Grass"]
    assert float(uneven[0]) > 0.6 > 0.2 > float(uneven[2])


def test_the_odd_one_out_is_to_blame():
    updated = condition(
        GARDEN,
        Report("Grass", [0.7, 0.2, 0.1], 3.0, name="Ann"),
        Report("Grass", [0.65, 0.25, 0.1], 3.0, name="Bob"),
        Report("Grass", [0.05, 0.05, 0.9], 3.0, name="Eve"),
        {"Rain": [0.7, 0.3]},
    )
    blame = {r.name: r for r in updated.reports}
    assert max(blame, key=lambda n: blame[n].saved) == "Eve" == max(blame, key=lambda n: blame[n].contribution)
    assert blame["report on Rain"].divergence == 0 < blame["report on Rain"].saved
    mu = posterior(updated)
    cost = kl(mu, JOINT) + sum(r.contribution for r in updated.reports)
    assert updated.lower - 1e-6 <= cost <= updated.upper + 1e-6
    alone = [
        condition(
            GARDEN, *(Report("Grass", b, 3.0) for b in ([0.7, 0.2, 0.1], [0.65, 0.25, 0.1])), {"Rain": [0.7, 0.3]}
        )
    ]
    assert blame["Eve"].saved == pytest.approx(updated.upper - alone[0].upper, abs=1e-6)
    lines = repr(updated).splitlines()
    assert lines[0].startswith("Updated(4 reports") and len(lines) == 6 and lines[4].lstrip().startswith("Eve")


def test_what_is_reported_agrees_with_the_model_costs_nothing():
    updated = condition(GARDEN, {"Grass": JOINT.sum((0, 1))}, Report("Rain", RAIN, 3.0))
    assert updated.upper == pytest.approx(0.0, abs=1e-7)
    assert posterior(updated) == pytest.approx(JOINT, abs=1e-6)


def test_a_factor_graph_is_conditioned_relative_to_itself():
    x, y = Variable("X", 2), Variable("Y", 3)
    phi = np.array([[3.0, 1.0, 2.0], [0.5, 4.0, 1.0]])
    graph = PDG.from_factor_graph([((x, y), phi), ((y,), [1.0, 2.0, 0.5])])
    p = phi * [1.0, 2.0, 0.5]
    p /= p.sum()
    updated = condition(graph, {"X": [0.5, 0.5]})
    assert updated.marginal("X", "Y").numpy() == pytest.approx(p / p.sum(1, keepdims=True) / 2, abs=1e-8)
    assert updated.upper == pytest.approx(kl(np.array([0.5, 0.5]), p.sum(1)), abs=1e-7)
    assert inconsistency(graph, Attention.uniform(graph, gamma=1.0)).upper > 0.1  # which is not part of it


def test_beliefs_may_be_given_by_label():
    by_label = condition(GARDEN, {"Grass": {"wet": 0.5, "dry": 0.5}})
    assert by_label.marginals["Grass"].tolist() == pytest.approx([0.5, 0.0, 0.5], abs=1e-8)
    together = condition(GARDEN, Report(("Rain", "Grass"), ("yes", "wet")))
    assert posterior(together) == pytest.approx(
        posterior(condition(GARDEN, {"Rain": "yes", "Grass": "wet"})), abs=1e-12
    )
    assert together.reports[0].name == "Rain=yes, Grass=wet"


@pytest.mark.parametrize(
    ("reports", "message"),
    [
        ([{"Gras": "wet"}], "no variable named 'Gras'. Did you mean 'Grass'"),
        ([{"Grass": [0.5, 0.5]}], r"report on Grass.*shape \(2,\).*needs \(3,\)"),
        ([{"Grass": [-0.5, 0.5, 1.0]}], "negative number -0.5"),
        ([{"Grass": [0.5, 0.2, 0.2]}], "sums to 0.9"),
        ([{"Grass": "soaked"}], "no value 'soaked'"),
        ([{"Grass": {"soaked": 1.0}}], "no value 'soaked'"),
        ([Report("Grass", [0.2, 0.3, 0.5], 0.0)], "report on Grass has confidence 0"),
        ([Report("Grass", [0.2, 0.3, 0.5], -1.0)], "must be positive"),
        ([Report("Grass", [0.2, 0.3, 0.5], math.nan)], "must be positive"),
        ([Likelihood("Grass", [0.2, -0.3, 0.5])], "likelihood of Grass.*non-negative"),
        ([Likelihood("Grass", [0.2, 0.3, 0.5], inf)], "finite confidence"),
        ([Report(("Rain", "Grass"), {"yes": 1.0})], "an array, not a mapping"),
        ([{"Grass": [0.2, 0.3, 0.5]}, {"Rain": [0.5, 0.5], "Grass": [0.3, 0.2, 0.5]}],
         r"^'report on Grass' and 'report on Grass \(2\)' contradict each other"),
        ([{"Rain": "yes"}, Report("Rain", [0.9, 0.1], name="radio")], "^'Rain=yes' and 'radio' contradict"),
    ],
)  # fmt: skip
def test_a_wrong_report_is_refused_in_a_line(reports: list, message: str):
    with pytest.raises(DissonanceError, match=message) as caught:
        condition(GARDEN, *reports)
    assert "\n" not in str(caught.value)


def test_what_the_model_excludes_cannot_be_reported():
    x, y = Variable("X", 2), Variable("Y", 2)
    copy = PDG.from_bayesian_network({x: ((), [0.5, 0.5]), y: ([x], [[1.0, 0.0], [0.0, 1.0]])})
    with pytest.raises(DissonanceError, match=r"^'X=0' and 'Y=1' contradict"):
        condition(copy, {"X": 0}, {"Y": 1}, Report("Y", [0.5, 0.5], 1.0))
    never = PDG.from_bayesian_network({x: ((), [1.0, 0.0])})
    with pytest.raises(DissonanceError, match="'X=1' contradicts the model"):
        condition(never, {"X": 1})
    with pytest.raises(DissonanceError, match="impossible before anything is reported"):
        condition(PDG.from_factor_graph([((x,), [1.0, 0.0]), ((x,), [0.0, 1.0])]), {"X": 1})
