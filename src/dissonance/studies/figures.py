"""The figures of the paper's appendix, and one more: how the inconsistency falls. matplotlib is an optional extra."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from dissonance.errors import DissonanceError
from dissonance.studies.outcomes import ALL, OutcomeGroup, StrategyOutcome, groups

BIT = math.log(2)
COLOURS = ("#0072B2", "#CC79A7", "#E69F00", "#009E73", "#56B4E9", "#D55E00", "#999999", "#000000")
"""Told apart also by those who see fewer colours (Okabe and Ito)."""
FORMATS: dict[str, dict[str, None]] = {"png": {"Software": None}, "pdf": {"CreationDate": None}}
"""The formats, and what is left out of each so that the same study gives the same file."""


MISSING = "figures need matplotlib: pip install 'dissonance[plot]', then run the same command again."


def drawable() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def make_ready() -> None:
    """Import what figures are drawn by, if it is installed: that takes a second."""
    if drawable():
        for part in ("figure", "backends.backend_agg", "backends.backend_pdf"):
            import_module(f"matplotlib.{part}")


def figures(outcomes: Sequence[StrategyOutcome]) -> dict[str, bytes]:
    """Every figure by file name, as PNG and as PDF."""
    if not drawable():
        raise DissonanceError(MISSING)
    found = groups(outcomes)
    drawn: dict[str, bytes] = {}
    for name, draw in FIGURES.items():
        figure = draw(found)
        for suffix, silent in FORMATS.items():
            content = io.BytesIO()
            figure.savefig(content, format=suffix, metadata=silent, dpi=150)
            figure.set_layout_engine("none")  # it has its layout now
            drawn[f"{name}.{suffix}"] = content.getvalue()
    return drawn


def _axes(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, list[Any]]:
    """A figure of its own (nothing global) and its panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def _names(found: Sequence[OutcomeGroup]) -> tuple[list[str], list[str], dict[str, str]]:
    strategies = list(dict.fromkeys(g.strategy for g in found))
    structures = list(dict.fromkeys(g.structure for g in found if g.structure != ALL))
    return structures, strategies, {s: COLOURS[i % len(COLOURS)] for i, s in enumerate(strategies)}


def _panels(
    found: Sequence[OutcomeGroup], size: tuple[float, float]
) -> tuple[Any, list[tuple[Any, list[OutcomeGroup]]]]:
    """A panel for each structure with the groups that go there."""
    structures, _, _ = _names(found)
    columns = min(4, len(structures))
    figure, axes = _axes(math.ceil(len(structures) / columns), columns, size)
    for axis in axes[len(structures) :]:
        axis.axis("off")
    pairs = zip(axes, structures, strict=False)
    return figure, [(axis, [g for g in found if g.structure == name]) for axis, name in pairs]


def initial_final(found: Sequence[OutcomeGroup]) -> Any:
    """Initial (pale) against final inconsistency, mean over the replicates, by structure and strategy."""
    structures, strategies, colour = _names(found)
    figure, (axis,) = _axes(1, 1, (9, 4))
    width = 0.8 / len(strategies)
    for g in (g for g in found if g.structure != ALL):
        x = structures.index(g.structure) + (strategies.index(g.strategy) + 0.5) * width - 0.4
        first, last = g.spread("initial"), g.spread("final")
        label = g.strategy if g.structure == structures[0] else None
        axis.bar(x, first.mean / BIT, 0.92 * width, color=colour[g.strategy], alpha=0.3)
        axis.bar(x, last.mean / BIT, 0.92 * width, color=colour[g.strategy], label=label)
    axis.set_xticks(range(len(structures)), structures)
    axis.set_ylabel("inconsistency (bits)")
    axis.set_title("Initial (pale) and final inconsistency")
    axis.legend(frameon=False)
    return figure


def distortion(found: Sequence[OutcomeGroup]) -> Any:
    """How far mu* moved in total variation: every replicate, by structure and strategy."""
    figure, panels = _panels(found, (3, 3.4))
    _, _, colour = _names(found)
    for axis, here in panels:
        boxes = axis.boxplot([[o.tv_mu for o in g.runs] for g in here], patch_artist=True, widths=0.6)
        for box, g in zip(boxes["boxes"], here, strict=True):
            box.set(facecolor=colour[g.strategy], alpha=0.6)
        for line in boxes["medians"]:
            line.set(color="black")
        _by_strategy(axis, here, start=1)
        axis.set_ylim(0, 1)
    panels[0][0].set_ylabel("TV of mu* from its start")
    return figure


