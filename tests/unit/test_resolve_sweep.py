"""dissonance resolve --refocus sweep, on files of columns and on any other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from dissonance import PDG, inconsistency, lir, load, save
from dissonance.cli.app import run
from dissonance.columns import Column, ColumnarPDG

SMOKING = Path(__file__).parents[2] / "examples" / "smoking.json"


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """A ring of 50 variables with a belief about each, in columns; the first beliefs cannot move."""
    rng, n = np.random.default_rng(0), 50
    unary, pairs = rng.dirichlet([1, 1], n), rng.dirichlet([1, 1], (n, 2))
    ring = Column(np.arange(n), (np.arange(n) + 1) % n, pairs)
    save(tmp_path / "big.npz", PDG.from_columns(Column([], np.arange(n), unary, learnable=False), ring))
    return tmp_path / "big.npz"


def record(capsys: pytest.CaptureFixture[str], *args: object) -> dict[str, object]:
    assert run(["resolve", *map(str, args), "--refocus", "sweep", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_file_of_columns_is_swept_as_lir_does(big: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out.npz"
    said = record(capsys, big, "--out", out, "--sweeps", 4, "--neighbourhood", "closed")
    assert said["refocus"] == "sweep(closed)" and said["steps"] == 4 and said["final"]["inconsistency"] is None  # pyright: ignore
    made, given = load(out)[0], load(big)[0]
    assert isinstance(made, ColumnarPDG) and isinstance(given, ColumnarPDG) and not made.columns[0].learnable
    known = lir(given.learnable(), "sweep", neighbourhood="closed", sweeps=4).pdg
    for a in given:
        assert torch.allclose(made[a.name].cpd.table(), known[a.name].cpd.table(), atol=1e-12)
    assert inconsistency(made).upper < 0.05 * inconsistency(given).upper
    moved = sum(int(((made[a.name].cpd.table() - a.cpd.table()).abs() > 1e-12).any(-1).sum()) for a in given)
    assert said["moved_count"] == moved == len(said["moved"])  # pyright: ignore[reportArgumentType]


def test_what_cannot_move_by_control_is_written_as_it_was(
    big: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "out.npz"
    said = record(capsys, big, "--out", out, "--sweeps", 2, "--control", "a60=1", "--control", "a61=1")
    assert {m["arc"] for m in said["moved"]} <= {"a60", "a61"}  # pyright: ignore
    made, given = load(out)[0], load(big)[0]
    assert isinstance(made, ColumnarPDG) and isinstance(given, ColumnarPDG)
    assert torch.equal(made.columns[0].tables, given.columns[0].tables)
    same = (made.columns[1].tables == given.columns[1].tables).flatten(1).all(1)
    assert torch.nonzero(~same).flatten().tolist() == [10, 11]


def test_any_model_may_be_swept_and_what_is_proved_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out.json"
    assert run(["resolve", str(SMOKING), "--out", str(out), "--refocus", "sweep", "--sweeps", "30"]) == 0
    printed = capsys.readouterr().out
    assert "Inconsistency of all foci as they were met" in printed and "that of the whole is at least" in printed
    assert "nan" not in printed
    assert inconsistency(load(out)[0], load(out)[1].attention).upper < 1e-6


def test_a_stopped_command_goes_on(big: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    straight, out = tmp_path / "straight.npz", tmp_path / "out.npz"
    record(capsys, big, "--out", straight, "--sweeps", 5)
    given = load(big)[0].learnable()
    weights = load(big)[1].attention
    from dissonance import Control

    control = Control(dict.fromkeys(given.arc_names, 1.0))
    path = tmp_path / "out.npz.checkpoint"
    lir(given, "sweep", sweeps=5, attention=weights, control=control, checkpoint=path, callbacks=[lambda n, _: n == 2])
    record(capsys, big, "--out", out, "--sweeps", 5, "--resume")
    assert out.read_bytes() == straight.read_bytes() and not path.exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--refocus", "sweep", "--steps", "3"), "takes `sweeps`"),
        (("--refocus", "hub", "--sweeps", "3"), 'are for refocus "sweep"'),
        (("--refocus", "sweep", "--neighbourhood", "stars"), "no neighbourhood named 'stars'"),
        (("--refocus", "sweep", "--gamma", "1"), "gamma = 0"),
        (("--refocus", "sweeps"), "Did you mean 'sweep'"),
    ],
)
def test_what_does_not_apply_is_refused(
    args: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(["resolve", str(SMOKING), "--out", str(tmp_path / "out.json"), *args]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and not (tmp_path / "out.json").exists()


def test_models_are_converted_to_columns_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    there, back = tmp_path / "m.npz", tmp_path / "m.json"
    assert run(["convert", str(SMOKING), str(there)]) == 0 and run(["convert", str(there), str(back)]) == 0
    one, other = (load(p) for p in (SMOKING, back))
    for a in one[0]:
        assert torch.equal(a.cpd.table(), other[0][a.name].cpd.table())
    assert dict(one[1].attention.beta) == dict(other[1].attention.beta)
    assert dict(one[1].control.chi) == dict(other[1].control.chi)


def test_bounds_of_the_whole_are_shown_where_they_are_asked_for(
    big: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    said = record(capsys, big, "--out", tmp_path / "out.npz", "--sweeps", 1, "--bounds", 1)
    known = inconsistency(load(big)[0])
    assert said["initial"]["lower"] <= known.upper and said["initial"]["upper"] >= known.lower  # pyright: ignore
    assert run(["resolve", str(big), "--out", str(tmp_path / "no.npz"), "--bounds", "1"]) == 2
    assert "refocus sweep" in capsys.readouterr().err and not (tmp_path / "no.npz").exists()
