"""Expressions of events: what they say, in every world, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissonance.coherence.events import names, parsed, text_of, truth
from dissonance.errors import DissonanceError

WORLDS = np.array(list(itertools.product((False, True), repeat=4)))
A, B, C, D = WORLDS.T
HERE = {n: np.where(x, "yes", "no").astype(object) for n, x in zip("ABCD", WORLDS.T, strict=True)}


def holds(text: str) -> np.ndarray:
    sure, possible = truth(parsed(text), HERE)
    assert (sure == possible).all()
    return sure


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("A", A),
        ("not A", ~A),
        ("~A & !B", ~A & ~B),
        ("A and B or C", (A & B) | C),
        ("A and (B or C)", A & (B | C)),
        ("A or B and C", A | (B & C)),
        ("A xor B xor C", A ^ B ^ C),
        ("A or B xor C", (A | B) ^ C),
        ("A -> B -> C", ~A | ~B | C),
        ("A <-> B", A == B),
        ("A => B <=> C", (~A | B) == C),
        ("A=yes and B!=yes", A & ~B),
        ("A in {yes, no}", A | ~A),
        ("exactly one of A, B, C", A.astype(int) + B + C == 1),
        ("one of(A, B, C) and D", (A.astype(int) + B + C == 1) & D),
        ("at least two of A, B, C, D", A.astype(int) + B + C + D >= 2),
        ("at most 1 of (A and B, C, D)", (A & B).astype(int) + C + D <= 1),
        ("none of A, B", ~A & ~B),
        ("all of (A, B, C)", A & B & C),
        ("any of A, not B", A | ~B),
        ("not (A AND B)", ~(A & B)),
    ],
)
def test_an_expression_holds_in_the_worlds_that_it_says(text: str, meant: np.ndarray):
    assert (holds(text) == meant).all()
    assert (holds(text_of(parsed(text))) == meant).all()


EXPRESSIONS = st.recursive(
    st.sampled_from(["A", "B", "C=yes", "D != no"]),
    lambda inner: st.one_of(
        inner.map(lambda x: f"not ({x})"),
        st.tuples(inner, st.sampled_from(["and", "or", "xor", "->", "<->"]), inner).map(
            lambda x: f"({x[0]}) {x[1]} ({x[2]})"
        ),
        st.tuples(
            st.sampled_from(["exactly 2", "at least 2", "at most 1"]), st.lists(inner, min_size=2, max_size=4)
        ).map(lambda x: f"{x[0]} of ({', '.join(x[1])})"),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
def test_what_is_shown_of_an_event_says_the_same(text: str):
    assert (holds(text_of(parsed(text))) == holds(text)).all()


def test_what_is_unknown_may_hold_or_not():
    world = {"A": np.array(["yes", "no", None], dtype=object), "B": np.array(["no", None, "no"], dtype=object)}
    sure, possible = truth(parsed("A or B"), world)
    assert sure.tolist() == [True, False, False] and possible.tolist() == [True, True, True]
    sure, possible = truth(parsed("A and B"), world)
    assert sure.tolist() == [False] * 3 and possible.tolist() == [False] * 3


def test_quoted_names_may_have_anything_in_them():
    event = parsed("\"Will it rain | snow?\" and 'a \"b\"' = 'x, y'")
    assert list(names(event)) == ["Will it rain | snow?", 'a "b"']
    assert parsed(text_of(event)) == event


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "it ends where an event should be"),
        ("A and", "it ends where an event should be"),
        ("A B", "found 'B' where an operator"),
        ("(A", "it ends where '\\)' should be"),
        ("A | B", '"or" is the disjunction'),
        ("A = ", "it ends where a value should be"),
        ("A in {x, }", "found '}' where a value should be"),
        ("A ? B", "cannot read '\\? B'"),
        ("exactly many of A, B", "'many' is not a number"),
        ("at least 3 of A, B", "at least 3 of 2 is not possible"),
        ("(" * 5000 + "A" + ")" * 5000, "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_one_line(text: str, complaint: str):
    with pytest.raises(DissonanceError, match=complaint) as error:
        parsed(text)
    assert "\n" not in str(error.value)
