"""The published loop: it comes to what was published."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    Control,
    Record,
    SoftmaxTable,
    Table,
    Variable,
    inconsistency,
    lir,
    lirs,
    load,
)
from dissonance.flows import Published
from dissonance.lir.flows.descent import ADAM
from dissonance.runs import Run
from dissonance.solvers import Paper
from dissonance.studies.structures import PUBLISHED, generator

AUTHORS = Path(__file__).parents[4] / "shared" / "authors" / "replicates"
PDGS = [PUBLISHED[0].draw("simplex", generator(0, k)) for k in range(3)]


def published(pdgs: Sequence[PDG], steps: int, accumulate: bool = True, **options: Any) -> list[Run]:
    solver, record = Published(accumulate=accumulate), Record()
    return lirs(pdgs, steps=steps, flow=ADAM, solver=solver, tol=0.0, trace=record, **options)


def by_hand(pdg: PDG, iterations: int) -> float:
    """The published inner loop on one PDG, by autograd over the joint of all variables and torch's own Adam; nats."""
    letters = {v.name: chr(97 + i) for i, v in enumerate(pdg.variables)}
    x = torch.full([v.size for v in pdg.variables], 1 / math.prod(v.size for v in pdg.variables), dtype=torch.float64)
    x.requires_grad_()
    adam = torch.optim.Adam([x], lr=1e-3)
    best, lowest = math.nan, math.inf
    for _ in range(iterations):
        adam.zero_grad()
        clipped = x.clamp(min=0)
        mu = clipped / clipped.sum()
        bits = torch.zeros((), dtype=torch.float64)
        for a in pdg.arcs:
            here = "".join(letters[v.name] for v in a.scope)
            joint = torch.einsum(f"{''.join(letters.values())}->{here}", mu)
            ratio = joint / joint.sum(-1, keepdim=True) / a.cpd.table().detach()
            bits = bits + (joint * ratio.log2()).sum()
        cost = bits + (clipped.sum() - 1) ** 2
        if float(cost.detach()) <= lowest:
            lowest, best = float(cost.detach()), float(bits.detach()) * math.log(2)
        cost.backward()
        adam.step()
    return best


def test_the_inner_loop_is_adam_on_the_joint_of_all_variables():
    for pdg in PDGS:
        free = math.prod(v.size for v in pdg.variables if not any(v in a.scope for a in pdg.arcs))
        assert free == 3
        expected = by_hand(pdg, 50)
        assert inconsistency(pdg, solver=Paper(spread=free)).upper == pytest.approx(expected, abs=1e-12)
        assert published([pdg], steps=1)[0].before.upper == pytest.approx(expected, abs=1e-12)


def test_a_pdg_does_not_depend_on_its_company():
    together, alone = published(PDGS, steps=2)[1], published(PDGS[1:2], steps=2)[0]
    assert alone.before.upper == pytest.approx(together.before.upper, rel=1e-9)
    assert alone.after.upper == pytest.approx(together.after.upper, rel=1e-6, abs=1e-9)
    assert alone.distortion_tv == pytest.approx(together.distortion_tv, rel=1e-6)


def test_an_outer_step_is_one_warm_solve_and_nothing_more():
    rows = published(PDGS[:1], steps=2)[0].trace.rows
    assert [r.solves for r in rows] == [10, 10, 0]
    assert [r.newton_steps for r in rows] == [50 + 10 * 20, 50 + 10 * 20, 50]  # the trace looks at all, 50 more


def test_what_is_not_controlled_stays():
    (run,) = published(PDGS[:1], steps=2, control=Control({"p2": 1.0}))
    for name in ("p1", "p3"):
        assert torch.equal(run.pdg[name].cpd.table(), PDGS[0][name].cpd.table())
    assert not torch.allclose(run.pdg["p2"].cpd.table(), PDGS[0]["p2"].cpd.table(), atol=1e-3)
    assert run.after.upper < run.before.upper


def test_the_accumulated_gradient_is_an_option():
    moved = [published(PDGS[:1], 1, accumulate)[0].trace.rows[-1].tv_theta for accumulate in (True, False)]
    assert moved[0] != pytest.approx(moved[1], rel=1e-3)


def test_a_resumed_run_is_the_run_that_was_not_stopped(tmp_path: Path):
    whole = published(PDGS[:2], steps=3)
    published(PDGS[:2], steps=1, checkpoint=tmp_path / "run")
    for a, b in zip(whole, published(PDGS[:2], steps=3, checkpoint=tmp_path / "run"), strict=True):
        assert all(torch.equal(a.theta[k], b.theta[k]) for k in a.theta)


def test_impossible_states_stay_empty_and_hard_arcs_are_refused():
    X = Variable("X", 3)
    pdg = PDG(Arc("p", (), X, SoftmaxTable([0.5, 0.5, 0.0])), Arc("q", (), X, Table([0.0, 0.4, 0.6])))
    run = lir(pdg, steps=1, flow=ADAM, solver="paper")
    assert run.before.upper == pytest.approx(-math.log(0.5) - math.log(0.4), abs=1e-9)  # all mass is on the second
    with pytest.raises(CapabilityError, match=r"'q'.*no constraints"):
        lir(pdg, steps=1, solver="paper", attention=Attention.only({"p": 1.0, "q": math.inf}))


@pytest.mark.skipif(not AUTHORS.exists(), reason="the published runs are not beside this checkout")
@pytest.mark.parametrize("structure", ["chain_4v_3e", "chain_7v_6e"])
def test_uniform_focus_on_the_published_pdgs_follows_the_published_trajectories(structure: str):
    paths = sorted((AUTHORS / structure).glob("rep_*.json"))[:8]
    pdgs = [load(p, learnable=True)[0] for p in paths]
    theirs = [json.loads(p.read_text())["strategy_results"]["uniform"] for p in paths]
    ours = published(pdgs, steps=3)
    initial = np.array([run.before.upper for run in ours]) / math.log(2)
    assert np.abs(initial - [t["initial"] for t in theirs]).max() < 1e-7
    rows = sum(math.prod(v.size for v in a.sources) for a in pdgs[0].arcs)
    moved = rows * np.array([run.trace.column("tv_theta") for run in ours])
    off = np.abs(moved - [t["tv_theta_trace"][:4] for t in theirs])
    assert np.median(off, 0).max() < 1e-6  # some part company early: Adam at a kink doubles what rounding leaves
