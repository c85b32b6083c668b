"""Draw the charts of docs/concepts.md: two beliefs about a coin, and runs of LIR under three refocus procedures.

python docs/figures/concepts.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import torch

mpl.use("svg")
from matplotlib import pyplot as plt

from dissonance import Record, lirs
from dissonance.studies.structures import PUBLISHED

HERE = Path(__file__).parent
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#666666"


def save(name: str) -> None:
    """Write the current figure beside this script, the same bytes every time."""
    plt.tight_layout()
    plt.savefig(HERE / f"{name}.svg", metadata={"Date": None})
    plt.close()


def two_beliefs() -> None:
    """Incompatibility over mu(1), with the infimum marked."""
    p, q = 0.1, 0.8
    m = torch.linspace(0.001, 0.999, 400)

    def kl(belief: float) -> torch.Tensor:
        return m * (m / belief).log() + (1 - m) * ((1 - m) / (1 - belief)).log()

    total = kl(p) + kl(q)
    best = int(total.argmin())
    plt.figure(figsize=(6, 3))
    plt.plot(m, kl(p), color=BLUE, label="KL from p = (0.9, 0.1)")
    plt.plot(m, kl(q), color=ORANGE, label="KL from q = (0.2, 0.8)")
    plt.plot(m, total, color="black", linewidth=2, label="incompatibility: their sum")
    plt.plot([m[best]] * 2, [0, total[best]], color=GREY, linestyle=":")
    plt.plot([m[best]], [total[best]], "o", color="black")
    plt.annotate("inconsistency", (float(m[best]), float(total[best])), (0.33, 0.76), fontsize=9)
    plt.xlabel("mu(X = 1)")
    plt.ylabel("nats")
    plt.ylim(0, 1.6)
    plt.legend(frameon=False, fontsize=8, loc="upper center")
    save("concepts_two_beliefs")


def runs() -> None:
    """Global inconsistency over the steps, the largest PDG of the paper's study."""
    pdg = PUBLISHED[3].draw("simplex", torch.Generator().manual_seed(8))
    names = ("uniform", "hub", "partial")
    found = lirs(pdg, list(names), seeds=[1, 1, 1], steps=20, trace=Record(distortion=0))
    plt.figure(figsize=(6, 3))
    for name, run, colour in zip(names, found, (BLUE, ORANGE, GREY), strict=True):
        values = [row.global_upper for row in run.trace.rows]
        plt.plot(range(len(values)), values, marker=".", color=colour, label=name)
    plt.xticks(range(0, 21, 5))
    plt.xlabel("step of LIR")
    plt.ylabel("inconsistency, nats")
    plt.legend(frameon=False, fontsize=8)
    save("concepts_run")


if __name__ == "__main__":
    plt.rcParams.update({"svg.hashsalt": "concepts", "svg.fonttype": "none", "font.size": 9})
    two_beliefs()
    runs()
