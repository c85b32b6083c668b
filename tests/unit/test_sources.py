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

from dissonance import inconsistency, load
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
