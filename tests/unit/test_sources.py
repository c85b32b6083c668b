"""Several files on the command line: score, query, resolve and report of surveys that disagree."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dissonance import PDG, Arc, Variable, inconsistency, load, save
from dissonance.cli import output
from dissonance.cli.app import run
from dissonance.io import load_sources
from dissonance.lir.progress import Bar
from dissonance.reporting import report

FILES = {
    "phone.csv": "Age,Buys,count\nyoung,no,60\nyoung,yes,90\nold,no,140\nold,yes,110\n",
    "till.csv": "Buys,count\nno,1540\nyes,460\n",
    "panel.csv": "given Age,Buys=no,Buys=yes,n\nyoung,0.70,0.30,120\nold,0.80,0.20,280\n",
    "census.csv": "Age,p\nyoung,0.45\nold,0.55\n",
}


@pytest.fixture
def models(tmp_path: Path) -> list[str]:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return [str(tmp_path / name) for name in FILES]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command prints, if it ends with this status."""

    def said(*args: str, status: int = 0) -> str:
        assert run(list(args)) == status, capsys.readouterr().err
        captured = capsys.readouterr()
        return captured.err if status else captured.out

    return said


@pytest.fixture
def record(said: Callable[..., str]) -> Callable[..., dict[str, Any]]:
    return lambda *args: json.loads(said(*args, "--json"))


def test_score_reads_each_file_as_a_source(models: list[str], record: Callable[..., dict[str, Any]]):
    found = record("score", *models)
    assert [a["name"] for a in found["arcs"]] == ["phone", "till", "panel", "census"]
    assert [a["beta"] for a in found["arcs"]] == [400, 2000, 400, 1]
    assert found["verdict"].startswith("phone disagrees most") and set(found["marginals"]["Buys"]) == {"no", "yes"}
    sources = load_sources(models)
    assert found["upper"] == pytest.approx(inconsistency(sources.pdg).upper, rel=1e-9)
    assert len(found["cells"]) == 8 and len(record("score", *models, "--top", "2")["cells"]) == 2
    less = record("score", *models, "--without", "phone", "--trust", "till=0.5", "--attend", "census=100")
    assert [a["beta"] for a in less["arcs"]] == [0, 1000, 400, 100] and less["upper"] < found["upper"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trust", "tell=2"], "no source named 'tell'. Did you mean 'till'?"),
        (["--attend", "phon=2"], "no arc or source named 'phon'. Did you mean 'phone'?"),
        (["--without", "censu"], "no arc or source named 'censu'. Did you mean 'census'?"),
        (["--trust", "till"], "expected SOURCE=NUMBER"),
    ],
)
def test_a_name_that_no_source_has_is_refused(
    models: list[str], said: Callable[..., str], options: list[str], message: str
):
    assert message in said("score", *models, *options, status=2)


def test_score_says_whether_it_is_chance(
    models: list[str], said: Callable[..., str], record: Callable[..., dict[str, Any]]
):
    printed = said("score", *models, "--chance", "100")
    assert "Is it more than chance?" in printed and "no samples, and left out of this: census" in printed
    found = record("score", *models, "--chance", "100")["chance"]
    assert found["p_value"] < 1e-4 and found["method"] == "asymptotic" and found["degrees"] == 3
    assert [b["name"] for b in found["blame"]] == ["phone", "till", "panel"]
    assert all(b["low"] <= b["high"] for b in found["blame"])
    assert "chance" not in record("score", *models)
    assert "no belief is a sample" in said("score", models[3], "--chance", "10", status=2)


