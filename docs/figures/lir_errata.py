"""Figures for docs/lir.md: where the paper is wrong (errata 1, 4, 5 and 7). Writes svg files into a folder.

python docs/figures/lir_errata.py [FOLDER]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dissonance import (
    PDG,
    Arc,
    Control,
    Record,
    SimplexTable,
    SoftmaxTable,
    Table,
    Variable,
    full_control,
    inconsistencies,
    lir,
)
from dissonance.flows import ODE, Step

BLUE, RED, GREEN = "#0072B2", "#D55E00", "#009E73"
QUIET = Record(distortion=0, snapshots=1)
V, X, Y = Variable("V", 3), Variable("X", 2), Variable("Y", 2)


def values(pdgs: list[PDG]) -> list[float]:
    """The inconsistency of each."""
    with torch.no_grad():
        return [found.upper for found in inconsistencies(pdgs)]


def erratum_1(axes: Axes) -> None:
    """softmax(t, 6, -t) against (.49, .02, .49): a hill between two valleys."""
    grid = torch.linspace(-14, 14, 113, dtype=torch.float64)
    q = Arc("q", (), V, [0.49, 0.02, 0.49])
    family = [PDG(Arc("p", (), V, SoftmaxTable(logits=torch.stack([t, 6 + 0 * t, -t]))), q) for t in grid]
    axes.plot(grid, values(family), color=BLUE)
    marks = [-12.0, 0.0, 12.0]
    at = [values([family[int((grid - t).abs().argmin())]])[0] for t in marks]
    axes.plot(marks, at, "o", color=RED)
    axes.plot(marks[::2], at[::2], "--", color=RED, label="a convex function stays below the line between its ends")
    axes.set(xlabel="t", ylabel="inconsistency (nats)", title="softmax(t, 6, -t) against (.49, .02, .49)", ylim=(0, 4))
    axes.legend(frameon=False, loc="upper left")


def erratum_4(axes: Axes) -> None:
    """p(Y|X) from one table to another: not quasi-convex, at the edge and inside the simplex."""
    grid = torch.linspace(0, 1, 101, dtype=torch.float64)
    cases = (("evidence Y = 1", [0.9, 0.1], [0.0, 1.0], BLUE), ("q(Y) = (.5, .5)", [0.6, 0.9], [0.5, 0.5], GREEN))
    for label, ends, q, colour in cases:
        pdgs: list[PDG] = []
        for w in grid:
            one = torch.tensor(ends, dtype=torch.float64)
            p1 = (1 - w) * one + w * one.flip(0)
            pdgs.append(PDG(Arc("p", X, Y, Table(torch.stack([1 - p1, p1], -1))), Arc("q", (), Y, Table(q))))
        axes.plot(grid, values(pdgs), color=colour, label=f"{label}, p(1|.) from {tuple(ends)} to {tuple(ends[::-1])}")
    axes.set(xlabel="way from one table to the other", ylabel="inconsistency (nats)", ylim=(0, 0.95))
    axes.set_title("Better at both ends than between them")
    axes.legend(frameon=False, loc="upper left")


def erratum_5(axes: Axes) -> None:
    """A row that mu* gives no mass gets no gradient; the closed form sees it."""
    pdg = PDG(
        Arc("r", X, Y, [[0.8, 0.2], [0.7, 0.3]]),
        Arc("s", X, Y, [[0.2, 0.8], [0.7, 0.3]]),
        Arc("p", X, Y, SoftmaxTable([[0.5, 0.5], [0.001, 0.999]])),
    )
    steps = 6
    stuck = lir(pdg, steps=steps, flow=ODE("rk4"), control=Control({"p": 1.0}), trace=QUIET)
    free = lir(pdg, steps=steps, control=full_control("p"), trace=QUIET)
    for run, label, colour in ((stuck, "gradient flow, chi = 1", RED), (free, "full control, chi = inf", BLUE)):
        axes.plot(range(steps + 1), run.trace.column("global_upper"), ".-", color=colour, label=label)
    axes.set(
        xlabel="step",
        ylabel="inconsistency (nats)",
        title="The gradient flow stays, the closed form goes",
        ylim=(-0.02, 0.6),
    )
    axes.legend(frameon=False)


def erratum_7(axes: Axes) -> None:
    """Paths of p in the simplex: steps in table coordinates leave it, the natural flow does not."""
    start, aim = [0.7, 0.2, 0.1], [0.1, 0.3, 0.6]
    corner = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, 3**0.5 / 2]], dtype=torch.float64)
    axes.plot(*corner[[0, 1, 2, 0]].T, color="black", linewidth=1)
    pdg = PDG(Arc("p", (), V, SimplexTable(start)), Arc("q", (), V, aim))
    for flow, label, colour in ((Step(), "steps in table coordinates", RED), ("natural", "natural flow", BLUE)):
        run = lir(pdg, steps=8, flow=flow, control=Control({"p": 0.8}), trace=QUIET)
        path = torch.stack([theta["p.p"] for theta in run.trace.snapshots.values()]) @ corner
        axes.plot(*path.T, ".-", color=colour, label=label)
        left = [i + 1 for i, row in enumerate(run.trace.rows) if row.projected]
        axes.plot(*path[left].T, "o", markersize=10, markerfacecolor="none", color=colour)
        if left:
            axes.plot(
                [], [], "o", markersize=10, markerfacecolor="none", color=colour, label="left the simplex: projected"
            )
    axes.plot(*(torch.tensor(aim, dtype=torch.float64) @ corner), "*", color=GREEN, markersize=12, label="q")
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title("p on its way to q, chi = 0.8")
    axes.set_xlim(-0.05, 2.0)
    axes.legend(frameon=False, loc="center right")


FIGURES: dict[str, Callable[[Axes], None]] = {
    "erratum_1": erratum_1,
    "erratum_4": erratum_4,
    "erratum_5": erratum_5,
    "erratum_7": erratum_7,
}


def draw(folder: Path) -> None:
    """All of them; the same files every time."""
    for name, panel in FIGURES.items():
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        panel(figure.subplots())
        with rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
            figure.savefig(folder / f"lir_{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
