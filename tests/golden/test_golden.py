"""Golden numbers: today's answers are those of the commit that wrote them, as far as two right answers are equal.

Numbers are compared by what they are:

bounds      both are proved, so they overlap; and they are no wider than before but for rounding: at most 1.5 times the
            old width plus 1e-9 max(1, |v|), or what WIDER says. An infinite bound stays infinite.
bracket     bounds that need not meet: the new ones contain the value that another solver proves ("exact", where a case
            has it), overlap the old ones, and are at most 1.5 times as wide, plus 1 % of max(1, |v|). Solvers that
            narrow for a time are given no time limit where they end by their own rules, or no time at all, so that they
            take the fewest rounds; the brackets of books past the junction tree take a second, and have to be no more
            than 3 times as wide.
mu          what is read off an optimum (joints, gradients, blame, posteriors): the square root of the gap between the
            bounds, new or old, and 1e-6 of max(1, |v|).
close       traces and what is computed without a gap: 1e-6 of max(1, |v|).
own         traces of flows that integrate to a tolerance of their own: 1e-4 of max(1, |v|).
same        what has to be the very same.
left out    numbers that are all rounding, by name: when they were written, weights at most 1e-9 off moved them further
            than this allows. They are not compared.

What differs and may is in EXCEPTIONS, case by case, with the reason.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from golden import store
from golden.calls import answer
from golden.compare import Numbers, differences

EXCEPTIONS: dict[tuple[str, int], str] = {
    ("lir_natural", 10): "facts that move were taken to a contradiction, inf; they stay where all steps end in one",
}
"""The cases, (family, number), that are not compared, and why."""

CHUNK = 20
"""Cases of a test: families are cut into chunks, which workers share among each other."""

CHUNKS = [(name, first) for name, count in store.counts().items() for first in range(0, count, CHUNK)]
WIDER: dict[str, dict[str, float]] = {
    "past_trees": {"factor": 3.0},  # ends by the clock
    "disbelief": {"rounding": 2e-6},  # branch and bound stops at a gap of 1e-6, now at this node and now at that one
}
"""What bounds of a family may be wider by, where that is not 1.5 and 1e-9."""


@pytest.mark.parametrize(("family", "first"), CHUNKS)
def test_answers_are_those_of_the_commit_that_pinned_them(family: str, first: int) -> None:
    wrong = []
    for k, kept in list(enumerate(store.read(family)))[first : first + CHUNK]:
        if (family, k) not in EXCEPTIONS:
            found = store.plain(store.rounded(answer(kept["case"])))
            wrong += [f"{family} {k}: {said}" for said in differences(kept["numbers"], found, **WIDER.get(family, {}))]
    assert not wrong, "\n".join(wrong[:20])


def test_a_moved_bound_a_moved_joint_and_a_wider_bound_are_seen() -> None:
    old: Numbers = {
        "bounds": {"all": [1.0, 1.0 + 1e-9]},
        "mu": {"A": [0.5, 0.5]},
        "close": {"x": 1.0},
        "same": {"n": 1},
    }
    changes: list[tuple[str, str, Any]] = [
        ("bounds", "all", [1.1, 1.1]),
        ("bounds", "all", [1.0, 1.0 + 1e-7]),
        ("bounds", "all", [1.0, math.inf]),
        ("mu", "A", [0.5001, 0.4999]),
        ("close", "x", 1.00001),
        ("same", "n", 2),
        ("mu", "A", [math.nan, 0.5]),
    ]
    assert list(differences(old, old)) == []
    for kind, name, value in changes:
        assert len(list(differences(old, old | {kind: {name: value}}))) == 1
    assert len(list(differences(old, {k: v for k, v in old.items() if k != "mu"}))) == 1
