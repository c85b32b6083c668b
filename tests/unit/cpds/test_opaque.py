"""Variables whose values are tensors of any shape."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from dissonance import PDG, Arc, Attention, Control, Euclidean, Variable, inconsistency, lir
from dissonance.cpds import Data, Function, NeuralCategorical, NeuralGaussian, StandardNormal
from dissonance.variables import Opaque

inf = math.inf


def test_a_classifier_of_images_is_about_an_opaque_variable():
    """Data -> images of two channels, and its cross-entropy."""
    torch.manual_seed(0)
    image, label = Variable("image", Opaque("2 x 4 x 4")), Variable("label", 3)
    x, y = torch.randn(7, 2, 4, 4, dtype=torch.float64), torch.randint(0, 3, (7,))
    net = nn.Sequential(nn.Conv2d(2, 3, 4), nn.Flatten()).double()
    pdg = PDG(Arc("d", (), (image, label), Data(x, y)), Arc("p", image, label, NeuralCategorical(net)))
    attention = Attention.only({"d": inf, "p": 1.0}, {"p": 1.0}, 1.0)
    loss = nn.functional.cross_entropy(net(x), y).item()
    assert inconsistency(pdg, attention).upper == pytest.approx(loss)
    run = lir(pdg, steps=5, attention=attention, control=Control({"p": 0.5}), flow="step")
    assert run.after.upper < 0.5 * loss


def test_functions_make_opaque_values_that_others_take():
    torch.manual_seed(0)
    image, features, code = Variable("image", Opaque()), Variable("features", Opaque()), Variable("Z", Euclidean(2))
    x = torch.randn(7, 2, 4, 4, dtype=torch.float64)
    conv, head = nn.Conv2d(2, 2, 3).double(), nn.Sequential(nn.Flatten(), nn.Linear(8, 2)).double()
    pdg = PDG(
        Arc("d", (), image, Data(x)),
        Arc("f", image, features, Function(conv)),
        Arc("q", features, code, NeuralGaussian(head)),
        Arc("prior", (), code, StandardNormal()),
    )
    hard = {"d": inf, "f": inf, "q": inf}
    found = inconsistency(pdg, Attention.only({**hard, "prior": 1.0}, {"prior": 1.0}, 1.0))
    with torch.no_grad():
        mean = head(conv(x))  # unit variance: KL(N(m, 1) || N(0, 1)) = m^2 / 2
    assert found.upper == pytest.approx(0.5 * mean.square().sum(1).mean().item(), abs=4 * found.standard_error)
