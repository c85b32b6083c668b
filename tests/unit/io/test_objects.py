"""PDGs as objects of pgmpy, networkx and pandas, and back."""

from __future__ import annotations

import gzip
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from networks import BIF, NETWORKS, assert_same, bayesian_networks, factor_graphs

from dissonance.arc import Arc
from dissonance.errors import CapabilityError, DissonanceError, FormatError
from dissonance.focus import Attention, Focus
from dissonance.io import (
    bif,
    fitted,
    from_pandas,
    from_pgmpy,
    load,
    to_networkx,
    to_pandas,
    to_pgmpy,
    variables_of,
)
from dissonance.pdg import PDG
from dissonance.variables import Variable

pd = pytest.importorskip("pandas")
A, B, C = Variable("A", 2), Variable("B", ["low", "high"]), Variable("C", ["x", "y", "z"])
CLINIC = bif.from_bytes(BIF.encode(), False)[0]


@pytest.fixture(scope="module")
def pgmpy():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("pgmpy.models", exc_type=ImportError, reason="the pgmpy extra")
        yield pytest.importorskip("pgmpy")


# -- networkx


def test_a_networkx_graph_has_a_node_for_every_variable_and_every_arc():
    graph = to_networkx(CLINIC, Attention.uniform(CLINIC))
    assert set(graph.successors(("arc", "X ray"))) == {("variable", "X ray")}
    edges = graph.in_edges(("arc", "X ray"), data=True)
    assert [(u[1], d["role"], d["position"]) for u, _, d in sorted(edges, key=lambda e: e[2]["position"])] == [
        ("Tub", "source", 0),
        ("Asia", "source", 1),
    ]
    assert graph.nodes["arc", "Tub"]["object"] is CLINIC["Tub"]
    assert graph.nodes["arc", "Tub"]["beta"] == 1.0
    assert graph.nodes["variable", "Tub"]["domain"].labels == ("yes", "no")
    assert graph.number_of_nodes() == 6


# -- pandas


@settings(max_examples=50)
@given(bayesian_networks())
def test_a_table_is_the_same_after_a_data_frame(pdg: PDG):
    for a in pdg:
        again = from_pandas(a.name, to_pandas(a), a.scope)
        assert_same(PDG(a), PDG(again))
        inferred = from_pandas(a.name, to_pandas(a))
        assert [v.finite.labels for v in inferred.scope] == [v.finite.labels for v in a.scope]


def test_a_frame_with_several_targets_keeps_its_axes():
    joint = Arc("p", A, (B, C), np.arange(12.0).reshape(2, 2, 3) / [[[15.0]], [[51.0]]])
    frame = to_pandas(joint)
    assert frame.loc[1, ("high", "z")] == 11 / 51
    shuffled = frame.sample(frac=1, axis=0, random_state=1).sample(frac=1, axis=1, random_state=2)
    assert_same(PDG(joint), PDG(from_pandas("p", shuffled, (A, B, C))))


def test_a_frame_that_is_no_table_is_refused():
    frame = to_pandas(Arc("p", B, A, [[0.5, 0.5], [0.25, 0.75]]))
    with pytest.raises(DissonanceError, match="nothing is said of B=high"):
        from_pandas("p", frame.iloc[:1], (A, B))
    with pytest.raises(DissonanceError, match="the cell B=low, A=0 is there twice"):
        from_pandas("p", frame.iloc[[0, 0]], (A, B))
    with pytest.raises(DissonanceError, match="no value 'middle'"):
        from_pandas("p", frame.rename(index={"low": "middle"}), (A, B))
    with pytest.raises(DissonanceError, match="the column '0' holds numbers, not labels"):
        from_pandas("p", pd.DataFrame([[0.5, 0.5]]))
    with pytest.raises(DissonanceError, match="'a quarter', in cell 3, is not a number"):
        from_pandas("p", frame.astype(object).replace(0.25, "a quarter"), (A, B))
    both = to_pandas(Arc("p", (A, B), C, np.full((2, 2, 3), 1 / 3))).rename_axis(index=["A", None])
    with pytest.raises(DissonanceError, match=r"every level of the rows needs a name, found \['A', None\]"):
        from_pandas("p", both)


def test_frequencies_are_counted_and_incomplete_rows_left_out():
    data = pd.DataFrame({"A": [0, 0, 0, 1, 1], "B": ["low", "low", "high", "high", None]})
    assert variables_of(data) == (A, Variable("B", ["high", "low"]))
    arc = fitted("p", data, A, B)
    np.testing.assert_allclose(arc.cpd.table(), [[2 / 3, 1 / 3], [0.0, 1.0]])
    np.testing.assert_allclose(fitted("p", data, A, B, pseudocount=1).cpd.table(), [[3 / 5, 2 / 5], [1 / 3, 2 / 3]])
    with pytest.raises(DissonanceError, match="nothing is said of A=1: all its numbers are 0"):
        fitted("p", data[data["A"] == 0], A, B)
    with pytest.raises(DissonanceError, match="no column 'C'"):
        fitted("p", data, A, C)
    with pytest.raises(DissonanceError, match="'B' has no value 'high'"):
        fitted("p", data, A, Variable("B", ["low"]))
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(DissonanceError, match="the pseudocount is"):
            fitted("p", data, A, B, pseudocount=wrong)


