"""The sets of a public benchmark: every one certified, none below what was stored, and the bets won what was proved."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest

from dissonance import FormatError
from dissonance.coherence.tuples import CHECKS, book
from dissonance.forecasts import Belief, Template, load_sets, realised, settled
from reference.coherence import dense

FILE = Path(__file__).parents[4] / "shared" / "forecasts" / "tuples.jsonl.gz"
needs_data = pytest.mark.skipif(not FILE.exists(), reason="the benchmark's data are not here")


@needs_data
def test_all_sets_are_certified_and_won():
    sets = load_sets(FILE)
    assert sum(map(len, sets)) == 14_000 and {s.check for s in sets} == set(CHECKS)
    known = 0
    for s in sets:
        found = s.template.solve(s.p)
        assert (found.upper - found.lower <= 1e-7 * np.maximum(1.0, found.upper)).all()
        assert (s.stored <= found.upper + 1e-9).all()
        won = realised(found.gain, settled(s.template.beliefs, s.outcome))
        settled_ones = ~np.isnan(won)
        assert (won[settled_ones] >= found.lower[settled_ones]).all()
        known += int(settled_ones.sum())
    assert known > 12_000


def compared(count: int) -> None:
    rng = np.random.default_rng(0)
    sets = load_sets(FILE)
    for _ in range(count):
        s = sets[rng.integers(len(sets))]
        k = int(rng.integers(len(s)))
        beliefs = [Belief(b.event, p, b.given) for b, p in zip(s.template.beliefs, s.p[k], strict=True)]
        beliefs += [b for b in s.template.graph.beliefs if b.is_fact]
        assert s.template.solve(s.p[k]).upper[0] == pytest.approx(dense(beliefs), abs=2e-6)


@needs_data
def test_some_sets_agree_with_a_dense_reference():
    compared(30)


@needs_data
@pytest.mark.slow
def test_500_sets_agree_with_a_dense_reference():
    compared(500)


def lines(path: Path, *sets: dict[str, object]) -> Path:
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, sets)).encode()))
    return path


SET = {
    "model": "m",
    "check": "Neg",
    "p": {"P": 0.5, "not_P": 0.8},
    "outcome": {"P": True, "not_P": None},
    "stored": 0.1,
}


def test_sets_are_read_by_check_and_probabilities_of_0_and_1_are_moved(tmp_path: Path):
    other = {"model": "m", "check": "Paraphrase", "p": {"P": 0, "para_P": 1}, "question": {"P": 1, "para_P": 2}}
    neg, same = load_sets(lines(tmp_path / "a.jsonl.gz", SET, other))
    assert (neg.check, len(neg), neg.stored.tolist()) == ("Neg", 1, [0.1])
    assert neg.outcome[0, 0] == 1 and math.isnan(neg.outcome[0, 1])
    assert same.p.tolist() == [[0.001, 0.999]] and same.question.tolist() == [[1, 2]]


def test_the_sets_of_a_forecaster_are_one_book(tmp_path: Path):
    both = {
        "model": "m",
        "check": "And",
        "p": {"P": 0.5, "Q": 0.5, "P_and_Q": 0.4},
        "question": {"P": 1, "Q": 2, "P_and_Q": 3},
    }
    given = {"model": "m", "check": "Cond", "p": {"P": 0.5, "Q_given_P": 0.1, "P_and_Q": 0.4}}
    given["question"] = {"P": 1, "Q_given_P": 4, "P_and_Q": 3}
    beliefs = book(load_sets(lines(tmp_path / "a.jsonl.gz", both, given)), "m")
    assert {(b.event, b.given) for b in beliefs} == {("q1", ""), ("q2", ""), ("q1 and q2", ""), ("q2", "q1")}
    template = Template(beliefs)
    assert template.solve([[b.low for b in template.beliefs]]).lower[0] > 0.1


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"check": "Nag"}, "a.jsonl.gz:2: no check 'Nag'. Did you mean 'Neg'?"),
        ({"p": {"P": 0.5}}, "a.jsonl.gz:2: Neg needs the roles P, not_P."),
        ({"p": {"P": "x", "not_P": 0.5}}, "a.jsonl.gz:2: Expected `float`, got `str`"),
    ],
)
def test_a_set_that_cannot_be_read_says_where(changed: dict[str, object], complaint: str, tmp_path: Path):
    with pytest.raises(FormatError) as error:
        load_sets(lines(tmp_path / "a.jsonl.gz", SET, SET | changed))
    assert complaint in str(error.value)


@needs_data
@pytest.mark.slow
def test_the_book_of_a_forecaster_is_solved_on_few_of_its_cells():
    template = Template(book(load_sets(FILE), "BasicForecaster_gpt4o_2024-08-06"))
    found = template.solve([[b.low for b in template.beliefs]])
    assert found.upper[0] - found.lower[0] <= 1e-6 * found.upper[0]
    assert found.upper[0] == pytest.approx(152.0408486, rel=1e-6)  # all cells at once: 136 s
