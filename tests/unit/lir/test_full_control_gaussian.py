"""Full control of linear-Gaussian arcs, hard and soft, whole and by component; and beside a flow."""

from __future__ import annotations

import math
import time

import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    Control,
    Euclidean,
    LinearGaussian,
    SoftmaxTable,
    Table,
    Variable,
    full_control,
    inconsistency,
    lir,
)
from dissonance.cpds import Data, NeuralCategorical, NeuralGaussian, StandardNormal
from dissonance.solvers import Sampled

inf = math.inf
U, V = Variable("U", Euclidean(1)), Variable("V", Euclidean(1))


def normal(m: float, variance: float) -> LinearGaussian:
    return LinearGaussian(None, [m], [[variance]])


def gaussian(pdg: PDG, name: str) -> LinearGaussian:
    cpd = pdg[name].cpd
    assert isinstance(cpd, LinearGaussian)
    return cpd


def test_full_control_of_a_hard_gaussian_takes_it_to_the_other_belief():
    """<<M>> = KL(q || p), whose argmin over q is p."""
    pdg = PDG(Arc("q", (), U, normal(0.0, 1.0)), Arc("p", (), U, normal(3.0, 2.0)))
    run = lir(pdg, steps=1, attention=Attention.only({"q": inf, "p": 1.0}), control=full_control("q"))
    kl = 0.5 * (1 / 2 + 9 / 2 - 1 + math.log(2))
    assert run.trace.column("global_upper") == pytest.approx([kl, 0.0], abs=1e-9)
    q = gaussian(run.pdg, "q")
    assert q.b.item() == pytest.approx(3.0) and q.Sigma.item() == pytest.approx(2.0)


def between() -> PDG:
    return PDG(
        Arc("u", (), U, normal(1.0, 2.0)),
        Arc("q", U, V, LinearGaussian([[0.0]], [0.0], [[1.0]])),
        Arc("p", U, V, LinearGaussian([[0.5]], [1.0], [[3.0]])),
        Arc("v", (), V, normal(0.0, 1.0)),
    )


@pytest.mark.parametrize("gamma", [0.0, 1.0])
@pytest.mark.parametrize("believed", [1.0, inf])
def test_full_control_of_a_conditional_gaussian_reaches_what_is_left_without_it(gamma: float, believed: float):
    """The inconsistency without the arc bounds it from below, and is attained: for hard and for soft arcs."""
    attention = Attention.only({"u": 1.0, "p": 1.0, "v": 0.7, "q": believed}, {}, gamma)
    least = inconsistency(between(), attention.replace(beta={"q": 0.0})).upper
    run = lir(between(), steps=1, attention=attention, control=full_control("q"))
    before, after = run.trace.column("global_upper")
    assert before > least + 0.01 and after == pytest.approx(least, abs=1e-7)


def test_where_no_other_arc_bounds_what_a_hard_one_makes_the_residual_says_how_near_it_came():
    """Without q nothing bounds U at gamma = 1: there is no closed form, and the run says so by its residual."""
    pdg = PDG(Arc("q", (), U, normal(0.0, 1.0)), Arc("p", U, V, LinearGaussian([[0.5]], [1.0], [[3.0]])))
    attention = Attention.only({"q": inf, "p": 1.0}, {"p": 1.0}, 1.0)
    run = lir(pdg, steps=1, attention=attention, control=Control({"q.scale": inf}))
    assert run.trace.rows[0].residual > 0.5  # wider is better, without end: -H(U)
    assert run.after.upper < run.before.upper - 1


@pytest.mark.parametrize("control", [{"q.b": inf}, {"q.scale": inf}, {"q.b": torch.tensor([inf])}])
def test_full_control_of_components_of_a_hard_gaussian_returns_whatever_the_solver(control: dict[str, float]):
    pdg = PDG(
        Arc("q", (), U, normal(0.0, 1.0)),
        Arc("p", (), U, normal(3.0, 2.0)),
        Arc("f", U, V, NeuralGaussian(torch.nn.Linear(1, 1).double())),
        Arc("v", (), V, StandardNormal()),
    )
    attention = Attention.only({"q": inf, "f": inf, "p": 1.0, "v": 1.0}, {"v": 1.0}, 1.0)
    began = time.process_time()
    run = lir(pdg, steps=1, attention=attention, control=Control(control), solver=Sampled(100))
    assert run.trace.rows[0].solves < 200 and time.process_time() - began < 30
    assert run.trace.rows[0].residual < 1e-5 and run.after.upper < run.before.upper


def test_beside_full_control_a_flow_is_the_limit_of_a_large_chi():
    """Three beliefs about X, p under full control, r flowing: p is at its argmin all along, and in the end."""
    X = Variable("X", 3)

    def run(chi: float) -> PDG:
        pdg = PDG(
            Arc("p", (), X, SoftmaxTable([0.2, 0.3, 0.5])),
            Arc("r", (), X, SoftmaxTable([0.5, 0.25, 0.25])),
            Arc("s", (), X, Table([0.6, 0.3, 0.1])),
        )
        attention = Attention.only({"p": 1.0, "r": 1.0, "s": 1.0})
        return lir(pdg, steps=1, attention=attention, control=Control({"p": chi, "r": 0.5}), flow="ode").pdg

    limit, near, nearer = run(inf), run(1e3), run(1e4)
    for name in ("p", "r"):
        aim = limit[name].cpd.table()
        off = [float((x[name].cpd.table() - aim).abs().max().detach()) for x in (near, nearer)]
        assert off[1] < 2e-5 and off[1] < 0.2 * off[0]
    other = (limit["r"].cpd.table() * limit["s"].cpd.table()).sqrt()
    assert torch.allclose(limit["p"].cpd.table(), other / other.sum(), atol=1e-6)  # argmin at the r it ended with


def test_a_trace_holds_chi_as_it_was_given():
    X = Variable("X", 2)
    pdg = PDG(Arc("p", (), X, SoftmaxTable([0.2, 0.8])), Arc("r", (), X, Table([0.5, 0.5])))
    assert lir(pdg, steps=1, control=Control({"p": 0.1})).trace.rows[0].chi == {"p": 0.1}


def test_the_default_flow_names_the_arc_it_cannot_move_and_what_to_use():
    Y = Variable("Y", 3)
    pdg = PDG(
        Arc("d", (), (U, Y), Data(torch.zeros(2, 1, dtype=torch.float64), torch.tensor([0, 1]))),
        Arc("net", U, Y, NeuralCategorical(torch.nn.Linear(1, 3).double())),
    )
    attention = Attention.only({"d": inf, "net": 1.0})
    with pytest.raises(CapabilityError, match=r"arc 'net' \(U -> Y\) is a NeuralCategorical.*flow=\"adam\""):
        lir(pdg, steps=1, attention=attention, control=Control({"net": 0.1}))
