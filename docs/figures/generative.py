"""Draw docs/figures/generative.svg: two bumps on a line, by the exact game on a grid and by neural players.

python docs/figures/generative.py
"""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.ticker import NullFormatter
from torch import nn

from dissonance import Record, SoftmaxTable
from dissonance.instances import gan

plt.switch_backend("agg")
plt.rcParams.update({"svg.hashsalt": "generative", "font.size": 8})


def exact(axes: list[plt.Axes]) -> None:
    """A table for a generator: the densities on the way, and JS at every round."""
    grid = torch.linspace(-4, 4, 41, dtype=torch.float64)
    bumps = sum(torch.exp(-0.5 * ((grid - x) / 0.5) ** 2) for x in (-2.0, 2.0)) + 1e-3
    p = bumps / bumps.sum()
    start = SoftmaxTable(torch.softmax(-0.5 * grid**2, 0))
    game = gan(p, start, SoftmaxTable(torch.full((41, 2), 0.5)), control=(math.inf, 10.0))
    run = game.run(160, trace=Record(globally=False, distortion=0, snapshots=2))
    axes[0].fill_between(grid, p, color="lightgrey", label="data")
    for step in (0, 20, 160):
        axes[0].plot(grid, torch.softmax(run.trace.snapshots[step]["x.parts.1.logits"], -1), label=f"G, step {step}")
    axes[0].set_title("finite X: the generator", fontsize=8)
    axes[0].set(ylim=(0, 0.125), xlabel="X", yticks=[0, 0.05, 0.1])
    axes[0].legend(fontsize=6, frameon=False, ncols=2, loc="upper center")
    losses = game.read(run).losses[1::2]
    axes[1].plot([loss / 2 + math.log(2) for loss in losses])  # after full control of D that is JS
    axes[1].set_title("JS(data, G) in nats, round by round", fontsize=8)
    axes[1].set(yscale="log", xlabel="round")
    axes[1].yaxis.set_minor_formatter(NullFormatter())


def neural(axis: plt.Axes) -> None:
    """Modules for players: histograms of what they make."""
    g = torch.Generator().manual_seed(0)
    data = torch.cat([x + 0.5 * torch.randn(500, 1, generator=g) for x in (-2.0, 2.0)])
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
    detector = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    game = gan(data, generator, detector, noise=4, control=(0.3, 0.1), batch=128, nonsaturating=True)
    axis.hist(data[:, 0], 40, range=(-4, 4), density=True, color="lightgrey", label="data")
    for steps in (0, 1500):
        made = game.answer(steps).generate(5000)
        axis.hist(made[:, 0], 40, range=(-4, 4), density=True, histtype="step", label=f"G, step {steps}")
    axis.set(ylim=(0, 1), xlabel="X")
    axis.set_title("neural players", fontsize=8)
    axis.legend(fontsize=6, frameon=False)


def main() -> None:
    """Three panels."""
    figure, axes = plt.subplots(1, 3, figsize=(8, 2.2), layout="constrained")
    exact(list(axes[:2]))
    neural(axes[2])
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
