"""Which arc is to blame for an infinite inconsistency of what is drawn."""

from __future__ import annotations

import torch

from dissonance.focus import Attention
from dissonance.inconsistency import inconsistency
from dissonance.pdg import PDG, Theta
from dissonance.solvers.sampled import SampledSolution


@torch.no_grad()
def impossible(pdg: PDG, attention: Attention, theta: Theta) -> str:
    """The first arc that gives density 0, or an infinite one, to samples that the hard arcs make, and what to do."""
    for s in inconsistency(pdg, attention, theta=theta).solutions:
        if not isinstance(s, SampledSolution):
            continue
        for a in s.component.arcs:
            if a.hard or a.beta == 0:
                continue
            targets, sources = ([s.mu.values[v.name] for v in side] for side in (a.arc.targets, a.arc.sources))
            odd = torch.isinf(a.arc.call("log_prob", theta, targets, sources))
            if bool(odd.any()):
                return (
                    f"{a.arc} has density 0, or an infinite one, at {int(odd.sum())} of {len(s.mu)} samples. Have the "
                    "hard arcs make values inside of its support (scale the data, squash the outputs), or widen it."
                )
    return "beliefs contradict each other outright."
