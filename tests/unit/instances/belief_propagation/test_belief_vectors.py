"""Belief propagation against the shared vectors, to their tolerances."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dissonance import inconsistency
from dissonance.bp import FactorGraph, belief_propagation
from dissonance.instances.belief_propagation.instance import message_pdg
from dissonance.instances.belief_propagation.tied import Tied
from reference.belief_propagation import same
from reference.belief_runs import EVERY, named
from shared_files import shared_json

VECTORS = shared_json("vectors", "bp.json")
pytestmark = pytest.mark.skipif(not VECTORS, reason="no vectors")


def _case():
    case = VECTORS["cases"][0]
    scopes, tables = [f["scope"] for f in case["factors"]], [np.array(f["table"]) for f in case["factors"]]
    return case, named(case["cards"], scopes, tables)


def _expected(messages):
    return {
        f"X{m['frm']}->f{m['to']}" if m["kind"] == "v2f" else f"f{m['frm']}->X{m['to']}": np.array(m["msg"])
        for m in messages
    }


@pytest.mark.parametrize(("theirs", "ours"), [("two_phase_flooding", "flooding"), ("sequential_inplace", "sequential")])
def test_the_vectors_of_a_schedule_come_out(theirs, ours):
    case, factors = _case()
    bp = belief_propagation(factors, ours)
    run = bp.run(2 * bp.sweep, trace=EVERY)
    for s in case["schedules"]:
        if s["schedule"] == theirs and s["sweeps"] <= 2:
            found = bp.beliefs(run.trace.snapshots[s["sweeps"] * bp.sweep])
            assert same(found.messages, _expected(s["messages"])) < VECTORS["tolerance"]
            assert (
                same(found.beliefs, {f"X{v}": np.array(b) for v, b in enumerate(s["beliefs"])}) < VECTORS["tolerance"]
            )
    if ours == "sequential":  # it is a tree: by now there is nothing left to say
        assert bp.read(run).free_energy == pytest.approx(-math.log(case["partition"]), abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("which", range(len(VECTORS["cases"]) if VECTORS else 0))
@pytest.mark.parametrize(("theirs", "ours"), [("two_phase_flooding", "flooding"), ("sequential_inplace", "sequential")])
def test_all_vectors_of_a_schedule_come_out(theirs, ours, which):
    case = VECTORS["cases"][which]
    scopes, tables = [f["scope"] for f in case["factors"]], [np.array(f["table"]) for f in case["factors"]]
    bp = belief_propagation(named(case["cards"], scopes, tables), ours)
    wanted = [s for s in case["schedules"] if s["schedule"] == theirs]
    run = bp.run(max(s["sweeps"] for s in wanted) * bp.sweep, trace=EVERY)
    for s in wanted:
        at = s["sweeps"] * bp.sweep
        found = bp.beliefs(run.trace.snapshots.get(at, run.theta))
        assert same(found.messages, _expected(s["messages"])) < VECTORS["tolerance"]
        assert same(found.beliefs, {f"X{v}": np.array(b) for v, b in enumerate(s["beliefs"])}) < VECTORS["tolerance"]


def test_a_synchronous_run_is_two_floodings_that_never_meet():
    """Erratum 13: what is told at an even time depends on what was asked at an odd one, and the other way round."""
    case, factors = _case()
    graph = FactorGraph.of(factors)
    out = [f"{r.name}->{a}" for a in graph.factor for r in graph.around[a]]
    back = [f"{a}->{r.name}" for a in graph.factor for r in graph.around[a]]
    one, other = (
        belief_propagation(graph, order).answer(2 * len(order)).messages for order in (out + back, back + out)
    )
    (sync,) = [s for s in case["schedules"] if s["schedule"] == "fully_parallel_sync" and s["sweeps"] == 4]
    expected = _expected(sync["messages"])
    assert same({n: one[n] for n in back}, {n: expected[n] for n in back}) < VECTORS["tolerance"]
    assert same({n: other[n] for n in out}, {n: expected[n] for n in out}) < VECTORS["tolerance"]
    assert same({n: one[n] for n in out}, {n: expected[n] for n in out}) > 1e-3


def test_the_vectors_of_single_foci_come_out():
    single = VECTORS["single_focus"]
    scopes, tables = [f["scope"] for f in single["factors"]], [np.array(f["table"]) for f in single["factors"]]
    bp = belief_propagation(named(single["cards"], scopes, tables))
    pdg = message_pdg(bp.graph)
    logits = {f"{n}.logits": torch.from_numpy(np.log(m)) for n, m in _expected(single["messages"]).items()}
    tol = single["tolerance"]
    for f in single["foci"]:
        x, a = f"X{f['variable']}", f"f{f['factor']}"
        name = f"{x}->{a}" if f["kind"] == "v2f" else f"{a}->{x}"
        start = torch.log(torch.tensor(f["controlled_message"], dtype=torch.float64))
        theta = {**pdg.theta, **logits, f"{name}.logits": start.clone().requires_grad_()}
        focus = bp.foci[name]
        found = inconsistency(pdg, focus.attention, solver=Tied(), theta=theta)
        assert found.upper == pytest.approx(f["objective_alpha0"] + f["solver_minus_closed_form"], abs=tol)
        (slope,) = torch.autograd.grad(found.value, theta[f"{name}.logits"])
        assert np.abs(slope.numpy() - f["grad_logits"]).max() < tol
        assert np.abs(found.mu.marginal(x).numpy() - f["mu_star"]).max() < tol
        rewarded = focus.attention.replace(alpha={name: 1.0})
        point = inconsistency(pdg, rewarded, solver=Tied(), theta=theta).upper
        assert point == pytest.approx(f["objective_alpha1"] + f["solver_minus_closed_form"], abs=tol)
        best = {**theta, f"{name}.logits": torch.log(torch.tensor(f["argmin"], dtype=torch.float64))}
        least = inconsistency(pdg, focus.attention, solver=Tied(), theta=best).upper
        assert least == pytest.approx(f["min_value"] + f["solver_minus_closed_form"], abs=tol)
