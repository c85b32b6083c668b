"""The study's tables as CSV; all of them are made of search.csv, runs.csv and traces.csv."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median
from typing import Any

from dissonance.studies.gflownet.published import CLIPS, PUBLISHED
from dissonance.studies.gflownet.results import FROZEN, Results
from dissonance.studies.written import csv_table

MEASURES = (
    "l1", "jsd", "kl", "mode_mass", "log_z_error", "sampled_l1", "sampled_jsd", "coverage", "to_twice_final",
    "final_loss", "frozen",
)  # fmt: skip
"""Columns of runs.csv that are summarised."""


def gflownet_tables(results: Results) -> dict[str, bytes]:
    """Every table by file name."""
    return {
        "summary.csv": csv_table(_summary(results)),
        "published.csv": csv_table(_published(results)),
        "comparisons.csv": csv_table(_comparisons(results)),
        "clamps.csv": csv_table(_clamps(results)),
        "trials.csv": csv_table(_trials(results)),
        "clips.csv": csv_table(_clips(results)),
        "floor.csv": csv_table(_floor(results)),
    }


def _summary(results: Results) -> Iterator[dict[str, Any]]:
    s = results.settings
    for clamp, reward, loss in ((c, r, x) for c in s.clamps for r in s.rewards for x in s.losses):
        runs = results.runs(clamp, reward, loss)
        row: dict[str, Any] = {"clamp": clamp, "reward": reward, "loss": loss, "runs": len(runs)}
        for measure in MEASURES:
            found = results.spread(clamp, reward, loss, measure)
            row |= {f"{measure}_median": found.median, f"{measure}_iqr": found.iqr}
        floor = results.floors[reward]
        row |= {"floor_l1": floor[0], "floor_jsd": floor[1]}
        yield row | {"frozen_runs": sum(o.frozen > FROZEN for o in runs), "stuck": sum(o.stuck for o in runs)}


def _published(results: Results) -> Iterator[dict[str, Any]]:
    s = results.settings
    for measure, theirs in PUBLISHED.items():
        for reward, loss in ((r, x) for r in s.rewards for x in s.losses):
            paper = theirs[reward, loss]
            row: dict[str, Any] = {"measure": measure, "reward": reward, "loss": loss}
            row |= {"published_median": paper.median, "published_iqr": paper.iqr}
            for clamp in s.clamps:
                found = results.spread(clamp, reward, loss, measure)
                row |= {f"{clamp}_median": found.median, f"{clamp}_iqr": found.iqr}
            l1, jsd = results.floors[reward]
            perfect: dict[str, float] = {"sampled_l1": l1, "sampled_jsd": jsd}
            yield row | {"perfect_sampler": perfect.get(measure, math.nan)}


def _comparisons(results: Results) -> Iterator[dict[str, Any]]:
    for c in results.comparisons():
        yield {
            "clamp": c.clamp,
            "reward": c.reward,
            "modified": c.modified,
            "original": c.original,
            "measure": c.measure,
            "ratio": c.ratio.mean,
            "low": c.ratio.low,
            "high": c.ratio.high,
            "modified_smaller": c.ratio.smaller,
            "seeds": c.ratio.pairs,
            "modified_is": c.ratio.verdict,
        }


def _clamps(results: Results) -> Iterator[dict[str, Any]]:
    for e in results.explained():
        row: dict[str, Any] = {"reward": e.reward, "modified": e.modified, "original": e.original}
        row |= {"published_gap": e.published}
        for name, gap in ({f"gap_{clamp}": gap for clamp, gap in e.gaps.items()} | {"change": e.change}).items():
            row |= {name: gap.mean, f"{name}_low": gap.low, f"{name}_high": gap.high}
        yield row | {"explained": e.share, "frozen_modified": e.frozen[0], "frozen_original": e.frozen[1]}


def _trials(results: Results) -> Iterator[dict[str, Any]]:
    for s in results.searched():
        row: dict[str, Any] = {"searched": s.clamp, "reward": s.reward, "modified": s.modified, "original": s.original}
        for name, found in (("best", s.best), ("typical", s.typical)):
            row |= {f"{name}_ratio": found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
        yield row


def _clips(results: Results) -> Iterator[dict[str, Any]]:
    s = results.settings
    for clamp, reward, loss in ((c, r, x) for c in s.searched for r in s.rewards for x in s.losses):
        best = results.best(clamp, reward, loss)
        theirs: dict[str, float] = dict(zip(("LPV", "ModLPV"), CLIPS[reward], strict=True))
        yield {
            "searched": clamp,
            "reward": reward,
            "loss": loss,
            "published": theirs.get(loss, math.nan),
            "trials": len(best),
            "median": median(t.clip for t in best) if best else math.nan,
            "least": min((t.clip for t in best), default=math.nan),
            "greatest": max((t.clip for t in best), default=math.nan),
            "learning_rate_median": median(t.learning_rate for t in best) if best else math.nan,
        }


def _floor(results: Results) -> Iterator[dict[str, Any]]:
    for reward, (l1, jsd) in results.floors.items():
        yield {"reward": reward, "samples": results.settings.samples, "l1": l1, "jsd": jsd}
