"""Variables: names with domains."""

from __future__ import annotations

import pytest

from dissonance import CapabilityError, DissonanceError, Euclidean, Variable
from dissonance.variables import Finite, Opaque, as_tuple, cells, shape


def test_a_domain_may_be_a_size_labels_or_an_object():
    assert Variable("X", 3).domain == Finite((0, 1, 2))
    assert Variable("X", ["no", "yes"]).domain == Finite(("no", "yes"))
    assert Variable("X", Euclidean(2)).domain == Euclidean(2)
    assert Variable("X", 2) == Variable("X", [0, 1]) != Variable("Y", 2)


def test_labels_know_their_position():
    x = Variable("X", ["low", "mid", "high"])
    assert [x.finite.index(v) for v in ("low", "mid", "high")] == [0, 1, 2]
    assert x.size == 3 and x.is_finite


def test_an_unknown_label_suggests_the_nearest():
    with pytest.raises(DissonanceError, match=r"no value 'hihg'.*'high'"):
        Variable("X", ["low", "high"]).finite.index("hihg")
    with pytest.raises(DissonanceError, match=r"no value \[1\]"):
        Variable("X", 2).finite.index([1])


@pytest.mark.parametrize("labels", [[], ["a", "a"], 0])
def test_a_finite_domain_needs_distinct_values(labels):
    with pytest.raises(DissonanceError):
        Variable("X", labels)


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_variable_needs_a_name(name):
    with pytest.raises(DissonanceError, match="name"):
        Variable(name, 2)


def test_a_continuous_variable_has_no_size():
    x = Variable("X", Euclidean(784))
    assert not x.is_finite
    with pytest.raises(CapabilityError, match=r"'X' is Euclidean\(784\)"):
        _ = x.size
    with pytest.raises(DissonanceError):
        Euclidean(0)


def test_base_measures():
    assert (Finite((0,)).measure, Euclidean(1).measure, Opaque("graph").measure) == (
        "counting",
        "Lebesgue",
        "unspecified",
    )


def test_repr_is_readable():
    assert repr(Variable("Coin", 2)) == "Coin{0, 1}"
    assert repr(Variable("Many", 9)) == "Many{0, 1, 2, 3, 4, 5, ...}"
    assert repr(Variable("Height", Euclidean(1))) == "Height: Euclidean(1)"
    assert str(Opaque("trajectories")) == "Opaque(trajectories)"


def test_shapes_and_cells():
    x, y = Variable("X", 2), Variable("Y", 3)
    assert as_tuple(x) == (x,) and as_tuple([x, y]) == (x, y)
    assert shape((x, y)) == (2, 3) and cells((x, y)) == 6 and cells(()) == 1


def test_a_variable_is_frozen_and_hashable():
    x = Variable("X", 2)
    with pytest.raises(AttributeError):
        x.name = "Y"
    assert {x: 1}[Variable("X", 2)] == 1
