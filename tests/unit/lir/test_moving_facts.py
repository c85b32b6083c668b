"""Hard arcs under control: the natural flow takes Euler steps, which must not end in a contradiction."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from dissonance import PDG, Arc, Attention, SoftmaxTable, Variable, lir, lirs

X, Y = Variable("X", 2), Variable("Y", 3)
CONTROL = {"moving": 1.0}


def beside_a_fact(p: float, soft: float) -> PDG:
    """A fact that moves, beside one that leaves p(X = 0) between .13 and .85: a step too long leaves this interval."""
    firm = Arc("firm", Y, X, [[0.85, 0.15], [0.2, 0.8], [0.13, 0.87]])
    return PDG(firm, Arc("moving", (), X, SoftmaxTable([p, 1 - p])), Arc("soft", (), X, [soft, 1 - soft]))


@pytest.mark.parametrize("soft", [0.05, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("beta", [1.0, 100.0, 1e7])
def test_a_fact_that_moves_ends_in_no_contradiction(beta: float, soft: float):
    pdg = beside_a_fact(0.38, soft)
    attention = Attention({"firm": math.inf, "moving": math.inf, "soft": beta})
    bounds = [lir(pdg, steps=n, attention=attention, control=CONTROL).after.upper for n in (0, 1, 3, 10)]
    best = min(max(soft, 0.13), 0.85)
    least = beta * (best * math.log(best / soft) + (1 - best) * math.log((1 - best) / (1 - soft)))
    assert all(now < before + 1e-9 * beta for before, now in itertools.pairwise(bounds))
    assert least - 1e-6 * beta <= bounds[-1] < least + 0.1 * (bounds[0] - least)


def test_runs_of_which_some_overshoot_end_as_they_do_alone():
    pdgs = [beside_a_fact(p, soft) for p in (0.38, 0.7, 0.79) for soft in (0.05, 0.8, 0.95)]
    attention = Attention({"firm": math.inf, "moving": math.inf, "soft": 100.0})
    together = lirs(pdgs, steps=2, attention=attention, control=CONTROL)
    for pdg, run in zip(pdgs, together, strict=True):
        alone = lir(pdg, steps=2, attention=attention, control=CONTROL)
        assert torch.allclose(run.pdg["moving"].cpd.table(), alone.pdg["moving"].cpd.table(), atol=1e-7)
