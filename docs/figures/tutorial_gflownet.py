"""The figure of docs/tutorials/gflownet.md: losses over iterations, the clamp, and where a policy ends.

python docs/figures/tutorial_gflownet.py
"""

from pathlib import Path

import matplotlib
import torch
from matplotlib import pyplot

from dissonance.gflownets import LOSSES, TrainingPlan, TrainingRun, hyper_grid, train

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.hashsalt": "tutorial_gflownet", "font.size": 8}
grid = hyper_grid(2, 8, "cosine")
plan = TrainingPlan(iterations=100, batch=64, capacity=1000, width=32, depth=2)
calm = [TrainingRun(loss, seed=seed, learning_rate=0.03) for loss in LOSSES for seed in (1, 2)]
fast = [
    TrainingRun(loss, seed=seed, learning_rate=0.1, clamp=clamp)
    for clamp in ("none", "batch")
    for loss in ("TB", "ModTB")
    for seed in (1, 2, 3)
]
trainer, record = train([*calm, *fast], grid, plan, every=5)
at, l1 = record.iterations, record.trace("l1").tolist()

figure, axes = pyplot.subplot_mosaic("lllcccp;lllccct", figsize=(8.4, 2.7), layout="constrained")
for run, line in zip(calm, l1, strict=False):
    label = run.loss if run.seed == 1 else None
    axes["l"].semilogy(at, line, color=f"C{list(LOSSES).index(run.loss)}", linewidth=1, label=label)
drawn = torch.multinomial(grid.target, 2000, replacement=True, generator=torch.Generator().manual_seed(0))
floor = float((torch.bincount(drawn, minlength=grid.states) / 2000 - grid.target).abs().sum())
axes["l"].axhline(floor, color="grey", linestyle=":", linewidth=1)
axes["l"].text(100, floor * 1.05, "R/Z itself, from 2000 samples", ha="right", va="bottom", color="grey", fontsize=7)
axes["l"].set(xlabel="iteration", ylabel="exact L1 distance from R/Z", title="learning rate 0.03")
axes["l"].legend(frameon=False, fontsize=7, loc="lower left")
for run, line in zip(fast, l1[len(calm) :], strict=True):
    colour = "C0" if run.loss == "TB" else "C2"
    name = f"{run.loss}, clamp: {run.clamp}" if run.seed == 1 else None
    style = "--" if run.clamp == "batch" else "-"
    axes["c"].plot(at, line, style, color=colour, linewidth=2.0 - (run.clamp == "batch"), alpha=0.7, label=name)
axes["c"].set(xlabel="iteration", title="learning rate 0.1, clamp at 100", ylim=(0, 2.05))
axes["c"].legend(frameon=False, fontsize=7, loc="center right", bbox_to_anchor=(1.0, 0.68))
least, most = 0.7 * float(grid.target.min()), float(grid.target.max())  # the ends of the scale of grey
for name, values, title in (("p", trainer.terminating()[0], "TB, seed 1"), ("t", grid.target, "R/Z")):
    axes[name].imshow(values.reshape(8, 8).tolist(), cmap="Greys", vmin=least, vmax=most)
    axes[name].set(xticks=[], yticks=[])
    axes[name].set_title(title, fontsize=8)
figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
