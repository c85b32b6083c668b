"""What a study of GFlowNets refuses, in one line."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_gflownet import SETTINGS, WORDS, study

from dissonance.cli.app import run
from dissonance.errors import DissonanceError
from dissonance.studies.gflownet.folder import GflownetFolder, Machine
from dissonance.studies.gflownet.search import Search

pytest.importorskip("optuna")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--losses", "TB,ModDB"], "unknown loss 'ModDB'. Did you mean 'ModTB'?"),
        (["--losses", ","], "losses = nothing: name some"),
        (["--rewards", "xor,cosin"], "no grid has a reward 'cosin'. Did you mean 'cosine'?"),
        (["--clamps", "whole"], "unknown clamp 'whole'. Known: none, trajectory, batch."),
        (["--searched", "batch"], "search it too"),
        (["--seeds", "1,-2"], "the seed '-2' is not a number from 0"),
        (["--seeds", "3,3"], "seeds = 3, 3: name some, each once"),
        (["--base", "-1"], "a reward of -1 where there is no mode: give 0 or more"),
        (["--base", "nan"], "a reward of nan"),
        (["--dimensions", "0"], "found 0 and 8"),
        (["--dimensions", "24", "--height", "24"], "states, more than 20000000 that tables can hold"),
        (["--dimensions", "2", "--height", "4200"], "torch draws samples from at most 16777216 states"),
        (["--height", "1"], "found 2 and 1"),
        (["--trials", "0"], "trials must be at least 1, found 0"),
        (["--top", "9"], "the best 9 of 8 trials cannot be confirmed"),
        (["--batch", "0"], "iterations of 0 trajectories"),
        (["--batch", "2048"], "the replay capacity 1000 is below the batch size 2048"),
        (["--together", "0"], "'--together'"),
        (["--preset", "huge"], "'huge' is not one of"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
):
    words = arguments if "--preset" in arguments else ["--preset", "tiny", *arguments]
    assert run(study(tmp_path / "s", *words)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert complaint in captured.err
    assert not (tmp_path / "s").exists()


def test_a_study_that_is_too_much_for_a_cpu_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(GflownetFolder, "search", stopped)
    assert run(study(tmp_path / "long", "--device", "cpu")) == 130
    assert (
        "note: 1.6e+09 trajectories take very long without a GPU; --preset tiny does not.\n" in capsys.readouterr().err
    )
    assert run(study(tmp_path / "tiny", "--preset", "tiny", "--device", "cpu")) == 130
    assert "without a GPU" not in capsys.readouterr().err


def test_no_gpu_where_one_is_asked_for_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run(study(tmp_path, "--device", "cuda")) == 2
    assert "there is no CUDA device that torch can use; give --device cpu." in capsys.readouterr().err


def test_a_storage_out_of_reach_is_one_line_without_the_password(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for url in (f"sqlite:///{tmp_path}/nowhere/at/all.db", "postgresql://me:secret@localhost:1/trials", "no://such"):
        assert run(study(tmp_path / "s", *WORDS, "--storage", url)) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "cannot be used: " in said and "secret" not in said


def test_a_storage_without_its_driver_says_which_package_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(DissonanceError, match=r"trials cannot be used: it needs the package 'psycopg', which is not"):
        Search.at(SETTINGS, "postgresql+psycopg://me@localhost:1/trials")


def test_a_data_base_that_is_lost_on_the_way_is_one_line(tmp_path: Path):
    folder, data = GflownetFolder(tmp_path / "s", replace(SETTINGS, losses=("TB",))), tmp_path / "trials.db"

    def breaks(done: float, total: int) -> None:
        data.write_bytes(b"no data base " * 10_000)

    with pytest.raises(DissonanceError, match=r"trials.db was lost: .*; the same command goes on from here.$") as said:
        folder.search(Machine(storage=f"sqlite:///{data}"), breaks)
    assert "\n" not in str(said.value)


def test_two_commands_that_search_in_one_folder_are_told_apart(tmp_path: Path):
    settings = replace(SETTINGS, losses=("TB",), search_iterations=1)
    other = Search.at(settings, tmp_path / "journal")

    def meanwhile(done: float, total: int) -> None:
        other()

    with pytest.raises(DissonanceError, match=r"^trial 0 of TB-cosine-none: .*; another command searches in the same"):
        Search.at(settings, tmp_path / "journal")(meanwhile)
    assert len(other.found()) == 4


def test_a_journal_that_is_none_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "search.journal").write_text("this is\nnot a journal\n")
    assert run(study(tmp_path, *WORDS)) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "search.journal: is damaged. Delete it to search anew." in said


def test_a_journal_with_another_number_in_it_is_noticed(tmp_path: Path):
    settings = replace(SETTINGS, losses=("TB",), search_iterations=2)
    Search.at(settings, tmp_path / "journal")()
    lines = (tmp_path / "journal").read_text()
    (tmp_path / "journal").write_text(lines.replace("0.", "1.", 1))
    with pytest.raises(DissonanceError, match="journal: is damaged"):
        Search.at(settings, tmp_path / "journal").found()


def test_a_journal_with_a_line_removed_doubled_or_moved_is_noticed(tmp_path: Path):
    settings, journal = replace(SETTINGS, losses=("TB",), search_iterations=1), tmp_path / "journal"
    Search.at(settings, journal)()
    lines = journal.read_bytes().splitlines(keepends=True)
    at = next(k for k, line in enumerate(lines) if b"param_name" in line)
    removed, swapped = lines[:at] + lines[at + 1 :], [*lines]
    swapped[at : at + 2] = lines[at + 1], lines[at]
    for changed in (removed, swapped, lines[: at + 1] + lines[at:], lines[1:]):
        journal.write_bytes(b"".join(changed))
        with pytest.raises(DissonanceError, match="journal: is damaged"):
            Search.at(settings, journal).found()
    journal.write_bytes(b"".join(lines))
    assert len(Search.at(settings, journal).found()) == settings.trials
