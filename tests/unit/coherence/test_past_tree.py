"""Books that no junction tree fits: what the command line says of a bracket, interrupted or not; what it refuses."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dissonance import coherence
from dissonance.bounds.oracle import installed
from dissonance.cli.app import run
from dissonance.coherence.beliefs import BeliefError, as_beliefs
from dissonance.coherence.events import truth
from dissonance.coherence.facts import contradictory
from dissonance.coherence.past_tree import book_bracket
from dissonance.coherence.template import Template
from dissonance.costs import BRIER_SCORE, SCORES
from dissonance.solvers import Bounds

SINGLE = [f"P(x{i}) = 0.15" for i in range(8)]
TANGLED = [*SINGLE, *(f"P(x{i} and x{j}) = {0.2 + 0.05 * ((i + j) % 5)}" for i in range(40) for j in range(i))]
"""Forecasts of all pairs of forty events, of which some are thought less likely than these."""


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text("\n".join(TANGLED))
    return path


def test_a_bracket_never_looks_like_a_value(book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out.csv"
    assert run(["coherence", str(book), "--seconds", "0", "--json", "--out", str(out)]) == 0
    printed = capsys.readouterr()
    (found,) = json.loads(printed.out)["sets"]
    assert found["inconsistency"] is None and found["bracket"] and not found["converged"]
    assert 0 < found["lower"] < found["upper"]
    assert "the bounds of 1 of 1 sets do not meet" in printed.err
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == len(TANGLED)
    assert {(r["lower"], r["upper"], r["converged"]) for r in rows} == {
        (repr(found["lower"]), repr(found["upper"]), "False")
    }


def test_people_are_shown_both_ends_of_a_bracket(book: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["coherence", str(book), "--seconds", "0"]) == 0
    assert capsys.readouterr().out.startswith("Certain gain: between ")


def test_an_exact_answer_is_no_bracket(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "a.txt"
    path.write_text("P(A) = 0.3\nP(A) = 0.6")
    assert run(["coherence", str(path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["sets"]
    assert not found["bracket"] and found["inconsistency"] == found["upper"]


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_ctrl_c_keeps_the_best_bracket(book: Path):
    command = [sys.executable, "-m", "dissonance", "coherence", str(book), "--seconds", "500", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    seen = ""
    for line in process.stderr:
        seen = line
        if "between" in line:
            break
    assert "between" in seen
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=120)
    assert process.returncode == 0 and "the best bounds so far are kept" in said
    (found,) = json.loads(out)["sets"]
    assert found["bracket"] and 0 < found["lower"] < found["upper"]
    low, high = (float(x) for x in seen.split("between ")[1].split(" after")[0].split(" and "))
    assert found["lower"] >= low * (1 - 1e-5) and found["upper"] <= high * (1 + 1e-5)


def test_the_brier_score_has_brackets_too(book: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["coherence", str(book), "--score", "brier", "--seconds", "0", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["sets"]
    assert found["bracket"] and found["inconsistency"] is None and 0 < found["lower"] < found["upper"]
    assert sum(b["contribution"] for b in found["beliefs"]) == pytest.approx(found["upper"], rel=1e-9)


MIXED = [
    *("P(A) = 0.7", "P(B | A) = 0.9 @ 2", "P(A and B) = 0.2", "P(not A) = 0.6", "P(B) in [0.1, 0.2]", "P(C) = 0"),
    *("P(C or A) = 0.3", "P(B or C | not A) = 1", "P(A -> C) >= 0.9 @ 3", "B -> not D", "P(D) = 0.95"),
]
"""Beliefs about the same event, conditions, ranges, probabilities of 0 and 1, a fact."""


def won(template: Template, gain: np.ndarray, world: dict[str, bool]) -> float:
    """What the bets at entries of tables win in a world."""
    seen = {k: np.array(["yes" if v else "no"], dtype=object) for k, v in world.items()}
    at = np.cumsum([0] + [h.arc.cpd.log_table().numel() for h in template.graph.held])[:-1]
    total = 0.0
    for i, b in enumerate(template.beliefs):
        if b.source is None or truth(b.source, seen)[0][0]:
            ends = template.graph.held[i].yes if truth(b.target, seen)[0][0] else template.graph.held[i].no
            total += min(gain[at[i] + e] for e in ends)
    return total


INSISTED = {
    "certain ones": ["P(A) = 0", "P(B) = 0.3", "P(A xor B) = 0.6", "P(C | A) = 0.2"],
    "a hard one": ["P(A) = 0.3 @ inf", "P(A and B) = 0.4", "P(B) = 0.2 @ 3"],
    "a hard conditional": ["P(A | B) = 0.9 @ inf", "P(B) = 0.8", "P(A) = 0.3", "P(C | B) = 0.5 @ inf"],
    "a hard range": ["P(A) in [0.6, 0.7] @ inf", "P(A) = 0.2", "P(A and B) >= 0.8", "B -> C"],
    "a comparison": ["P(A) >= P(B) @ inf", "P(A) = 0.3", "P(B) = 0.6"],
    "certain and hard": ["P(A or B) = 1 @ inf", "P(A) = 0.3", "P(B) = 0.4", "P(A and B) = 0.3"],
}


@pytest.mark.parametrize("score", ["log", "brier"])
@pytest.mark.parametrize("name", INSISTED)
def test_bets_on_hard_beliefs_count_where_no_tree_fits(name: str, score: str):
    template = Template(INSISTED[name])
    low, high, beta = ([[getattr(b, end) for b in template.beliefs]] for end in ("low", "high", "beta"))
    exact = template.solve(low, high, beta, score=score)
    solver = Bounds(seconds=2.0, tol=1e-3)
    found = book_bracket(template.graph, template.arcs(low, high, beta), 0, solver, SCORES[score])
    assert 0.0 < found.lower <= exact.upper[0] <= found.upper + 1e-9
    assert found.lower > 0.9 * exact.lower[0]
    rules = [b for b in as_beliefs(INSISTED[name]) if b.is_fact]
    for world in product((False, True), repeat=3):
        values = dict(zip("ABC", world, strict=True))
        seen = {k: np.array(["yes" if v else "no"], dtype=object) for k, v in values.items()}
        if all(truth(b.fact, seen)[0][0] for b in rules):
            assert won(template, found.gain, values) >= found.lower - 1e-9


def test_a_condition_that_another_belief_takes_for_impossible_is_none_that_cannot_hold(book: Path):
    found = coherence([*TANGLED, "P(x0) = 0", "P(x1 | x0) = 0.3"], seconds=0.0)
    assert found.lower <= found.upper


@pytest.mark.parametrize("score", ["log", "brier"])
def test_brackets_hold_the_exact_value_and_their_bets_win_the_lower_end_in_every_world(score: str):
    said = MIXED if score == "brier" else [b for b in MIXED if not b.endswith(("= 0", "= 1"))]
    template = Template(said)
    low, high = ([[getattr(b, end) for b in template.beliefs]] for end in ("low", "high"))
    exact = template.solve(low, high, score=score)
    assert exact.converged.all() and exact.lower[0] > 0.3
    solver = Bounds(seconds=20.0, tol=1e-3)
    found = book_bracket(template.graph, template.arcs(low, high), 0, solver, SCORES[score])
    assert found.lower <= exact.upper[0] and found.upper >= exact.lower[0]
    assert found.upper - found.lower < 0.02 * found.upper
    for world in product((False, True), repeat=4):
        values = dict(zip("ABCD", world, strict=True))
        if not (values["B"] and values["D"]):
            assert won(template, found.gain, values) >= found.lower - 1e-9


@pytest.mark.parametrize("beta", [0.0, float("inf")])
def test_beliefs_that_cost_nothing_are_bracketed_at_zero(beta: float):
    template = Template(["P(A and B <-> C | A) = 0", "P(B) = 0.3", "P(C) = 0.4"])
    arcs = template.arcs([[0.0, 0.3, 0.4]], beta=[[beta, 0.0, 0.0]])
    for cost in SCORES.values():
        found = book_bracket(template.graph, arcs, 0, Bounds(seconds=0.5), cost)
        assert found.lower == 0.0 and found.upper == pytest.approx(0.0, abs=1e-12)


@pytest.mark.skipif(not installed(), reason="needs pytoulbar2")
def test_the_cheapest_world_is_searched_for_under_the_brier_score_too(monkeypatch: pytest.MonkeyPatch):
    template = Template([f"P(x{i} xor x{j}) = 0.9" for i in range(6) for j in range(i)])
    p = [[b.low for b in template.beliefs]]
    exact = template.solve(p, score="brier").upper[0]  # three against three: 9 of 15 pairs differ
    assert exact == pytest.approx(15 * (0.9 - 9 / 15) ** 2, abs=1e-6)
    monkeypatch.setattr("dissonance.bounds.bracketing.helpful", lambda *_: [])  # no larger regions
    found = book_bracket(template.graph, template.arcs(p), 0, Bounds(seconds=60.0, tol=1e-2), BRIER_SCORE)
    assert 0.99 * exact <= found.lower <= exact <= found.upper


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        (["x0", "x1 -> not x0", "x1"], "book.txt:791: x1 contradicts the facts before it"),
        (
            ["x0 xor x1", "x1 xor x2", "x2 xor x0"],
            "book.txt:791: exactly 1 of (x2, x0) contradicts the facts before it",
        ),
        (["x0 and not x0"], "book.txt:789: x0 and not x0 can never hold"),
        (["P(x0 | x1 and x2) = 0.5", "not x1"], "book.txt:789: P(x0 | x1 and x2) = 0.5 is about nothing"),
    ],
)
def test_facts_that_contradict_each_other_are_one_line_with_the_place(
    facts: list[str], complaint: str, book: Path, capsys: pytest.CaptureFixture[str]
):
    book.write_text("\n".join([*TANGLED, *facts]))
    assert run(["coherence", str(book), "--seconds", "0"]) == 2
    printed = capsys.readouterr()
    assert complaint in printed.err and printed.err.count("\n") == 1 and printed.out == ""


def test_facts_that_no_tree_fits_are_looked_at_few_variables_at_once():
    facts = as_beliefs(["A -> B", "B -> C", "A", "D", "not C", "E"])
    assert contradictory(facts, ()) == contradictory(facts, (), budget=0) == 4
    assert contradictory(facts[:4], ()) is contradictory(facts[:4], (), budget=0) is None
    # what only three facts together show is seen on a tree
    hidden = as_beliefs(["A xor B", "B xor C", "C xor A"])
    assert contradictory(hidden, ()) == 2 and contradictory(hidden, (), budget=0) is None


def test_what_one_belief_takes_for_certain_and_another_for_impossible_is_an_infinite_gain():
    found = coherence([*TANGLED, "P(x0) = 1", "P(x0 and x1) = 0", "P(x1) = 1"], seconds=0.0)
    assert found.lower == found.upper == float("inf") and not found.is_bracket


def test_hard_beliefs_that_contradict_each_other_are_an_infinite_gain():
    hard = ["P(x0) = 0.3 @ inf", "P(x0 and x1) = 0.5 @ inf"]
    assert coherence([*TANGLED, *hard], seconds=0.0).lower == float("inf")
    one = coherence([*TANGLED, hard[0]], seconds=0.0)
    assert 0 < one.lower < float("inf")


def test_a_condition_that_cannot_hold_names_its_belief():
    with pytest.raises(BeliefError) as error:
        coherence([*TANGLED, "P(x3 | x1 and x2) = 0.2", "not x2"], seconds=0.0)
    assert error.value.belief == len(TANGLED)


def test_a_book_without_a_soft_belief_has_no_squared_error():
    found = coherence(
        [f"P(x{i} and x{j}) = 0.2 @ inf" for i in range(40) for j in range(i)], score="brier", seconds=0.0
    )
    assert found.lower == 0.0 and found.upper in (0.0, float("inf"))
