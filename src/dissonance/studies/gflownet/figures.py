"""The figures of the study as SVG: how the policies come to their targets, their losses, and where they end."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from dissonance.studies.gflownet.confirmation import Point
from dissonance.studies.gflownet.published import CLIPS
from dissonance.studies.gflownet.results import Results

STYLES: dict[str, dict[str, Any]] = {
    "TB": {"color": "#0072B2", "linestyle": "--", "marker": "o", "hollow": True},
    "ModTB": {"color": "#0072B2", "linestyle": "-", "marker": "o", "hollow": False},
    "LPV": {"color": "#D55E00", "linestyle": "--", "marker": "s", "hollow": True},
    "ModLPV": {"color": "#D55E00", "linestyle": "-", "marker": "s", "hollow": False},
}
"""A colour for each family (told apart also by those who see fewer colours); the modified losses are drawn solid."""
LEAST = 7.5
"""Inches that a title needs."""
CLAMPS = {"none": "no clamp", "trajectory": "clamp of each trajectory", "batch": "clamp of the batch, as published"}
SETTINGS: dict[Any, Any] = {"svg.hashsalt": "dissonance", "svg.fonttype": "none", "font.size": 9, "axes.titlesize": 10}
"""The same study gives the same file."""


def gflownet_figures(results: Results) -> dict[str, bytes]:
    """Every figure by file name."""
    from matplotlib import rc_context

    drawn: dict[str, bytes] = {}
    with rc_context(SETTINGS):
        for clamp in results.settings.clamps:
            performance = _curves(results, clamp, lambda p: p.l1, "exact L1")
            drawn[f"performance_{clamp}.svg"] = _svg(performance)
            losses = _curves(results, clamp, lambda p: p.training_loss, "training loss")
            drawn[f"losses_{clamp}.svg"] = _svg(losses)
        drawn["final_l1.svg"] = _svg(_final(results))
        for clamp in results.settings.searched:
            drawn[f"clips_{clamp}.svg"] = _svg(_clips(results, clamp))
    return drawn


def _svg(figure: Any) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="svg", metadata={"Date": None})
    return content.getvalue()


def _panels(results: Results, size: tuple[float, float]) -> tuple[Any, list[tuple[Any, str]]]:
    """A figure of its own (nothing global) with a panel for each reward."""
    from matplotlib.figure import Figure

    rewards = results.settings.rewards
    figure = Figure(figsize=(max(LEAST, size[0] * len(rewards)), size[1]), layout="constrained")
    axes = list(figure.subplots(1, len(rewards), squeeze=False).flat)
    for axis, reward in zip(axes, rewards, strict=True):
        axis.set_title(reward)
        axis.grid(axis="y", color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, list(zip(axes, rewards, strict=True))


def _logarithmic(axis: Any) -> None:
    """A logarithmic scale upwards, with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_yscale("log")
    low, high = axis.get_ylim()
    few = math.log10(high / low) > 2
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0,) if few else (1.0, 2.0, 5.0)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())


def _legend(figure: Any, axis: Any, title: str) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(title, fontsize=11)


def _curves(results: Results, clamp: str, read: Callable[[Point], float], label: str) -> Any:
    """A column of traces.csv: every seed, and the median over the seeds as a thicker line."""
    figure, panels = _panels(results, (3.0, 3.1))
    for axis, reward in panels:
        for loss in results.settings.losses:
            runs = list(results.trace(clamp, reward, loss).values())
            if runs:
                _curve(axis, runs, read, loss)
        _logarithmic(axis)
        axis.set_xlabel("iteration")
        axis.set_xlim(left=0)
    panels[0][0].set_ylabel(label)
    _legend(figure, panels[0][0], f"{label[0].upper()}{label[1:]}, {CLAMPS[clamp]}: every seed, and the median")
    return figure


def _curve(axis: Any, runs: Sequence[Sequence[Point]], read: Callable[[Point], float], loss: str) -> None:
    style = {"color": STYLES[loss]["color"], "linestyle": STYLES[loss]["linestyle"]}
    for run in runs:
        axis.plot([p.iteration for p in run], [read(p) for p in run], alpha=0.35, linewidth=0.6, **style)
    at = {p.iteration: [read(q) for r in runs for q in r if q.iteration == p.iteration] for p in runs[0]}
    middle = [median(values) for values in at.values()]
    axis.plot(list(at), middle, label=loss, linewidth=1.8, **style)


def _final(results: Results) -> Any:
    """Exact L1 at the end: every seed (dot) and the median (bar), by clamp and loss."""
    figure, panels = _panels(results, (3.0, 3.3))
    losses, clamps = results.settings.losses, results.settings.clamps
    for axis, reward in panels:
        for i, clamp in enumerate(clamps):
            for k, loss in enumerate(losses):
                values = [o.l1 for o in results.runs(clamp, reward, loss) if not math.isnan(o.l1)]
                if values:
                    _dots(axis, i + 0.8 * ((k + 0.5) / len(losses) - 0.5), values, loss, i == 0)
        _logarithmic(axis)
        axis.set_xticks(range(len(clamps)), clamps)
        axis.set_xlim(-0.5, len(clamps) - 0.5)
        axis.tick_params(axis="x", length=0)
        for i in range(1, len(clamps)):
            axis.axvline(i - 0.5, color="#dddddd", linewidth=0.6)
        axis.set_xlabel("clamp")
    panels[0][0].set_ylabel("exact L1 at the end")
    _legend(figure, panels[0][0], "Where the policies end: every seed, and the median")
    return figure


def _dots(axis: Any, x: float, values: Sequence[float], loss: str, named: bool) -> None:
    style = STYLES[loss]
    across = [x + 0.05 * (k - (len(values) - 1) / 2) / max(1, len(values) - 1) for k in range(len(values))]
    face = "white" if style["hollow"] else style["color"]
    look = {"marker": style["marker"], "color": style["color"], "markerfacecolor": face, "markersize": 4}
    axis.plot(across, values, linestyle="none", markeredgewidth=0.9, label=loss if named else None, **look)
    axis.plot([x - 0.07, x + 0.07], [median(values)] * 2, color="black", linewidth=1.2)


def _clips(results: Results, clamp: str) -> Any:
    """Exact L1 of every trial against its gradient clip; the published clips of LPV and ModLPV as lines."""
    figure, panels = _panels(results, (3.0, 3.1))
    for axis, reward in panels:
        for loss in results.settings.losses:
            found = results.tried(clamp, reward, loss)
            style = STYLES[loss]
            face = "white" if style["hollow"] else style["color"]
            look = {"marker": style["marker"], "color": style["color"], "markerfacecolor": face, "markersize": 4}
            axis.plot([t.clip for t in found], [t.l1 for t in found], linestyle="none", label=loss, **look)
        for loss, clip in zip(("LPV", "ModLPV"), CLIPS[reward], strict=True):
            style = STYLES[loss]
            axis.axvline(clip, color=style["color"], linestyle=style["linestyle"], linewidth=1, alpha=0.6, zorder=0)
        axis.set_xscale("log")
        _logarithmic(axis)
        axis.set_xlabel("gradient clip")
    panels[0][0].set_ylabel("exact L1 of the trial")
    _legend(figure, panels[0][0], f"The trials, {CLAMPS[clamp]}; lines are the published clips of LPV and ModLPV")
    return figure
