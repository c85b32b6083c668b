"""A PDG on another device: the same beliefs, shared cpds stay shared, and every result is the same."""

from __future__ import annotations

import math

import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    Euclidean,
    LinearGaussian,
    NeuralCategorical,
    NeuralGaussian,
    PointMass,
    SoftmaxTable,
    Variable,
    full_control,
    inconsistency,
    lir,
    query,
)
from dissonance.cpds import Generated, StandardNormal, UniformBox

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
RAIN, WET = Variable("Rain", ["no", "yes"]), Variable("Wet", ["no", "yes"])
X, Y, Z = Variable("X", Euclidean(2)), Variable("Y", 3), Variable("Z", Euclidean(2))


def tables() -> PDG:
    shared = SoftmaxTable([0.7, 0.3])
    return PDG(
        Arc("forecast", (), RAIN, shared),
        Arc("almanac", (), RAIN, shared),
        Arc("physics", RAIN, WET, [[0.95, 0.05], [0.1, 0.9]], beta=5.0),
        Arc.from_table("window", {"no": 2, "yes": 8}, of="Wet", variables=[WET]),
    )


def networks() -> PDG:
    torch.manual_seed(0)
    return PDG(
        Arc("x", (), X, PointMass([0.5, -1.0])),
        Arc("p", X, Y, NeuralCategorical(torch.nn.Linear(2, 3).double())),
        Arc("y", (), Y, SoftmaxTable([0.8, 0.1, 0.1])),
    )


def drawn() -> PDG:
    torch.manual_seed(0)
    return PDG(
        Arc("prior", (), Z, StandardNormal()),
        Arc("noise", (), X, UniformBox(-1.0, 1.0)),
        Arc("p", X, Z, NeuralGaussian(torch.nn.Linear(2, 2).double())),
        Arc("made", X, Variable("W", Euclidean(1)), Generated(torch.nn.Linear(3, 1).double(), noise=1)),
    )


@pytest.mark.parametrize("device", DEVICES)
def test_a_pdg_on_a_device_is_a_copy_of_the_same_beliefs(device: str):
    pdg = tables()
    moved = pdg.to(device)
    assert [str(a) for a in moved.arcs] == [str(a) for a in pdg.arcs] and moved.variables == pdg.variables
    assert moved["physics"].beta == 5 and torch.equal(moved["window"].counts, pdg["window"].counts)
    assert moved["forecast"].cpd is moved["almanac"].cpd is not pdg["forecast"].cpd
    assert {p.device.type for p in moved.parameters()} == {device}
    with torch.no_grad():
        next(iter(moved.parameters())).zero_()
    assert bool(next(iter(pdg.parameters())).any())  # the first is left alone


@pytest.mark.parametrize("device", DEVICES)
def test_tables_have_the_same_inconsistency_gradient_and_posteriors(device: str):
    pdg = tables()
    results = [inconsistency(p) for p in (pdg, pdg.to(device))]
    assert results[0].upper == results[1].upper and results[0].lower == results[1].lower
    for r in results:
        r.value.backward()
    gradients = [next(iter(r.pdg.parameters())).grad for r in results]
    assert torch.allclose(gradients[0], gradients[1].cpu())
    factors = [query(p, {"Wet": "yes"}).marginals["Rain"].cpu() for p in (pdg, pdg.to(device))]
    assert torch.allclose(*factors)


@pytest.mark.parametrize("device", DEVICES)
def test_networks_are_scored_and_trained_the_same(device: str):
    attention = Attention.only({"x": math.inf, "p": 1.0, "y": math.inf})
    pdg = networks()
    results = [inconsistency(p, attention) for p in (pdg, pdg.to(device))]
    assert results[0].upper == pytest.approx(results[1].upper, rel=1e-6)
    runs = [lir(p, attention=attention, control=full_control("y"), steps=2) for p in (pdg, pdg.to(device))]
    assert runs[0].after.upper == pytest.approx(runs[1].after.upper, rel=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_drawn_is_the_same_on_every_device(device: str):
    beta = {"noise": math.inf, "p": math.inf, "prior": 1.0}
    attention = Attention.only(beta, {"prior": 1.0}, 1.0)
    pdg = drawn()
    results = [inconsistency(p, attention) for p in (pdg, pdg.to(device))]
    assert results[0].upper == pytest.approx(results[1].upper, rel=1e-5, abs=0.2 if device == "cuda" else 0)
    sources = [torch.zeros(3, 2, dtype=torch.float64)]
    for name in ("p", "made"):
        values = [
            p[name].cpd.draw([s.to(d) for s in sources], 4, torch.Generator().manual_seed(1)).values[0].cpu()
            for p, d in ((pdg, "cpu"), (pdg.to(device), device))
        ]
        assert torch.allclose(*values, atol=1e-6)
    gaussian = PDG(Arc("g", (), Z, LinearGaussian(None, torch.zeros(2), 1.0)))
    for p in (gaussian, drawn()):
        assert p.to(device).arcs[0].cpd.linear_gaussian()[1].device.type == device