def tv_theta(found: Sequence[OutcomeGroup]) -> Any:
    """Total variation of the cpds from where they began, summed over rows; mean and a band of one deviation."""
    return _curves(found, "tv_theta", 1.0, "TV of theta from theta_0")


def reduction(found: Sequence[OutcomeGroup]) -> Any:
    """The inconsistency after each timestep; mean and a band of one deviation."""
    return _curves(found, "inconsistency", BIT, "inconsistency (bits)")


def _curves(found: Sequence[OutcomeGroup], trace: str, unit: float, label: str) -> Any:
    figure, panels = _panels(found, (3.2, 3))
    _, _, colour = _names(found)
    for axis, here in panels:
        for g in here:
            curve = g.curve(trace)
            mean = [s.mean / unit for s in curve]
            sd = [0.0 if math.isnan(s.sd) else s.sd / unit for s in curve]
            low = [max(0.0, m - d) for m, d in zip(mean, sd, strict=True)]
            high = [m + d for m, d in zip(mean, sd, strict=True)]
            axis.plot(mean, color=colour[g.strategy], label=g.strategy)
            axis.fill_between(range(len(mean)), low, high, color=colour[g.strategy], alpha=0.08, linewidth=0)
        axis.set_title(here[0].structure, fontsize=10)
        axis.set_xlabel("timestep")
        axis.set_ylim(bottom=0)
    panels[0][0].set_ylabel(label)
    panels[0][0].legend(frameon=False, fontsize=8)
    return figure


def heat_map(found: Sequence[OutcomeGroup]) -> Any:
    """Mean resolution by strategy and structure."""
    structures, strategies, _ = _names(found)
    mean = {(g.structure, g.strategy): g.spread("resolution_percent").mean for g in found}
    figure, (axis,) = _axes(1, 1, (1.7 * len(structures) + 1.5, 0.6 * len(strategies) + 1.2))
    grid = [[mean[name, s] for name in structures] for s in strategies]
    image = axis.imshow(grid, cmap="RdYlGn", vmin=0, vmax=100, aspect="auto")
    for i, row in enumerate(grid):
        for j, value in enumerate(row):
            pale = 20 < value < 90
            shown = "-" if math.isnan(value) else f"{value:.1f}"
            axis.text(j, i, shown, ha="center", va="center", color="black" if pale else "white")
    axis.set_xticks(range(len(structures)), structures)
    axis.set_yticks(range(len(strategies)), strategies)
    figure.colorbar(image, label="resolution (%)")
    return figure


def four_panels(found: Sequence[OutcomeGroup]) -> Any:
    """Resolution by strategy, a panel for each structure: mean, deviation and every replicate."""
    figure, panels = _panels(found, (3, 3.4))
    _, _, colour = _names(found)
    for axis, here in panels:
        lowest = 0.0
        for i, g in enumerate(here):
            values = [o.resolution_percent for o in g.runs if not math.isnan(o.resolution_percent)]
            mean = g.spread("resolution_percent").mean if values else 0.0
            lowest = min(lowest, mean)
            axis.bar(i, mean, 0.7, color=colour[g.strategy], alpha=0.6)
            across = [i + 0.3 * (2 * (k + 0.5) / len(values) - 1) for k in range(len(values))]
            axis.plot(across, values, ".", color=colour[g.strategy], markersize=3, clip_on=True)
        _by_strategy(axis, here, start=0)
        axis.set_ylim(max(-100.0, lowest) - 3, 105)
    panels[0][0].set_ylabel("resolution (%)")
    return figure


def _by_strategy(axis: Any, here: Sequence[OutcomeGroup], start: int) -> None:
    ticks = range(start, start + len(here))
    axis.set_xticks(ticks, [g.strategy for g in here], rotation=30, ha="right", fontsize=8)
    axis.set_title(here[0].structure, fontsize=10)


FIGURES: dict[str, Callable[[Sequence[OutcomeGroup]], Any]] = {
    "initial_final": initial_final,
    "distortion": distortion,
    "tv_theta": tv_theta,
    "heat_map": heat_map,
    "four_panels": four_panels,
    "reduction": reduction,
}