def test_query_asks_the_compromise(models: list[str], said: Callable[..., str], record: Callable[..., dict[str, Any]]):
    found = record("query", *models, "--given", "Age=young", "--of", "Buys")
    sources = load_sources(models)
    mu = inconsistency(sources.pdg, sources.focus.attention).mu
    yes = float(mu.conditional("Buys", given={"Age": "young"})[1])
    assert found["marginals"]["Buys"]["yes"] == pytest.approx(yes, abs=1e-6) and found["given"] == {"Age": "young"}
    cells = record("query", *models, "--joint")["joint"]
    expected = {(a, b): float(mu.probability({"Age": a, "Buys": b})) for a in ("young", "old") for b in ("no", "yes")}
    assert {(c["Age"], c["Buys"]): pytest.approx(c["p"], abs=1e-6) for c in cells} == expected
    given = record("query", *models, "--joint", "--given", "Age=young")["joint"]
    assert [c["p"] for c in given] == pytest.approx([1 - yes, yes], abs=1e-6)
    assert re.search(r"young +yes +0\.\d{4}", said("query", *models, "--joint"))
    assert "Given Age=young" in said("query", *models, "--given", "Age=young")
    for words, message in (
        ("Age=yong", "'Age' has no value 'yong'. Did you mean 'young'?"),
        ("Agee=young", "no variable named 'Agee'. Did you mean 'Age'?"),
        ("Age", "expected VARIABLE=VALUE"),
    ):
        assert message in said("query", *models, "--given", words, status=2)


def test_resolve_keeps_and_moves_by_pattern(models: list[str], tmp_path: Path, record: Callable[..., dict[str, Any]]):
    out = tmp_path / "resolved"
    found = record("resolve", *models, "--out", f"{out}/", "--keep", "census", "--keep", "t*")
    assert {m["arc"] for m in found["moved"]} == {"phone", "panel"}
    for name in ("census.csv", "till.csv"):
        assert (out / name).read_text() == FILES[name]
    moved, _ = load(out / "phone.csv")
    assert moved["phone"].cpd.table()[0, 0] > 0.15
    only = record("resolve", *models, "--out", f"{tmp_path / 'only'}/", "--move", "ph*ne")
    assert {m["arc"] for m in only["moved"]} == {"phone"}
    assert only["final"]["upper"] > found["final"]["upper"]


POLL = {
    "format": "dissonance.pdg",
    "version": 1,
    "variables": [
        {"name": "Buys", "values": ["yes", "no"]},
        {"name": "Free", "values": ["a", "b"]},
    ],
    "arcs": [
        {"name": "poll.csv/a", "targets": ["Buys"], "table": [0.9, 0.1], "beta": 7.5, "alpha": 0.5, "control": 1},
        {"name": "b", "targets": ["Buys"], "table": [0.3, 0.7], "control": 0.5},
    ],
    "foci": {"first": {"beta": {"poll.csv/a": 1}, "control": {"b": 1}}},
    "schedules": {"all": ["first"]},
}


@pytest.mark.parametrize("name", ["poll.csv.json", "m.json", "poll.json"])
def test_a_file_in_a_folder_keeps_all_but_the_beliefs_that_moved(
    tmp_path: Path, record: Callable[..., dict[str, Any]], name: str
):
    model, till = tmp_path / name, tmp_path / "till.csv"
    model.write_text(json.dumps(POLL))
    till.write_text("Buys,count\nno,31\nyes,70\n")
    moved = record("resolve", str(till), str(model), "--out", f"{tmp_path / 'out'}/")["moved"]
    assert {m["arc"] for m in moved} == {"poll.csv/a", "b"}
    (before, focus), (after, again) = load(model), load(tmp_path / "out" / name)
    assert (after.variables, after.arc_names) == (before.variables, before.arc_names)
    assert again == focus and again.schedules.orders == {"all": ("first",)}
    for m in moved:
        assert after[m["arc"]].cpd.table().tolist() == pytest.approx([m["is"]["yes"], m["is"]["no"]])


def test_a_file_in_a_folder_keeps_names_that_another_file_has_too(
    tmp_path: Path, record: Callable[..., dict[str, Any]]
):
    arcs = {"m": {"a": 0.2, "n/b": 0.3}, "n": {"a": 0.6, "n/b": 0.5, "n/c": 0.1}}
    for file, tables in arcs.items():
        X = Variable("X", ["u", "v"])
        save(tmp_path / f"{file}.json", PDG(*(Arc(n, (), X, [p, 1 - p]) for n, p in tables.items())))
    record("resolve", str(tmp_path / "m.json"), str(tmp_path / "n.json"), "--out", f"{tmp_path / 'out'}/")
    for file, tables in arcs.items():
        assert load(tmp_path / "out" / f"{file}.json")[0].arc_names == list(tables)