def test_columns_may_be_numbered():
    data = pd.DataFrame([[0, 1], [1, 1], [1, 0]])
    first, second = variables_of(data)
    assert (first, second) == (Variable("0", 2), Variable("1", 2))
    np.testing.assert_allclose(fitted("p", data, first, second).cpd.table(), [[0.0, 1.0], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (pd.DataFrame({"A": [1, "x"]}), "column 'A' mixes kinds of values"),
        (pd.DataFrame({"A": [None, None]}), "column 'A' has no values"),
        (pd.DataFrame([[0, 1]], columns=["A", "A"]), "two columns named 'A'"),
    ],
)
def test_a_column_without_values_to_list_is_named(data: object, why: str):
    with pytest.raises(DissonanceError, match=why):
        variables_of(data)


def test_categories_keep_their_order():
    data = pd.DataFrame({"B": pd.Categorical(["high", "low"], categories=["low", "mid", "high"])})
    assert variables_of(data) == (Variable("B", ["low", "mid", "high"]),)


# -- pgmpy


@settings(max_examples=30)
@given(bayesian_networks())
def test_a_network_is_the_same_after_pgmpy(pgmpy: object, pdg: PDG):
    named = PDG(*(Arc(a.targets[0].name, a.sources, a.targets, a.cpd.table()) for a in pdg), variables=pdg.variables)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again, focus = from_pgmpy(to_pgmpy(named))
    assert {v.name: v for v in again.variables} == {v.name: v for v in named.variables}
    for a in named:
        assert str(again[a.name]) == str(a)
        np.testing.assert_allclose(again[a.name].cpd.table(), a.cpd.table(), rtol=0, atol=1e-15)
    assert focus.attention.gamma == 0


@settings(max_examples=30)
@given(factor_graphs())
def test_a_factor_graph_is_the_same_after_pgmpy(pgmpy: object, case: tuple[PDG, Focus]):
    pdg, focus = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again, seen = from_pgmpy(to_pgmpy(pdg, focus))
    assert seen.attention.gamma == 1
    for a, b in zip(pdg, again, strict=True):
        assert [v.name for v in a.scope] == [v.name for v in b.scope]
        assert np.array_equal(a.cpd.phi, b.cpd.phi)


def test_a_cpd_is_an_arc_and_an_arc_a_cpd(pgmpy: object):
    cpd = to_pgmpy(CLINIC["X ray"])
    assert cpd.variables == ["X ray", "Tub", "Asia"]
    assert cpd.get_value(**{"X ray": "<5", "Tub": "yes", "Asia": "no"}) == 0.9
    again = from_pgmpy(cpd)[0]["X ray"]
    assert np.array_equal(again.cpd.table(), CLINIC["X ray"].cpd.table())


def test_states_that_are_numbers_of_numpy_are_plain_numbers(pgmpy: object):
    states = {"X": list(np.arange(2)), "Y": [np.int64(1), np.int64(5)]}
    cpd = pgmpy.factors.discrete.TabularCPD("X", 2, [[0.5, 0.1], [0.5, 0.9]], ["Y"], [2], state_names=states)
    x, y = (from_pgmpy(cpd)[0].variable(n) for n in "XY")
    assert x == Variable("X", 2) and y.finite.labels == (1, 5) and type(y.finite.labels[0]) is int


def test_what_pgmpy_has_no_place_for_is_refused(pgmpy: object):
    with pytest.raises(FormatError, match="pgmpy holds Bayesian networks only"):
        to_pgmpy(PDG(Arc("p", (), A, [0.5, 0.5]), Arc("q", (), A, [0.5, 0.5])))
    with pytest.raises(FormatError, match="2 targets"):
        to_pgmpy(Arc("p", (), (A, B), np.full((2, 2), 0.25)))


def test_other_objects_are_not_taken_for_models():
    with pytest.raises(FormatError, match="a dict is not a pgmpy model"):
        from_pgmpy({})


def test_without_pgmpy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pgmpy", None)
    with pytest.raises(CapabilityError, match=r"dissonance\[pgmpy\]"):
        to_pgmpy(CLINIC)


@pytest.mark.skipif("asia" not in NETWORKS, reason="the networks of pgmpy: pip install --no-deps pgmpy")
def test_pgmpy_reads_the_same_numbers(pgmpy: object):
    readers = pytest.importorskip("pgmpy.readwrite", exc_type=ImportError)
    for name in ("asia", "cancer", "survey", "sachs", "child"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = from_pgmpy(
                readers.BIFReader(string=gzip.decompress(NETWORKS[name].read_bytes()).decode()).get_model()
            )[0]
        ours = load(NETWORKS[name])[0]
        for a in ours:
            other = theirs[a.name]
            order = [[v.name for v in other.scope].index(v.name) for v in a.scope]
            np.testing.assert_allclose(other.cpd.table().numpy().transpose(order), a.cpd.table(), rtol=0, atol=1e-15)


def test_the_column_of_counts_is_named_by_values():
    with pytest.raises(DissonanceError, match=r"counts='w' is no number of observations.*named by values='w'"):
        Arc.from_table("a", {"no": 1, "yes": 2}, of="Buys", counts="w")  # pyright: ignore[reportArgumentType]
