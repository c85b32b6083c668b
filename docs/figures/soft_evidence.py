"""Posteriors against the confidence of a report: writes soft_evidence.svg beside this file."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot

from dissonance import PDG, Report, Variable, condition, query

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.hashsalt": "soft_evidence", "font.size": 9}
Rain, Grass = Variable("Rain", ["no", "yes"]), Variable("Grass", ["dry", "wet"])
Sprinkler = Variable("Sprinkler", ["off", "on"])
garden = PDG.from_bayesian_network(
    {
        Rain: ((), [0.8, 0.2]),
        Sprinkler: ([Rain], [[0.6, 0.4], [0.99, 0.01]]),
        Grass: ([Sprinkler, Rain], [[[1.0, 0.0], [0.2, 0.8]], [[0.1, 0.9], [0.01, 0.99]]]),
    }
)
confidence = np.geomspace(0.01, 100, 21)
alone = [condition(garden, Report("Grass", [0.1, 0.9], c)) for c in confidence.tolist()]
against = [condition(garden, Report("Grass", [0.1, 0.9], c), Report("Grass", [0.7, 0.3], 1.0)) for c in confidence]
obeyed = condition(garden, {"Grass": [0.1, 0.9]})

figure, axes = pyplot.subplots(figsize=(5.2, 3.0), layout="constrained")
for name, colour in (("Grass", "C0"), ("Rain", "C1")):
    axes.semilogx(confidence, [u.marginals[name][1] for u in alone], colour, label=f"{name}: one report")
    axes.semilogx(
        confidence, [u.marginals[name][1] for u in against], f"{colour}--", label=f"{name}: another disagrees"
    )
    for end in (query(garden).marginals[name][1], obeyed.marginals[name][1]):
        axes.axhline(end, color=colour, linestyle=":", linewidth=0.8)
axes.set_xlabel("confidence of the report that the grass is wet with probability 0.9")
axes.set_ylabel("probability of wet grass, of rain")
axes.set_ylim(0, 1)
axes.legend(frameon=False, fontsize=7)
figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
