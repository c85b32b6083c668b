"""Draw the pictures of docs/drawing.md: PDGs of the paper and of this documentation, from experts to networks.

python docs/figures/gallery.py
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import torch

import dissonance
from dissonance import (
    PDG,
    Arc,
    Attention,
    Control,
    Deterministic,
    Euclidean,
    Focus,
    PointMass,
    SoftmaxTable,
    Variable,
    draw,
    full_control,
    inconsistency,
    load,
)
from dissonance.bp import belief_propagation
from dissonance.cpds import LinearGaussian, NeuralCategorical, NeuralGaussian
from dissonance.drawing import Drawing
from dissonance.instances import gan, vae

inf = math.inf
ALARM = {
    "LVFailure": "",
    "Hypovolemia": "",
    "History": "LVFailure",
    "LVEDVolume": "Hypovolemia LVFailure",
    "CVP": "LVEDVolume",
    "PCWP": "LVEDVolume",
    "StrokeVolume": "Hypovolemia LVFailure",
    "ErrLowOutput": "",
    "ErrCauter": "",
    "Anaphylaxis": "",
    "TPR": "Anaphylaxis",
    "KinkedTube": "",
    "FiO2": "",
    "PulmEmbolus": "",
    "PAP": "PulmEmbolus",
    "Intubation": "",
    "Shunt": "PulmEmbolus Intubation",
    "Disconnect": "",
    "MinVolSet": "",
    "VentMach": "MinVolSet",
    "VentTube": "VentMach Disconnect",
    "Press": "KinkedTube Intubation VentTube",
    "VentLung": "KinkedTube Intubation VentTube",
    "MinVol": "Intubation VentLung",
    "VentAlv": "Intubation VentLung",
    "PVSat": "VentAlv FiO2",
    "SaO2": "Shunt PVSat",
    "ArtCO2": "VentAlv",
    "ExpCO2": "ArtCO2 VentLung",
    "InsuffAnesth": "",
    "Catechol": "InsuffAnesth SaO2 TPR ArtCO2",
    "HR": "Catechol",
    "HRBP": "ErrLowOutput HR",
    "HREKG": "ErrCauter HR",
    "HRSat": "ErrCauter HR",
    "CO": "HR StrokeVolume",
    "BP": "CO TPR",
}
"""The parents in the ALARM network (Beinlich et al., 1989)."""


def even(*variables: Variable) -> torch.Tensor:
    """A table that says nothing about its last variable."""
    shape = tuple(v.size for v in variables)
    return torch.full(shape, 1 / shape[-1], dtype=torch.float64)


def letters(names: str) -> list[Variable]:
    """Binary variables with these names."""
    return [Variable(n, 2) for n in names.split()]


def smoking(direction: str | None = None) -> Drawing:
    """The beliefs of examples/smoking.json, coloured by blame: what `dissonance draw --blame` draws of them."""
    pdg, focus = load(Path(dissonance.__file__).parents[2] / "examples" / "smoking.json")
    return inconsistency(pdg, focus.attention).plot(direction=direction)


def downwards() -> Drawing:
    """The same from top to bottom."""
    return smoking("down")


def experts() -> Drawing:
    """Two experts who disagree, one of them believed three times as much."""
    rain = Variable("Rain", ["no", "yes"])
    pdg = PDG(Arc("forecaster", (), rain, [0.7, 0.3]), Arc("farmer", (), rain, [0.2, 0.8]))
    return inconsistency(pdg, Attention.only({"forecaster": 3.0, "farmer": 1.0})).plot()


def hyperarcs() -> Drawing:
    """Several sources merge, several targets are reached; an arc without sources comes from outside."""
    a, b, c, d, e, f = letters("A B C D E F")
    pdg = PDG(
        Arc("p", (a, b), c, even(a, b, c)),
        Arc("q", c, (d, e), torch.full((2, 2, 2), 0.25)),
        Arc("r", (b, d), (e, f), torch.full((2, 2, 2, 2), 0.25)),
        Arc("u", (), (a, b), torch.full((2, 2), 0.25)),
        Arc("v", (e, f), Variable("G", 2), Deterministic(lambda x, y: x ^ y)),
    )
    return draw(pdg)


def em() -> Drawing:
    """Expectation-maximisation: one attention, two controls."""
    x, z = letters("X Z")
    pdg = PDG(
        Arc("x", (), x, PointMass(0)),
        Arc("p", (), (x, z), SoftmaxTable(torch.full((2, 2), 0.25))),
        Arc("q", (), z, SoftmaxTable([0.5, 0.5])),
    )
    attention = Attention.only({"x": inf, "p": 1.0, "q": inf})
    return draw(
        pdg, focus={"E step": Focus(attention, full_control("q")), "M step": Focus(attention, full_control("p"))}
    )


def propagation() -> Drawing:
    """Two of the foci of belief propagation on a chain of two factors."""
    x, y, z = letters("X Y Z")
    instance = belief_propagation({"a": ((x, y), torch.rand(2, 2) + 0.1), "b": ((y, z), torch.rand(2, 2) + 0.1)})
    foci = {n: instance.foci[n] for n in ("Y->a", "a->Y")}
    return draw(instance.pdg, focus=foci)


def classifier() -> Drawing:
    """Three ways to resolve one inconsistency: training, inference, an adversarial example."""
    x, y = Variable("X", Euclidean(2)), Variable("Y", 3)
    pdg = PDG(
        Arc("x", (), x, PointMass([0.0, 0.0])),
        Arc("p", x, y, NeuralCategorical(torch.nn.Linear(2, 3))),
        Arc("y", (), y, SoftmaxTable([0.8, 0.1, 0.1])),
    )
    attention = Attention.only({"x": inf, "p": 1.0, "y": inf})
    ways = {"training": "p", "inference": "y", "adversarial example": "x"}
    return draw(pdg, focus={name: Focus(attention, Control({arc: 1.0})) for name, arc in ways.items()})


def adversaries() -> Drawing:
    """Adversarial training: the attacker looks at y' and moves x', the defender looks at y and moves theta."""
    x, y, theta = Variable("X", Euclidean(2)), Variable("Y", 3), Variable("Theta", Euclidean(4))
    near = LinearGaussian(None, torch.zeros(2), 1.0)
    pdg = PDG(
        Arc("theta", (), theta, PointMass(torch.zeros(4))),
        Arc("prior", (), theta, LinearGaussian(None, torch.zeros(4), 1.0)),
        Arc("x", (), x, near),
        Arc("x'", (), x, PointMass([0.0, 0.0])),
        Arc("p", (theta, x), y, NeuralCategorical(torch.nn.Linear(6, 3))),
        Arc("y", (), y, [1.0, 0.0, 0.0]),
        Arc("y'", (), y, [0.0, 1.0, 0.0]),
    )
    shared = {"p": 1.0, "theta": inf, "x'": inf}
    attack = Focus(Attention.only(shared | {"x": 1.0, "y'": 1.0}), Control({"x'": 1.0}))
    defend = Focus(Attention.only(shared | {"prior": 1.0, "y": 1.0}), Control({"theta": 1.0}))
    return draw(pdg, focus={"attack": attack, "defend": defend})


def players() -> Drawing:
    """A GAN: what the discriminator and the generator make of each other."""
    instance = gan([0.2, 0.3, 0.5], SoftmaxTable([0.5, 0.3, 0.2]), SoftmaxTable([[0.5, 0.5]] * 3))
    step = torch.Generator(), None
    foci = [instance.refocus(instance.pdg, i, *step) for i in (0, 1)]
    return draw(instance.pdg, focus=dict(zip(("discriminator", "generator"), foci, strict=True)))


def autoencoder() -> Drawing:
    """A variational autoencoder: encoder and decoder are controlled, the prior is not."""
    decoder = NeuralGaussian(torch.nn.Linear(2, 4))
    instance = vae(torch.zeros(8, 4), torch.nn.Linear(4, 4), decoder, latent=2)
    return draw(instance.pdg, focus={"training": Focus(instance.attention, instance.control)})


def transformer(tokens: int = 4) -> Drawing:
    """A transformer layer: every token speaks to every token, as loud as attention says."""
    d = Euclidean(2)
    left = [Variable(f"X{i}", d) for i in range(1, tokens + 1)]
    right = [Variable(f"X{i}'", d) for i in range(1, tokens + 1)]
    arcs = [
        Arc(f"p{i}{j}", a, b, LinearGaussian(torch.eye(2), torch.zeros(2), 1.0))
        for i, a in enumerate(left, 1)
        for j, b in enumerate(right, 1)
    ]
    logits = torch.randn(tokens, tokens, generator=torch.Generator().manual_seed(1))
    beta = {a.name: float(w) for a, w in zip(arcs, torch.softmax(2 * logits, 0).reshape(-1), strict=True)}
    inputs = [Arc(f"x{i}", (), v, PointMass([0.0, 0.0])) for i, v in enumerate(left, 1)]
    outputs = [Arc(f"x{i}'", (), v, PointMass([0.0, 0.0])) for i, v in enumerate(right, 1)]
    ends = [a.name for a in (*inputs, *outputs)]
    attention = Attention.only(beta | dict.fromkeys(ends, inf))
    inference = Focus(attention, full_control(*(a.name for a in outputs)))
    return draw(PDG(*inputs, *arcs, *outputs), focus={"inference": inference}, labels=ends)


def gflownet() -> Drawing:
    """A GFlowNet: trajectories, a place in them, and the policies between its two states."""
    tau, i, s, after = Variable("tau", 3), Variable("i", 3), Variable("S", 3), Variable("S'", 3)
    pdg = PDG(
        Arc("Q", (), tau, [0.5, 0.3, 0.2]),
        Arc("Unif", tau, i, even(tau, i)),
        Arc("at", (tau, i), (s, after), Deterministic(lambda t, k: (t, k))),
        Arc("P_F", s, after, SoftmaxTable(even(s, after))),
        Arc("P_B", after, s, even(after, s)),
    )
    attention = Attention.only({"Q": inf, "Unif": inf, "at": inf, "P_F": 2.5, "P_B": 0.5})
    return draw(pdg, focus={"training": Focus(attention, Control({"P_F": 1.0}))})


def decisions() -> Drawing:
    """A decision: state and action make an outcome, which has a utility."""
    s, a, o, u = letters("S A O U")
    pdg = PDG(
        Arc("p", (), s, [0.5, 0.5]),
        Arc("act", (), a, SoftmaxTable([0.5, 0.5])),
        Arc("tau", (s, a), o, even(s, a, o)),
        Arc("u", o, u, Deterministic(lambda x: x)),
        Arc("best", (), u, [0.1, 0.9]),
    )
    attention = Attention.only(dict.fromkeys(("p", "act", "tau", "u"), inf) | {"best": 1.0})
    return draw(pdg, focus={"decide": Focus(attention, full_control("act"))})


def network(width: float | None = None) -> Drawing:
    """The ALARM network, 37 variables."""
    variables = {n: Variable(n, 2) for n in ALARM}
    cpds = {}
    for name, parents in ALARM.items():
        above = [variables[p] for p in parents.split()]
        cpds[variables[name]] = (above, even(*above, variables[name]))
    return draw(PDG.from_bayesian_network(cpds), width=width)


def page() -> Drawing:
    """The same, as wide as a page."""
    return network(640)


def sixty() -> Drawing:
    """A random network of 60 variables, each with up to three parents among the twelve before it."""
    choose = random.Random(3)
    variables = [Variable(f"Var {i}", 2) for i in range(60)]
    cpds = {}
    for i, v in enumerate(variables):
        parents = choose.sample(variables[max(0, i - 12) : i], min(i, choose.choice((0, 1, 1, 1, 2, 2, 3))))
        cpds[v] = (parents, even(*parents, v))
    return draw(PDG.from_bayesian_network(cpds))


PICTURES = (
    smoking,
    downwards,
    experts,
    hyperarcs,
    em,
    propagation,
    classifier,
    adversaries,
    players,
    autoencoder,
    transformer,
    gflownet,
    decisions,
    network,
    page,
    sixty,
)


def main() -> None:
    """All of them, beside this file."""
    torch.manual_seed(0)
    for make in PICTURES:
        make().save(Path(__file__).with_name(f"gallery_{make.__name__}.svg"))


if __name__ == "__main__":
    main()
