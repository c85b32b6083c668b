"""Files of forecasts, and the command that scores them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from dissonance import Belief, FormatError
from dissonance.cli.app import run
from dissonance.forecasts import Book, coherence, load_books

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "forecasts.csv"


def written(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def one(path: Path, content: str) -> Book:
    (book,) = load_books([written(path, content)])
    return book


SAME = [
    Belief("A", 0.5),
    Belief("A and B", 0.6, beta=2.0),
    Belief("B", (0.2, 0.4), "A", outcome=True),
    Belief("A or B"),
]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "a.csv",
            "belief,given,p,low,high,beta,outcome\nA,,0.5,,,,\nA and B,,60%,,,2,\nB,A,,0.2,0.4,,yes\nA or B,,,,,,\n",
        ),
        (
            "a.tsv",
            "event\tgiven\tprobability\tlow\thigh\tbeta\tresolution\n"
            "A\t\t0.5\nA and B\t\t0.6\t\t\t2\nB\tA\t\t.2\t.4\t\t1\nA or B\n",
        ),
        (
            "a.json",
            '[{"belief": "A", "p": 0.5}, {"belief": "A and B", "p": 0.6, "beta": 2},\n'
            '{"belief": "B", "given": "A", "low": 0.2, "high": 0.4, "outcome": true}, "A or B"]',
        ),
    ],
)
def test_a_book_is_the_same_in_every_format(name: str, content: str, tmp_path: Path):
    assert one(tmp_path / name, content).beliefs == SAME


def test_the_text_form_is_a_file_too_and_a_list_may_be_named_in_json(tmp_path: Path):
    assert one(tmp_path / "a.txt", "P(A) = 0.5\n\n# so\nA or B").places[1].endswith("a.txt:4")
    assert one(tmp_path / "b", "P(A) = 0.5 @ 2").beliefs == [Belief("A", 0.5, beta=2.0)]
    assert one(tmp_path / "c.json", '{"beliefs": ["P(A) = 0.5"]}').beliefs == [Belief("A", 0.5)]


def test_percent_and_the_line_ends_of_other_systems_are_read(tmp_path: Path):
    said = [Belief("A", 0.3), Belief("A", (0.1, 0.2))]
    assert one(tmp_path / "a.txt", "P(A) = 30%\nP(A) in [10%, 20%]").beliefs == said
    for end in ("\r\n", "\r"):
        content = end.join(["\ufeffbelief;p;low;high", "A;0.3", "A;;0.1;0.2"])
        (tmp_path / "a.csv").write_bytes(content.encode())
        assert load_books([tmp_path / "a.csv"])[0].beliefs == said


@pytest.mark.parametrize("apart", [";", "\t"])
def test_numbers_may_have_decimal_commas_where_no_comma_delimits(tmp_path: Path, apart: str):
    content = "belief;p;low;high;beta\nA;0,5;;;1,5\nA;;0,1;0,2;\nA;30,5%;;;2".replace(";", apart)
    said = [Belief("A", 0.5, beta=1.5), Belief("A", (0.1, 0.2)), Belief("A", 0.305, beta=2.0)]
    assert one(tmp_path / "a.csv", content).beliefs == said


def test_sets_are_apart_and_facts_without_a_set_hold_in_all(tmp_path: Path):
    table = written(tmp_path / "a.csv", "who,belief,p\nx,A,0.9\ny,A,0.3\nx,B,0.2\ny,B,0.2\n")
    facts = written(tmp_path / "facts.txt", "A -> B")
    x, y = load_books([table, facts], group="who")
    assert (x.name, y.name) == ("x", "y") and x.beliefs[-1] == y.beliefs[-1] == Belief("A -> B")
    assert coherence(x.beliefs).lower > coherence(y.beliefs).lower > 0


def test_questions_of_platforms_are_events_by_whatever_text_they_have(tmp_path: Path):
    content = 'Question Title,Forecast,Resolution\n"Will ""X"" | Y happen, soon?",30%,annulled\nWon\'t Z?,0.2,no\n'
    book = one(tmp_path / "a.csv", content)
    assert [b.outcome for b in book.beliefs] == [None, False]
    assert coherence(book.beliefs).upper == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.csv", "belief,p\nA,0.5\nA and,0.5\n", "a.csv:3: cannot read 'A and'"),
        ("a.csv", "belief,p\nA,0.5\n\nA,1.2\n", "a.csv:4: the probability of 'A' is 1.2"),
        ("a.csv", "belief,p\nA,half\n", "a.csv:2: 'half' is not a number"),
        ("a.csv", "belief,p\nA,nan\n", "a.csv:2: 'nan' is not a number"),
        ("a.csv", "belief,p\nA in {x, y},0.5\n", "a.csv:2: found 3 columns where the heading has 2"),
        ("a.csv", "belief,p,outcome\nA,0.2,perhaps\n", "a.csv:2: the outcome is 'perhaps'"),
        ("a.csv", "belief,p,low\nA,0.2,0.1\n", "a.csv:2: has both p and a range"),
        ("a.csv", "belief,p\n,0.5\n", "a.csv:2: the belief is missing"),
        ("a.csv", "beliefs,p\nA,0.5\n", "a.csv:1: no column named belief. Did you mean 'beliefs'?"),
        ("a.csv", "belief,event\nA,B\n", "a.csv:1: two columns mean 'belief'"),
        ("a.csv", "belief,p\nA,\nB,0.5\nnot A,\n", "a.csv:4: not A contradicts the facts before it"),
        ("a.csv", "belief,given,p\nA,,0.5\nA,B and not B,0.5\n", "a.csv:3: P(A | B and not B) = 0.5 is about nothing"),
        ("a.csv", "set,belief,p\nx,W=a,0.5\nx,\"W in {b, c}\",\n", "a.csv:2: no value W=a. Known: b, c."),
        ("a.csv", "", "a.csv: is empty"),
        ("a.csv", "belief,p\n", "a.csv: no forecasts are in there"),
        ("a.csv", 'belief,p\nA,"0,3"\n', "a.csv:2: '0,3' is not a number; the decimal point is a point"),
        ("a.csv", "belief;p\nA;0,3\nB;0.4\n", "a.csv:2: '0,3' has a comma where '0.4' has a point"),
        ("a.csv", "belief;p;beta\nA;1;1.500\n", "a.csv:2: '1.500' may be 1500 or a decimal number"),
        ("a.csv", "a;belief,p\nA;B,0.3\n", "a.csv:1: may be separated by commas (2 columns) or semicolons (2 columns)"),
        ("a.csv", "belief,p,p\nA,0.3,0.4\n", "a.csv:1: two columns mean 'p'"),
        ("a.csv", "belief,p,beta\nA,0.3,-1\n", "a.csv:2: the confidence in 'A' is -1; it must not be negative"),
        ("a.txt", f"P({'A and ' * 10**5}B) = 0.3", "a.txt:1: a belief has 600010 characters; 100000 are the most"),
        ("a.txt", f"P({'(' * 10**4}A) = 0.3", "a.txt:1: an expression is nested too deeply to be read"),
        ("a.txt", "P(A) = 130%", "a.txt:1: the probability of 'A' is 1.3"),
        ("a.json", '[{"belief": "A", "p": 0.5},\n{"belief": "A", "q": 0.5}]', "a.json:2: unknown key 'q'"),
        ("a.json", '[{"belief": "A", "p": 0.5},\n 3]', "a.json:2: beliefs[1] is not an object"),
        ("a.json", '["P(A) = 2"]', "a.json:1: the probability of 'A' is 2"),
        ("a.json", '{"belief": "A"}', 'a.json:1: expected a list of beliefs, or {"beliefs": [...]}'),
        ("a.json", '["P(A)', "a.json:1: the JSON ends too soon"),
        ("a.txt", "P(A) = 0.5\nP(A", "a.txt:2: cannot read 'P(A'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_with_its_place(
    name: str, content: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "out.csv"
    assert run(["coherence", str(written(tmp_path / name, content)), "--out", str(out)]) == 2
    printed = capsys.readouterr()
    assert complaint in printed.err and printed.err.count("\n") == 1 and printed.out == ""
    assert not out.exists()


def test_a_column_to_group_by_must_be_there(tmp_path: Path):
    with pytest.raises(FormatError, match="no column 'model' to group by"):
        load_books([written(tmp_path / "a.csv", "belief,p,Model\nA,0.5,x\n")], group="model")


def test_the_example_is_scored_in_json_and_what_is_coherent_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "out.csv"
    assert run(["coherence", str(EXAMPLE), "--json", "--out", str(out)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["sets", "score", "unit", "seconds"] and found["unit"] == "nats"
    assert [s["set"] for s in found["sets"]] == ["storm", "league", "council"]
    for s in found["sets"]:
        assert s["converged"] and 0 < s["lower"] <= s["inconsistency"] <= s["upper"]
        assert s["gain"]["least"] >= s["lower"] and all(w["gain"] >= s["lower"] for w in s["gain"]["by_outcome"])
        assert s["realised"] >= s["lower"] if s["realised"] is not None else True
    council = found["sets"][2]
    assert sum(b["coherent"] for b in council["beliefs"]) == pytest.approx(1)
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 12 and {r["set"] for r in rows} == {"storm", "league", "council"}
    assert run(["coherence", str(EXAMPLE), "--out", str(tmp_path / "out.json"), "--score", "brier", "-q"]) == 0
    assert len(json.loads((tmp_path / "out.json").read_text())) == 12


def test_what_is_written_is_coherent(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out.csv"
    assert run(["coherence", str(EXAMPLE), "--out", str(out), "--json"]) == 0
    facts = {"storm": ["Flood -> Delays"], "league": ["Winner in {North, South, East, West}"]}
    rows = [r for r in csv.DictReader(out.read_text().splitlines()) if r["set"] in facts]
    for name, rules in facts.items():
        said = [Belief(r["belief"], float(r["coherent"]), r["given"]) for r in rows if r["set"] == name]
        assert coherence([*said, *map(Belief, rules)]).upper < 1e-9


def test_one_book_is_shown_with_its_bets_and_worlds(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = written(tmp_path / "a.txt", "P(Rain) = 0.5\nP(Wind) = 0.5\nP(Rain and Wind) = 0.6")
    assert run(["coherence", str(path)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Certain gain: 0.01357 nats\ncertified between 0.0135661232 and")
    assert "Rain and Wind 0.6 0.5337 0.00901 against 0.117 -0.117 0.1533" in " ".join(printed.split())
    assert "Rain=yes, Wind=yes" in printed
    assert run(["coherence", str(written(path, "P(A) = 0.5"))]) == 0
    assert "The beliefs fit together" in capsys.readouterr().out
    assert run(["coherence", str(written(path, "P(A) = 1\nP(A) = 0"))]) == 0
    assert "Certain gain: inf" in capsys.readouterr().out


def test_many_books_are_shown_in_a_table_with_their_scores(capsys: pytest.CaptureFixture[str]):
    assert run(["coherence", str(EXAMPLE)]) == 0
    printed = capsys.readouterr().out
    assert "nats in 3 of 3 sets" in printed and "Winner=North" in printed
    assert "as they are" in printed and "reconciled" in printed
