"""Flows against closed forms: gradient steps, natural gradients, ODEs, full control."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    Control,
    DissonanceError,
    Euclidean,
    Focus,
    LinearGaussian,
    Record,
    SimplexTable,
    SoftmaxTable,
    Table,
    Variable,
    full_control,
    inconsistency,
    lir,
)
from dissonance.cpds import Independent
from dissonance.flows import ODE, Descent, FullControl, Natural, Step
from dissonance.lir.flows.fisher import of_softmax
from dissonance.refocus import Cycle
from shared_files import shared_json

X, Y = Variable("X", 3), Variable("Y", 2)
P, Q = [0.7, 0.2, 0.1], [0.1, 0.3, 0.6]
QUIET = Record()


def two(family: Any = SoftmaxTable, other: Any = SoftmaxTable) -> PDG:
    """Two beliefs about one variable."""
    return PDG(Arc("p", (), X, family(P)), Arc("q", (), X, other(Q)))


def conditional() -> PDG:
    """Two opinions about Y given X, and a belief about X."""
    rows = [[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]]
    other = [[0.2, 0.8], [0.6, 0.4], [0.5, 0.5]]
    return PDG(
        Arc("a", X, Y, SoftmaxTable(rows)), Arc("b", X, Y, SoftmaxTable(other)), Arc("x", (), X, Table([0.5, 0.3, 0.2]))
    )


def gradient(pdg: PDG) -> dict[str, torch.Tensor]:
    inconsistency(pdg).value.backward()
    return {k: v.grad for k, v in pdg.theta.items() if v.grad is not None}


def test_a_step_is_chi_times_the_gradient():
    pdg = two()
    slope = gradient(pdg)
    run = lir(pdg, steps=1, flow=Step(), control=Control({"p": 0.3, "q": 0.01}), trace=QUIET)
    for key, chi in (("p.logits", 0.3), ("q.logits", 0.01)):
        assert torch.allclose(run.theta[key], pdg.theta[key].detach() - chi * slope[key], atol=1e-6)


@pytest.mark.parametrize("flow", [ODE(), ODE("rk4"), ODE("euler", steps=1), Descent("SGD", rate=1.0, steps=1)])
def test_every_gradient_flow_comes_to_the_gradient_step_for_small_chi(flow: Any):
    chi = 1e-4
    control = Control({"p": chi, "q": chi})
    step = lir(two(), steps=1, flow=Step(), control=control, trace=QUIET)
    run = lir(two(), steps=1, flow=flow, control=control, trace=QUIET)
    for key, theta in step.theta.items():
        assert torch.allclose(run.theta[key], theta, atol=20 * chi**2)


@pytest.mark.parametrize("flow", [ODE(rtol=1e-7, atol=1e-9), ODE("rk4", steps=5)])
def test_a_flow_at_chi_is_two_flows_at_half_of_it(flow: Any):
    whole = lir(conditional(), steps=1, flow=flow, control=Control({"a": 2.0, "b": 1.0}), trace=QUIET)
    halves = lir(conditional(), steps=2, flow=flow, control=Control({"a": 1.0, "b": 0.5}), trace=QUIET)
    for key, theta in whole.theta.items():
        assert torch.allclose(halves.theta[key], theta, atol=1e-4)
    assert not torch.allclose(whole.theta["a.logits"], conditional().theta["a.logits"], atol=1e-2)


def test_control_is_component_by_component():
    chi = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.5, 0.5]])
    for flow in (Step(), Descent(), ODE("rk4", steps=2), Natural(), FullControl()):
        run = lir(conditional(), steps=1, flow=flow, control=Control({"a.logits": chi}), trace=QUIET)
        moved = (run.theta["a.logits"] != conditional().theta["a.logits"]).tolist()
        assert moved[0] == [True, False]
        assert moved[1] == [False, False]
        assert torch.equal(run.theta["b.logits"], conditional().theta["b.logits"])


def test_the_natural_flow_of_a_table_is_exponential_while_mu_stands_still():
    beta, chi = 0.6, 0.7
    pdg = PDG(Arc("p", (), X, SoftmaxTable(P)), Arc("q", (), X, Table(Q)))
    attention = Attention.only({"p": beta, "q": math.inf})
    run = lir(pdg, steps=3, flow=Natural(), attention=attention, control=Control({"p": chi}), trace=QUIET)
    p, mu = torch.tensor(P), torch.tensor(Q)
    expected = mu + (p - mu) * math.exp(-3 * beta * chi)
    assert torch.allclose(run.pdg["p"].cpd.table().float(), expected, atol=1e-6)


def test_euler_steps_of_the_natural_gradient_approach_the_closed_form():
    control = Control({"a": 0.3})
    exact = lir(conditional(), steps=1, flow=Natural(16), control=control, trace=QUIET)
    chi = torch.full((3, 2), 0.3)
    chi[:, 1] = 0.3 + 1e-9  # not the same for all of a row: Euler steps
    euler = lir(conditional(), steps=1, flow=Natural(16), control=Control({"a.logits": chi}), trace=QUIET)
    assert torch.allclose(exact.pdg["a"].cpd.table(), euler.pdg["a"].cpd.table(), atol=8e-3)


class Sharpened(SoftmaxTable):
    """A softmax family of which the engine knows nothing."""


def test_the_natural_flow_of_any_family_goes_through_its_fisher_matrix():
    def made(family: Any) -> PDG:
        return PDG(Arc("p", (), X, family(P)), Arc("q", (), X, SoftmaxTable(Q)))

    chi = Control({"p.logits": torch.tensor([0.1, 0.1, 0.1 + 1e-9], dtype=torch.float64)})
    known = lir(made(SoftmaxTable), steps=2, flow=Natural(4), control=chi, trace=QUIET)
    other = lir(made(Sharpened), steps=2, flow=Natural(4), control=chi, trace=QUIET)
    assert torch.allclose(known.theta["p.logits"], other.theta["p.logits"], atol=1e-6)
    assert not torch.allclose(known.theta["p.logits"], made(Sharpened).theta["p.logits"], atol=1e-2)


VECTORS = shared_json("vectors", "natural_gradient.json")


@pytest.mark.parametrize("case", VECTORS["cases"] if VECTORS else [])
def test_natural_gradients_of_the_shared_vectors(case: dict[str, Any]):
    P, mu = torch.tensor(case["P"], dtype=torch.float64), torch.tensor(case["mu_joint"], dtype=torch.float64)
    slope = case["beta"] * (mu.sum(-1, keepdim=True) * P - mu)
    assert torch.allclose(slope, torch.tensor(case["euclidean_grad"], dtype=torch.float64), atol=VECTORS["tolerance"])
    for variant in case["variants"]:
        w = torch.tensor(variant["w"], dtype=torch.float64)
        for damping, name in ((0.0, "natural_grad_pinv"), (variant["damping"], "damped_natural_grad")):
            expected = torch.tensor(variant[name], dtype=torch.float64)
            assert torch.allclose(of_softmax(P, slope, w, damping), expected, atol=VECTORS["tolerance"])


def test_adam_is_torchs_adam():
    ours = lir(conditional(), steps=2, flow=Descent("Adam", 0.01, 7), trace=QUIET)
    theirs = lir(conditional(), steps=2, flow=Descent(lambda x: torch.optim.Adam(x, lr=0.01), 0.01, 7), trace=QUIET)
    for key, theta in theirs.theta.items():
        assert torch.allclose(ours.theta[key], theta, atol=1e-6)


def test_any_optimiser_by_name_and_an_unknown_one_is_an_error():
    assert lir(two(), steps=2, flow=Descent("RMSprop", 0.01, 3), trace=QUIET).resolution_percent > 1
    with pytest.raises(DissonanceError, match="Did you mean 'Adagrad'"):
        lir(two(), steps=1, flow=Descent("Adagrat"))


def test_a_flow_that_leaves_the_simplex_is_projected_and_says_so():
    pdg = two(SimplexTable, Table)
    run = lir(pdg, steps=1, flow=Step(), control=Control({"p": 5.0}), trace=QUIET)
    assert run.trace.rows[0].projected
    p = run.pdg["p"].cpd.table()
    assert bool((p >= 0).all()) and float(p.detach().sum()) == pytest.approx(1)
    calm = lir(pdg, steps=1, flow=Step(), control=Control({"p": 1e-3}), trace=QUIET)
    assert not calm.trace.rows[0].projected


# -- full control ------------------------------------------------------------------------------------------------------


def test_full_control_makes_two_beliefs_agree_by_moving_one():
    run = lir(two(), steps=1, control=full_control("p"), trace=QUIET)
    assert torch.allclose(run.pdg["p"].cpd.table(), torch.tensor(Q, dtype=torch.float64), atol=1e-7)
    assert run.after.upper < 1e-12
    assert torch.equal(run.theta["q.logits"], two().theta["q.logits"])


def test_alternating_full_control_makes_beliefs_agree():
    attention = Attention.uniform(two())
    foci = Cycle(Focus(attention, full_control("p")), Focus(attention, full_control("q")))
    run = lir(two(), foci, steps=4, trace=QUIET)
    assert run.after.upper < 1e-12
    assert torch.allclose(run.pdg["p"].cpd.table(), run.pdg["q"].cpd.table(), atol=1e-7)


def test_full_control_leaves_a_belief_alone_that_nothing_contradicts():
    lonely = PDG(Arc("p", (), X, SoftmaxTable(P)), Arc("a", X, Y, SoftmaxTable([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]])))
    run = lir(lonely, steps=1, flow=FullControl(), trace=QUIET)
    for name in ("p", "a"):
        assert torch.allclose(run.pdg[name].cpd.table(), lonely[name].cpd.table(), atol=1e-6)


def test_full_control_of_a_conditional_is_the_argmin_where_gradients_are_stuck():
    """Erratum 5: a row without mass gets no gradient, but the closed form sees it."""
    Z, W = Variable("Z", 2), Variable("W", 2)
    r = Table([[0.8, 0.2], [0.7, 0.3]])
    s = Table([[0.2, 0.8], [0.7, 0.3]])
    pdg = PDG(Arc("r", Z, W, r), Arc("s", Z, W, s), Arc("p", Z, W, SoftmaxTable([[0.5, 0.5], [0.001, 0.999]])))
    stuck = lir(pdg, steps=3, flow=ODE("euler"), control=Control({"p": 1.0}), trace=QUIET)
    assert stuck.after.upper == pytest.approx(0.4463, abs=1e-3)
    free = lir(pdg, steps=1, control=full_control("p"), trace=QUIET)
    assert free.after.upper < 1e-6
    assert torch.allclose(free.pdg["p"].cpd.table()[1], torch.tensor([0.7, 0.3], dtype=torch.float64), atol=1e-5)


def test_full_control_can_make_possible_what_was_not():
    pdg = PDG(Arc("p", (), X, SoftmaxTable([0.0, 0.5, 0.5])), Arc("q", (), X, Table([0.5, 0.5, 0.0])))
    run = lir(pdg, steps=1, control=full_control("p"), trace=QUIET)
    assert run.after.upper < 1e-9
    assert torch.allclose(run.pdg["p"].cpd.table(), torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64), atol=1e-6)


def test_full_control_of_some_components_descends_to_stationarity():
    chi = torch.zeros(3)
    chi[0] = math.inf
    pdg = two(SoftmaxTable, Table)
    run = lir(pdg, steps=1, attention=Attention.only({"p": 1.0, "q": math.inf}), control=Control({"p.logits": chi}))
    row = run.trace.rows[0]
    assert row.residual < 1e-5
    assert float(run.pdg["p"].cpd.table()[0].detach()) == pytest.approx(0.1, abs=1e-4)
    assert torch.equal(run.theta["p.logits"][1:], pdg.theta["p.logits"][1:])


def test_full_control_with_structure_warns_that_it_rewards_determinism():
    attention = Attention.only({"p": 1.0, "q": 1.0}, {"p": 1.0, "q": 0.0}, 0.5)
    with pytest.warns(UserWarning, match="rewarded for being deterministic"):
        lir(two(), steps=1, attention=attention, control=full_control("p"), trace=QUIET)


def test_full_control_of_a_linear_gaussian_projects():
    U = Variable("U", Euclidean(1))
    pdg = PDG(
        Arc("p", (), U, LinearGaussian(torch.zeros(1, 0), [0.0], [[1.0]])),
        Arc("q", (), U, LinearGaussian(torch.zeros(1, 0), [2.0], [[0.5]])),
    )
    run = lir(pdg, steps=1, attention=Attention.only({"p": 1.0, "q": math.inf}), control=full_control("p"), trace=QUIET)
    assert float(run.theta["p.b"]) == pytest.approx(2.0, abs=1e-6)
    assert float(run.pdg["p"].cpd.Sigma.detach()) == pytest.approx(0.5, abs=1e-6)


# -- other solvers, shared parameters ----------------------------------------------------------------------------------


def test_the_gradient_flow_does_not_depend_on_the_solver():
    runs = [lir(two(), steps=1, flow=ODE("rk4", steps=3), solver=solver, trace=QUIET) for solver in ("auto", "joint")]
    assert not torch.allclose(runs[0].theta["p.logits"], two().theta["p.logits"], atol=1e-2)
    assert torch.allclose(runs[0].theta["p.logits"], runs[1].theta["p.logits"], atol=1e-6)


def test_the_natural_flow_of_a_table_that_arcs_share_goes_to_the_mean_of_what_they_see():
    Z = Variable("Z", 3)
    shared, beta, left = SoftmaxTable(P), (0.5, 2.0), (0.2, 0.5, 0.3)
    pdg = PDG(Arc("a", (), X, shared), Arc("b", (), Z, shared), Arc("x", (), X, Table(Q)), Arc("z", (), Z, Table(left)))
    attention = Attention.only({"a": beta[0], "b": beta[1], "x": math.inf, "z": math.inf})
    run = lir(pdg, steps=1, flow=Natural(), attention=attention, trace=QUIET)
    p, q, z = (torch.tensor(x, dtype=torch.float64) for x in (P, Q, left))
    aim = (beta[0] * q + beta[1] * z) / sum(beta)
    expected = aim + (p - aim) * math.exp(-sum(beta) / 2)
    assert torch.allclose(run.pdg["a"].cpd.table(), expected, atol=1e-6)


@pytest.mark.parametrize("chi", [math.inf, 0.5])
def test_an_arc_out_of_attention_is_no_hindrance_to_one_that_shares_its_parameters(chi: float):
    table = SoftmaxTable(P)
    alone = PDG(Arc("p", (), X, table), Arc("q", (), X, Q))
    tied = PDG(*alone.arcs, Arc("p|Y", Y, X, Independent(table)))
    attention = Attention.only({"p": 1.0, "q": 1.0})
    runs = [lir(pdg, steps=1, attention=attention, control=Control({"p": chi}), trace=QUIET) for pdg in (alone, tied)]
    for key, value in runs[0].theta.items():
        torch.testing.assert_close(torch.softmax(runs[1].theta[key], -1), torch.softmax(value, -1), rtol=0, atol=1e-9)
    assert runs[1].trace.rows[0].solves == runs[0].trace.rows[0].solves


def test_full_control_moves_an_arc_whose_twin_before_it_is_out_of_attention():
    """Hard data pin mu: the projection is that of the arc in view, whichever arc of the PDG has the table first."""
    table, Z = SoftmaxTable(P), Variable("Z", 3)
    pdg = PDG(Arc("first", (), X, table), Arc("second", (), Z, table), Arc("data", (), Z, Q))
    attention = Attention.only({"second": 1.0, "data": math.inf})
    run = lir(pdg, steps=1, attention=attention, control=full_control("second"), trace=QUIET)
    torch.testing.assert_close(run.pdg["first"].cpd.table(), torch.tensor(Q, dtype=torch.float64), rtol=0, atol=1e-9)


@pytest.mark.parametrize("beta", [math.inf, 1.0])
def test_full_control_of_an_arc_between_parts_that_nothing_else_connects(beta: float):
    """Without q(X|R) the rows and X are independent: q <- p(X) in every row."""
    R = Variable("R", 2)
    pdg = PDG(Arc("d", (), R, [0.3, 0.7]), Arc("p", (), X, Table(P)), Arc("q", R, X, SoftmaxTable([Q, Q])))
    attention = Attention.only({"d": math.inf, "p": 1.0, "q": beta}, {"p": 1.0}, 1.0)
    run = lir(pdg, steps=1, attention=attention, control=full_control("q"), trace=QUIET)
    expected = torch.tensor([P, P], dtype=torch.float64)
    torch.testing.assert_close(run.pdg["q"].cpd.table().detach(), expected, rtol=0, atol=1e-6)
