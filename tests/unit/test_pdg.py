"""Arcs and PDGs: structure, look-up, joining, and parameters both ways."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    DissonanceError,
    Euclidean,
    Factor,
    PointMass,
    SimplexTable,
    SoftmaxTable,
    Table,
    Variable,
    inconsistency,
)
from dissonance.cpds import Independent

X, Y, Z = Variable("X", 2), Variable("Y", 2), Variable("Z", 3)
HALF = [0.5, 0.5]
ROWS = [[0.9, 0.1], [0.2, 0.8]]


@pytest.fixture
def pdg() -> PDG:
    return PDG(Arc("prior", (), X, HALF), Arc("study", X, Y, ROWS), Arc("rumour", X, Y, SoftmaxTable(ROWS)))


# -- arcs --------------------------------------------------------------------------------------------------------------


def test_an_arc_takes_one_variable_or_several_and_any_table():
    arc = Arc("a", X, [Y, Z], np.full((2, 2, 3), 1 / 6))
    assert (arc.sources, arc.targets, arc.scope) == ((X,), (Y, Z), (X, Y, Z))
    assert isinstance(arc.cpd, Table)
    assert str(arc) == "arc 'a' (X -> Y, Z)"
    assert str(Arc("b", (), X, HALF)) == "arc 'b' (-> X)"


@pytest.mark.parametrize(
    ("name", "sources", "targets", "complaint"),
    [
        ("", (), X, "an arc needs a non-empty name"),
        ("a", X, (), r"arc 'a' \(X -> \) has no targets: it would say nothing"),
        ("a", X, X, r"arc 'a' \(X -> X\) mentions 'X' twice\. Make a copy"),
        ("a", (), (Y, Y), "mentions 'Y' twice"),
    ],
)
def test_an_arc_that_makes_no_sense_is_refused(name, sources, targets, complaint: str):
    with pytest.raises(DissonanceError, match=complaint):
        Arc(name, sources, targets, ROWS)


def test_errors_of_a_cpd_name_the_arc():
    with pytest.raises(CapabilityError, match=r"arc 'a' \(X -> Y\): the table has shape"):
        Arc("a", X, Y, HALF)


def test_the_log_table_can_be_asked_at_another_theta():
    arc = Arc("a", (), X, SoftmaxTable(HALF))
    other = {"a.logits": torch.tensor([0.0, math.log(3)], dtype=torch.float64), "b.logits": torch.zeros(7)}
    np.testing.assert_allclose(arc.log_table(other).exp().detach(), [0.25, 0.75])
    np.testing.assert_allclose(arc.log_table().exp().detach(), HALF)


def test_what_cannot_be_tabulated_says_which_variable_is_to_blame():
    arc = Arc("at", (), Variable("P", Euclidean(2)), PointMass([0.0, 1.0]))
    with pytest.raises(CapabilityError, match=r"arc 'at' \(-> P\) cannot be tabulated: P is Euclidean\(2\)"):
        arc.log_table()


# -- PDGs --------------------------------------------------------------------------------------------------------------


def test_look_up_by_name_suggests_the_nearest(pdg: PDG):
    assert pdg["study"].targets == (Y,) and pdg.variable("X") is X
    assert "study" in pdg and "X" not in pdg and len(pdg) == 3 and [a.name for a in pdg] == ["prior", "study", "rumour"]
    with pytest.raises(DissonanceError, match=r"no arc named 'stduy'. Did you mean 'study'\?"):
        pdg["stduy"]
    with pytest.raises(DissonanceError, match=r"no variable named 'W'. Known: X, Y\."):
        pdg.variable("W")


def test_two_arcs_of_one_name_are_refused():
    with pytest.raises(DissonanceError, match=r"two arcs are named 'p': arc 'p' \(-> X\) and arc 'p' \(-> Y\)"):
        PDG(Arc("p", (), X, HALF), Arc("p", (), Y, HALF))


def test_parameters_of_two_arcs_with_one_key_of_theta_are_refused():
    both = Arc("a", (), (X, Y), Independent(SoftmaxTable(HALF), SoftmaxTable([0.9, 0.1])))
    with pytest.raises(DissonanceError, match=r"arc 'a' .* and arc 'a\.tables\.0' .*'a\.tables\.0\.logits'"):
        PDG(Arc("a.tables.0", (), X, SoftmaxTable([0.2, 0.8])), both)
    assert len(PDG(both, Arc("a.tables.2", (), X, SoftmaxTable([0.2, 0.8]))).theta) == 3
    shared = both.cpd.get_submodule("tables.0")  # one parameter under one key
    assert list(PDG(both, Arc("a.tables.0", (), X, shared)).theta) == ["a.tables.0.logits", "a.tables.1.logits"]


def test_a_variable_with_two_domains_is_refused():
    other = Variable("X", ["no", "yes"])
    with pytest.raises(DissonanceError, match=r"variable 'X' has two domains: \{0, 1\} and \{no, yes\}"):
        PDG(Arc("p", (), X, HALF), Arc("q", (), other, HALF))
    PDG(Arc("p", (), X, HALF), Arc("q", (), Variable("X", 2), HALF))  # equal is enough


def test_the_order_of_variables_is_of_mention_unless_given(pdg: PDG):
    assert pdg.variables == (X, Y)
    assert PDG(*pdg.arcs, variables=(Z, Y)).variables == (Z, Y, X)


def test_plus_joins_beliefs_and_leaves_both_sides_alone(pdg: PDG):
    other = PDG(Arc("z", Y, Z, np.full((2, 3), 1 / 3)))
    both = pdg + other
    assert [a.name for a in both] == ["prior", "study", "rumour", "z"] and both.variables == (X, Y, Z)
    assert (pdg + other["z"]).variables == (X, Y, Z)
    assert len(pdg) == 3 and len(other) == 1
    assert (pdg + PDG()).arcs == pdg.arcs
    with pytest.raises(DissonanceError, match="two arcs are named 'study'"):
        pdg + pdg["study"].__class__("study", (), X, HALF)


def test_subgraphs_keep_every_variable(pdg: PDG):
    assert [a.name for a in pdg.subgraph("prior")] == ["prior"] and pdg.subgraph("prior").variables == (X, Y)
    assert [a.name for a in pdg.without("study", "prior")] == ["rumour"]
    assert pdg.without("study", "rumour").variables == (X, Y)
    assert pdg.without().arcs == pdg.arcs
    for method in (pdg.subgraph, pdg.without):
        with pytest.raises(DissonanceError, match="Did you mean 'rumour'"):
            method("rumor")


def test_replacing_keeps_the_place(pdg: PDG):
    new = Arc("study", X, Y, [[0.5, 0.5], [0.5, 0.5]])
    assert [a is new for a in pdg.replace(new)] == [False, True, False]
    assert pdg["study"] is not new
    with pytest.raises(DissonanceError, match="no arc named 'survey'"):
        pdg.replace(Arc("survey", X, Y, ROWS))


def test_a_pdg_is_frozen(pdg: PDG):
    with pytest.raises(dataclasses.FrozenInstanceError):
        pdg.arcs = ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        pdg["study"].name = "other"


def test_an_empty_pdg_is_consistent():
    assert inconsistency(PDG()).upper == 0 and repr(PDG()) == "PDG(0 variables, 0 arcs)"


def test_repr_shows_structure_and_is_short(pdg: PDG):
    assert repr(pdg).splitlines() == [
        "PDG(2 variables, 3 arcs)",
        "  X{0, 1}",
        "  Y{0, 1}",
        "  prior: -> X   Table",
        "  study: X -> Y   Table",
        "  rumour: X -> Y   SoftmaxTable",
    ]
    many = PDG(*(Arc(f"p{i}", (), Variable(f"V{i}", 2), HALF) for i in range(100)))
    assert len(repr(many).splitlines()) == 1 + 21 + 21


# -- constructors ------------------------------------------------------------------------------------------------------


def test_from_cpds_names_arcs_in_order():
    pdg = PDG.from_cpds([((), X, HALF), (X, Y, ROWS)])
    assert [str(a) for a in pdg] == ["arc 'p1' (-> X)", "arc 'p2' (X -> Y)"]


def test_from_a_bayesian_network():
    pdg = PDG.from_bayesian_network({Y: ((X,), ROWS), X: ((), HALF)})
    assert [a.name for a in pdg] == ["Y", "X"] and pdg.variables == (Y, X)
    assert inconsistency(pdg).upper == pytest.approx(0, abs=1e-7)
    with pytest.raises(DissonanceError, match=r"no directed cycles; found (X -> Y|Y -> X)"):
        PDG.from_bayesian_network({Y: ((X,), ROWS), X: ((Y,), ROWS)})


def test_from_a_factor_graph():
    pdg = PDG.from_factor_graph([((X, Y), [[1, 2], [3, 4]]), ((X,), [5, 5])])
    assert [str(a) for a in pdg] == ["arc 'phi1' (-> X, Y)", "arc 'phi2' (-> X)"]
    assert all(isinstance(a.cpd, Factor) for a in pdg)


# -- parameters --------------------------------------------------------------------------------------------------------


def test_parameters_and_theta_are_the_same_tensors():
    pdg = PDG(Arc("p", (), X, SoftmaxTable(HALF)), Arc("q", X, Y, SimplexTable(ROWS)), Arc("r", X, Y, ROWS))
    assert set(pdg.theta) == {"p.logits", "q.p"}
    assert [id(p) for p in pdg.parameters()] == [id(v) for v in pdg.theta.values()]


def test_a_given_theta_changes_the_value_and_not_the_pdg(pdg: PDG):
    theta = {"rumour.logits": torch.log(torch.tensor([[0.5, 0.5], [0.5, 0.5]], dtype=torch.float64))}
    swapped = pdg.replace(Arc("rumour", X, Y, [HALF, HALF]))
    for beta in (1.0, math.inf):
        phi = Attention.only({"prior": math.inf, "study": 1.0, "rumour": beta})
        assert inconsistency(pdg, phi, theta=theta).upper == pytest.approx(inconsistency(swapped, phi).upper, abs=1e-9)
    np.testing.assert_allclose(pdg["rumour"].cpd.table().detach(), ROWS)


def test_a_given_theta_receives_the_gradient(pdg: PDG):
    theta = {"rumour.logits": torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)}
    result = inconsistency(pdg, theta=theta)
    result.value.backward()
    assert theta["rumour.logits"].grad.abs().max() > 0.01
    assert pdg["rumour"].cpd.logits.grad is None


def test_a_pdg_at_other_parameters_is_a_copy_in_which_what_was_shared_stays_shared():
    x, y = Variable("X", 2), Variable("Y", 2)
    table = SoftmaxTable([0.9, 0.1])
    pdg = PDG(Arc("p", (), x, table), Arc("q", (), y, table), Arc("r", (), x, SoftmaxTable([0.3, 0.7]), beta=2.0))
    logits = torch.tensor([0.0, math.log(3.0)], dtype=torch.float64)
    moved = pdg.at({"p.logits": logits, "q.logits": logits, "other.logits": logits})
    assert moved["p"].cpd.table().tolist() == pytest.approx([0.25, 0.75])
    assert moved["q"].cpd is moved["p"].cpd and moved["p"].cpd is not table
    assert moved["r"].cpd.table().tolist() == pytest.approx([0.3, 0.7]) and moved["r"].beta == 2.0
    assert table.table().tolist() == pytest.approx([0.9, 0.1])
