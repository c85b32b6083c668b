"""dissonance study gflownet: what it runs, what it leaves behind, and that nothing stops it for good."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from tiny_gflownet import SETTINGS, WORDS, study

from dissonance.cli.app import run
from dissonance.errors import DissonanceError
from dissonance.gflownets import hyper_grid
from dissonance.gflownets.trainer import Trainer, TrainingPlan, TrainingRun
from dissonance.gflownets.training import TrainingRecord
from dissonance.studies.gflownet import search as searching
from dissonance.studies.gflownet.confirmation import TrainingOutcome, _outcomes, _points, jobs
from dissonance.studies.gflownet.folder import GflownetFolder, Machine
from dissonance.studies.gflownet.search import Found, Search
from dissonance.studies.gflownet.settings import Job, Pair, Settings

pytest.importorskip("optuna")


def numbers(outcomes: list[TrainingOutcome]) -> list[TrainingOutcome]:
    """All but the clock."""
    return [replace(o, seconds=0.0) for o in outcomes]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> GflownetFolder:
    """A finished study, run by the command."""
    out = tmp_path_factory.mktemp("study")
    assert run(study(out, *WORDS)) == 0
    return GflownetFolder(out, SETTINGS)


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_every_run_is_there_and_near_its_target(done: GflownetFolder):
    found = done.outcomes()
    assert [(o.loss, o.seed) for o in found] == [(loss, seed) for loss in ("TB", "ModTB") for seed in (1, 2, 3)]
    assert done.finished
    assert all(0 < o.l1 < 0.2 for o in found)
    assert all(o.coverage == 1 and o.stuck == 0 and o.frozen == 0 for o in found)
    assert len(done.trials()) == 2 * 4
    assert [p.iteration for p in done.traces()] == [40, 80] * 6


def test_the_best_trial_of_each_search_is_confirmed(done: GflownetFolder):
    for loss in ("TB", "ModTB"):
        trials = [t for t in done.trials() if t.loss == loss]
        best = min(trials, key=lambda t: t.l1)
        assert trials[0] == best
        assert {o.learning_rate for o in done.outcomes() if o.loss == loss} == {best.learning_rate}
        assert len({t.learning_rate for t in trials}) == 4


def test_every_clamp_is_confirmed_with_what_was_found_under_it_or_under_none():
    settings = replace(SETTINGS, clamps=("none", "trajectory", "batch"), searched=("none", "batch"), top=2)
    rates = {"none": 1e-3, "batch": 5e-3}
    found = [
        Found(
            pair, trial, TrainingRun(pair.loss, 7, learning_rate=rates[clamp] * (1 + trial), clamp=clamp), 0.1 + trial
        )
        for clamp in settings.searched
        for pair in settings.pairs(clamp)
        for trial in range(3)
    ]
    made = jobs(settings, found)
    assert len(made) == 3 * 2 * 2 * 3  # clamps, losses, ranks, seeds
    for job in made:
        source = "batch" if job.pair.clamp == "batch" else "none"
        assert (job.run.loss, job.run.clamp) == (job.pair.loss, job.pair.clamp)
        assert job.run.learning_rate == rates[source] * (1 + job.rank)
    assert {job.run.seed for job in made} == {1, 2, 3}


def test_outcomes_are_read_off_the_losses_and_the_policies():
    grid = hyper_grid(2, 4, "cosine")
    pairs = [Pair("TB", "cosine", clamp) for clamp in ("batch", "none")]
    some = [Job(pair, 0, TrainingRun(pair.loss, seed=1, clamp=pair.clamp)) for pair in pairs]
    trainer = Trainer([job.run for job in some], [grid] * 2, TrainingPlan(iterations=200, batch=4, capacity=0, width=8))
    losses = torch.cat([torch.full((60,), 100.0), torch.full((40,), 8.0), torch.full((100,), 4.0)])
    record = TrainingRecord(losses.expand(2, -1), [50, 200], [trainer.fit()] * 2)
    for outcome, frozen in zip(_outcomes(some, trainer, record, 1, 0.5), (0.3, 0.0), strict=True):
        assert (outcome.final_loss, outcome.to_twice_final) == pytest.approx((4.0, 0.3))
        assert outcome.frozen == pytest.approx(frozen)  # only the clamp of the batch freezes
        assert outcome.l1 == pytest.approx(trainer.fit()["l1"][0].item())
        at = 1 - outcome.sampled_l1 / 2  # one sample is all at one state
        assert min(abs(at - p) for p in grid.target.tolist()) < 1e-9
    points = _points(some, record)
    assert [p.iteration for p in points] == [50, 200] * 2
    assert [p.training_loss for p in points[:2]] == pytest.approx([100, (10 * 100 + 40 * 8 + 100 * 4) / 150])


def test_only_losses_with_a_partition_function_search_its_rate(done: GflownetFolder, tmp_path: Path):
    assert len({t.log_z_rate for t in done.trials()}) == len(done.trials())
    assert all(10 <= t.log_z_rate <= 1000 and 1e-5 <= t.learning_rate <= 0.1 for t in done.trials())
    other = GflownetFolder(tmp_path, replace(SETTINGS, losses=("LPV",), search_iterations=1))
    other.search()
    assert {t.log_z_rate for t in other.trials()} == {TrainingRun().log_z_rate}
    assert {t.beta2 for t in done.trials()} <= set(searching.BETA2)


def test_a_trial_that_is_not_a_number_is_the_worst_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(searching, "_l1", lambda trials, watch: [float("nan")] * len(trials.runs))
    folder = GflownetFolder(tmp_path, replace(SETTINGS, losses=("TB",)))
    folder.search()
    assert [t.l1 for t in folder.trials()] == [2.0] * 4


@pytest.mark.slow
def test_the_tiny_study_comes_close_to_every_target(tmp_path: Path):
    assert run(study(tmp_path, "--preset", "tiny", "--device", "cpu")) == 0
    found = GflownetFolder(tmp_path, Settings.tiny()).outcomes()
    assert len(found) == 3 * 2 * 4 * 3
    assert max(o.l1 for o in found) < 0.05


# -- stopping and going on ---------------------------------------------------------------------------------------------


def stopped(out: Path, when: Callable[[], bool], by: signal.Signals) -> tuple[int, str]:
    """Run the command until something is there, and stop it."""
    command = [sys.executable, "-m", "dissonance", *study(out, *WORDS, "--together", "1")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not when():
        time.sleep(0.02)
    process.send_signal(by)
    _, said = process.communicate(timeout=60)
    return process.returncode, said


def told(out: Path) -> list[str]:
    """The lines of the journal that hold what a trial came to."""
    path = out / "search.journal"
    return [line for line in path.read_text().splitlines() if '"values":[' in line] if path.exists() else []


def test_killed_and_interrupted_the_study_ends_with_the_same_numbers(done: GflownetFolder, tmp_path: Path):
    status, said = stopped(tmp_path, lambda: len(told(tmp_path)) >= 2, signal.SIGKILL)
    assert status == -signal.SIGKILL and said == ""
    kept = told(tmp_path)
    assert 2 <= len(kept) < 8
    status, said = stopped(tmp_path, lambda: (tmp_path / "runs.csv").exists(), signal.SIGINT)
    assert status == 130
    assert said == "dissonance: interrupted; the same command goes on from here.\n"
    assert told(tmp_path)[: len(kept)] == kept and len(told(tmp_path)) == 8  # none was run again
    first = GflownetFolder(tmp_path, SETTINGS)
    assert 1 <= len(first.outcomes()) < 6
    known = first.outcomes()
    assert run(study(tmp_path, *WORDS)) == 0
    assert first.outcomes()[: len(known)] == known  # with their seconds: these were not run again either
    for ours, theirs in zip(numbers(first.outcomes()), numbers(done.outcomes()), strict=True):
        assert ours.l1 == pytest.approx(theirs.l1, rel=1e-3)
        assert ours.learning_rate == theirs.learning_rate
    assert not list(tmp_path.glob("checkpoint*"))


def test_a_trial_that_was_half_asked_and_a_line_half_written_do_not_matter(tmp_path: Path):
    settings = replace(SETTINGS, losses=("TB",), search_iterations=2)
    search = Search.at(settings, tmp_path / "journal")
    (pair,) = search.settings.pairs("none")
    search._study(pair).ask()  # has no hyperparameters yet
    with (tmp_path / "journal").open("a") as journal:
        journal.write('{"op_code": 4, "wor')
    again = Search.at(settings, tmp_path / "journal")
    again()
    assert len(again.found()) == 4
    clean = Search.at(settings, tmp_path / "other")
    clean()
    assert [f.l1 for f in clean.found()] == [f.l1 for f in again.found()]


def test_a_finished_study_needs_its_tables_only(done: GflownetFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("study.json", "search.csv", "runs.csv", "traces.csv"):
        (tmp_path / name).write_bytes((done.path / name).read_bytes())
    monkeypatch.setattr(searching, "_optuna", lambda: pytest.fail("searched again"))
    assert run(study(tmp_path, "--no-figures")) == 0
    assert (tmp_path / "runs.csv").read_bytes() == (done.path / "runs.csv").read_bytes()


@pytest.mark.parametrize("url", ["sqlite:///{}/trials.db", os.environ.get("DISSONANCE_POSTGRES")])
def test_a_data_base_holds_a_search_as_well_as_a_file_does(done: GflownetFolder, tmp_path: Path, url: str | None):
    if url is None:
        pytest.skip("DISSONANCE_POSTGRES names no empty data base, as postgresql://me@localhost/trials")
    machine = Machine(storage=url.format(tmp_path))
    folder = GflownetFolder(tmp_path / "study", replace(SETTINGS, losses=("TB",)))
    folder.search(machine)
    assert folder.trials() == [t for t in done.trials() if t.loss == "TB"]
    other = GflownetFolder(tmp_path / "other", replace(SETTINGS, losses=("TB",), search_iterations=7))
    with pytest.raises(DissonanceError, match="holds a search of TB-cosine-none with search_iterations 60, not 7"):
        other.search(machine)


def test_a_search_that_was_begun_elsewhere_is_not_begun_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    begun = GflownetFolder(tmp_path / "s", replace(SETTINGS, losses=("TB",)))
    url = f"sqlite:///{tmp_path}/trials.db"

    def killed(done: float, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begun.search(Machine(storage=url), killed)
    assert run(study(tmp_path / "s")) == 2
    said = capsys.readouterr().err
    assert f"its trials are kept in sqlite:///{tmp_path}/trials.db: give that as --storage." in said
    assert said.count("\n") == 1 and not (tmp_path / "s" / "search.journal").exists()
    begun.search(Machine(storage=url))
    assert len(begun.trials()) == 4
    with pytest.raises(KeyboardInterrupt):
        GflownetFolder(tmp_path / "t", SETTINGS).search(Machine(), killed)
    assert run(study(tmp_path / "t", "--storage", url)) == 2
    assert "search.journal: holds trials of this study: give no --storage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://me:s:e/c@host:5432/trials", "postgresql://me@host:5432/trials"),
        ("postgresql+psycopg://host/trials?password=a&user=b", "postgresql+psycopg://host/trials?user=b"),
        ("postgresql://host/trials?password=a", "postgresql://host/trials"),
        ("postgresql://host:5432/trials", "postgresql://host:5432/trials"),
        ("sqlite:////a/b.db", "sqlite:////a/b.db"),
    ],
)
def test_a_password_is_not_shown(url: str, words: str):
    assert searching.without_password(url) == words


def test_progress_goes_up_to_the_end(tmp_path: Path):
    folder = GflownetFolder(tmp_path, replace(SETTINGS, trials=2, search_iterations=3, iterations=4, every=2))
    for part, total in ((folder.search, 4), (folder.confirm, 6)):
        seen: list[tuple[float, int]] = []
        part(Machine(together=4), lambda *told, seen=seen: seen.append(told))
        assert seen == sorted(seen) and seen[-1] == (total, total)


# -- what was kept ----------------------------------------------------------------------------------------------------


def test_a_table_that_was_damaged_is_noticed(done: GflownetFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name in ("study.json", "search.csv", "runs.csv", "traces.csv", "SHA256SUMS"):
        (tmp_path / name).write_bytes((done.path / name).read_bytes())
    for name in ("runs.csv", "traces.csv", "search.csv", "study.json"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
        assert run(study(tmp_path, "--no-figures")) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and f"{name}: is not what the study wrote there" in said
        (tmp_path / name).write_bytes(whole)
    assert run(study(tmp_path, "--no-figures")) == 0


def test_without_optuna_there_is_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert run(study(tmp_path, *WORDS)) == 2
    assert "the search needs Optuna: pip install 'dissonance[gflownet]'." in capsys.readouterr().err


def test_a_folder_with_another_study_is_refused(
    done: GflownetFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(study(done.path, *WORDS, "--seeds", "1,2")) == 2
    assert "holds a study with seeds 1,2,3, not 1,2: give another --out" in capsys.readouterr().err
    assert run(study(done.path, "--trials", "5")) == 2
    assert "holds a study with trials 4, not 5" in capsys.readouterr().err
    (tmp_path / "study.json").write_text(json.dumps({"replicates": 50}))
    assert run(study(tmp_path)) == 2
    assert "not the settings of a study of GFlowNets" in capsys.readouterr().err
    (tmp_path / "study.json").write_text(json.dumps(SETTINGS.identity | {"trials": "four"}))
    assert run(study(tmp_path)) == 2
    assert "not the settings of a study of GFlowNets" in capsys.readouterr().err
    (tmp_path / "study.json").write_text("{")
    assert run(study(tmp_path)) == 2
    assert "is not the settings of a study" in capsys.readouterr().err
    (tmp_path / "file").write_text("not a folder")
    assert run(study(tmp_path / "file", *WORDS)) == 2
    assert "cannot be made" in capsys.readouterr().err


def test_a_table_that_is_not_one_is_one_line(done: GflownetFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "study.json").write_bytes((done.path / "study.json").read_bytes())
    (tmp_path / "runs.csv").write_text("a,b\n1,2\n")
    assert run(study(tmp_path)) == 2
    assert "is not a table of this study" in capsys.readouterr().err
    (tmp_path / "runs.csv").unlink()
    (tmp_path / "runs.csv").mkdir()
    assert run(study(tmp_path)) == 2
    assert "runs.csv: cannot be read: is a directory." in capsys.readouterr().err


def test_a_study_is_computed_with_torch_and_optuna_alone():
    others = ("clarabel", "matplotlib", "msgspec", "networkx", "rich", "scipy", "torchdiffeq", "typer")
    code = f"import sys; sys.modules |= dict.fromkeys({others}); import dissonance.studies.gflownet.folder"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


# -- settings ----------------------------------------------------------------------------------------------------------


def test_settings_come_back_from_what_identifies_them():
    for settings in (Settings(), Settings.tiny(), SETTINGS):
        assert Settings.of(json.loads(json.dumps(settings.identity))) == settings


def test_a_storage_is_told_all_that_a_trial_depends_on():
    which = {"losses", "rewards", "searched", "trials"}  # searches that there are, each with its own name
    after = {"clamps", "iterations", "seeds", "top", "every", "samples"}  # of the confirmation
    assert set(searching.IDENTITY) == {f.name for f in fields(Settings)} - which - after


def test_the_base_reward_is_that_of_every_state():
    graphs = replace(SETTINGS, rewards=("xor",), base=0.5).graphs()
    assert torch.equal(graphs["xor"].log_reward, hyper_grid(2, 4, "xor", base=0.5).log_reward)