def test_a_table_whose_weight_a_file_cannot_hold_is_named(
    models: list[str], tmp_path: Path, said: Callable[..., str], caplog: pytest.LogCaptureFixture
):
    said("resolve", *models, "--out", f"{tmp_path / 'out'}/", "--keep", "till", "--keep", "panel")
    assert "phone.csv" in caplog.text and "phone=400" in caplog.text
    assert "till" not in caplog.text and "census" not in caplog.text


def test_a_file_whose_suffix_says_nothing_is_written_as_it_was_read(tmp_path: Path, said: Callable[..., str]):
    for name, text in (("a.txt", "X;p\nu;0,2\nv;0,8\n"), ("b", "X,p\nu,0.4\nv,0.6\n")):
        (tmp_path / name).write_text(text)
    said("resolve", str(tmp_path / "a.txt"), str(tmp_path / "b"), "--out", f"{tmp_path / 'out'}/")
    for name in ("a.txt", "b"):
        assert (tmp_path / "out" / name).read_text().startswith("X,p\nu,")


@pytest.fixture
def alike(tmp_path: Path) -> str:
    """A file with labels that read alike, or have commas, and with names that mean something else in JSON."""
    X, P = Variable("X=1", [1, "1"]), Variable("p", ["a, b", "a"])
    Q = Variable("q", ["c", "b, c"])
    both = [[0.1, 0.2], [0.3, 0.4]]
    arcs = (
        Arc("a", X, (P, Q), [both, [[0.4, 0.3], [0.2, 0.1]]]),
        Arc("b", (), X, [0.25, 0.75]),
        Arc("c", (), X, [0.5, 0.5]),
    )
    save(tmp_path / "alike.npz", PDG(*arcs, Arc("d", (), (P, Q), [[0.25, 0.25], [0.25, 0.25]])))
    return str(tmp_path / "alike.npz")


def test_labels_that_read_alike_are_told_apart(
    alike: str, tmp_path: Path, record: Callable[..., dict[str, Any]], said: Callable[..., str]
):
    mu = inconsistency(load(alike)[0]).mu
    for found in (record("score", alike)["marginals"], record("query", alike)["marginals"]):
        assert found["X=1"] == pytest.approx({"1": float(mu["X=1"][1]), "'1'": float(mu["X=1"]["1"])}, abs=1e-6)
    found = record("query", alike, "--given", "X=1='1'")
    assert found["given"] == {"X=1": "'1'"} and found["probability"] == pytest.approx(float(mu["X=1"]["1"]), abs=1e-6)
    moved = {m["arc"]: m for m in record("resolve", alike, "--out", str(tmp_path / "r.npz"))["moved"]}
    was = {'"a, b", c': 0.25, '"a, b", "b, c"': 0.25, "a, c": 0.25, 'a, "b, c"': 0.25}
    assert moved["d"]["was"] == was and sum(moved["d"]["is"].values()) == pytest.approx(1)
    assert moved["b"]["was"] == {"1": 0.25, "'1'": 0.75}


def test_a_variable_named_p_keeps_its_labels(alike: str, record: Callable[..., dict[str, Any]]):
    cells = record("query", alike, "--joint", "--of", "p", "--of", "q")["joint"]
    mu = inconsistency(load(alike)[0]).mu
    expected = {(p, q): float(mu.probability({"p": p, "q": q})) for p in ("a, b", "a") for q in ("c", "b, c")}
    assert {(c["p"], c["q"]): c["p_"] for c in cells} == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--keep", "tell"], "no arc or source named 'tell'. Did you mean 'till'?"),
        (["--move", "p*", "--keep", "phone"], "'phone' is to move as well"),
        (["--control", "phone=1", "--keep", "phone"], "'phone' is to move as well"),
        (["--control", "till=1", "--move", "phone"], "only phone may move"),
    ],
)
def test_patterns_that_clash_are_refused(
    models: list[str], tmp_path: Path, said: Callable[..., str], options: list[str], message: str
):
    assert message in said("resolve", *models, "--out", f"{tmp_path / 'r'}/", *options, status=2)
    assert not (tmp_path / "r").exists()


