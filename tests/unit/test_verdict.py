"""Who disagrees most, in a sentence; blame by cell; labelled answers; asking the compromise."""

from __future__ import annotations

import logging
import math

import pytest

from dissonance import PDG, Arc, Factor, Variable, inconsistency, query
from dissonance.lir import lir
from dissonance.lir.moved import moved_rows, restored

SURVEYS = (
    PDG()
    .add("survey_1", {"no": 0.77, "yes": 0.23}, of="Buys")
    .add("survey_2", {"no": 0.59, "yes": 0.41}, of="Buys")
    .add("survey_3", {"yes": 0.24, "no": 0.76}, of="Buys")
)


def test_the_one_to_blame_is_named_with_what_it_says_and_what_the_others_make_of_it():
    said = inconsistency(SURVEYS).verdict()
    assert said == "survey_2 disagrees most: it says Buys=yes 41 % where the others make it 23.5 %."


def test_two_that_disagree_are_both_named():
    said = inconsistency(SURVEYS.without("survey_3")).verdict()
    assert said.startswith("survey_2 and survey_1 disagree: survey_2 says Buys=yes 41 %, survey_1 makes it 23 %")


def test_nobody_is_blamed_where_nothing_is_inconsistent():
    pdg = SURVEYS.subgraph("survey_1")
    assert inconsistency(pdg).verdict() == "Nobody disagrees: the beliefs fit together."


def test_an_outright_contradiction_names_its_zeros():
    pdg = PDG().add("a", {"no": 1.0, "yes": 0.0}, of="X").add("b", {"no": 0.0, "yes": 1.0}, of="X")
    said = inconsistency(pdg.add("c", {"no": 0.5, "yes": 0.5}, of="X")).verdict()
    assert "a gives X=yes probability 0; b gives X=no probability 0" in said and "pseudocount" in said


def test_cells_add_up_to_what_their_arcs_contribute_and_say_what_was_claimed():
    result = inconsistency(SURVEYS)
    cells = result.by_cell()
    assert [c.contribution for c in cells] == sorted((c.contribution for c in cells), reverse=True)
    for row in result.by_arc(saved=False):
        assert sum(c.contribution for c in cells if c.arc == row.name) == pytest.approx(row.contribution, abs=1e-12)
    first = result.by_cell(1)[0]
    assert (first.arc, first.value, first.given, first.claimed) == ("survey_2", {"Buys": "yes"}, {}, 0.41)
    assert first.reconciled == pytest.approx(result.mu["Buys"]["yes"])


def test_answers_have_labels():
    study = {"no": {"young": 0.3, "old": 0.7}, "yes": {"young": 0.6, "old": 0.4}}
    pdg = SURVEYS.add("study", study, given="Buys", of="Age")
    result = inconsistency(pdg)
    assert set(result.mu["Age"]) == {"young", "old"} and sum(result.mu["Age"].values()) == pytest.approx(1)
    assert "Buys: no" in repr(result.mu)
    young = result.mu.conditional("Age", given={"Buys": "yes"})
    assert young.tolist() == pytest.approx([0.6, 0.4], abs=1e-7)
    asked = result.query(given={"Buys": "yes"})
    assert asked["Age"]["young"] == pytest.approx(0.6, abs=1e-7) and "Age: young 0.6000" in repr(asked)
    pd = pytest.importorskip("pandas")
    frame = result.mu.frame("Age", "Buys")
    assert isinstance(frame, pd.DataFrame) and list(frame.columns) == ["no", "yes"]
    assert frame.loc["young", "yes"] == pytest.approx(0.6 * result.mu["Buys"]["yes"], abs=1e-7)
    assert list(result.to_frame()["name"]) == ["survey_1", "survey_2", "survey_3", "study"]


def test_a_query_of_two_arcs_about_one_target_warns(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "dissonance"):
        query(SURVEYS)
    assert "survey_1 and survey_2 both speak of Buys" in caplog.text and ".query(" in caplog.text
    caplog.clear()
    x, y = Variable("X", 2), Variable("Y", 2)
    with caplog.at_level(logging.WARNING, "dissonance"):
        query(PDG(Arc("f", (), (x, y), Factor([[1, 2], [3, 4]])), Arc("g", (), y, Factor([1, 2]))))
        query(PDG.from_bayesian_network({x: ((), [0.5, 0.5]), y: ([x], [[0.1, 0.9], [0.5, 0.5]])}), {"X": 0})
        inconsistency(SURVEYS).query({"Buys": "yes"})
    assert not caplog.text


def test_rows_that_did_not_move_come_back_bit_for_bit():
    pdg = SURVEYS.add("aside", {"a": 1 / 3, "b": 2 / 3}, of="Other")
    joint = {("u", 0): 0.1, ("u", 1): 0.2, ("v", 0): 0.3, ("v", 1): 0.4}
    pdg = pdg.add("joint", joint, of=["Y", "Z"]).add("margin", {"u": 0.3, "v": 0.7}, of="Y")
    run = lir(pdg.learnable(), steps=20, progress=False)
    after = restored(pdg, run.pdg)
    assert all(after[name] is pdg[name] for name in ("aside", "joint", "margin"))
    moved = moved_rows(pdg, after)
    assert {m.arc for m in moved} == {"survey_1", "survey_2", "survey_3"} and moved[0].arc == "survey_2"
    (no, was, now), _ = moved[0].changes
    assert (no, was) == ("no", 0.59) and now > was
    assert math.isclose(moved[0].distance, abs(now - was))
