"""Files of forecasts, and the command that scores them."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

from dissonance import Belief, FormatError
from dissonance.cli.app import run
from dissonance.errors import DissonanceError
from dissonance.forecasts import Book, coherence, coherences, load_books

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
            "belief,given,p,low,high,beta,outcome\n"
            "A,,0.5,,,,\nA and B,,60%,,,2,\nB,A,,0.2,0.4,,yes\nA or B,,1,,,inf,\n",
        ),
        (
            "a.tsv",
            "event\tgiven\tprobability\tlow\thigh\tbeta\tresolution\n"
            "A\t\t0.5\nA and B\t\t0.6\t\t\t2\nB\tA\t\t.2\t.4\t\t1\nA or B\t\t100%\t\t\tinf\n",
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
        ("a.csv", "belief,p\nA,nan\n", "a.csv:2: the probability of 'A' is missing"),
        ("a.csv", "belief,p\nA in {x, y},0.5\n", "a.csv:2: found 3 columns where the heading has 2"),
        ("a.csv", "belief,p,outcome\nA,0.2,perhaps\n", "a.csv:2: the outcome is 'perhaps'"),
        ("a.csv", "belief,p,low\nA,0.2,0.1\n", "a.csv:2: has both p and a range"),
        ("a.csv", "belief,p\n,0.5\n", "a.csv:2: the belief is missing"),
        ("a.csv", "beliefs,p\nA,0.5\n", "a.csv:1: no column named belief. Did you mean 'beliefs'?"),
        ("a.csv", "belief,event\nA,B\n", "a.csv:1: two columns mean 'belief'"),
        ("a.csv", "belief,p,beta\nA,1,inf\nB,0.5,\nnot A,1,inf\n", "a.csv:4: not A contradicts the facts before it"),
        ("a.csv", "belief,given,p\nA,,0.5\nA,B and not B,0.5\n", "a.csv:3: P(A | B and not B) = 0.5 is about nothing"),
        ("a.csv", "set,belief,p,beta\nx,W=a,0.5,\nx,\"W in {b, c}\",1,inf\n", "a.csv:2: no value W=a. Known: b, c."),
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


BLANK = {
    "a.csv": "belief,p\nB,0.2\nA,0.3\nnot A,\n",
    "b.csv": "belief,low,high\nB,0.2,\nA,,0.3\nnot A,,\n",
    "c.tsv": "question\tforecast\tset\nB\t0.2\tx\nA\t0.3\tx\nC\tNA\tx\n",
    "d.json": '[{"belief": "B", "p": 0.2}, {"belief": "A", "probability": 0.3},\n\n{"belief": "not A", "p": null}]',
    "e.json": '["P(B) = 0.2", {"belief": "A", "p": 0.3},\n\n{"belief": "not A"}]',
}


@pytest.mark.parametrize("name", BLANK)
def test_a_missing_probability_is_refused_with_its_line_or_dropped_aloud(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = written(tmp_path / name, BLANK[name])
    line = 3 if name.endswith("json") else 4
    with pytest.raises(FormatError, match=f"{name}:{line}: "):
        load_books([path])
    assert run(["coherence", str(path)]) == 2
    assert f"{name}:{line}: " in capsys.readouterr().err
    assert run(["coherence", str(path), "--drop-missing", "--json"]) == 0
    printed = capsys.readouterr()
    (found,) = json.loads(printed.out)["sets"]
    assert len(found["beliefs"]) == 2 and found["inconsistency"] == pytest.approx(0, abs=1e-9)
    assert name in printed.err and f": {line}" in printed.err


def test_a_forecast_of_an_export_that_has_no_probability_is_no_fact(tmp_path: Path):
    path = written(tmp_path / "markets.json", json.dumps([
        {"question": "A?", "outcomes": '["Yes", "No"]', "outcomePrices": '["0.5", "0.5"]'},
        {"question": "B?", "outcomes": '["Yes", "No"]', "outcomePrices": '["", ""]'},
    ]))  # fmt: skip
    with pytest.raises(FormatError, match=r"markets\.json:2: "):
        load_books([path])
    assert len(load_books([path], drop_missing=True)[0].beliefs) == 1


def test_a_file_without_a_probability_column_states_facts(tmp_path: Path):
    assert one(tmp_path / "a.csv", "name,belief\nx,A -> B\ny,B\n").beliefs == [
        Belief("A -> B", name="x"), Belief("B", name="y")
    ]  # fmt: skip


def test_a_question_alone_is_no_fact(tmp_path: Path):
    with pytest.raises(FormatError, match=r"a\.csv:2: "):
        load_books([written(tmp_path / "a.csv", "question,topic\nWill A win?,x\nWill B?,x\n")])


@pytest.mark.parametrize(
    ("content", "column"),
    [
        ("question,model_a,model_b\nA,0.3,0.4\nB,,30%\n", "'model_a', 'model_b'"),
        ("belief;name;Model;prob\nA;x;gpt;0,3\nB;y;gpt;0,2\n", "'prob'"),
    ],
)
def test_a_wide_file_of_numbers_that_are_not_read_is_refused(content: str, column: str, tmp_path: Path):
    with pytest.raises(FormatError, match=column):
        load_books([written(tmp_path / "a.csv", content)])


@pytest.mark.parametrize("score", ["log", "brier"])
def test_a_fact_is_what_is_written_as_one(score: str, tmp_path: Path):
    rows = "belief,p,beta\nA,0.3,\nB,0.6,\nB -> A,{p},{beta}\n"
    by_fact = coherence(one(tmp_path / "a.csv", rows.format(p=1, beta="inf")).beliefs, score=score)
    assert by_fact.upper == pytest.approx(coherence(["P(A)=.3", "P(B)=.6", "B -> A"], score=score).upper)
    assert len(by_fact.rows) == 2
    assert len(coherence(one(tmp_path / "b.csv", rows.format(p=1, beta=2)).beliefs, score=score).rows) == 3


def test_columns_that_are_not_read_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = written(tmp_path / "a.csv", "belief,p,model,volume\nA,0.3,x,10\nA,0.6,y,20\n")
    assert run(["coherence", str(path), "--json"]) == 0
    printed = capsys.readouterr()
    assert "'model', 'volume'" in printed.err and len(json.loads(printed.out)["sets"]) == 1
    assert run(["coherence", str(path), "--group", "model", "--json"]) == 0
    printed = capsys.readouterr()
    assert "'model'" not in printed.err and "'volume'" in printed.err
    assert [s["set"] for s in json.loads(printed.out)["sets"]] == ["x", "y"]


MODELS = """belief,p,beta,model,topic
A,0.3,,x,rain
A,0.6,,x,sun
A,0.9,,y,rain
B,0.2,,y,rain
A -> B,1,inf,,rain
B or C,1,inf,y,
D,1,inf,,
"""


@pytest.mark.parametrize("group", [["--group", "model,topic"], ["--group", "model", "--group", "topic"]])
def test_several_columns_keep_every_combination_apart(
    group: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = written(tmp_path / "a.csv", MODELS)
    facts = written(tmp_path / "facts.txt", "E")
    found = load_books([path, facts], ["model", "topic"])
    assert {b.name: [x.event for x in b.beliefs] for b in found} == {
        "x, rain": ["A", "A -> B", "D", "E"],
        "x, sun": ["A", "D", "E"],
        "y, rain": ["A", "B", "A -> B", "B or C", "D", "E"],
    }
    assert run(["coherence", str(path), *group, "--json"]) == 0
    assert [s["set"] for s in json.loads(capsys.readouterr().out)["sets"]] == ["x, rain", "x, sun", "y, rain"]
    objects = [
        dict(zip(MODELS.split()[0].split(","), line.split(","), strict=True)) for line in MODELS.split("\n")[1:-1]
    ]
    same = load_books([written(tmp_path / "a.json", json.dumps(objects))], ["model", "topic"])
    assert [b.beliefs for b in same] == [b.beliefs for b in load_books([path], ["model", "topic"])]


def test_sets_of_several_columns_are_told_apart_whatever_their_values_are(tmp_path: Path):
    path = written(tmp_path / "a.csv", 'belief,p,a,b\nA,0.3,"x, y",z\nA,0.6,x,"y, z"\n')
    assert len(load_books([path], ["a", "b"])) == 2


def test_each_column_to_group_by_must_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = written(tmp_path / "a.csv", MODELS)
    assert run(["coherence", str(path), "--group", "model,topics"]) == 2
    assert "'topics'" in capsys.readouterr().err
    other = written(tmp_path / "a.json", '[{"belief": "A", "p": 0.3}]')
    with pytest.raises(FormatError, match="'topics'"):
        load_books([other], "topics")


def test_frames_leave_no_probability_blank_and_are_one_book():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"belief": ["A", "not A"], "p": [0.3, None]}, index=["first", "second"])
    for missing in (None, math.nan, pandas.NA):
        with pytest.raises(DissonanceError, match="'second'"):
            coherence(frame.assign(p=pandas.Series([0.3, missing], index=frame.index, dtype=object)))
    with pytest.raises(DissonanceError, match="model_a"):
        coherence(pandas.DataFrame({"question": ["A", "B"], "model_a": [0.1, 0.2]}))
    with pytest.raises(DissonanceError, match="set"):
        coherence(pandas.DataFrame({"belief": ["A", "A"], "p": [0.3, 0.6], "set": ["x", "y"]}))
    books = pandas.DataFrame({"belief": ["A", "A", "A"], "p": [0.3, 0.6, 0.6], "set": ["x", "y", "y"]})
    assert [len(r.rows) for r in coherences([some for _, some in books.groupby("set")])] == [1, 2]
    with pytest.warns(UserWarning, match="'model'"):
        assert len(coherence(pandas.DataFrame({"belief": ["A"], "p": [0.3], "model": ["x"]})).rows) == 1
