"""Beliefs in Python and in the text form."""

from __future__ import annotations

import math

import pytest

from dissonance import DissonanceError, FormatError
from dissonance.forecasts import Belief, read_beliefs


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("P(A & ~B | C) = 0.3 @ 2", Belief("A & ~B", 0.3, "C", 2.0)),
        ("P(A)=.25", Belief("A", 0.25)),
        ("me: P(A) = 0.3", Belief("A", 0.3, name="me")),
        ("P(A) in [0.2, 0.4]", Belief("A", (0.2, 0.4))),
        ("P(A | B) >= 0.2 @ inf", Belief("A", (0.2, 1.0), "B", math.inf)),
        ("P(A) <= 2e-1", Belief("A", (0.0, 0.2))),
        ("A -> B", Belief("A -> B")),
        ("law: A -> B", Belief("A -> B", name="law")),
        ("P -> Q", Belief("P -> Q")),
        ("P(W in {x, y}) = 1", Belief("W in {x, y}", 1)),
    ],
)
def test_a_line_says_a_belief(text: str, meant: Belief):
    assert Belief.read(text) == meant


def test_a_standard_error_is_as_much_confidence_as_cases_that_would_have_it():
    belief = Belief.read("P(A) = 0.2 +- 0.04 @ 3")
    assert belief.beta == pytest.approx(3 * 0.2 * 0.8 / 0.04**2)


def test_a_comparison_is_a_range_where_the_events_differ():
    assert Belief.read("P(A) >= P(B) @ 2") == Belief("A", (0.5, 1.0), "exactly 1 of (A, B)", 2.0, "P(A) >= P(B) @ 2")
    given = Belief.read("P(A | C) <= P(B | C)")
    assert given.p == (0.0, 0.5) and given.given == "(exactly 1 of (A, B)) and C"


def test_comments_and_empty_lines_say_nothing():
    assert read_beliefs("\n# all\nP(A) = 0.3  # a comment\n\n'A # b' or C\n") == [
        Belief("A", 0.3),
        Belief("'A # b' or C"),
    ]


def test_what_is_written_is_read_as_the_same():
    for line in ("P(A and B | C) = 0.3 @ 2", "P(A) in [0.2, 0.4]", "P(A) = 0.3"):
        assert str(Belief.read(line)) == line


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("P(A) = 1.2", "the probability of 'A' is 1.2"),
        ("P(A) = -0.1", "the probability of 'A' is -0.1"),
        ("P(A) in [0.4, 0.2]", "0.4 is above 0.2"),
        ("P(A) = 0.3 @ -1", "the confidence in 'A' is -1"),
        ("P(A) = 0.3 +- 0", "must be positive"),
        ("P(A) = 0.3 0.4", "found '0.4' where the end should be"),
        ("P(A) 0.3", "where =, >=, <= or in should be"),
        ("P(A) >= P(B | C)", "given different things"),
        ("P(A) = x", "found 'x' where a probability should be"),
    ],
)
def test_a_line_that_says_no_belief_is_refused_with_its_number(line: str, complaint: str):
    with pytest.raises(FormatError, match=complaint) as error:
        read_beliefs(f"P(A) = 0.5\n{line}")
    assert error.value.line == 2


def test_numbers_that_are_no_probabilities_are_refused():
    with pytest.raises(DissonanceError, match=r"is nan"):
        Belief("A", math.nan)
