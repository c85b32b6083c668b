"""A policy on a 4 x 4 grid by six balances, and where its walks end: writes gflownets.svg beside this file."""

from functools import partial
from pathlib import Path

import matplotlib
from matplotlib import pyplot

from dissonance import Record
from dissonance.gflownets import flow_network, hyper_grid
from dissonance.gflownets.paths import terminating

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.hashsalt": "gflownets", "font.size": 9}
grid = hyper_grid(2, 4, "original")
CONTROL = {"TB": 0.4, "LPV": 0.4, "ModTB": 1.5, "ModLPV": 1.5, "DB": 3.0, "SubTB": 1.5}

figure, axes = pyplot.subplot_mosaic(
    [["curve", "before", "after"], ["curve", ".", "target"]],
    figsize=(7.2, 3.2),
    layout="constrained",
    width_ratios=[3, 1, 1],
)
for name, chi in CONTROL.items():
    instance = flow_network(grid, balance=name, control=chi)
    run = instance.run(100, trace=Record(globally=False, distortion=0, snapshots=10))
    ends = {
        step: terminating(grid, partial(instance.pdg["F"].call, "choose", theta))
        for step, theta in run.trace.snapshots.items()
    }
    off = [float((p - grid.target).abs().sum()) for p in ends.values()]
    axes["curve"].semilogy(list(ends), off, "--" if name == "LPV" else "-", label=f"{name}, chi = {chi:g}")
    if name == "ModTB":
        axes["before"].imshow(ends[0].reshape(4, 4), vmin=0, vmax=0.2, cmap="Greys")
        axes["after"].imshow(ends[100].reshape(4, 4), vmin=0, vmax=0.2, cmap="Greys")
axes["target"].imshow(grid.target.reshape(4, 4), vmin=0, vmax=0.2, cmap="Greys")
axes["curve"].set_xlabel("steps of LIR on all 69 trajectories, on policy")
axes["curve"].set_ylabel("L1 distance from R/Z")
axes["curve"].legend(frameon=False, fontsize=7)
for name, title in (("before", "before"), ("after", "ModTB, 100 steps"), ("target", "R/Z")):
    axes[name].set_title(title, fontsize=9)
    axes[name].set_xticks([])
    axes[name].set_yticks([])
figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
