"""Remarks of the paper that are no propositions: each in closed form."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    Control,
    Euclidean,
    LinearGaussian,
    SoftmaxTable,
    Variable,
    inconsistency,
    lir,
)
from dissonance.flows import ODE

inf = math.inf
X = Variable("X", 2)
HERE, THERE = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64)


@pytest.mark.parametrize("count", [2, 5])
def test_beta_and_alpha_count_how_often_a_belief_is_there(count: int):
    copies = PDG(*(Arc(f"p{i}", (), X, HERE) for i in range(count)), Arc("q", (), X, THERE))
    one = PDG(Arc("p", (), X, HERE), Arc("q", (), X, THERE))
    each = {f"p{i}": 1.0 for i in range(count)}
    for gamma in (0.0, 0.5):
        several = inconsistency(copies, Attention.only({**each, "q": 1.0}, each, gamma)).upper
        single = inconsistency(one, Attention.only({"p": count, "q": 1.0}, {"p": count}, gamma)).upper
        assert several == pytest.approx(single, abs=1e-6)


def test_a_point_is_the_limit_of_normals():
    """KL(N(x, eps^2) || p) = -log p(x) - log(eps sqrt(2 pi e)) + eps^2 / 2 for a standard normal p."""
    R = Variable("R", Euclidean(1))
    for eps in (1e-1, 1e-3, 1e-5):
        pdg = PDG(Arc("p", (), R, LinearGaussian(None, 0.0, 1.0)), Arc("x", (), R, LinearGaussian(None, 2.0, eps**2)))
        value = inconsistency(pdg, Attention.only({"p": 1.0, "x": inf})).upper
        left = value + math.log(eps) + 0.5 * math.log(2 * math.pi * math.e)
        assert left == pytest.approx(2.0 + 0.5 * math.log(2 * math.pi) + eps**2 / 2, abs=1e-9)


def test_runge_kutta_is_of_the_fourth_order():
    """Half the step, a sixteenth of the error, roughly."""
    attention, control = Attention.only({"p": 1.0, "q": inf}), Control({"p": 2.0})

    def end(flow: ODE) -> torch.Tensor:
        pdg = PDG(Arc("p", (), X, SoftmaxTable(HERE)), Arc("q", (), X, THERE))
        return lir(pdg, steps=1, attention=attention, control=control, flow=flow).pdg["p"].cpd.table().detach()

    exact = end(ODE("dopri5", rtol=1e-11, atol=1e-13))
    off = [float((end(ODE("rk4", steps=n)) - exact).abs().max()) for n in (2, 4, 8)]
    assert 8 < off[0] / off[1] < 32 and 8 < off[1] / off[2] < 32


def test_every_loss_on_the_page_is_its_formula():
    """docs/losses.md compares each with its formula, and prints whether they agree."""
    page = (Path(__file__).parents[2] / "docs" / "losses.md").read_text(encoding="utf-8")
    printed: list[object] = []
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), {"print": printed.append})
    assert len(printed) >= 20 and all(x is True for x in printed)
