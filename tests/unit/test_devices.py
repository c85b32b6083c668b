"""Networks on another device: they compute there, everything else stays, and results are the same."""

from __future__ import annotations

import math

import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    Control,
    Euclidean,
    NeuralCategorical,
    NeuralGaussian,
    PointMass,
    SoftmaxTable,
    Variable,
    inconsistency,
    lir,
)
from dissonance.cpds import Generated, UniformBox
from dissonance.flows import Descent

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
pytestmark = pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # the first time, in a thread of autograd
W, X, Y, Z = Variable("W", Euclidean(1)), Variable("X", Euclidean(2)), Variable("Y", 3), Variable("Z", Euclidean(2))
ATTENTION = Attention.only({"x": math.inf, "p": 1.0, "y": math.inf})


class Seen(torch.nn.Module):
    """A layer in single precision that remembers what it was given."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(inputs, outputs)
        self.given: list[tuple[torch.device, torch.dtype]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.given.append((x.device, x.dtype))
        return self.layer(x)


def classifier(network: torch.nn.Module) -> PDG:
    return PDG(
        Arc("x", (), X, PointMass([0.5, -1.0])),
        Arc("p", X, Y, NeuralCategorical(network)),
        Arc("y", (), Y, SoftmaxTable([0.8, 0.1, 0.1])),
    )


def linear(inputs: int, outputs: int) -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(inputs, outputs).double()


@pytest.mark.parametrize("device", DEVICES)
def test_networks_are_moved_and_everything_else_is_copied(device: str):
    shared = NeuralCategorical(linear(2, 3))
    pdg = PDG(
        Arc("x", (), X, PointMass([0.5, -1.0])),
        Arc("p", X, Y, shared),
        Arc("q", X, Y, shared, beta=2.0),
        Arc.from_table("counted", {0: 3, 1: 2, 2: 1}, of="Y", variables=[Y]),
    )
    moved = pdg.to(device)
    assert [str(a) for a in moved.arcs] == [str(a) for a in pdg.arcs] and moved.variables == pdg.variables
    assert list(moved.theta) == list(pdg.theta)
    assert moved["p"].cpd is moved["q"].cpd is not shared and moved["q"].beta == 2
    assert torch.equal(moved["counted"].counts, pdg["counted"].counts)
    assert moved.theta["p.logits.weight"].device.type == device
    assert moved.theta["x.value"].device.type == "cpu"
    with torch.no_grad():
        moved.theta["p.logits.weight"].zero_()
    assert bool(pdg.theta["p.logits.weight"].any())  # the first is left alone


@pytest.mark.parametrize("device", DEVICES)
def test_scores_gradients_and_runs_are_the_same(device: str):
    pdg = classifier(linear(2, 3))
    moved = pdg.to(device).to(device)  # again changes nothing
    here, there = inconsistency(pdg, ATTENTION), inconsistency(moved, ATTENTION)
    assert there.upper == pytest.approx(here.upper, rel=1e-12)
    assert there.value.device.type == "cpu"
    here.value.backward()
    there.value.backward()
    found, wanted = moved["p"].cpd.logits.weight.grad, pdg["p"].cpd.logits.weight.grad
    assert found.device.type == device and torch.allclose(found.cpu(), wanted)
    train = {
        "attention": ATTENTION,
        "control": Control({"p": 1.0}),
        "steps": 3,
        "flow": Descent(rate=0.1, steps=2),
    }
    runs = [lir(p, **train) for p in (pdg, moved)]
    assert runs[1].after.upper == pytest.approx(runs[0].after.upper, rel=1e-9)
    assert runs[0].after.upper < runs[0].before.upper
    assert runs[1].theta["p.logits.weight"].device.type == device


@pytest.mark.parametrize("device", DEVICES)
def test_a_network_computes_where_it_is_and_in_its_own_precision(device: str):
    """The points are in double precision: without being brought over, a layer in single precision refuses them."""
    network = Seen(2, 3)
    pdg = PDG(Arc("x", (), X, PointMass([0.5, -1.0])), Arc("p", X, Y, NeuralCategorical(network)))
    moved = pdg.to(device) + Arc("y", (), Y, SoftmaxTable([0.8, 0.1, 0.1]))
    seen = moved["p"].cpd.logits
    seen.given.clear()
    result = inconsistency(moved, ATTENTION)
    assert seen.given and {(d.type, t) for d, t in seen.given} == {(device, torch.float32)}
    with torch.no_grad():
        log_p = torch.log_softmax(network(torch.tensor([[0.5, -1.0]])).double(), -1)[0]
        wanted = torch.nn.functional.kl_div(log_p, torch.tensor([0.8, 0.1, 0.1]).double(), reduction="sum")
    assert result.upper == pytest.approx(float(wanted), rel=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_drawn_is_the_same_on_every_device(device: str):
    pdg = PDG(
        Arc("noise", (), X, UniformBox(-1.0, 1.0)),
        Arc("p", X, Z, NeuralGaussian(linear(2, 2))),
        Arc("made", X, W, Generated(linear(3, 1), noise=1)),
    )
    moved, at = pdg.to(device), [torch.zeros(3, 2, dtype=torch.float64)]
    for name in ("p", "made"):
        here, there = (p[name].cpd.draw(at, 4, torch.Generator().manual_seed(1)).values[0] for p in (pdg, moved))
        assert there.device.type == "cpu" and torch.allclose(here, there)


def test_where_there_is_no_network_there_is_nothing_to_move():
    with pytest.raises(CapabilityError, match=r"no arc has a network.*Newton\(device"):
        PDG(Arc("y", (), Y, SoftmaxTable([0.8, 0.1, 0.1]))).to("cpu")
