"""The published loop: it comes to what was published."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from dissonance.focus import Attention, Control, Focus
from dissonance.io import load
from dissonance.pdg import PDG
from dissonance.studies.published import Loop, published
from dissonance.studies.structures import PUBLISHED, generator

AUTHORS = Path(__file__).parents[4] / "shared" / "authors" / "replicates"


def everything(pdg: PDG) -> Focus:
    return Focus(Attention.uniform(pdg), Control({a.name: 1.0 for a in pdg.arcs}))


def test_a_pdg_does_not_depend_on_its_company():
    pdgs = [PUBLISHED[0].draw("simplex", generator(0, k)) for k in range(3)]
    together = published(pdgs, lambda _: [everything(p) for p in pdgs], steps=2)
    alone = published(pdgs[1:2], lambda _: [everything(pdgs[1])], steps=2)
    for name in ("initial", "final", "tv_mu", "tv_theta"):
        assert torch.allclose(getattr(together, name)[1:2], getattr(alone, name), rtol=1e-6, atol=1e-9)


def test_what_is_not_controlled_stays():
    pdgs = [PUBLISHED[0].draw("simplex", generator(0))]
    focus = Focus(Attention.uniform(pdgs[0]), Control({"p2": 1.0}))
    found = published(pdgs, lambda _: [focus], steps=2)
    theta = found.thetas(pdgs, 2)[0]
    for name in ("p1", "p3"):
        assert torch.allclose(theta[f"{name}.logits"].exp(), pdgs[0][name].cpd.table(), atol=1e-12)
    assert not torch.allclose(theta["p2.logits"].exp(), pdgs[0]["p2"].cpd.table(), atol=1e-3)
    assert float(found.final) < float(found.initial)


def test_the_accumulated_gradient_is_an_option():
    pdgs = [PUBLISHED[0].draw("simplex", generator(0))]
    runs = [
        published(pdgs, lambda _: [everything(pdgs[0])], 1, Loop(accumulate=accumulate)).tv_theta[0, -1]
        for accumulate in (True, False)
    ]
    assert float(runs[0]) != pytest.approx(float(runs[1]), rel=1e-3)


@pytest.mark.skipif(not AUTHORS.exists(), reason="the published runs are not beside this checkout")
@pytest.mark.parametrize("structure", ["chain_4v_3e", "chain_7v_6e"])
def test_uniform_focus_on_the_published_pdgs_follows_the_published_trajectories(structure: str):
    paths = sorted((AUTHORS / structure).glob("rep_*.json"))[:8]
    pdgs = [load(p, learnable=True)[0] for p in paths]
    theirs = [json.loads(p.read_text())["strategy_results"]["uniform"] for p in paths]
    ours = published(pdgs, lambda _: [everything(p) for p in pdgs], steps=3)
    initial = ours.initial.numpy() / math.log(2)
    assert np.abs(initial - [t["initial"] for t in theirs]).max() < 1e-7
    off = np.abs(ours.tv_theta.numpy() - [t["tv_theta_trace"][:4] for t in theirs])
    assert np.median(off, 0).max() < 1e-6  # some part company early: Adam at a kink doubles what rounding leaves
