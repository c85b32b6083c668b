"""Tables of any shape become arcs: by their labels, never by their order, and what is odd about them is said."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dissonance import PDG, Arc, DissonanceError, Variable, from_pandas, inconsistency
from dissonance.bp import belief_propagation
from dissonance.cpds import Empirical, Factor, SimplexTable, SoftmaxTable, Table
from dissonance.evidence import Likelihood, Report, condition
from dissonance.instances import DecisionProblem

pd = pytest.importorskip("pandas")

JOINT = {("young", "no"): 0.1, ("young", "yes"): 0.2, ("old", "no"): 0.3, ("old", "yes"): 0.4}
LONG = pd.DataFrame([(*k, p) for k, p in JOINT.items()], columns=["Age", "Buys", "p"])
COUNTS = LONG.assign(p=[10, 20, 30, 41]).rename(columns={"p": "count"})

MARKED = pd.DataFrame(
    {"given Age": ["old", "old", "young", "young"], "Buys": ["yes", "no", "yes", "no"], "p": [0.6, 0.4, 0.3, 0.7]}
)
ROWS = pd.DataFrame({"Age": ["old"] * 5 + ["young"] * 10, "Buys": ["yes"] * 3 + ["no"] * 9 + ["yes"] * 3})


def cell(arc: Arc, **setting: str) -> float:
    """What the arc's table has at a setting, found by its labels."""
    at = tuple(v.finite.index(setting[v.name]) for v in arc.scope)
    return float(arc.cpd.table()[at])


@pytest.mark.parametrize(
    "table",
    [
        JOINT,
        {"young": {"no": 0.1, "yes": 0.2}, "old": {"no": 0.3, "yes": 0.4}},
        LONG,
        LONG.sample(frac=1, random_state=1),
        LONG.rename(columns={"p": "share"}),
        LONG.assign(p=LONG["p"] * 100).rename(columns={"p": "percent"}),
        LONG.set_index(["Age", "Buys"])["p"],
        LONG.pivot(index="Age", columns="Buys", values="p"),
        LONG.pivot(index="Buys", columns="Age", values="p"),
    ],
)
def test_a_joint_table_of_any_shape_is_the_same_arc(table: Any):
    arc = Arc.from_table("survey", table, of=["Age", "Buys"])
    assert not arc.sources and arc.beta == 1.0 and arc.counts is None
    for (age, buys), p in JOINT.items():
        assert cell(arc, Age=age, Buys=buys) == pytest.approx(p)


@pytest.mark.parametrize(
    ("table", "options"),
    [
        ({"young": {"no": 0.7, "yes": 0.3}, "old": {"yes": 0.6, "no": 0.4}}, {"given": "Age", "of": "Buys"}),
        (pd.DataFrame({"Age": ["old", "young"], "Buys=yes": [0.6, 0.3], "Buys=no": [0.4, 0.7]}), {}),
        (pd.DataFrame({"Age": ["old", "young"], "yes": [0.6, 0.3], "no": [0.4, 0.7]}), {"of": "Buys"}),
        (MARKED, {}),
        (pd.crosstab(ROWS["Age"], ROWS["Buys"], normalize="index"), {}),
        (pd.crosstab(ROWS["Buys"], ROWS["Age"], normalize="columns"), {}),
    ],
)
def test_rows_or_columns_that_sum_to_one_are_given_what_is_along_them(table: Any, options: dict[str, Any]):
    arc = Arc.from_table("study", table, **options)
    assert arc.source_names == ("Age",) and arc.target_names == ("Buys",)
    assert cell(arc, Age="old", Buys="yes") == pytest.approx(0.6)
    assert cell(arc, Age="young", Buys="no") == pytest.approx(0.7)


def test_counts_are_frequencies_believed_as_much_as_they_are_many():
    arc = Arc.from_table("survey", COUNTS)
    assert arc.beta == 101.0 and cell(arc, Age="old", Buys="yes") == pytest.approx(41 / 101)
    given = Arc.from_table("survey", COUNTS, given="Age", confidence=3.0)
    assert given.beta == 3.0 and cell(given, Age="young", Buys="no") == pytest.approx(1 / 3)
    assert given.counts is not None and float(given.counts.sum()) == 101.0
    smooth = Arc.from_table("survey", COUNTS, of="Age", pseudocount=1.0)
    assert cell(smooth, Age="young") == pytest.approx(31 / 103)
    sized = Arc.from_table("poll", {"no": 0.25, "yes": 0.75}, of="Buys", counts=200)
    assert sized.beta == 200.0 and sized.counts is not None and sized.counts.tolist() == [50.0, 150.0]


