"""The decision rule between expected utility and max-max: writes decisions.svg beside this file."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot

from dissonance import Record
from dissonance.instances import DecisionProblem, decision

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.hashsalt": "decisions", "font.size": 9}
umbrella = DecisionProblem(
    belief=[0.7, 0.3],
    outcome=[[[0, 1, 0, 0], [1, 0, 0, 0]], [[0, 0, 1, 0], [0, 0, 0, 1]]],
    utility=[1.0, 0.6, 0.5, -1.5],
    states=["sun", "rain"],
    actions=["umbrella", "none"],
    outcomes=["dry hands free", "dry", "dry in the rain", "wet"],
)
ratios = np.geomspace(0.03, 100, 19)
worth = [
    decision(umbrella, confidence=1.0, faith=r).answer(1, trace=Record(False, 0)).equivalents for r in ratios.tolist()
]
ends = [decision(umbrella, confidence=c, faith=f).answer(1).equivalents for c, f in ((np.inf, 1.0), (1.0, np.inf))]

figure, axes = pyplot.subplots(figsize=(5.2, 3.0), layout="constrained")
for action, colour in (("umbrella", "C0"), ("none", "C1")):
    axes.semilogx(ratios, [w[action] for w in worth], colour, label=action)
    for end, style in zip(ends, ("--", ":"), strict=True):
        axes.axhline(end[action], color=colour, linestyle=style, linewidth=0.8)
axes.set_xlabel("faith : confidence  (dashed: expected utility, dotted: best case)")
axes.set_ylabel("worth of the action (utility)")
axes.legend(frameon=False)
figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
