"""LIR on the paper's examples and on its synthetic study."""

from __future__ import annotations

import math

import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    Focus,
    SoftmaxTable,
    Variable,
    full_control,
    inconsistency,
    lir,
    lirs,
    load,
)
from dissonance.flows import Descent
from dissonance.refocus import Cycle, Hub
from shared_files import SHARED

P, Q = [0.7, 0.2, 0.1], [0.1, 0.3, 0.6]
X = Variable("X", 3)


@pytest.mark.parametrize(("r", "s"), [(1.0, 1.0), (0.3, 2.0)])
def test_two_beliefs_meet_at_their_weighted_geometric_mean(r: float, s: float):
    """-(r+s) log sum p^(r/(r+s)) q^(s/(r+s)), and mu* proportional to the summand."""
    pdg = PDG(Arc("p", (), X, SoftmaxTable(P)), Arc("q", (), X, SoftmaxTable(Q)))
    attention = Attention.only({"p": r, "q": s})
    p, q = (torch.tensor(x, dtype=torch.float64) for x in (P, Q))
    mean = p ** (r / (r + s)) * q ** (s / (r + s))
    foci = Cycle(Focus(attention, full_control("p")), Focus(attention, full_control("q")))
    run = lir(pdg, foci, steps=2, attention=attention)
    assert run.before.lower <= float(-(r + s) * mean.sum().log()) + 1e-9
    assert run.before.upper == pytest.approx(float(-(r + s) * mean.sum().log()), abs=1e-7)
    assert torch.allclose(inconsistency(pdg, attention).mu.marginal("X"), mean / mean.sum(), atol=1e-6)
    assert torch.allclose(run.pdg["p"].cpd.table(), run.pdg["q"].cpd.table(), atol=1e-7)
    assert run.after.upper < 1e-10


REPLICATES = sorted((SHARED / "authors" / "replicates" / "chain_4v_3e").glob("*.json"))[:6]


@pytest.mark.skipif(not REPLICATES, reason=f"no replicates under {SHARED}")
def test_partial_focus_on_the_smallest_chain_resolves_nothing():
    """One attended arc is always consistent: the published 54.7 % is inner-loop error."""
    pdgs = [load(path, learnable=True)[0] for path in REPLICATES]
    partial = lirs(pdgs, "partial", seeds=list(range(len(pdgs))), steps=4, flow=Descent())
    for run in partial:
        assert run.resolution_percent == pytest.approx(0.0, abs=1e-4) and run.distortion_tv < 1e-6
    for refocus in ("uniform", Hub(0.1)):
        runs = lirs(pdgs, refocus, steps=6, flow=Descent())
        before, after = (sum(v.upper for v in x) for x in zip(*((r.before, r.after) for r in runs), strict=True))
        assert after < 0.5 * before


def test_expectation_maximisation_is_full_control_in_turn():
    """E-step: q(Z|X) <- p(Z|X). M-step: p(Z), p(X|Z) <- those of d(X) q(Z|X)."""
    Z, W = Variable("Z", 2), Variable("W", 3)
    data = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    prior = torch.tensor([0.6, 0.4], dtype=torch.float64)
    likelihood = torch.tensor([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]], dtype=torch.float64)
    pdg = PDG(
        Arc("d", (), W, data),
        Arc("z", (), Z, SoftmaxTable(prior)),
        Arc("x", Z, W, SoftmaxTable(likelihood)),
        Arc("q", W, Z, SoftmaxTable(torch.full((3, 2), 0.5, dtype=torch.float64))),
    )
    attention = Attention.only({"d": math.inf, "q": math.inf, "z": 1.0, "x": 1.0})
    foci = Cycle(Focus(attention, full_control("q")), Focus(attention, full_control("z", "x")))
    run = lir(pdg, foci, steps=6, attention=attention)
    for _ in range(3):
        joint = prior[:, None] * likelihood
        posterior = joint / joint.sum(0)
        prior = posterior @ data
        likelihood = posterior * data / prior[:, None]
    assert torch.allclose(run.pdg["z"].cpd.table(), prior, atol=1e-5)
    assert torch.allclose(run.pdg["x"].cpd.table(), likelihood, atol=1e-5)
