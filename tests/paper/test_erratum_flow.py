"""Errata 7 and 21: Algorithm 1 starts at theta_0 and goes down, and what it follows can have kinks."""

from __future__ import annotations

import math

import pytest
import torch

from dissonance import PDG, Arc, Control, PointMass, Record, SoftmaxTable, Variable, inconsistency, lir
from dissonance.flows import Step

X, Y = Variable("X", 2), Variable("Y", 2)
P, Q = [0.7, 0.3], [0.2, 0.8]


def test_a_run_starts_at_the_default_parameters_and_not_at_zero():
    pdg = PDG(Arc("p", (), X, SoftmaxTable(P)), Arc("q", (), X, Q))
    run = lir(pdg, steps=1, control=Control({"p": 0.0}), trace=Record(snapshots=1))
    assert run.before.upper == pytest.approx(-2 * math.log(sum(math.sqrt(p * q) for p, q in zip(P, Q, strict=True))))
    assert torch.equal(run.theta["p.logits"], pdg.theta["p.logits"])
    uniform = PDG(Arc("p", (), X, [0.5, 0.5]), Arc("q", (), X, Q))  # what logits of 0 would be
    assert run.before.upper != pytest.approx(inconsistency(uniform).upper, abs=1e-3)


def test_a_step_goes_against_the_gradient():
    """Erratum 21: the appendix has theta' = +grad, which would raise the inconsistency."""
    pdg = PDG(Arc("p", (), X, SoftmaxTable(P)), Arc("q", (), X, Q))
    value = inconsistency(pdg).value
    value.backward()
    gradient = pdg["p"].cpd.logits.grad
    start = pdg.theta["p.logits"].detach().clone()
    down = lir(pdg, steps=1, flow=Step(), control=Control({"p": 0.1}))
    assert torch.allclose(down.theta["p.logits"], start - 0.1 * gradient, atol=1e-6)
    assert down.after.upper < down.before.upper
    up = inconsistency(pdg, theta={"p.logits": start + 0.1 * gradient})
    assert up.upper > down.before.upper


def test_without_structure_the_inconsistency_has_kinks():
    """Erratum 7: evidence Y = 1 on p(Y|X) costs -log max_x p(1|x); its slope jumps where two rows tie."""

    def value(t: float) -> float:
        rows = [[0.5 - t, 0.5 + t], [0.5 + t, 0.5 - t]]
        return inconsistency(PDG(Arc("p", X, Y, rows), Arc("seen", (), Y, PointMass(1)))).upper

    h = 1e-3
    left, right = (value(0.0) - value(-h)) / h, (value(h) - value(0.0)) / h
    assert (left, right) == pytest.approx((2.0, -2.0), abs=0.01)
