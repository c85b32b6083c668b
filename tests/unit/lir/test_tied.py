"""Arcs that share parameters, PDGs beside data, and runs that end themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, Focus, Record, SoftmaxTable, Variable, full_control, inconsistency, lir
from dissonance.cpds import ObservedGaussian
from dissonance.em import em, mixture
from dissonance.refocus import Cycle

QUIET = Record()
A, B, C = (Variable(n, 2) for n in "ABC")


def test_full_control_of_a_shared_table_takes_all_its_arcs_into_account():
    shared = SoftmaxTable([[0.6, 0.4], [0.5, 0.5]])
    rng = np.random.default_rng(0)
    pa, pb, pc = rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(2), 2), rng.dirichlet(np.ones(2), 2)
    pdg = PDG(
        Arc("a", (), A, pa), Arc("b", A, B, pb), Arc("c", B, C, pc), Arc("ab", A, B, shared), Arc("bc", B, C, shared)
    )
    hard = Attention.only({"a": math.inf, "b": math.inf, "c": math.inf, "ab": 1.0, "bc": 2.0})
    run = lir(pdg, Cycle(Focus(hard, full_control("ab"))), steps=1, attention=hard, trace=QUIET)
    counts = pa[:, None] * pb + 2 * (pa @ pb)[:, None] * pc
    np.testing.assert_allclose(run.pdg["bc"].cpd.table().detach(), counts / counts.sum(1, keepdims=True), atol=1e-9)


def data(count: int = 12) -> PDG:
    x = np.random.default_rng(1).normal(size=(count, 1))
    return mixture([0.4, 0.6], ObservedGaussian(x, [[-1.0], [1.0]], [[1.0], [1.0]], "diag"))


def test_the_gradient_flow_of_densities_is_that_of_the_inconsistency():
    p = data()
    instance = em(p, p.variable("row"))
    attention = instance.attention
    run = lir(instance.pdg, steps=1, flow="step", attention=attention, control=instance.control, trace=QUIET)
    value = inconsistency(instance.pdg, attention).value
    theta = instance.pdg.theta
    for key in ("x.means", "x.scale", "prior.logits"):
        (slope,) = torch.autograd.grad(value, theta[key], retain_graph=True)
        torch.testing.assert_close(run.theta[key], theta[key].detach() - slope, rtol=0, atol=1e-12)


def test_what_was_solved_is_not_solved_again():
    """A step of EM asks for the inconsistency before it, which is the one after the step before."""
    p = data()
    made = []
    emission = p["x"].cpd
    original = emission.densities
    emission.densities = lambda: made.append(1) or original()
    em(p, p.variable("row")).run(10)
    assert len(made) <= 6  # one table for every theta, of which there are six


def test_full_control_beside_pinned_mu_does_not_warn_and_beside_free_mu_does(recwarn: pytest.WarningsRecorder):
    p = data()
    instance = em(p, p.variable("row"))
    instance.run(4)
    assert not recwarn.list
    free = instance.attention.replace(beta={"q(Z)": 0.0})
    with pytest.warns(UserWarning, match="rewarded for being deterministic"):
        lir(instance.pdg, Cycle(Focus(free, full_control("x"))), steps=1, attention=free, trace=QUIET)


def test_a_callback_that_returns_true_ends_the_run():
    p = data()
    run = em(p, p.variable("row")).run(50, callbacks=[lambda step, traces: step == 6])
    assert run.steps == 6 and len(run.trace.rows) == 7 and not run.interrupted
