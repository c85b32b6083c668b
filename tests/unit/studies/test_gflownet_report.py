"""What is made of the runs of dissonance study gflownet: tables, figures, and words that follow the numbers."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from scipy import stats

from dissonance.cli.app import run
from dissonance.gflownets import hyper_grid
from dissonance.studies import figures as drawing
from dissonance.studies.gflownet.confirmation import Point, TrainingOutcome
from dissonance.studies.gflownet.figures import gflownet_figures
from dissonance.studies.gflownet.folder import GflownetFolder, Trial
from dissonance.studies.gflownet.published import CLIPS, LOSSES, PUBLISHED
from dissonance.studies.gflownet.report import gflownet_report
from dissonance.studies.gflownet.results import Results
from dissonance.studies.gflownet.rows import write_rows
from dissonance.studies.gflownet.settings import REWARDS, Settings
from dissonance.studies.gflownet.statistics import Interval, MedianSpread, Ratio
from dissonance.studies.gflownet.tables import gflownet_tables
from dissonance.studies.gflownet.verdict import findings

SETTINGS = replace(Settings.tiny(), trials=10, seeds=(1, 2, 3))
SMALL = replace(SETTINGS, rewards=("cosine",), clamps=("none",), losses=("TB", "ModTB"))


def made(l1: Callable[[str, str, str, int], float], settings: Settings = SETTINGS) -> Results:
    """Results whose exact L1 is a function of clamp, loss, reward and seed; frozen where it is above 1."""
    trials: list[Trial] = []
    outcomes: list[TrainingOutcome] = []
    points: list[Point] = []
    for clamp in settings.searched:
        for p in settings.pairs(clamp):
            clips = [(2.0 if p.loss.startswith("Mod") else 0.1) * (k + 1) for k in range(settings.trials)]
            trials += [Trial(clamp, p.loss, p.reward, k, 1e-3, 0.99, c, 100, 0.1 + k) for k, c in enumerate(clips)]
    for clamp in settings.clamps:
        for p in settings.pairs(clamp):
            for seed in settings.seeds:
                value = l1(clamp, p.loss, p.reward, seed)
                error = 0.01 if p.loss.endswith("TB") else math.nan
                where = (clamp, p.loss, p.reward, 0, seed)
                fit = {"l1": value, "jsd": value / 8, "kl": value / 4, "mode_mass": 1 - value / 2, "log_z_error": error}
                fit |= {"coverage": 1.0, "sampled_l1": 0.4, "sampled_jsd": 0.05, "final_loss": 0.01}
                told = {"to_twice_final": 0.5, "frozen": float(value > 1), "stuck": 0, "seconds": 1.0}
                outcomes.append(TrainingOutcome(*where, 1e-3, 0.99, 0.1, 100.0, **fit, **told))
                points += [Point(*where, at, factor * value, 0.1, 3.0 / at) for at, factor in ((50, 3.0), (100, 1.0))]
    return Results(settings, trials, outcomes, points)


def better(clamp: str, loss: str, reward: str, seed: int) -> float:
    """A modified loss has half the L1, whatever the clamp."""
    return 0.01 * seed * (1 if loss.startswith("Mod") else 2)


def rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(content.decode().splitlines()))


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_a_spread_is_the_median_and_the_interquartile_range():
    values = [0.3, 0.1, 0.8, 0.4, 0.2]
    low, middle, high = np.percentile(values, [25, 50, 75])
    assert (MedianSpread.of(values).median, MedianSpread.of(values).iqr) == pytest.approx((middle, high - low))
    assert MedianSpread.of([*values, math.nan]) == MedianSpread.of(values)
    assert MedianSpread.of([0.5]) == MedianSpread(0.5, 0.0)
    assert MedianSpread.of([1.0, 2.0, 3.0, 4.0, math.inf]) == MedianSpread(3.0, 2.0)
    assert MedianSpread.of([1.0, 2.0, math.inf]) == MedianSpread(2.0, math.inf)
    assert math.isnan(MedianSpread.of([math.nan]).median)


def test_the_interval_of_a_ratio_is_that_of_resampled_pairs():
    two = Ratio.of([math.log(0.25), math.log(4)])  # both drawn are the same in half of the samples
    assert (two.mean, two.low, two.high) == pytest.approx((1, 0.25, 4))
    assert (two.smaller, two.pairs, two.verdict) == (1, 2, "unclear")
    assert Ratio.of([math.log(0.5)] * 3).verdict == "smaller"
    assert Ratio.of([0.1, 0.2, 0.3]).verdict == "larger"
    assert math.isnan(Ratio.of([0.1]).low) and Ratio.of([0.1]).verdict == "unclear"
    logs = torch.randn(400, generator=torch.Generator().manual_seed(0)).tolist()
    many = Ratio.of(logs)
    width = 2 * 1.96 * float(np.std(logs)) / 20
    assert math.log(many.high / many.low) == pytest.approx(width, rel=0.05)


def expected_l1(settings: Settings, reward: str) -> float:
    """The expected L1 of the frequencies of samples from the target, by de Moivre's formula for each state:

    E |X - np| = 2 v (1 - p) P(X = v),    v = floor(np) + 1
    """
    dag = hyper_grid(settings.dimensions, settings.height, reward)
    p, count = np.unique(dag.target.numpy(), return_counts=True)
    n = settings.samples
    v = np.floor(n * p) + 1
    return float((count * 2 * v * (1 - p) * stats.binom.pmf(v, n, p)).sum() / n)


def test_the_noise_of_the_published_metrics_is_that_of_a_perfect_sampler():
    stated = {"original": 0.4377, "cosine": 0.4481, "xor": 0.1299, "coprime": 0.1397}
    for reward, l1 in stated.items():
        assert expected_l1(Settings(), reward) == pytest.approx(l1, abs=1.5e-3)
    found = Results(replace(Settings(), rewards=("xor",)), [], [], []).floors["xor"]
    assert found == pytest.approx((expected_l1(Settings(), "xor"), 0.0158), abs=5e-4)
    for reward, (l1, _) in Results(Settings.tiny(), [], [], []).floors.items():
        assert l1 == pytest.approx(expected_l1(Settings.tiny(), reward), rel=0.1)


def test_a_ratio_compares_the_runs_of_one_seed():
    found = {(c.clamp, c.modified, c.reward, c.measure): c.ratio for c in made(better).comparisons()}
    assert len(found) == 3 * 2 * 3 * 2
    assert {round(r.mean, 9) for r in found.values()} == {0.5}
    assert all((r.smaller, r.pairs, r.verdict) == (3, 3, "smaller") for r in found.values())
    uneven = made(lambda c, loss, r, s: 0.02 if loss == "TB" else 0.02 * {1: 0.5, 2: 1.0, 3: 4.0}[s])
    ratio = next(c.ratio for c in uneven.comparisons())
    assert ratio.mean == pytest.approx(2 ** (1 / 3))
    assert (ratio.smaller, ratio.verdict) == (1, "unclear")


def test_the_average_over_the_training_is_over_all_evaluations():
    one = made(better, SMALL)  # at the two points a modified loss has 3 and 1 times its value, like the other
    slow = [replace(p, l1=5 * p.l1) if (p.loss, p.iteration) == ("TB", 50) else p for p in one.points]
    found = {c.measure: c.ratio.mean for c in replace(one, points=slow).comparisons()}
    assert found == pytest.approx({"l1": 0.5, "mean_l1": 0.5 * (3 + 1) / (15 + 1)})


def test_all_hyperparameters_that_were_confirmed_are_compared_together():
    one = made(better)
    lucky = [replace(o, rank=1, l1=o.l1 / 16 if o.loss == "TB" else o.l1) for o in one.outcomes]
    both = replace(one, settings=replace(SETTINGS, top=2), outcomes=[*one.outcomes, *lucky])
    found = {c.measure: c.ratio for c in both.comparisons() if c.modified == "ModTB"}
    assert found["l1"].mean == pytest.approx(0.5)
    assert found["top_l1"].mean == pytest.approx(0.5 * 4)
    assert "over all hyperparameters that were confirmed: smaller on 0 of 2 rewards; larger on 2" in gflownet_report(
        both, []
    )


def test_the_search_is_compared_by_resampling_its_trials():
    few = [0.1, 0.4, 0.2]
    best = Interval.between(few, [1.0, 1.0], lambda x: x.amin(-1))  # all three samples 0.4: 1 time in 27
    assert (best.mean, best.low, best.high) == pytest.approx((0.1, 0.1, 0.4))
    assert best.verdict == "smaller"
    middle = Interval.between(few, [0.05, 0.05], lambda x: x.quantile(0.5, -1))
    assert (middle.mean, middle.verdict) == (pytest.approx(4), "larger")
    assert math.isnan(Interval.between([], few, lambda x: x.amin(-1)).mean)
    found = list(made(better).searched())
    assert [(s.reward, s.modified) for s in found] == [(r, m) for m in ("ModTB", "ModLPV") for r in SETTINGS.rewards]
    assert all(s.best.mean == s.typical.mean == 1 and s.best.verdict == "unclear" for s in found)


def test_a_policy_that_is_not_a_number_counts_as_the_worst():
    broken = made(lambda c, loss, r, s: math.nan if loss == "TB" else 0.02)
    ratio = next(c.ratio for c in broken.comparisons() if c.modified == "ModTB")
    assert ratio.mean == pytest.approx(0.01)


def test_the_clamp_explains_what_is_gone_without_it():
    def frozen(clamp: str, loss: str, reward: str, seed: int) -> float:
        if loss == "TB":
            return 1.5 if clamp == "batch" else 0.5
        return 0.1

    found = {(e.reward, e.modified): e for e in made(frozen).explained()}
    gap = found["original", "ModTB"]
    assert {clamp: g.mean for clamp, g in gap.gaps.items()} == pytest.approx(
        {"none": 0.4, "trajectory": 0.4, "batch": 1.4}
    )
    assert (gap.change.mean, gap.change.low, gap.change.high) == pytest.approx((1, 1, 1))
    assert gap.share == pytest.approx(1 - 0.4 / 1.4)
    assert gap.frozen == (0, 3)
    assert math.isnan(found["original", "ModLPV"].share)  # nothing to explain
    said = "\n".join(findings(made(frozen)))
    assert "without: the clamp explains 71 %, by medians; it changes the gap by 1.000 [1.000, 1.000]." in said


def test_what_the_clamp_changes_is_as_unsure_as_the_seeds_are():
    """One run of three is frozen: its seed is drawn at least twice of three times in 7 of 27 samples."""

    def l1(clamp: str, loss: str, reward: str, seed: int) -> float:
        return 1.5 if (clamp, loss, seed) == ("batch", "TB", 3) else 0.2 if loss == "TB" else 0.1

    gap = next(iter(made(l1).explained()))
    assert (gap.gaps["batch"].mean, gap.gaps["batch"].low, gap.gaps["batch"].high) == pytest.approx((0.1, 0.1, 1.4))
    assert (gap.gaps["none"].low, gap.gaps["none"].high) == pytest.approx((0.1, 0.1))
    assert (gap.change.mean, gap.change.low, gap.change.high) == pytest.approx((0, 0, 1.3), abs=1e-12)
    assert "none of it, by medians; it changes the gap by 0.000 [0.000, 1.300]." in "\n".join(findings(made(l1)))
    alone = next(iter(made(l1, replace(SETTINGS, seeds=(3,), clamps=("batch",))).explained()))
    assert alone.gaps["batch"].mean == pytest.approx(1.4)
    assert math.isnan(alone.gaps["batch"].low) and math.isnan(alone.change.mean) and math.isnan(alone.share)


# -- the paper's numbers -----------------------------------------------------------------------------------------------


def test_the_published_numbers_are_those_of_the_paper(shared: Path):
    names = {"Bitwise XOR": "xor", "Cosine": "cosine", "Multiplicative Coprime": "coprime", "Original": "original"}
    text = (shared / "paper.tex").read_text()
    table = text[text.index("Final L1 Distance") : text.index("label{apx:gfnrank1}")]
    found = iter(re.findall(r"^(\w[\w ]*?) & (.*?)\\\\", table, re.MULTILINE))
    for measure, scale in (("sampled_l1", 1), ("sampled_jsd", 1), ("coverage", 100), ("to_twice_final", 1)):
        for _ in REWARDS:
            name, cells = next(found)
            numbers = [float(x) / scale for x in re.findall(r"\d+\.?\d*", cells)]
            ours = [PUBLISHED[measure][names[name], loss] for loss in LOSSES]
            assert [x for s in ours for x in (s.median, s.iqr)] == pytest.approx(numbers), (measure, name)
    clips = text[text.index("Environment & LPV & ModLPV") : text.index("label{tab:gfn}")]
    for name, reward in names.items():
        (row,) = re.findall(rf"{name} *& *([\d.]+) *& *([\d.]+) *&", clips)
        assert CLIPS[reward] == (float(row[0]), float(row[1]))


# -- tables, report, figures -------------------------------------------------------------------------------------------


def test_the_tables_hold_medians_ratios_and_the_papers_numbers():
    found = {name: rows(content) for name, content in gflownet_tables(made(better)).items()}
    summary = next(r for r in found["summary.csv"] if (r["clamp"], r["reward"], r["loss"]) == ("none", "cosine", "TB"))
    assert (float(summary["l1_median"]), float(summary["l1_iqr"]), summary["runs"]) == (0.04, 0.02, "3")
    assert len(found["summary.csv"]) == 3 * 2 * 4
    lpv = next(r for r in found["summary.csv"] if r["loss"] == "LPV")
    assert lpv["log_z_error_median"] == ""
    beside = next(r for r in found["published.csv"] if (r["measure"], r["loss"]) == ("sampled_l1", "LPV"))
    assert (beside["published_median"], beside["published_iqr"]) == ("0.44", "1.54")
    assert float(beside["perfect_sampler"]) > 0
    assert {r["ratio"] for r in found["comparisons.csv"]} == {"0.5"}
    clips = {(r["reward"], r["loss"]): r for r in found["clips.csv"]}
    assert float(clips["cosine", "LPV"]["median"]) == pytest.approx(0.15)  # of the best 2 of 10
    assert clips["cosine", "LPV"]["published"] == "0.1" and clips["cosine", "TB"]["published"] == ""
    assert [r["reward"] for r in found["floor.csv"]] == ["original", "cosine"]


def test_the_words_follow_the_numbers():
    said = "\n".join(findings(made(better)))
    assert said.count("ModTB beside TB at the end: smaller on 2 of 2 rewards") == 3
    assert "original 0.50 [0.50, 0.50]" in said
    assert "froze 0 of 6 (TB)" in said
    assert "ModLPV has a larger median clip than LPV on 2 of 2 rewards" in said
    both = "\n".join(findings(made(better, replace(SETTINGS, searched=("none", "batch")))))
    assert "of its trials under the clamp none ModLPV has" in both and "under the clamp batch ModLPV has" in both
    assert "ModTB beside TB in the best trial: smaller on 0 of 2 rewards; unclear on 2: original 1.00 [" in said
    assert "cannot be compared" in said  # another grid than the paper's
    flipped = "\n".join(findings(made(lambda c, loss, r, s: 1 / better(c, loss, r, s) / 100)))
    assert flipped.count("ModTB beside TB at the end: smaller on 0 of 2 rewards; larger on 2: ") == 3
    mixed = made(lambda c, loss, r, s: 0.02 * ((s if r == "cosine" else 0.5) if loss == "ModTB" else 2))
    assert "smaller on 1 of 2 rewards: original 0.25 [0.25, 0.25]; unclear on 1: cosine" in "\n".join(findings(mixed))


def test_a_report_is_made_of_any_part_of_the_study():
    for settings in (
        replace(SETTINGS, losses=("TB",), clamps=("batch",), seeds=(1,)),
        replace(SETTINGS, losses=("LPV", "ModLPV"), rewards=("xor",), clamps=("none", "batch")),
        replace(SETTINGS, losses=("ModTB", "TB"), seeds=(5,), searched=("none", "batch")),
    ):
        results = made(better, settings)
        text = gflownet_report(results, [])
        assert "nan" not in text
        assert all(content for name, content in gflownet_tables(results).items() if len(settings.losses) > 1)


def test_figures_are_drawn_and_always_the_same():
    pytest.importorskip("matplotlib")
    results = made(lambda c, loss, r, s: math.nan if s == 1 else better(c, loss, r, s), SMALL)
    drawn = gflownet_figures(results)
    assert set(drawn) == {"performance_none.svg", "losses_none.svg", "final_l1.svg", "clips_none.svg"}
    for content in drawn.values():
        assert ElementTree.fromstring(content).tag.endswith("svg")
    assert drawn == gflownet_figures(results)


def kept(path: Path, results: Results) -> GflownetFolder:
    """A folder with these tables."""
    folder = GflownetFolder(path, results.settings)
    write_rows(path / "search.csv", Trial, results.trials)
    write_rows(path / "runs.csv", TrainingOutcome, results.outcomes)
    write_rows(path / "traces.csv", Point, results.points)
    return folder


def test_json_has_the_medians_and_no_number_is_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    kept(tmp_path, made(lambda c, loss, r, s: math.nan if loss == "TB" else better(c, loss, r, s), SMALL))
    assert run(["study", "gflownet", "--out", str(tmp_path), "--json", "--no-figures"]) == 0
    captured = capsys.readouterr()
    assert (captured.err, captured.out.count("\n")) == ("", 1)
    record = json.loads(captured.out, parse_constant=pytest.fail)
    assert (record["study"], record["runs"]) == ("gflownet", 6)
    (row,) = record["l1"]
    assert row["TB"] is None
    assert set(row) == {"clamp", "reward", *SMALL.losses}


def test_the_command_writes_the_report_of_finished_runs_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    kept(tmp_path, made(better, SMALL))
    assert run(["study", "gflownet", "--out", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "6 runs" in captured.out and "report.md has it all" in captured.out
    text = (tmp_path / "report.md").read_text()
    assert text.count("](figures/") == len(list((tmp_path / "figures").glob("*.svg"))) == 4
    assert all((tmp_path / "figures" / name).exists() for name in re.findall(r"\]\(figures/(.*?)\)", text))
    first = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert run(["study", "gflownet", "--out", str(tmp_path)]) == 0
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == first


def test_without_matplotlib_there_are_tables_and_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    kept(tmp_path, made(better))
    monkeypatch.setattr(drawing, "find_spec", lambda _: None)
    assert run(["study", "gflownet", "--out", str(tmp_path)]) == 0
    assert "pip install 'dissonance[plot]'" in capsys.readouterr().err
    assert "](figures/" not in (tmp_path / "report.md").read_text()
