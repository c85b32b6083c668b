"""A trace as a picture: inconsistency between its bounds, how far beliefs have moved, what it cost."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dissonance.errors import DissonanceError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dissonance.lir.trace import Row

GLOBAL, LOCAL, MU = "#0072B2", "#D55E00", "#009E73"
"""Told apart also by those who see fewer colours (Okabe and Ito)."""


def plot(rows: Sequence[Row], path: str | os.PathLike[str] | None = None) -> Figure:
    """Three panels over the steps; written to `path` if given, in the format of its suffix."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise DissonanceError("a plot needs matplotlib: pip install 'dissonance[plot]'.") from None
    figure = Figure(figsize=(6.4, 7.2), layout="constrained")
    inconsistency, moved, effort = figure.subplots(3, 1, sharex=True, height_ratios=(3, 2, 1))
    steps = [r.step for r in rows]
    _between(inconsistency, rows, "global", GLOBAL, "all arcs")
    _between(inconsistency, rows, "local", LOCAL, "in focus")
    inconsistency.set(ylabel="inconsistency (nats)")
    shown = [y for line in inconsistency.lines for y in line.get_ydata() if math.isfinite(y)]
    if shown and min(shown) > 0 and max(shown) > 20 * min(shown):
        inconsistency.set_yscale("log")
    for name, colour, label in (("tv_theta", GLOBAL, "theta, mean over rows"), ("tv_mu", MU, "mu*")):
        known = [r for r in rows if math.isfinite(getattr(r, name))]  # mu* is not followed at every step
        moved.plot([r.step for r in known], [getattr(r, name) for r in known], ".-", color=colour, label=label)
    moved.set(ylabel="total variation\nfrom the start")
    effort.bar(steps, [r.newton_steps for r in rows], color=GLOBAL)
    effort.set(ylabel="solver steps", xlabel="step")
    effort.xaxis.get_major_locator().set_params(integer=True)
    for axes in (inconsistency, moved):
        if axes.lines:
            axes.legend(frameon=False)
    if path is not None:
        kind = os.fspath(path).rpartition(".")[2].lower()
        silent = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)  # the same run, the same file
        try:
            with rc_context({"svg.hashsalt": "dissonance"}):
                figure.savefig(path, metadata=silent)
        except (OSError, ValueError) as error:
            raise DissonanceError(f"{os.fspath(path)}: cannot be drawn: {error}.") from None
    return figure


def _between(axes: Any, rows: Sequence[Row], which: str, colour: str, label: str) -> None:
    """The upper bound as a line, and what lies between it and the lower one shaded."""
    steps = [r.step for r in rows]
    lower, upper = (_finite([getattr(r, f"{which}_{x}") for r in rows]) for x in ("lower", "upper"))
    if any(math.isfinite(y) for y in upper):
        axes.plot(steps, upper, ".-", color=colour, label=label)
        axes.fill_between(steps, lower, upper, color=colour, alpha=0.25, linewidth=0)


def _finite(values: Sequence[float]) -> list[float]:
    """The finite numbers, NaN for the others."""
    return [y if math.isfinite(y) else math.nan for y in values]
