"""ArcNames of arcs, origins and patterns, and facts: what moves, on the command line, in Python and in the studio."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dissonance import (
    PDG,
    Arc,
    Attention,
    Control,
    DissonanceError,
    Focus,
    SoftmaxTable,
    Variable,
    inconsistency,
    lir,
    lirs,
)
from dissonance.cli.app import run
from dissonance.drawing import draw
from dissonance.drawing.data import data
from dissonance.io import load, save
from dissonance.lir.refocus import weighted
from dissonance.lir.resolving import movable
from dissonance.names import ArcNames
from dissonance.reporting import report
from dissonance.studio import actions
from dissonance.studio.place import StudioPlace

X = Variable("X", ["no", "yes"])
INF = math.inf
TABLES = {0: [0.9, 0.1], 1: [0.2, 0.8], 2: [0.6, 0.4], 3: [0.3, 0.7]}


def beliefs(*names: str, moves: bool = False) -> PDG:
    """A belief about X of each name."""
    kind = SoftmaxTable if moves else list
    return PDG(*(Arc(n, (), X, kind(TABLES[i])) for i, n in enumerate(names)))


def pdg_file(path: Path, *names: str, **control: float) -> str:
    pdg = beliefs(*names)
    save(path, pdg, Focus(Attention().on(pdg), Control(control)))
    return str(path)


def counted(path: Path, no: float, yes: float) -> str:
    path.write_text(f"X,count\nno,{no}\nyes,{yes}\n")
    return str(path)


def moved(before: PDG, after: PDG) -> set[str]:
    return {a.name for a in before.arcs if not a.cpd.table().allclose(after[a.name].cpd.table(), rtol=0, atol=1e-15)}


@pytest.fixture
def resolved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[set[str], dict[str, Any]]]:
    """Runs `dissonance resolve`; returns the arcs that differ in what it wrote, and what it said."""

    def resolved(*words: str) -> tuple[set[str], dict[str, Any]]:
        out = tmp_path / "resolved.json"
        assert run(["resolve", *words, "--out", str(out), "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        files = [w for w in words if w.endswith((".json", ".csv", ".npz"))]
        before = {a.name: a.cpd.table() for f in files for a in load(f)[0].arcs}
        after, _ = load(out)
        found = {n for n, table in before.items() if not table.equal(after[n].cpd.table())}
        assert {m["arc"] for m in said["moved"]} == found
        return found, said

    return resolved


def in_studio(model: object, control: dict[str, float], folder: Path) -> set[str]:
    found = json.loads(
        actions.act(
            StudioPlace(folder), "run", json.dumps({"model": model, "control": control}).encode(), lambda _: False
        )
    )
    return {m["arc"] for m in found["moved"]}


# -- names -------------------------------------------------------------------------------------------------------------


def test_a_name_is_an_arc_before_an_origin_and_both_before_a_pattern():
    names = ArcNames(beliefs("z", "a*", "ab", "x[1]"), {"z": ("z", "ab"), "y": ("x[1]", "ab")})
    assert names.arcs("z") == ("z",)
    assert names.arcs("y") == ("x[1]", "ab")
    assert names.arcs("a*") == ("a*",)
    assert names.arcs("a?") == ("a*", "ab")
    assert names.arcs("z*") == ("z", "ab")  # the arc, and the arcs of the origin, that fit
    assert names.arcs("*[1]") == ("x[1]",)
    with pytest.raises(DissonanceError, match=r"'x\[\]'"):
        names.arcs("x[]")


def test_the_more_exact_name_decides_a_weight():
    names = ArcNames(beliefs("a", "ab", "b"), {"o": ("a", "b")}, facts=("b",))
    assert names.weights({"a": 1.0, "*": 0.0, "a*": 2.0}) == {"a": 1.0, "ab": 2.0}  # patterns pass over facts
    assert names.weights({"*": 0.0, "o": 3.0}) == {"a": 3.0, "ab": 0.0, "b": 3.0}
    with pytest.raises(DissonanceError, match="'b'"):
        names.weights({"b*": 1.0})


def test_arcs_with_dots_in_their_names_are_kept_by_their_whole_names(resolved, tmp_path: Path):
    one, two = counted(tmp_path / "survey.2020.csv", 90, 10), counted(tmp_path / "survey.2021.csv", 20, 80)
    assert resolved(one, two, "--keep", "survey.2020")[0] == {"survey.2021"}
    model = pdg_file(tmp_path / "m.json", "a", "a.b", "c")
    assert resolved(model, "--keep", "a")[0] == {"a.b", "c"}
    assert resolved(model, "--keep", "a.b")[0] == {"a", "c"}


@pytest.mark.parametrize("where", ["options", "file"])
def test_an_arc_that_is_named_like_a_parameter_of_another_moves_by_itself(resolved, tmp_path: Path, where: str):
    names = ("a", "a.logits", "c")
    for control in ({"a.logits": 1.0}, {"a": 1.0, "a.logits": 0.0}):
        moving = {n for n, chi in control.items() if chi}
        in_file = control if where == "file" else {}
        model = pdg_file(tmp_path / "m.json", *names, **in_file)
        words = [f"--control={n}={chi}" for n, chi in control.items()] if where == "options" else []
        assert resolved(model, *words)[0] == moving
        pdg = beliefs(*names, moves=True)
        assert moved(pdg, lir(pdg, control=control, steps=3, progress=False).pdg) == moving
        swept = lir(pdg, "sweep", control=control, sweeps=2, progress=False)
        assert moved(pdg, swept.pdg) == moving
        if where == "file":
            control = {}
        assert in_studio(json.loads(Path(model).read_text()), control, tmp_path) == moving


def test_a_focus_on_one_arc_does_not_control_another_that_is_named_like_its_parameter():
    pdg = beliefs("a", "a.logits", moves=True)
    base = Focus(Attention().on(pdg), Control({"a.logits": 1.0}).on(pdg))
    assert not weighted(base, {"a": 1.0}).control.chi
    assert dict(weighted(base, {"a.logits": 1.0}).control.chi) == {"a.logits": 1.0}
    alone = beliefs("a", moves=True)
    assert dict(weighted(Focus(Attention().on(alone), Control({"a.logits": 1.0}).on(alone)), {"a": 1.0}).control.chi)


def test_pictures_mark_the_arc_that_is_controlled_and_no_other():
    pdg = beliefs("survey", "survey.2020")
    shown = data(draw(pdg, focus=Focus(Attention().on(pdg), Control({"survey.2020": 1.0}))).scene)
    told = {line.split(":")[0]: line for line in _strings(shown) if line.startswith("survey")}
    assert "control" in told["survey.2020"] and "control" not in told["survey"]


def _strings(given: object) -> list[str]:
    if isinstance(given, str):
        return [given.replace("\n", " ")] if ": " in given else []
    inside = given.values() if isinstance(given, dict) else given if isinstance(given, list | tuple) else ()
    return [s for x in inside for s in _strings(x)]


def test_an_exact_name_goes_before_a_pattern(resolved, tmp_path: Path):
    model = pdg_file(tmp_path / "m.json", "x[1]", "x1", "x*")
    assert resolved(model, "--keep", "x[1]")[0] == {"x1", "x*"}
    assert resolved(model, "--move", "x*", "--move", "x1")[0] == {"x*", "x1"}


@pytest.mark.parametrize("name", ["z.json", "other.json"])
def test_an_arc_goes_before_an_origin_of_its_name(resolved, tmp_path: Path, name: str):
    model = pdg_file(tmp_path / name, "z", "a", "b")
    assert resolved(model, "--move", "z")[0] == {"z"}
    assert resolved(model, "--keep", "z")[0] == {"a", "b"}
    assert resolved(model, "--without", "z")[0] == {"a", "b"}


def test_what_is_to_move_moves_though_the_file_keeps_it(resolved, tmp_path: Path):
    model = pdg_file(tmp_path / "m.json", "a", "b", a=0.0, b=1.0)
    assert resolved(model, "--move", "a")[0] == {"a"}


def test_a_control_of_a_parameter_survives_a_file_of_columns(tmp_path: Path):
    pdg = beliefs("a", "b", "a.b", moves=True)
    for control, moving in (({"a.b.logits": 1.0}, {"a.b"}), ({"a": 1.0, "a.logits": 0.0}, set()), ({"b": 0.0}, set())):
        save(tmp_path / "m.npz", pdg, Focus(Attention().on(pdg), Control(control)))
        again, focus = load(tmp_path / "m.npz", learnable=True)
        chosen = movable(ArcNames(again), focus)
        assert {n for n, chi in chosen.control.largest(again).items() if chi} == moving
        assert moved(again, lir(again, control=chosen.control, steps=2, progress=False).pdg) == moving


# -- facts -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def surveys(tmp_path: Path) -> list[str]:
    return [counted(tmp_path / "s1.csv", 60, 90), counted(tmp_path / "s2.csv", 60, 60)]


def test_a_fact_is_kept_unless_a_control_names_it(resolved, surveys: list[str], tmp_path: Path):
    found, said = resolved(*surveys, "--attend", "s2=inf")
    assert found == {"s1"}
    assert said["initial"]["upper"] == pytest.approx(150 * 0.5 * math.log(0.25 / 0.24), abs=1e-6)
    assert said["final"]["upper"] == pytest.approx(0, abs=1e-6)
    after = load(tmp_path / "resolved.json")[0]["s1"].cpd.table().tolist()
    assert after == pytest.approx([0.5, 0.5], abs=1e-6)
    assert resolved(*surveys, "--attend", "s2=inf", "--keep", "s1")[0] == set()  # a fact is not named by what is kept
    assert resolved(*surveys, "--attend", "s2=inf", "--move", "s*")[0] == {"s1"}  # patterns pass over facts
    assert "s2" in resolved(*surveys, "--attend", "s2=inf", "--control", "s2=1")[0]


def test_lir_and_the_studio_keep_facts(tmp_path: Path):
    pdg = PDG(Arc("s1", (), X, SoftmaxTable([0.4, 0.6])), Arc("s2", (), X, SoftmaxTable([0.5, 0.5]), beta=INF))
    kept = lir(pdg, steps=5, progress=False)
    assert moved(pdg, kept.pdg) == {"s1"}
    assert kept.after.upper < kept.before.upper < INF
    assert moved(pdg, lir(pdg, steps=1, control={"s2": 1.0}, progress=False).pdg) == {"s2"}
    with pytest.raises(DissonanceError, match="s1"):
        lir(pdg, attention={"s1": INF}, progress=False)
    save(tmp_path / "m.json", pdg, Focus(Attention().on(pdg)))
    model = json.loads((tmp_path / "m.json").read_text())
    assert in_studio(model, {}, tmp_path) == {"s1"}
    assert in_studio(model, {"*": 1.0}, tmp_path) == {"s1"}


def test_many_runs_have_weights_of_their_own():
    pdgs = [PDG(Arc("p", (), X, SoftmaxTable(TABLES[0]), beta=b), Arc("q", (), X, TABLES[1])) for b in (1, 5, INF)]
    for run_, pdg in zip(lirs(pdgs[:2], steps=1, progress=False), pdgs, strict=False):
        assert run_.before.upper == pytest.approx(inconsistency(pdg).upper, abs=1e-7)


def test_facts_that_contradict_each_other_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    files = [counted(tmp_path / f"{n}.csv", *x) for n, x in (("till", (1, 1)), ("tax", (2, 1)), ("poll", (1, 3)))]
    facts = ["--attend", "till=inf", "--attend", "tax=inf"]
    out = tmp_path / "out.json"
    assert run(["resolve", *files, *facts, "--out", str(out)]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "till and tax contradict each other" in said and "poll" not in said and not out.exists()
    page = tmp_path / "out.md"
    assert run(["report", *files, *facts, "--out", str(page)]) == 1
    assert "till and tax contradict each other" in " ".join(capsys.readouterr().err.split())
    assert "Reconciled tables" not in page.read_text()


def test_a_report_that_leaves_infinity_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    files = [counted(tmp_path / "phone.csv", 60, 90), counted(tmp_path / "till.csv", 154, 46)]
    options = ["--attend", "till=inf", "--json"]
    page = tmp_path / "out.md"
    assert run(["report", *files, *options, "--out", str(page)]) == 0
    left = json.loads(capsys.readouterr().out)["reconciled"]["upper"]
    assert left < 1e-6
    reconciled = page.read_text().partition("Reconciled tables")[2]
    assert "| phone" in reconciled and "| till" not in reconciled


# -- a report resolves what resolve resolves ---------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--keep", "b"], ["--move", "c"], ["--control", "b=0.5"]])
def test_report_and_resolve_leave_the_same(resolved, tmp_path: Path, capsys: pytest.CaptureFixture[str], options):
    model = pdg_file(tmp_path / "m.json", "a", "b", "c", a=1.0)
    if options == ["--keep", "b"]:
        model = pdg_file(tmp_path / "m.json", "a", "b", "c")
    names, said = resolved(model, *options)
    page = tmp_path / "out.md"
    assert run(["report", model, *options, "--out", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reconciled"] == said["final"]
    reconciled = page.read_text().partition("Reconciled tables")[2]
    assert {n for n in "abc" if f"| {n} |" in reconciled} == names


def test_a_report_resolves_the_beliefs_at_the_parameters_of_its_result():
    pdg = PDG(Arc("p", (), X, SoftmaxTable([0.9, 0.1])), Arc("q", (), X, TABLES[1]))
    here = {"p.logits": SoftmaxTable([0.3, 0.7]).logits.detach()}
    result = inconsistency(pdg, theta=here)
    found = report(result, control={"p": 1.0}).resolved
    assert found is not None
    assert found.initial.upper == pytest.approx(result.upper, abs=1e-9)
    assert {m.arc for m in found.moves()} == {"p"} and not report(result, control={}).resolved.moves()


# -- what is printed is the score of what is written -------------------------------------------------------------------


def test_what_is_printed_is_the_score_of_what_is_written(resolved, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    files = [counted(tmp_path / "cen1.csv", 330000000, 1), counted(tmp_path / "cen2.csv", 330000000, 4)]
    found, said = resolved(*files)
    assert run(["score", str(tmp_path / "resolved.json"), "--json"]) == 0
    score = json.loads(capsys.readouterr().out)
    assert score["upper"] == pytest.approx(said["final"]["upper"], abs=1e-6)
    assert found == {"cen1", "cen2"} and score["upper"] < 1e-4
    sources = PDG(*(load(f)[0].arcs[0] for f in files))
    attention = Attention({"cen1": 330000001.0, "cen2": 330000004.0})
    left = report(inconsistency(sources, attention), replicates=0).resolved
    assert left is not None and inconsistency(left.pdg, attention).upper == left.final.upper < 1e-4


def test_sweeps_write_small_moves_of_large_counts(tmp_path: Path):
    files = [counted(tmp_path / "cen1.csv", 330000000, 1), counted(tmp_path / "cen2.csv", 330000000, 4)]
    assert run(["resolve", *files, "--refocus", "sweep", "--sweeps", "5", "--out", str(tmp_path / "r.json")]) == 0
    pdg, focus = load(tmp_path / "r.json")
    assert inconsistency(pdg, focus.attention).upper < 1e-4