def test_rows_of_data_and_weights_are_counted():
    rows = pd.DataFrame({"Age": ["old", "old", "young", None], "Buys": ["yes", "no", "no", "no"]})
    arc = Arc.from_table("data", rows)
    assert arc.beta == 3.0 and cell(arc, Age="old", Buys="no") == pytest.approx(1 / 3)
    weighted = Arc.from_table("data", rows.dropna().assign(w=[1.5, 0.5, 2.0]), values="w", counts=True)
    assert weighted.beta == 4.0 and cell(weighted, Age="young", Buys="no") == 0.5
    values = Arc.from_table("data", rows["Buys"].value_counts())
    assert values.beta == 4.0 and cell(values, Buys="no") == 0.75
    part = Arc.from_table("data", COUNTS, of="Buys")
    assert part.target_names == ("Buys",) and cell(part, Buys="no") == pytest.approx(40 / 101)


def test_from_pandas_takes_what_from_table_takes():
    arc = from_pandas("survey", COUNTS, given="Age")
    assert arc.source_names == ("Age",) and arc.beta == 101.0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Arc.from_table("x", {"a": 0.5, "b": 0.5}), "does not say of which variable: give of='...'"),
        (lambda: Arc.from_table("x", [0.5, 0.5], of="A"), "expected a table with labels"),
        (lambda: Arc.from_table("x", {"a": 0.5, "b": 0.4}, of="A"), "the numbers sum to 0.9, not 1"),
        (lambda: Arc.from_table("x", {"a": 40, "b": 60}, of="A"), "the numbers sum to 100: say counts=True"),
        (lambda: Arc.from_table("x", {"a": -0.1, "b": 1.1}, of="A"), "cell 1 is -0.1"),
        (lambda: Arc.from_table("x", {"a": "half", "b": 0.5}, of="A"), "'half', in cell 1, is not a number"),
        (lambda: Arc.from_table("x", LONG, given="Agee"), "no variable 'Agee'. Did you mean 'Age'?"),
        (lambda: Arc.from_table("x", LONG, values="q"), "no column headed 'q'"),
        (lambda: Arc.from_table("x", LONG, given=["Age", "Buys"]), "every variable is given"),
        (lambda: Arc.from_table("x", pd.concat([LONG, LONG[:1]])), "the cell Age=young, Buys=no is there twice"),
        (lambda: Arc.from_table("x", LONG, pseudocount=1.0), "a pseudocount goes with counts"),
        (lambda: Arc.from_table("x", {"a": 0, "b": 0, "c": 0}, of="A", counts=True), "nothing is said"),
        (
            lambda: Arc.from_table("x", pd.crosstab(LONG["Age"], LONG["Buys"], margins=True)),
            "Age=All is the sum of the other values of 'Age': leave the totals out",
        ),
        (lambda: Arc.from_table("x", {"yes": 0.5, "noo": 0.5}, of=Variable("A", ["no", "yes"])), "Did you mean 'no'?"),
    ],
)
def test_what_cannot_be_a_belief_is_refused_in_one_line(make: Callable[[], Arc], said: str):
    with pytest.raises(DissonanceError) as error:
        make()
    assert said in str(error.value) and "\n" not in str(error.value)


def test_adding_aligns_labels_and_merges_domains(caplog: pytest.LogCaptureFixture):
    first = PDG().add("a", {"yes": 0.2, "no": 0.8}, of="Rain")
    same = first.add("b", {"no": 0.8, "yes": 0.2}, of="Rain")
    assert inconsistency(same).upper < 1e-9
    with caplog.at_level(logging.WARNING, "dissonance"):
        wider = first.add("c", {"no": 0.5, "yes": 0.3, "snow": 0.2}, of="Rain")
    assert wider.variable("Rain").finite.labels == ("yes", "no", "snow")
    assert wider["a"].cpd.table().tolist() == [0.2, 0.8, 0.0]
    assert "a: Rain=snow is not among its values" in caplog.text
    with pytest.raises(DissonanceError, match=r"'Rain' has no value 'Yes' elsewhere. Did you mean 'yes'\?"):
        first.add("d", {"Yes": 0.5, "no": 0.5}, of="Rain")
    asked = first.add("e", {"yes": {"wet": 1.0, "dry": 0.0}, "no": {"wet": 0.1, "dry": 0.9}}, given="Rain", of="Grass")
    with pytest.raises(DissonanceError, match="says nothing about Rain=snow"):
        asked.add("c", {"no": 0.5, "yes": 0.3, "snow": 0.2}, of="Rain")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"yes": 0.2, "Yes": 0.1, "no": 0.7}, "no value 'Yes' elsewhere. Did you mean 'yes'?"),
        ({"yes ": 0.3, "no": 0.7}, "no value 'yes ' elsewhere. Did you mean 'yes'?"),
        ({"yess": 0.3, "no": 0.7}, "no value 'yess' elsewhere. Did you mean 'yes'?"),
        ({"No": 0.7, "Yes": 0.3}, "no value 'No' elsewhere. Did you mean 'no'?"),
        ({"y": 0.3, "n": 0.7}, "shares no value with others: y, n here, yes, no there."),
    ],
)
def test_a_label_that_is_near_a_known_one_is_an_error_unless_it_was_declared(table: dict[str, float], said: str):
    first = {"yes": 0.2, "no": 0.8}
    with pytest.raises(DissonanceError) as error:
        PDG().add("a", first, of="Rain").add("b", table, of="Rain")
    assert said in str(error.value)
    assert "declare 'Rain' with all of them first: PDG(variables=[Variable(...)])" in str(error.value)
    rain = Variable("Rain", (*first, *(x for x in table if x not in first)))
    declared = PDG(variables=[rain]).add("a", first, of="Rain").add("b", table, of="Rain")
    assert declared["b"].cpd.table().tolist() == [table.get(str(x), 0.0) for x in rain.finite.labels]


