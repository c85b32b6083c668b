"""What must hold for every PDG that LIR is run on."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from dissonance import PDG, Arc, Attention, Control, Record, SoftmaxTable, Table, Variable, lir, lirs
from dissonance.flows import Descent, Step
from dissonance.lir.inner import inner_for
from dissonance.lir.inner.base import Attentions
from dissonance.lir.inner.one_by_one import OneByOne
from dissonance.lir.local import Local
from dissonance.lir.parameters import Parameters
from dissonance.solvers import Auto

QUIET = Record()
SIZES = {"A": 2, "B": 3, "C": 2, "D": 2}
V = {n: Variable(n, k) for n, k in SIZES.items()}


def draw(seed: int, arcs: str = "AB BC CB AC DC") -> PDG:
    """A random PDG; every other arc can move."""
    g = torch.Generator().manual_seed(seed)
    made: list[Arc] = []
    for i, (s, t) in enumerate(arcs.split()):
        p = torch.rand(V[s].size, V[t].size, generator=g, dtype=torch.float64) + 0.05
        p = p / p.sum(-1, keepdim=True)
        made.append(Arc(s + t, V[s], V[t], Table(p) if i == 3 else SoftmaxTable(p)))
    return PDG(*made, variables=V.values())


PDGS = [draw(seed) for seed in range(6)]


def test_a_small_step_under_global_attention_lowers_the_global_inconsistency():
    control = Control({a.name: 0.05 for a in PDGS[0] if a.name != "AC"})
    for run in lirs(PDGS, steps=8, flow=Step(), control=control, trace=QUIET):
        values = [(r.global_lower, r.global_upper) for r in run.trace.rows]
        for (_, before), (after, _) in itertools.pairwise(values):
            assert after <= before
        assert run.after.upper < run.before.lower


@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_full_control_never_raises_the_inconsistency(gamma: float):
    free = [a.name for a in PDGS[0] if a.name != "AC"]
    beta = {a.name: 1.0 for a in PDGS[0]}
    attention = Attention.only(beta, {"AC": 0.5}, gamma)
    for names in (free[:1], free[2:]):
        control = Control(dict.fromkeys(names, math.inf))
        for run in lirs(PDGS[:3], steps=2, attention=attention, control=control, trace=QUIET):
            rows = run.trace.rows
            assert all(b.global_lower <= a.global_upper + 1e-7 for a, b in itertools.pairwise(rows))


def test_an_arc_without_control_or_attention_does_not_move():
    run = lir(PDGS[0], "partial", steps=3, flow=Descent(steps=2), control=Control({"AB": 1.0}), trace=QUIET)
    assert torch.equal(run.theta["BC.logits"], PDGS[0].theta["BC.logits"])
    attention = Attention.uniform(PDGS[0], only=["BC", "CB"])
    run = lir(PDGS[0], steps=3, attention=attention, trace=QUIET)
    assert torch.equal(run.theta["AB.logits"], PDGS[0].theta["AB.logits"])


def attentions() -> list[Attention]:
    """Foci of all kinds over one structure."""
    names = [a.name for a in PDGS[0]]
    ones = dict.fromkeys(names, 1.0)
    return [
        Attention.only(ones),
        Attention.only({n: 0.3 + i for i, n in enumerate(names)}, ones, 0.2),
        Attention.only(ones | {"AB": 0.0, "CB": 0.0}),
        Attention.only(ones | {"DC": math.inf}),
        Attention.only(ones | {"BC": math.inf}, ones, 0.4),
        Attention.only(ones | {"BC": -0.2}, {}, 0.0),
    ]


def test_the_batch_of_all_foci_agrees_with_the_front_door_run_by_run():
    parameters = Parameters(PDGS)
    batched, each = inner_for(parameters, Auto(), Attention.uniform(PDGS[0])), OneByOne(parameters, Auto(1e-9))
    names = [a.name for a in parameters.arcs]
    a = Attentions.of(attentions(), names)
    for _ in range(2):  # cold, then from memory
        found, expected = (x.solve(parameters.theta0, a) for x in (batched, each))
        assert torch.allclose(found.upper, expected.upper, atol=1e-6)
        assert bool((found.lower <= expected.upper + 1e-9).all())


def test_gradients_are_those_of_the_front_door():
    parameters = Parameters(PDGS)
    names = [a.name for a in parameters.arcs]
    a = Attentions.of([replaced(x) for x in attentions()], names)
    slopes = []
    batched = inner_for(parameters, Auto(1e-9), Attention.uniform(PDGS[0]))
    for inner in (batched, OneByOne(parameters, Auto(1e-9))):
        local = Local(parameters, inner, a, {k: torch.ones_like(v) for k, v in parameters.theta0.items()})
        slopes.append(local.slope(dict(parameters.theta0)))
    for key in parameters.theta0:
        assert torch.allclose(slopes[0][key], slopes[1][key], atol=2e-4)


def replaced(a: Attention) -> Attention:
    """With some structure, so that mu* is unique and gradients agree."""
    return Attention.only({n: abs(b) for n, b in a.beta.items()}, {}, max(a.gamma, 0.05))
