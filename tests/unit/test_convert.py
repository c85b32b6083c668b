"""dissonance convert: the same model in another format, or one line that says why not."""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dissonance.cli.app import run
from dissonance.io import load

ROOT = Path(__file__).parents[2]
BIF = """network unknown {
}
variable A {
  type discrete [ 2 ] { yes, no };
}
variable B {
  type discrete [ 2 ] { yes, no };
}
probability ( A ) {
  table 0.25, 0.75;
}
probability ( B | A ) {
  (yes) 0.1, 0.9;
  (no) 0.30000000000000004, 0.7;
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.bif"
    path.write_text(BIF)
    return path


def test_a_network_goes_round_and_comes_back_as_it_was(tmp_path: Path, model: Path):
    stops = [model, *(tmp_path / f"m.{form}" for form in ("xmlbif", "json", "json.gz", "out.bif"))]
    for here, there in itertools.pairwise(stops):
        assert run(["convert", str(here), str(there)]) == 0
    assert stops[-1].read_text() == BIF


def test_uai_says_that_it_drops_names(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["convert", str(model), str(tmp_path / "m.uai")]) == 0
    assert capsys.readouterr().err == (
        "dissonance: note: UAI has no names: variables and values are numbered in their order.\n"
    )
    assert run(["convert", str(tmp_path / "m.uai"), str(tmp_path / "again.uai.gz")]) == 0
    assert capsys.readouterr().err == ""


def test_evidence_becomes_hard_arcs(tmp_path: Path, model: Path):
    (tmp_path / "m.uai.evid").write_text("1 1 0\n")
    out = tmp_path / "m.json"
    assert run(["convert", str(model), str(out), "--evidence", str(tmp_path / "m.uai.evid")]) == 0
    pdg, focus = load(out)
    assert pdg["B = yes"].cpd.table().tolist() == [1.0, 0.0]
    assert (focus.attention.beta["B = yes"], focus.attention.alpha["B = yes"]) == (float("inf"), 0.0)


def test_standard_input_is_known_by_what_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(BIF.encode())))
    assert run(["convert", "-", str(tmp_path / "m.json"), "--to", "replicate"]) == 0
    assert [e["label"] for e in json.loads((tmp_path / "m.json").read_text())["graph"]["edges"]] == ["A", "B"]


def test_beliefs_that_are_no_network_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "m.bif"
    assert run(["convert", str(ROOT / "examples" / "two-experts.json"), str(out)]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and "BIF holds Bayesian networks only: use .json." in line
    assert not out.exists()


def test_weights_are_left_out_on_demand(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]):
    weighed, out = tmp_path / "m.json", tmp_path / "out.bif"
    assert run(["convert", str(model), str(weighed)]) == 0
    weighed.write_text(weighed.read_text().replace('"beta":1.0', '"beta":2.0'))
    assert run(["convert", str(weighed), str(out)]) == 2
    assert "has beta 2, and BIF has no place for weights" in capsys.readouterr().err
    assert run(["convert", str(weighed), str(out), "--without-weights"]) == 0
    assert out.read_text() == BIF


def test_every_command_reads_every_format(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["score", str(model), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inconsistency"] == pytest.approx(0.0, abs=1e-7)
    out = tmp_path / "resolved.bif"
    assert run(["resolve", str(model), "--out", str(out), "--steps", "1"]) == 0
    assert [a.name for a in load(out)[0]] == ["A", "B"]


def test_a_model_goes_to_standard_output(model: Path, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path):
    assert run(["convert", str(model), "-", "--to", "bif"]) == 0
    assert capsysbinary.readouterr().out.decode() == BIF
    assert run(["convert", str(model), "-"]) == 0
    assert [a.name for a in load(io.BytesIO(capsysbinary.readouterr().out))[0]] == ["A", "B"]
    assert run(["convert", str(model), "-", "--json"]) == 2
    assert run(["resolve", str(model), "--out", "-"]) == 2
    captured = capsysbinary.readouterr()
    assert captured.out == b"" and captured.err.count(b"\n") == 2


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="there is no /dev/stdout")
def test_a_model_goes_through_a_pipe(model: Path):
    command = [sys.executable, "-m", "dissonance", "convert", str(model), "/dev/stdout", "--to", "bif"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, BIF), done.stderr


def test_evidence_in_place_of_a_model_is_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "m.uai.evid"
    path.write_text("1 1 0\n")
    assert run(["score", str(path)]) == 2
    message = capsys.readouterr().err
    assert message.count("m.uai.evid") == 1 and "is evidence, not a model" in message