def test_labels_that_differ_in_their_digits_are_different_values():
    years = PDG().add("a", {"2019": 0.5, "2020": 0.5}, of="Year").add("b", {"2020": 0.5, "2021": 0.5}, of="Year")
    assert years.variable("Year").finite.labels == ("2019", "2020", "2021")


def test_a_value_that_a_table_lacks_is_said_once(caplog: pytest.LogCaptureFixture):
    PDG().add("a", {"yes": 30, "no": 90}, of="Rain").add("b", {"yes": 0.2, "no": 0.5, "snow": 0.3}, of="Rain")
    assert caplog.text.count("Rain=snow") == 1


def test_two_samples_compromise_at_the_geometric_mean_and_not_at_the_pool():
    small = Arc.from_table("small", {"no": 160, "yes": 40}, of="X")
    large = Arc.from_table("large", {"no": 990, "yes": 10}, of="X")
    mu = inconsistency(PDG(small, large)).mu["X"]
    logs = torch.stack([small.cpd.table().log() * 200, large.cpd.table().log() * 1000]).sum(0) / 1200
    assert mu["yes"] == pytest.approx(float(torch.softmax(logs, 0)[1]), abs=1e-8)
    assert mu["yes"] == pytest.approx(0.017, abs=5e-4)


X, TURNED = Variable("X", 2), pd.Series([0.9, 0.1], index=pd.Index([1, 0], name="X"))
BY_POSITION: dict[str, Callable[[], object]] = {
    "an arc": lambda: Arc("a", (), X, TURNED),
    "a conditional arc": lambda: Arc("a", X, Variable("Y", 2), pd.DataFrame({1: [0.9, 0.2], 0: [0.1, 0.8]})),
    "rows": lambda: Arc("a", X, Variable("Y", 2), [TURNED, TURNED]),
    "a table": lambda: Table(TURNED),
    "a softmax table": lambda: SoftmaxTable(TURNED),
    "logits": lambda: SoftmaxTable(logits=TURNED),
    "a simplex table": lambda: SimplexTable(TURNED),
    "a factor": lambda: Factor(TURNED),
    "rows of data": lambda: Arc("a", (), Variable("Y", ["u", "v"]), Empirical(pd.DataFrame({"u": [0], "v": [1]}))),
    "counts": lambda: Arc("a", (), X, [0.5, 0.5], counts=TURNED),  # pyright: ignore[reportArgumentType]
    "a report": lambda: condition(PDG(Arc("a", (), X, [0.5, 0.5])), Report("X", TURNED)),
    "a likelihood": lambda: condition(PDG(Arc("a", (), X, [0.5, 0.5])), Likelihood("X", TURNED)),
    "utilities": lambda: DecisionProblem([0.5, 0.5], [[[1.0, 0.0]], [[0.0, 1.0]]], TURNED),  # pyright: ignore
    "a message": lambda: belief_propagation({"a": (X, TURNED)}),
}


@pytest.mark.parametrize("make", BY_POSITION.values(), ids=BY_POSITION)
def test_labels_are_not_passed_over_where_arrays_go_by_position(make: Callable[[], object]):
    with pytest.raises(DissonanceError, match="from_table"):
        make()


def test_a_series_goes_by_its_labels_or_as_an_array():
    assert Arc.from_table("a", TURNED, variables=[X]).cpd.table().tolist() == [0.1, 0.9]
    assert Arc("a", (), X, TURNED.to_numpy()).cpd.table().tolist() == [0.9, 0.1]
