"""What dropping each table of two hospitals would save: writes case_study.svg beside this file."""

import sys
from pathlib import Path

import matplotlib
from matplotlib import pyplot

import dissonance

sys.path.append(str(Path(dissonance.__file__).parents[2] / "examples"))
from hospitals import hospitals

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.hashsalt": "case_study", "font.size": 9}

saved = {row.name: row.saved_if_dropped for row in dissonance.inconsistency(hospitals()).by_arc()}
tables = list(dict.fromkeys(name.partition(": ")[2] for name in saved))
tables.sort(key=lambda t: saved[f"A: {t}"] + saved[f"B: {t}"])

figure, axes = pyplot.subplots(figsize=(5.2, 2.4), layout="constrained")
for offset, hospital in ((0.2, "A"), (-0.2, "B")):
    at = [i + offset for i in range(len(tables))]
    axes.barh(at, [saved[f"{hospital}: {t}"] for t in tables], height=0.38, label=f"hospital {hospital}")
axes.set_yticks(range(len(tables)), tables)
axes.set_xlabel("nats saved if the table is dropped")
axes.legend(frameon=False, loc="lower right")
figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