def test_a_contradiction_is_not_resolved_and_says_what_to_do(tmp_path: Path, said: Callable[..., str]):
    for name, counts in (("a", (10, 0)), ("b", (0, 7))):
        (tmp_path / f"{name}.csv").write_text(f"X,count\nno,{counts[0]}\nyes,{counts[1]}\n")
    models, out = [str(tmp_path / f"{n}.csv") for n in "ab"], tmp_path / "r.json"
    message = said("resolve", *models, "--out", str(out), status=1)
    assert "nothing was written" in message and "a gives X=yes probability 0; b gives X=no" in message
    assert "pseudocount" in message and message.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "b.csv"]
    assert "a gives X=yes probability 0" in said("score", *models)
    assert "-> " in said("resolve", *models, "--out", str(out), "--pseudocount", "0.5") and out.exists()
    (tmp_path / "c.csv").write_text("X,p\nno,0.5\nyes,0.5\n")
    assert "no source has any" in said("score", str(tmp_path / "c.csv"), "--pseudocount", "1", status=2)


def test_a_report_says_it_all_in_one_file(models: list[str], tmp_path: Path, said: Callable[..., str]):
    html, text = tmp_path / "r.html", tmp_path / "r.md"
    assert "phone disagrees most" in said("report", *models, "--out", str(html))
    page = html.read_text()
    for heading in ("The beliefs", "Who is to blame", "Is it more than chance?", "Where", "The best compromise"):
        assert f"<h2>{heading}</h2>" in page
    assert "<h2>Reconciled tables</h2>" in page and "<h2>How to reproduce</h2>" in page
    assert "<svg" in page and "proved to lie between" in page and "<script" not in page
    assert not re.search(r'(?:src|href)="(?!#)', page), "nothing from elsewhere"
    said("report", *models, "--out", str(text), "--title", "Three *surveys*")
    assert text.read_text().startswith("# Three \\*surveys\\*\n\n**phone disagrees most")
    assert (tmp_path / "r.svg").read_text().startswith("<svg") and "](r.svg)" in text.read_text()
    assert "a report is written as .html or .md" in said("report", *models, "--out", "r.pdf", status=2)


def test_a_report_of_beliefs_that_fit_blames_nobody(models: list[str]):
    sources = load_sources(models[1:2])
    found = report(inconsistency(sources.pdg, sources.focus.attention)).markdown()
    assert "Nobody disagrees" in found and "Reconciled" not in found and "chance" not in found


def test_help_has_a_short_name_and_study_shows_its_commands(said: Callable[..., str]):
    assert "Usage: dissonance" in said("-h") and "--trust" in said("score", "-h")
    shown = said("study", status=2)
    assert shown.count("\n") > 8 and "  synthetic" in shown and not shown.startswith("dissonance:")


def test_a_narrow_terminal_loses_columns_and_no_digits(
    models: list[str], said: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    wide = said("score", *models)
    monkeypatch.setattr(output, "WIDTH", 46)
    narrow = said("score", *models)
    assert "saved if dropped" in wide and "saved if dropped" not in narrow and "…" not in narrow
    for line in narrow.splitlines():
        assert len(line) <= 46
    contributions = re.findall(r"^ phone .*?([\d.]+) *$", narrow, re.MULTILINE)
    assert contributions and all(x in wide for x in contributions)


def test_progress_off_a_terminal_prints_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    assert not Console(file=sys.stderr).is_terminal
    for shown in (True, None, False):
        with Bar(shown, 3) as bar:
            bar(1, [])
    assert capsys.readouterr().err == ""


def test_a_study_without_what_it_needs_leaves_no_folder(
    tmp_path: Path, said: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "optuna", None)
    out = tmp_path / "study"
    assert "needs Optuna" in said("study", "gflownet", "--preset", "tiny", "--out", str(out), status=2)
    assert not out.exists()
