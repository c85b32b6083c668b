"""Beliefs converging on a loop of four variables, one focus at a time: python docs/figures/belief_propagation.py"""

from pathlib import Path

import matplotlib as mpl
import numpy as np

from dissonance import Record, Variable
from dissonance.bp import SumProduct, belief_propagation

mpl.use("svg")
mpl.rcParams.update({"svg.hashsalt": "belief propagation", "font.size": 9})

import matplotlib.pyplot as plt  # noqa: E402

SWEEPS = 4

rng = np.random.default_rng(4)
loop = [Variable(f"X{i}", 2) for i in range(4)]
factors = [([v], np.exp(0.7 * rng.normal(size=2))) for v in loop]
factors += [([loop[i - 1], loop[i]], np.exp(1.2 * rng.normal(size=(2, 2)))) for i in range(4)]

figure, axes = plt.subplots(1, 2, figsize=(7.2, 2.7), sharey=True)
limit = SumProduct(factors).run(500).beliefs.marginals
for axis, schedule in zip(axes, ("flooding", "sequential"), strict=True):
    bp = belief_propagation(factors, schedule)
    run = bp.run(SWEEPS * bp.sweep, trace=Record(globally=False, distortion=0, snapshots=1))
    path = [bp.beliefs(theta).beliefs for theta in run.trace.snapshots.values()]
    steps = np.array(list(run.trace.snapshots)) / bp.sweep
    for v in loop:
        (line,) = axis.plot(steps, [float(b[v.name][1]) for b in path], lw=1.2)
        axis.plot(SWEEPS + 0.1, float(limit[v.name][1]), marker="<", ms=4, color=line.get_color(), clip_on=False)
    axis.set(title=schedule, xlabel="sweeps", xlim=(0, SWEEPS))
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("b(X = 1)")
figure.tight_layout()
figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
