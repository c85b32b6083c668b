"""Figures of docs/tutorials/experts.md: the beliefs by blame; the compromise by trust and gamma; what the data allow.

python docs/figures/tutorial_experts.py
"""

from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib import pyplot

from dissonance import PDG, Arc, Attention, Variable, inconsistencies, inconsistency

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.hashsalt": "tutorial_experts", "font.size": 8}
Worn, Vibration = Variable("Worn", ["no", "yes"]), Variable("Vibration", ["low", "high"])
pdg = PDG(
    Arc("designer", (), Worn, [0.95, 0.05]),
    Arc("mechanic", (), Worn, [0.60, 0.40]),
    Arc("bench", Worn, Vibration, [[0.9, 0.1], [0.2, 0.8]]),
    Arc("log", (), Vibration, [0.75, 0.25]),
)
inconsistency(pdg).plot(title="Worn bearings").save(Path(__file__).with_name("tutorial_experts_blame.svg"))

figure, (trust, mechanisms, spread) = pyplot.subplots(1, 3, figsize=(8.4, 2.5), layout="constrained")
betas = np.geomspace(0.03, 30, 17).tolist()
found = inconsistencies(pdg, [Attention.uniform(pdg).replace(beta={"designer": b}) for b in betas])
trust.semilogx(betas, [100 * float(f.mu.marginal("Worn")[1]) for f in found])
for level, name, at, side in (
    (40, "the mechanic", 35, "right"),
    (100 * 0.15 / 0.7, "bench and log", 35, "right"),
    (5, "the designer", 0.03, "left"),
):
    trust.axhline(level, color="grey", linewidth=0.8, linestyle=":")
    trust.text(at, level + 0.7, name, color="grey", ha=side)
trust.set(xlabel="beta of the designer", ylabel="worn according to mu* (%)", title="trust", ylim=(0, 44))

experts = PDG(pdg["designer"], pdg["mechanic"])
gammas = np.linspace(0, 1, 21).tolist()
found = inconsistencies(experts, [Attention.uniform(experts, gamma=g) for g in gammas])
mechanisms.plot(gammas, [100 * float(f.mu.marginal("Worn")[1]) for f in found])
mechanisms.axhline(5, color="grey", linewidth=0.8, linestyle=":")
mechanisms.text(0, 5.3, "the designer", color="grey")
mechanisms.set(xlabel="gamma, the two experts alone", title="mechanisms", ylim=(0, 17))

torch.manual_seed(0)
share = torch.distributions.Beta(10.5, 15.5).sample((400,)).double()
found = inconsistencies([pdg.replace(Arc("mechanic", (), Worn, [1 - w, w])) for w in share.tolist()])
spread.hist([f.upper for f in found], bins=24, color="C0")
spread.axvline(inconsistency(pdg).upper, color="black", linewidth=0.8)
spread.set(xlabel="inconsistency (nats)", ylabel="draws of 400", title="what the data allow")
figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
