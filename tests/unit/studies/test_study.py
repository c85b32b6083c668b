"""dissonance study synthetic: what it computes, what it leaves behind, and that nothing stops it for good."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dissonance.cli.app import run
from dissonance.errors import FormatError
from dissonance.io import sealed
from dissonance.studies import figures, sums
from dissonance.studies.outcomes import StrategyOutcome, groups
from dissonance.studies.publish import publish
from dissonance.studies.report import study_report
from dissonance.studies.reported import PAPER, reported
from dissonance.studies.runs import SOLVERS
from dissonance.studies.synthetic import Synthetic, SyntheticFolder
from dissonance.studies.tables import tables
from dissonance.studies.work import compute
from dissonance.workers.processes import Processes

TINY = ["--replicates", "2", "--steps", "2", "--structures", "2", "--strategies", "uniform,partial,greedy"]
STUDY = Synthetic(replicates=2, steps=2, structures=2, strategies=("uniform", "partial", "greedy"))
EXACT = ("initial.csv", "runs.csv", "steps.csv", "strategies.csv")


def finished(path: Path, study: Synthetic = STUDY) -> SyntheticFolder:
    folder = SyntheticFolder(path, study)
    compute(folder)
    return folder


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> SyntheticFolder:
    """A finished tiny study with its tables."""
    folder = finished(tmp_path_factory.mktemp("study"))
    publish(folder, folder.outcomes(), draw=False)
    return folder


def rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(content.decode().splitlines()))


def outcome(strategy: str, replicate: int, final: float, **keys: object) -> StrategyOutcome:
    """A made-up run that starts at 1 bit."""
    bit = math.log(2)
    given = dict(
        structure="chain_4v_3e", strategy=strategy, replicate=replicate, initial=bit, final=final * bit,
        initial_lower=bit, initial_upper=bit, final_lower=final * bit, final_upper=final * bit, tv_mu=0.1 * replicate,
        inconsistency=(bit, final * bit, final * bit), tv_theta=(0.0, 0.1, 0.2), solves=3, solver_steps=9, seconds=0.5,
    )  # fmt: skip
    return StrategyOutcome(**(given | keys))  # pyright: ignore[reportArgumentType]


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_partial_focus_on_three_arcs_resolves_exactly_nothing(done: SyntheticFolder):
    for o in done.outcomes():
        assert o.initial_lower <= o.initial <= o.initial_lower + 1e-7
        if (o.structure, o.strategy) == ("chain_4v_3e", "partial"):
            assert (o.resolution_percent, o.tv_theta) == (0, (0, 0, 0))
            assert o.tv_mu < 1e-12
        if o.strategy == "uniform":
            assert o.inconsistency[0] > o.inconsistency[1] > o.inconsistency[2] == o.final


def test_all_strategies_start_from_the_same_pdgs(done: SyntheticFolder):
    start: dict[tuple[str, int], float] = {}
    for o in done.outcomes():
        assert start.setdefault((o.structure, o.replicate), o.initial) == pytest.approx(o.initial, abs=1e-7)
    assert len(start) == 4


def test_the_published_loop_sees_more_than_there_is():
    study = Synthetic(replicates=2, steps=2, structures=1, strategies=("uniform", "partial"), solver="paper")
    found = [o for b in study.batches() for o in SOLVERS[study.solver](study.runs_of(b), None, None)]
    assert [(o.strategy, o.replicate) for o in found] == [(s, r) for s in study.strategies for r in (0, 1)]
    for o in found:
        assert o.initial > o.initial_upper >= o.initial_lower
        assert o.solves == 2 * 10
        assert o.solver_steps == 2 * (50 + 10 * 20) + 50  # with the looks at all arcs, before every timestep and after
    assert any(o.tv_theta[-1] > 0.01 for o in found if o.strategy == "partial")  # where an exact step cannot move


@pytest.mark.parametrize("draws", ["uniform-normalised", "simplex"])
def test_draws_do_not_depend_on_how_many_there_are(draws: str):
    few, many = (Synthetic(replicates=n, rows=draws) for n in (3, 60))
    one, other = (next(iter(s.batches())) for s in (few, many))
    assert [few.pdgs(one)[2]["p2"].cpd.table().tolist()] == [many.pdgs(other)[2]["p2"].cpd.table().tolist()]
    assert few.seeds(one)[2] == many.seeds(other)[2]


# -- tables, figures, report -------------------------------------------------------------------------------------------


def test_means_and_spreads_are_those_of_the_runs():
    made = [outcome("uniform", 0, 0.0), outcome("uniform", 1, 0.5), outcome("hub", 0, 2.0)]
    found = {(r["structure"], r["strategy"]): r for r in rows(tables(made)["strategies.csv"])}
    row = found["all", "uniform"]
    assert float(row["resolution_percent_mean"]) == pytest.approx(75)
    assert float(row["resolution_percent_sd"]) == pytest.approx(50 / math.sqrt(2))
    assert float(row["rate_percent_mean"]) == pytest.approx(75)
    assert float(row["initial_bits_mean"]) == pytest.approx(1)
    assert found["chain_4v_3e", "hub"]["resolution_percent_sd"] == ""
    assert float(found["chain_4v_3e", "hub"]["pooled_resolution_percent"]) == pytest.approx(-100)


def test_seconds_are_those_of_runs_solved_together_and_of_no_strategy():
    made = [outcome("uniform", 0, 0.0), outcome("uniform", 1, 0.5), outcome("hub", 0, 2.0)]
    found = rows(tables(made)["timing.csv"])
    assert [(r["structure"], r["runs_of_all_strategies"], r["seconds_together"]) for r in found] == [
        ("chain_4v_3e", "3", "1.5"),
        ("all", "3", "1.5"),
    ]
    assert {r["seconds_together_per_run"] for r in found} == {"0.5"} and "strategy" not in found[0]
    assert "The steps of all 3 runs took 1.5 seconds" in study_report(made, {"solver": "exact"}, PAPER, [])


def test_what_was_consistent_has_no_resolution():
    made = [outcome("uniform", 0, 0.5), outcome("uniform", 1, 0.0, initial=1e-9, initial_upper=1e-9)]
    assert groups(made)[0].spread("resolution_percent").mean == pytest.approx(50)
    assert rows(tables(made)["runs.csv"])[1]["resolution_percent"] == ""
    assert "1 of the 2 PDGs had nothing to resolve" in study_report(made, {"solver": "exact"}, PAPER, [])


def test_the_report_puts_the_papers_numbers_beside_ours(done: SyntheticFolder):
    text = (done.path / "report.md").read_text()
    assert "| chain_4v_3e | 0.15929 |" in text
    assert "| uniform | 99.23 |" in text
    assert "exactly 0 %" in text
    assert "(54.7)" in text


def test_figures_are_png_and_pdf_and_always_the_same():
    pytest.importorskip("matplotlib")
    made = [outcome(s, r, 0.1 * r) for s in ("uniform", "hub") for r in range(3)]
    made += [outcome("partial", 0, 0.0, initial=0.0), outcome("partial", 1, 3.0), outcome("partial", 2, 9.0)]
    drawn = figures.figures(made)
    names = ("initial_final", "distortion", "tv_theta", "heat_map", "four_panels", "reduction")
    assert set(drawn) == {f"{n}.{s}" for n in names for s in ("png", "pdf")}
    assert all(drawn[f"{n}.png"].startswith(b"\x89PNG") and drawn[f"{n}.pdf"].startswith(b"%PDF") for n in names)
    again = figures.figures(made)
    assert {n for n in drawn if drawn[n] != again[n]} == set()


def test_without_matplotlib_there_are_tables_and_a_hint(
    done: SyntheticFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(figures, "find_spec", lambda _: None)
    assert run(["study", "synthetic", "--out", str(done.path), "--jobs", "1", *TINY]) == 0
    captured = capsys.readouterr()
    assert "pip install 'dissonance[plot]'" in captured.err
    assert "12 runs" in captured.out
    assert (done.path / "runs.csv").exists()


# -- stopping and going on ---------------------------------------------------------------------------------------------


def test_two_processes_come_to_the_same_tables(done: SyntheticFolder, tmp_path: Path):
    folder = SyntheticFolder(tmp_path / "other", STUDY)
    seen: list[float] = []
    compute(folder, workers=Processes(2), progress=lambda part, total: seen.append(part / total))
    assert seen == sorted(seen)
    assert seen[-1] == 1
    ours, theirs = (tables(f.outcomes()) for f in (folder, done))
    assert {n: ours[n] for n in EXACT} == {n: theirs[n] for n in EXACT}


def test_killed_on_the_way_the_study_ends_with_the_same_tables(done: SyntheticFolder, tmp_path: Path):
    command = [sys.executable, "-m", "dissonance", "study", "synthetic", "--out", str(tmp_path), "--no-figures"]
    command += ["--jobs", "1", *TINY]
    killed = 0
    for written in (1, 4, 7):
        process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
        while process.poll() is None and sum(1 for _ in tmp_path.rglob("*")) < written:
            time.sleep(0.002)
        process.kill()
        killed += process.wait() == -signal.SIGKILL
    assert killed > 0
    assert run(["study", "synthetic", "--out", str(tmp_path), "--no-figures", "--jobs", "1", *TINY]) == 0
    for name in EXACT:
        assert (tmp_path / name).read_bytes() == (done.path / name).read_bytes()
    assert not list(tmp_path.glob("**/.*.part"))
    assert not list(tmp_path.glob("**/*.checkpoint"))


def test_a_damaged_batch_is_computed_again(done: SyntheticFolder, tmp_path: Path):
    folder = SyntheticFolder(tmp_path, STUDY)
    for batch in STUDY.batches():
        (folder.batches / batch.name).write_bytes((done.batches / batch.name).read_bytes())
    first = next(iter(STUDY.batches()))
    (folder.batches / first.name).write_bytes(b'{"outcomes": [')
    compute(folder)
    assert tables(folder.outcomes())["runs.csv"] == tables(done.outcomes())["runs.csv"]


def test_a_batch_that_is_not_all_there_is_noticed_and_computed_again(
    done: SyntheticFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    folder = SyntheticFolder(tmp_path, STUDY)
    first, *others = STUDY.batches()
    for batch in others:
        (folder.batches / batch.name).write_bytes((done.batches / batch.name).read_bytes())
    whole = (done.batches / first.name).read_bytes()
    flipped = bytes([*whole[:-9], whole[-9] ^ 1, *whole[-8:]])
    for content in (flipped, whole.replace(b"0.", b"1.", 1), b'{"outcomes": []}\n'):
        (folder.batches / first.name).write_bytes(content)
        assert folder.kept(first) is None
        assert "it is computed again" in caplog.messages[-1]
    sealed.seal(folder.batches / first.name, b"[]\n")  # emptied by hand, and sealed
    assert folder.kept(first) is None
    other = next(b for b in others if b.replicates == first.replicates)
    (folder.batches / first.name).write_bytes((done.batches / other.name).read_bytes())
    assert folder.kept(first) is None  # a batch of another structure
    with pytest.raises(FormatError, match="not there, or not whole"):
        folder.outcomes()
    compute(folder)
    assert tables(folder.outcomes())["runs.csv"] == tables(done.outcomes())["runs.csv"]


def test_settings_that_were_damaged_are_noticed(
    done: SyntheticFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for name in ("study.json", "SHA256SUMS"):
        (tmp_path / name).write_bytes((done.path / name).read_bytes())
    changed = (tmp_path / "study.json").read_bytes().replace(b'"steps": ', b'"steps": 1')
    (tmp_path / "study.json").write_bytes(changed)
    assert run(["study", "synthetic", "--out", str(tmp_path), *TINY]) == 2
    assert "study.json: is not what the study wrote there" in capsys.readouterr().err
    (tmp_path / "SHA256SUMS").write_bytes(b"nothing of the kind\n")
    assert run(["study", "synthetic", "--out", str(tmp_path), *TINY]) == 2
    assert "SHA256SUMS: is damaged" in capsys.readouterr().err


def test_settings_nested_without_end_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "study.json").write_bytes(b"[" * 100_000)
    assert run(["study", "synthetic", "--out", str(tmp_path), *TINY]) == 2
    assert capsys.readouterr().err.endswith("study.json: is not the settings of a study: give another --out.\n")


def test_two_commands_do_not_work_on_one_study(done: SyntheticFolder, capsys: pytest.CaptureFixture[str]):
    with done.alone():
        assert run(["study", "synthetic", "--out", str(done.path), *TINY]) == 2
    assert "another command is at work on it" in capsys.readouterr().err


def test_a_file_is_written_with_both_checksums_while_it_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "runs.csv"
    sums.write_summed(path, b"one\n")
    assert (
        subprocess.run(["sha256sum", "-c", sums.NAME], cwd=tmp_path, check=False, capture_output=True).returncode == 0
    )

    def killed(to: Path, content: bytes) -> None:
        raise KeyboardInterrupt

    real = sums.files.write
    for times in (1, 2):  # killed while the file is written, or while its checksum is
        calls: list[Path] = []

        def write(to: Path, content: bytes, times: int = times, calls: list[Path] = calls) -> None:
            calls.append(to)
            (real if len(calls) <= times else killed)(to, content)

        monkeypatch.setattr(sums.files, "write", write)
        with pytest.raises(KeyboardInterrupt):
            sums.write_summed(path, b"two\n")
        monkeypatch.setattr(sums.files, "write", real)
        assert sums.read_verified(path) == (b"one\n" if times == 1 else b"two\n")
    path.write_bytes(b"three\n")
    with pytest.raises(FormatError, match="damaged or edited"):
        sums.read_verified(path)
    path.unlink()
    with pytest.raises(FormatError, match="damaged or edited"):
        sums.read_verified(path)


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--replicates", "0"], "replicates must be at least 1, found 0"),
        (["--strategies", "uniform,hubs"], "no strategy named 'hubs'. Did you mean 'hub'?"),
        (["--strategies", "hub,hub"], "'hub' is named twice"),
        (["--strategies", "greedy", "--solver", "paper"], "'greedy' needs mu*"),
        (["--hub-weight", "2"], "the hub weight must be between 0 and 1, found 2"),
        (["--rows", "dirichlet"], "'dirichlet' is not one of"),
        (["--authors", "/nowhere"], "/nowhere: no replicates"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
):
    assert run(["study", "synthetic", "--out", str(tmp_path / "s"), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert complaint in captured.err
    assert not (tmp_path / "s").exists()


def test_a_folder_with_another_study_is_refused(done: SyntheticFolder, capsys: pytest.CaptureFixture[str]):
    assert run(["study", "synthetic", "--out", str(done.path), *TINY, "--seed", "1"]) == 2
    assert "holds a study with seed 0, not 1: give another --out" in capsys.readouterr().err


def test_a_file_in_the_way_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "s").write_text("not a folder")
    assert run(["study", "synthetic", "--out", str(tmp_path / "s"), *TINY]) == 2
    assert "cannot be made" in capsys.readouterr().err


# -- the authors' replicates -------------------------------------------------------------------------------------------


def test_the_authors_replicates_are_read_in_order(shared: Path):
    study = Synthetic(authors=str(shared / "authors"), replicates=2, strategies=("uniform",))
    assert [(b.structure, len(b.replicates)) for b in study.batches()] == [
        (f"chain_{n}v_{n - 1}e", 2) for n in (4, 5, 6, 7)
    ]
    theirs = json.loads((shared / "authors" / "replicates" / "chain_5v_4e" / "rep_0001.json").read_text())
    ours = study.pdgs(list(study.batches())[1])[1]
    assert ours["p3"].cpd.table().tolist() == theirs["cpds"][2]["values"]


def test_the_authors_results_on_the_same_pdgs_stand_beside_ours(shared: Path, tmp_path: Path):
    made = [outcome("uniform", r, 0.0) for r in (0, 1)]
    theirs = reported(str(shared / "authors"), made)
    assert theirs.resolution["all", "uniform"] == pytest.approx((99.99592928337103 + 99.99781308594943) / 2)
    assert reported(str(tmp_path), made) is PAPER
    (tmp_path / "results.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match="not a table of the authors' results"):
        reported(str(tmp_path), made)
