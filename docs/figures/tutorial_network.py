"""Figures of docs/tutorials/network.md: the network by blame; strategies over the steps; posteriors before and after.

python docs/figures/tutorial_network.py
"""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot

from dissonance import PDG, Arc, Control, Record, SoftmaxTable, Variable, inconsistency, lirs, query

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.hashsalt": "tutorial_network", "font.size": 8}
STRATEGIES = ("uniform", "smooth", "greedy", "partial", "hub")


def rows(*yes: float) -> SoftmaxTable:
    """A table of yes and no, a row for each probability of yes."""
    return SoftmaxTable([[p, 1 - p] for p in yes] if len(yes) > 1 else [yes[0], 1 - yes[0]])


names = ("asia", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp")
asia, tub, smoke, lung, bronc, either, xray, dysp = (Variable(n, ["yes", "no"]) for n in names)
network = PDG(
    Arc("asia", (), asia, rows(0.01)),
    Arc("tub", asia, tub, rows(0.05, 0.01)),
    Arc("smoke", (), smoke, rows(0.5)),
    Arc("lung", smoke, lung, rows(0.1, 0.01)),
    Arc("bronc", smoke, bronc, rows(0.6, 0.3)),
    Arc("either", (lung, tub), either, [[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]]),
    Arc("xray", either, xray, rows(0.98, 0.05)),
    Arc("dysp", (bronc, either), dysp, [[[0.9, 0.1], [0.8, 0.2]], [[0.7, 0.3], [0.1, 0.9]]]),
)
hospital = network + Arc("registry", (), lung, rows(0.12)) + Arc("audit", (), xray, rows(0.05))
picture = inconsistency(hospital).plot(title="A registry and an audit do not fit the network")
picture.save(Path(__file__).with_name("tutorial_network_blame.svg"))

control = Control(dict.fromkeys(("registry", "audit", "xray", "lung"), 1.0))
every = [s for s in STRATEGIES for _ in range(4)]
runs = lirs(hospital, every, seeds=[0, 1, 2, 3] * 5, steps=20, control=control, trace=Record(distortion=0))
figure, (course, asked) = pyplot.subplots(1, 2, figsize=(7.6, 2.7), layout="constrained")
for k, run in enumerate(runs):
    colour, label = f"C{STRATEGIES.index(run.refocus)}", run.refocus if k % 4 == 0 else None
    course.semilogy(np.maximum(run.trace.column("global_upper"), 1e-8), color=colour, label=label, linewidth=1)
course.set(
    xlabel="step", ylabel="inconsistency (nats)", title="five strategies, four seeds each", xticks=range(0, 21, 5)
)
course.legend(frameon=False, fontsize=7, loc="lower left")

evidence = {
    "nothing\nknown": {},
    "X-ray\nabnormal": {"xray": "yes"},
    "smokes,\nX-ray normal": {"smoke": "yes", "xray": "no"},
}
at = np.arange(len(evidence))
for offset, name, model in ((-0.2, "before", network), (0.2, "after", runs[0].pdg.without("registry", "audit"))):
    asked.bar(at + offset, query(model, list(evidence.values())).marginals["lung"][:, 0].tolist(), 0.36, label=name)
asked.set(title="P(lung cancer) in the network alone", xticks=at, xticklabels=list(evidence), yscale="log")
asked.legend(frameon=False)
figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
