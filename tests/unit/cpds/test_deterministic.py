"""Functions, point masses, data and factors: cpds that become tables when an arc is made."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    CapabilityError,
    Deterministic,
    DissonanceError,
    Empirical,
    Euclidean,
    Factor,
    PointMass,
    Table,
    Variable,
    inconsistency,
)

X, Y, Z = Variable("X", ["lo", "hi"]), Variable("Y", ["a", "b", "c"]), Variable("Z", 2)
PLANE = Variable("P", Euclidean(2))


# -- functions ---------------------------------------------------------------------------------------------------------


def test_a_function_of_labels_becomes_a_table_of_zeros_and_ones():
    cpd = Arc("f", (X, Z), Y, Deterministic(lambda x, z: "c" if x == "hi" and z == 1 else "a")).cpd
    assert isinstance(cpd, Table)
    assert cpd.table().argmax(-1).tolist() == [[0, 0], [0, 2]]
    assert cpd.table().sum(-1).tolist() == [[1, 1], [1, 1]]


def test_a_mapping_serves_as_well_keyed_by_label_or_by_tuple():
    one = Arc("f", X, Y, Deterministic({"lo": "b", "hi": "c"})).cpd
    assert one.table().argmax(-1).tolist() == [1, 2]
    w = Variable("W", 2)
    two = Arc("f", (X, Z), w, Deterministic({("lo", 0): 1, ("lo", 1): 0, ("hi", 0): 0, ("hi", 1): 1})).cpd
    assert two.table().argmax(-1).tolist() == [[1, 0], [0, 1]]


def test_several_targets_take_a_tuple():
    cpd = Arc("f", X, (Y, Z), Deterministic(lambda x: ("b", 1) if x == "hi" else ("a", 0))).cpd
    assert cpd.table()[0, 0, 0] == cpd.table()[1, 1, 1] == 1 and cpd.table().sum() == 2


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda _: "d", r"arc 'f' \(X -> Y\): no value 'd'"),
        ({"lo": "a"}, "the mapping has no entry for 'hi'"),
        (lambda _: ["a"], r"no value \['a'\]"),
    ],
)
def test_a_function_that_does_not_fit_is_refused(function, complaint: str):
    with pytest.raises(DissonanceError, match=complaint):
        Arc("f", X, Y, Deterministic(function))


@pytest.mark.parametrize("value", ["a", ("a",), ("a", 1, 1)])
def test_several_targets_need_as_many_labels(value):
    with pytest.raises(DissonanceError, match=r"expected one label for each of \(Y, Z\)"):
        Arc("f", X, (Y, Z), Deterministic(lambda _: value))


def test_a_function_needs_finite_variables():
    with pytest.raises(CapabilityError, match=r"needs finite variables; P is Euclidean\(2\)"):
        Arc("f", PLANE, X, Deterministic(lambda _: "lo"))


# -- point masses ------------------------------------------------------------------------------------------------------


def test_a_finite_point_mass_is_one_label_whatever_the_sources():
    assert Arc("x", (), X, PointMass("hi")).cpd.table().tolist() == [0, 1]
    assert Arc("x", Z, X, PointMass("hi")).cpd.table().tolist() == [[0, 1], [0, 1]]
    assert Arc("x", (), (X, Y), PointMass(("lo", "c"))).cpd.table()[0, 2] == 1
    with pytest.raises(DissonanceError, match="no value 'high'"):
        Arc("x", (), X, PointMass("high"))


def test_a_point_mass_on_a_vector_is_learnable():
    arc = Arc("at", (), PLANE, PointMass([1.0, 2.0]))
    assert PDG(arc).theta["at.value"].tolist() == [1, 2]
    here, there = torch.tensor([1.0, 2.0]), torch.tensor([[1.0, 2.0], [1.0, 2.1]])
    assert float(arc.cpd.log_prob([here], [])) == 0
    assert arc.cpd.log_prob([there], []).tolist() == [0, -math.inf]
    with pytest.raises(DissonanceError, match="needs 2 numbers, found 3"):
        Arc("at", (), PLANE, PointMass([1.0, 2.0, 3.0]))
    with pytest.raises(CapabilityError, match="must be part of an arc"):
        PointMass([1.0]).log_prob([here], [])


# -- data --------------------------------------------------------------------------------------------------------------


def test_an_empirical_distribution_counts():
    cpd = Arc("d", (), (X, Z), Empirical([("lo", 0), ("hi", 1), ("lo", 0), ("lo", 1)])).cpd
    assert cpd.table().tolist() == [[0.5, 0.25], [0.0, 0.25]]
    single = Arc("d", (), X, Empirical(["lo", "hi", "hi", "hi"])).cpd
    assert single.table().tolist() == [0.25, 0.75]


def test_weights_count_as_much_as_copies():
    copies = Arc("d", (), Y, Empirical(["a", "b", "b", "c", "c", "c"])).cpd
    weighted = Arc("d", (), Y, Empirical(["a", "b", "c", "a"], weights=[1, 4, 6, 1])).cpd
    np.testing.assert_allclose(copies.table(), weighted.table(), atol=1e-15)


@pytest.mark.parametrize(
    ("data", "weights", "complaint"),
    [
        ([], None, "at least one row"),
        (["lo"], [1.0, 2.0], "1 rows of data, but 2 weights"),
        (["lo", "hi"], [1.0, -1.0], "non-negative"),
        (["lo", "hi"], [0.0, 0.0], "not all 0"),
    ],
)
def test_data_that_cannot_be_counted_is_refused(data, weights, complaint: str):
    with pytest.raises(DissonanceError, match=complaint):
        Empirical(data, weights)


def test_data_must_fit_the_targets_and_take_no_sources():
    with pytest.raises(DissonanceError, match="no value 'medium'"):
        Arc("d", (), X, Empirical(["lo", "medium"]))
    with pytest.raises(DissonanceError, match="has no sources"):
        Arc("d", Z, X, Empirical(["lo"]))


# -- factors -----------------------------------------------------------------------------------------------------------


def test_a_factor_is_normalised_and_remembers_its_size():
    phi = np.array([[1.0, 3.0], [0.0, 4.0]])
    cpd = Arc("phi", (), (X, Z), Factor(phi)).cpd
    np.testing.assert_allclose(cpd.table(), phi / 8)
    assert float(cpd.log_normalizer) == pytest.approx(math.log(8))
    assert cpd.log_table()[1, 0] == -math.inf


@pytest.mark.parametrize("phi", [[0.0, 0.0], [1.0, -1.0], [math.inf, 1.0], [math.nan, 1.0]])
def test_a_factor_needs_finite_mass(phi):
    with pytest.raises(DissonanceError, match="a factor needs finite non-negative entries, not all 0"):
        Factor(phi)


def test_a_factor_has_no_sources():
    with pytest.raises(DissonanceError, match="a factor has no sources"):
        Arc("phi", X, Z, Factor(np.ones((2, 2))))


def test_every_finite_family_can_be_scored_together():
    pdg = PDG(
        Arc("f", X, Y, Deterministic({"lo": "a", "hi": "c"})),
        Arc("d", (), X, Empirical(["lo", "lo", "hi"])),
        Arc("phi", (), (X, Z), Factor(np.ones((2, 2)))),
        Arc("z", (), Z, PointMass(1)),
    )
    # mu(Z) is pinned by its support, X is between its data and 1/2: log 2 for Z, and the closed form for X
    exact = math.log(2) - 2 * math.log(math.sqrt(2 / 3 * 0.5) + math.sqrt(1 / 3 * 0.5))
    result = inconsistency(pdg)
    assert result.lower - 1e-13 <= exact <= result.upper + 1e-13


def test_a_point_given_as_a_list_is_kept_in_double_precision():
    value = Arc("x", (), PLANE, PointMass([0.1, 171.1])).cpd.get_parameter("value")
    assert value.tolist() == [0.1, 171.1]
