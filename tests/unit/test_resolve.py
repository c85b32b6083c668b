"""dissonance resolve: what it writes, what it says, and what it refuses."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dissonance import Control, inconsistency, lir
from dissonance.cli.app import run
from dissonance.io import load
from fresh import python

EXAMPLES = Path(__file__).parents[2] / "examples"
SMOKING = str(EXAMPLES / "smoking.json")


def pdg_file(path: Path, *arcs: dict[str, Any], sizes: dict[str, int] | None = None, **keys: Any) -> str:
    """A file with these arcs over a binary variable X (or others)."""
    variables = [{"name": n, "size": k} for n, k in (sizes or {"X": 2}).items()]
    path.write_text(json.dumps({"format": "dissonance.pdg", "version": 1, "variables": variables, "arcs": arcs} | keys))
    return str(path)


def says(name: str, *table: float, **keys: Any) -> dict[str, Any]:
    """An arc to X."""
    return {"name": name, "targets": ["X"], "table": table} | keys


@pytest.fixture
def resolved(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Runs `dissonance resolve --json`; returns its object and the file it wrote."""

    def resolved(model: str, *args: str) -> tuple[dict[str, Any], Path]:
        out = tmp_path / "resolved.json"
        assert run(["resolve", model, "--out", str(out), "--json", *args]) == 0
        captured = capsys.readouterr()
        assert captured.out.count("\n") == 1
        return json.loads(captured.out), out

    return resolved


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """The one line on standard error that a command fails with."""
    assert run(["resolve", *args]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def table(path: Path, name: str) -> list[float]:
    return load(path)[0][name].cpd.table().tolist()


# -- what it does ------------------------------------------------------------------------------------------------------


def test_the_json_object_has_the_promised_keys(resolved):
    record, out = resolved(SMOKING, "--steps", "3")
    assert list(record) == [
        "initial", "final", "resolution_percent", "distortion_tv", "steps", "refocus", "flow", "solver", "unit", "out",
        "seconds", "moved", "moved_count",
    ]  # fmt: skip
    for key in ("initial", "final"):
        assert list(record[key]) == ["inconsistency", "lower", "upper"]
    assert (record["steps"], record["refocus"], record["unit"]) == (3, "uniform", "nats")
    pdg, focus = load(out)
    found = inconsistency(pdg, focus.attention)
    assert found.upper == pytest.approx(record["final"]["upper"], abs=1e-6)
    gone = 100 * (1 - record["final"]["upper"] / record["initial"]["upper"])
    assert record["resolution_percent"] == pytest.approx(gone)


@pytest.mark.parametrize("example", ["smoking", "two-experts", "shoes"])
def test_the_defaults_resolve_the_examples_in_twenty_steps(resolved, example: str):
    record, _ = resolved(str(EXAMPLES / f"{example}.json"))
    assert record["steps"] == 20
    assert record["resolution_percent"] > 99.9


def test_two_opinions_without_control_meet(resolved, tmp_path: Path):
    model = pdg_file(tmp_path / "m.json", says("p", 0.9, 0.1), says("q", 0.2, 0.8))
    record, out = resolved(model, "--flow", "natural")
    both = [math.sqrt(0.9 * 0.2), math.sqrt(0.1 * 0.8)]
    assert record["initial"]["upper"] == pytest.approx(-2 * math.log(sum(both)), abs=1e-6)
    assert table(out, "p") == pytest.approx(table(out, "q"), abs=1e-3)
    assert 0.2 < table(out, "p")[0] < 0.9


def test_only_what_the_file_controls_moves_and_the_rest_is_written_as_it_was(resolved, tmp_path: Path):
    arcs = [says("p", 0.9, 0.1, control=1.0, beta=2.0), says("q", 0.2, 0.8, alpha=0.5)]
    _, out = resolved(pdg_file(tmp_path / "m.json", *arcs))
    assert table(out, "q") == [0.2, 0.8]
    assert table(out, "p") == pytest.approx([0.2, 0.8], abs=1e-3)
    written = {a["name"]: a for a in json.loads(out.read_text())["arcs"]}
    assert (written["p"]["beta"], written["p"]["control"], written["q"]["alpha"]) == (2.0, 1.0, 0.5)
    assert "control" not in written["q"]


def test_control_and_attention_of_the_command_line_go_before_the_files(resolved, tmp_path: Path):
    model = pdg_file(tmp_path / "m.json", says("p", 0.9, 0.1, control=1.0), says("q", 0.2, 0.8))
    record, out = resolved(model, "--control", "p=0", "--control", "q=inf", "--attend", "p=3")
    assert table(out, "p") == [0.9, 0.1]
    assert table(out, "q") == pytest.approx([0.9, 0.1], abs=1e-6)
    weighted = -4 * math.log(sum(p**0.75 * q**0.25 for p, q in ((0.9, 0.2), (0.1, 0.8))))
    assert record["initial"]["upper"] == pytest.approx(weighted, abs=1e-6)
    assert json.loads(out.read_text())["arcs"][0]["beta"] == 1.0


def test_the_same_seed_gives_the_same_file(resolved):
    files = [resolved(SMOKING, "--refocus", "hub", "--steps", "3", "--seed", s)[1].read_bytes() for s in "112"]
    assert files[0] == files[1] != files[2]


def test_a_trace_has_a_line_for_every_step(resolved, tmp_path: Path):
    record, _ = resolved(SMOKING, "--steps", "3", "--trace", str(tmp_path / "t.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 2, 3]
    assert lines[0]["global_upper"] == pytest.approx(record["initial"]["upper"], abs=1e-9)
    assert lines[3]["global_upper"] == pytest.approx(record["final"]["upper"], abs=1e-9)


def test_the_steps_are_drawn_on_demand(resolved, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("matplotlib")
    resolved(SMOKING, "--steps", "2", "--plot", str(tmp_path / "steps.svg"))
    assert "<!-- inconsistency (nats) -->" in (tmp_path / "steps.svg").read_text()
    out = tmp_path / "never.json"
    assert run(["resolve", SMOKING, "--out", str(out), "--plot", str(tmp_path / "steps.gif")]) == 2
    assert ".svg, .png or .pdf" in capsys.readouterr().err and not out.exists()


def test_people_are_told_what_moved(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["resolve", SMOKING, "--out", str(tmp_path / "r.json"), "--steps", "3"]) == 0
    said = capsys.readouterr().out
    assert "Inconsistency: 0.105247 -> " in said
    assert "study" in said
    assert str(tmp_path / "r.json") in said.replace("\n", "")


def test_nothing_may_move_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model = pdg_file(tmp_path / "m.json", says("p", 0.9, 0.1, control=0.0), says("q", 0.2, 0.8))
    assert run(["resolve", model, "--out", str(tmp_path / "r.json"), "--json"]) == 0
    captured = capsys.readouterr()
    assert "every control is 0" in captured.err
    assert json.loads(captured.out)["resolution_percent"] == 0


def test_what_is_consistent_has_nothing_to_resolve(resolved, tmp_path: Path):
    record, out = resolved(pdg_file(tmp_path / "m.json", says("p", 0.9, 0.1)))
    assert record["resolution_percent"] is None
    assert table(out, "p") == [0.9, 0.1]


def test_a_model_on_standard_input(tmp_path: Path):
    words = ["resolve", "-", "--out", str(tmp_path / "r.json"), "--steps", "2"]
    done = python("-m", "dissonance", *words, text=Path(SMOKING).read_text())
    assert done.returncode == 0, done.stderr
    assert load(tmp_path / "r.json")[0]["survey"]


# -- stopping and going on ---------------------------------------------------------------------------------------------


def test_an_interrupted_run_goes_on(resolved, tmp_path: Path):
    whole, out = resolved(SMOKING, "--steps", "40", "--refocus", "hub")
    expected = out.read_bytes()
    other = tmp_path / "other.json"
    command = [sys.executable, "-m", "dissonance", "resolve", SMOKING, "--out", str(other), "--steps", "40"]
    command += ["--refocus", "hub", "--resume"]
    process = subprocess.Popen(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    checkpoint = tmp_path / "other.json.checkpoint"
    until = time.monotonic() + 60
    while not checkpoint.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    if process.returncode != 0:  # it may have been faster than the interrupt
        assert process.returncode == 130
        assert b"--resume goes on" in said
        assert not other.exists()
    again = python(*command[1:], "--json")
    assert other.read_bytes() == expected
    assert json.loads(again.stdout)["final"] == whole["final"]
    assert not checkpoint.exists()


def test_a_second_command_on_the_same_file_is_refused_while_the_first_runs_and_not_after_its_death(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out, lock = tmp_path / "r.json", tmp_path / ".r.json.lock"
    command = [sys.executable, "-m", "dissonance", "resolve", SMOKING, "--out", str(out), "--steps", "100000"]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + 60
        while not (tmp_path / "r.json.checkpoint").exists() and time.monotonic() < until:
            time.sleep(0.01)
        assert "another command is at work on it" in refused(capsys, SMOKING, "--out", str(out), "--resume")
    finally:
        first.kill()
        first.communicate()
    assert lock.exists()  # what is left of a kill is in nobody's way
    assert run(["resolve", SMOKING, "--out", str(out), "--steps", "1", "--json"]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.json"]


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", [".", "/", "", "..", "examples"])
def test_a_folder_is_no_place_for_a_model(out: str, capsys: pytest.CaptureFixture[str]):
    assert "expected a file, found a folder" in refused(capsys, SMOKING, "--out", out)


def test_a_format_that_cannot_hold_the_model_is_refused_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    two = str(EXAMPLES / "two-experts.json")
    said = refused(capsys, two, "--out", str(tmp_path / "r.bif"), "--steps", "100000")
    assert "are both about Rain; BIF holds Bayesian networks only: use .json" in said
    assert not list(tmp_path.iterdir())


def test_a_folder_in_place_of_a_checkpoint_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "r.json.checkpoint").mkdir()
    (tmp_path / "r.json.checkpoint" / "mine").touch()
    assert "is no checkpoint: it holds mine" in refused(capsys, SMOKING, "--out", str(tmp_path / "r.json"))
    assert "cannot be read" in refused(capsys, SMOKING, "--out", str(tmp_path / "r.json"), "--resume")


def test_fewer_steps_than_were_done_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pdg, given = load(SMOKING, learnable=True)
    chi = given.control if given.control.chi else Control({a.name: 1.0 for a in pdg})
    lir(pdg, steps=8, attention=given.attention, control=chi, checkpoint=tmp_path / "r.json.checkpoint")
    said = refused(capsys, SMOKING, "--out", str(tmp_path / "r.json"), "--resume", "--steps", "3")
    assert "has done 8 steps, and 3 are asked for" in said


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--refocus", "hubs"], "no refocus named 'hubs'. Did you mean 'hub'?"),
        (["--flow", "adams"], "no flow named 'adams'. Did you mean 'adam'?"),
        (["--solver", "papers"], "no solver named 'papers'. Did you mean 'paper'?"),
        (["--control", "survey"], "--control survey: expected ARC=NUMBER"),
        (["--control", "surve=1"], "no arc or source named 'surve'. Did you mean 'survey'?"),
        (["--control", "survey=much"], "'much' is not a number"),
        (["--control", "survey=-1"], "must be >= 0"),
        (["--attend", "survey=nan"], "must be a number"),
        (["--steps", "-1"], "Invalid value for '--steps'"),
        (["--steps", "few"], "Invalid value for '--steps'"),
        (["--seed", str(2**70)], "Invalid value for '--seed'"),
    ],
)
def test_bad_options_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
):
    assert complaint in refused(capsys, SMOKING, "--out", str(tmp_path / "r.json"), *arguments)
    assert not list(tmp_path.iterdir())


def test_bad_files_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = str(tmp_path / "r.json")
    assert "cannot be read" in refused(capsys, str(tmp_path / "nothing.json"), "--out", out)
    assert "sums to 0.9" in refused(capsys, pdg_file(tmp_path / "m.json", says("p", 0.5, 0.4)), "--out", out)
    assert "Missing option '--out'" in refused(capsys, SMOKING)
    nowhere = refused(capsys, SMOKING, "--steps", "1", "--out", str(tmp_path / "no" / "r.json"))
    assert f"{tmp_path / 'no' / 'r.json'}: cannot be written: no such file or directory" in nowhere  # not its lock
    assert not Path(out).exists()
