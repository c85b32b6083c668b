"""Attention, control and focus."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path

import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    Control,
    DissonanceError,
    Focus,
    SoftmaxTable,
    Variable,
    full_control,
    inconsistency,
    load,
)

X = Variable("X", 2)
inf = math.inf
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def pdg() -> PDG:
    return PDG(Arc("p", (), X, SoftmaxTable([0.5, 0.5])), Arc("q", (), X, [0.1, 0.9]))


def test_what_is_left_out_has_weight_zero(pdg: PDG):
    phi = Attention.only({"p": 1})
    assert phi.beta.get("q", 0.0) == 0 and phi.alpha == {} and phi.gamma == 0
    assert Attention.only() == Attention.only({}, {}, 0.0)


def test_uniform_attention_names_every_arc_or_only_some(pdg: PDG):
    assert Attention.uniform(pdg) == Attention.only({"p": 1.0, "q": 1.0}, {"p": 1.0, "q": 1.0}, 0.0)
    assert Attention.uniform(pdg, only=["q"], beta=inf, alpha=0.5, gamma=2) == Attention.only(
        {"q": inf}, {"q": 0.5}, 2.0
    )
    with pytest.raises(DissonanceError, match="no arc named 'r'"):
        Attention.uniform(pdg, only=["r"])


@pytest.mark.parametrize("gamma", [-0.1, inf, math.nan])
def test_gamma_is_finite_and_not_negative(gamma: float):
    with pytest.raises(DissonanceError, match="gamma must be a finite number >= 0"):
        Attention.only({}, {}, gamma)


def test_beta_may_be_infinite_or_negative_but_not_minus_infinity_or_nan():
    assert Attention.only({"p": inf, "q": -2}).beta == {"p": inf, "q": -2.0}
    for bad in (-inf, math.nan):
        with pytest.raises(DissonanceError, match=r"beta\['p'\] must be a number or inf"):
            Attention.only({"p": bad})
    with pytest.raises(DissonanceError, match=r"found -inf\. Boundless disbelief is worth -inf"):
        Attention.only({"p": -inf})
    for bad, why in ((inf, " It asks that the targets be some function"), (-inf, " It is worth -inf"), (math.nan, "$")):
        with pytest.raises(DissonanceError, match=rf"alpha\['p'\] must be finite, found {bad}\.{why}"):
            Attention.only({}, {"p": bad})


def test_an_attention_is_immutable_and_changed_by_copies():
    weights = {"p": 1.0}
    phi = Attention.only(weights)
    weights["p"] = 5.0
    assert phi.beta["p"] == 1
    with pytest.raises(TypeError):
        phi.beta["p"] = 2.0
    changed = phi.replace(beta={"q": 3.0}, alpha={"p": 0.5}, gamma=0.1)
    assert changed == Attention.only({"p": 1.0, "q": 3.0}, {"p": 0.5}, 0.1)
    assert changed.without("q").beta == {"p": 1.0, "q": 0.0}
    assert phi == Attention.only({"p": 1.0})


def test_control_is_not_negative_and_zero_where_left_out(pdg: PDG):
    chi = Control({"p": inf, "q": torch.tensor([0.0, 1.0])})
    assert chi["p"] == inf and chi["q"].tolist() == [0, 1] and chi["r"] == 0
    for bad in (-1.0, math.nan, torch.tensor([1.0, -1.0])):
        with pytest.raises(DissonanceError, match=r"control\['p'\] must be >= 0"):
            Control({"p": bad})
    assert full_control("p", "q") == Control({"p": inf, "q": inf})


def test_a_focus_checks_the_names_it_uses(pdg: PDG):
    Focus(Attention.only({"p": 1.0}), Control({"p.logits": 0.5, "q": 1.0})).check(pdg)
    for bad in (
        Focus(Attention.only({"x": 1.0})),
        Focus(Attention.only({}, {"x": 1.0})),
        Focus(control=Control({"p.p": 1.0})),
    ):
        with pytest.raises(DissonanceError, match="no arc named"):
            bad.check(pdg)


def test_a_focus_goes_through_a_pickle_and_a_deep_copy():
    focus = Focus(Attention.only({"p": inf}, {"p": 1.0}, 0.5), Control({"p": 2.0}))
    assert pickle.loads(pickle.dumps(focus)) == focus == copy.deepcopy(focus)


def test_an_attention_and_a_control_print_as_they_are_written():
    attention = Attention.only({"p": 1.0, "q": math.inf}, {"p": 1.0}, gamma=0.5)
    assert repr(attention) == "Attention.only(beta={'p': 1.0, 'q': inf}, alpha={'p': 1.0}, gamma=0.5)"
    assert repr(full_control("p")) == "Control({'p': inf})"
    assert eval(repr(attention), {"Attention": Attention, "inf": math.inf}) == attention


def test_a_dictionary_keeps_the_arcs_it_leaves_out_and_only_switches_them_off():
    """Figure 1: the attack attends to the label y' and not to y, which contradicts it."""
    figure, _ = load(EXAMPLES / "adversary.json")
    attack = {"x": 1.0, "x'": inf, "p": 1.0, "y'": inf}
    assert Attention(attack).on(figure).beta["y"] == figure["y"].beta == 1.0
    assert "y" not in Attention.only(attack).on(figure).beta
    assert inconsistency(figure, attack).upper == inf
    attacked = inconsistency(figure, Attention.only(attack))
    expected = -float(figure["x'"].cpd.table() @ figure["p"].cpd.table()[:, 1].log())
    assert attacked.upper == pytest.approx(expected, abs=1e-6)
