"""The figure of docs/tutorials/attention.md: EM lowers one inconsistency; beliefs on a tree and on a loop.

python docs/figures/tutorial_attention.py
"""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot

from dissonance import PDG, Record, Variable, query
from dissonance.bp import belief_propagation
from dissonance.cpds import ObservedGaussian
from dissonance.em import em, mixture

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.hashsalt": "tutorial_attention", "font.size": 8}
SWEEPS = 7

rng = np.random.default_rng(3)
clusters = (([0, 0], 0.6, 60), ([2.2, 1.2], [0.9, 0.4], 60), ([0.2, 2.6], 0.5, 40))
data = np.concatenate([rng.normal(centre, spread, (count, 2)) for centre, spread, count in clusters])
start = [[0.5, 0.5], [1.0, 1.5], [2.0, 0.0]]
beliefs = mixture([1 / 3] * 3, ObservedGaussian(data, means=start, covariances=[np.eye(2)] * 3))
values = np.array(em(beliefs, beliefs.variable("row")).run(40).trace.column("global_upper"))

figure, axes = pyplot.subplots(1, 3, figsize=(8.4, 2.6), layout="constrained")
axes[0].plot(values, color="grey", linewidth=0.8)
for first, name in ((1, "after an E-step"), (2, "after an M-step")):
    at = np.arange(first, len(values), 2)
    axes[0].plot(at, values[at], ".", markersize=4, label=name)
axes[0].set(xlabel="step of LIR", ylabel="-ELBO - log(rows), nats", title="EM: one inconsistency")
axes[0].legend(frameon=False)

A, B, C, D = (Variable(n, 2) for n in "ABCD")
alike = [[3.0, 1.0], [1.0, 3.0]]
tree = {"seen": (A, [1.0, 4.0]), "f": ((A, B), alike), "g": ((B, C), alike), "h": ((C, D), alike)}
for axis, (name, factors) in zip(axes[1:], {"tree": tree, "loop": tree | {"k": ((D, A), alike)}}.items(), strict=True):
    bp = belief_propagation(factors, "flooding")
    run = bp.run(SWEEPS * bp.sweep, trace=Record(globally=False, distortion=0, snapshots=1))
    path = [bp.beliefs(theta).beliefs for theta in run.trace.snapshots.values()]
    exact = query(PDG.from_factor_graph(factors.values())).marginals
    for k, v in enumerate("ABCD"):
        over = dict(color=f"C{k}", linewidth=2.4 - 1.6 * k / 3)  # B and D are the same on the loop
        axis.plot(np.arange(len(path)) / bp.sweep, [float(b[v][1]) for b in path], label=f"b({v} = 1)", **over)
        axis.axhline(float(exact[v][1]), color=f"C{k}", linewidth=1, linestyle=":")
    axis.set(xlabel="sweeps", title=f"belief propagation: {name}", ylim=(0.48, 0.86))
axes[1].legend(frameon=False, fontsize=7, loc="upper right", bbox_to_anchor=(1.0, 0.82), ncols=2, columnspacing=1.0)
figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
