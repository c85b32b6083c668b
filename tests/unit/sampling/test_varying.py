"""Attention that depends on the sample: closed forms on finite and Euclidean variables, and who cannot do it."""

from __future__ import annotations

import math
import pickle

import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    Control,
    DissonanceError,
    Euclidean,
    Focus,
    FormatError,
    NeuralGaussian,
    SoftmaxTable,
    Table,
    Variable,
    incompatibility,
    inconsistency,
    lir,
)
from dissonance.cpds import Data
from dissonance.focus import Varying
from dissonance.implicit import minimiser
from dissonance.io.pdg_json import to_bytes
from dissonance.refocus import Cycle

X, Y = Variable("X", 3), Variable("Y", 2)
P = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
K = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], dtype=torch.float64)
W = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
inf = math.inf


def by_x(seen):
    return W[seen.values["X"]]


def surprisal(seen):
    return -seen.log_prob("q")


def chain(q) -> PDG:
    return PDG(Arc("p", (), X, Table(P)), Arc("k", X, Y, Table(K)), Arc("q", (), Y, SoftmaxTable(q)))


def test_a_weight_of_the_sample_is_inside_the_expectation():
    """sum_xy p(x) k(y|x) w(x) log mu(y) / q(y), by loops."""
    q = [0.7, 0.3]
    attention = Attention.only({"p": inf, "k": inf, "q": 3.0}, varying={"q": Varying(by_x)})
    mu_y = (P[:, None] * K).sum(0)
    wanted = sum(
        3.0 * float(P[x] * K[x, y] * W[x]) * math.log(float(mu_y[y]) / q[y]) for x in range(3) for y in range(2)
    )
    for solver in ("auto", "pinned", "sampled"):
        found = inconsistency(chain(q), attention, solver=solver)
        assert found.upper == pytest.approx(wanted, abs=1e-12)
        assert found.converged


def test_a_constant_weight_is_ordinary_attention():
    pdg = chain([0.7, 0.3])
    plain = Attention.only({"p": inf, "k": inf, "q": 2.5}, {"q": 0.7, "k": 1.0}, 0.4)
    constant = plain.replace(beta={"q": 1.0}, varying={"q": Varying(lambda seen: torch.full_like(seen.weights, 2.5))})
    one, other = inconsistency(pdg, plain), inconsistency(pdg, constant)
    assert other.upper == pytest.approx(one.upper, abs=1e-12)
    slopes = [torch.autograd.grad(r.value, list(pdg.parameters()))[0] for r in (one, other)]
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-12)
    torch.testing.assert_close(other.mu.marginal("Y"), one.mu.marginal("Y"), rtol=0, atol=1e-12)


def test_derivatives_hold_the_weights_fixed_unless_told_otherwise():
    """With w = -log q and gamma alpha = 0: value sum_y mu(y) (-log q(y)) (log mu(y) - log q(y))."""
    q = torch.tensor([0.7, 0.3], dtype=torch.float64)
    mu = (P[:, None] * K).sum(0)
    slopes = {}
    for held in (True, False):
        attention = Attention.only({"p": inf, "k": inf, "q": 1.0}, varying={"q": Varying(surprisal, held)})
        pdg = chain(q.tolist())
        found = inconsistency(pdg, attention)
        assert found.upper == pytest.approx(float((mu * -q.log() * (mu / q).log()).sum()), abs=1e-12)
        slopes[held] = torch.autograd.grad(found.value, list(pdg.parameters()))[0]
    z = q.log().requires_grad_()
    log_q = torch.log_softmax(z, 0)
    value = (mu * -log_q * (mu.log() - log_q)).sum()
    torch.testing.assert_close(slopes[False], torch.autograd.grad(value, z)[0], rtol=0, atol=1e-12)
    log_q = torch.log_softmax(z, 0)
    held_value = (mu * -log_q.detach() * (mu.log() - log_q)).sum()
    torch.testing.assert_close(slopes[True], torch.autograd.grad(held_value, z)[0], rtol=0, atol=1e-12)


def test_points_may_weigh_what_they_are_about():
    """Weighted least squares: beta_i (y_i - m)^2 / 2 averaged over rows, by samples of Euclidean variables."""
    V = Variable("V", Euclidean(1))
    rows = torch.tensor([[0.0], [1.0], [5.0]], dtype=torch.float64)
    torch.manual_seed(0)
    net = torch.nn.Linear(1, 1).double()
    pdg = PDG(Arc("d", (), V, Data(rows)), Arc("q", (), V, Constant(net)))
    varying = {"q": Varying(lambda seen: (seen.values["V"][:, 0] < 2).to(torch.float64))}
    attention = Attention.only({"d": inf, "q": 1.0}, {"q": 1.0}, 0.0, varying)
    assert inconsistency(pdg, attention).up_to_constant
    cancel = PDG(*pdg.arcs, Arc("r", (), V, Constant(torch.nn.Linear(1, 1).double())))
    against = {"r": Varying(lambda seen: -varying["q"].weight(seen))}
    both = attention.replace(beta={"r": 1.0}, varying=against)
    found = inconsistency(cancel, both)
    means = [float((cancel[n].cpd.mean.weight + cancel[n].cpd.mean.bias).detach()) for n in ("q", "r")]
    wanted = sum(((y - means[0]) ** 2 - (y - means[1]) ** 2) / 2 for y in (0.0, 1.0)) / 3
    assert found.upper == pytest.approx(wanted, abs=1e-12)
    assert not found.up_to_constant


class Constant(NeuralGaussian):
    """N(net(1), 1), whatever the sources."""

    def __init__(self, net):
        super().__init__(net)

    def at(self, sources):
        return super().at([torch.ones(1, 1, dtype=torch.float64)])


def test_full_control_of_an_arc_descends_where_attention_varies():
    """argmin_q of sum_y c(y) (-log q(y)) with c(y) = sum_x p k w > 0 is c / sum c, not mu(y)."""
    weights = torch.tensor([2.0, 1.0, 0.5], dtype=torch.float64)
    varying = {"q": Varying(lambda seen: weights[seen.values["X"]])}
    attention = Attention.only({"p": inf, "k": inf, "q": 1.0}, varying=varying)
    c = (P[:, None] * K * weights[:, None]).sum(0)
    for flow in ("step", "natural"):
        run = lir(chain([0.5, 0.5]), attention=attention, control=Control({"q": inf}), flow=flow, steps=1)
        torch.testing.assert_close(run.pdg["q"].cpd.table(), c / c.sum(), rtol=0, atol=1e-5)
    run = lir(chain([0.5, 0.5]), attention=attention, control=Control({"q": 0.5}), flow="natural", steps=60)
    torch.testing.assert_close(run.pdg["q"].cpd.table(), c / c.sum(), rtol=0, atol=1e-5)
    assert run.trace.rows[-1].blame == {}


def test_attention_that_varies_is_part_of_the_attention():
    attention = Attention.only({"p": inf, "q": 1.0}, varying={"q": Varying(by_x)})
    assert pickle.loads(pickle.dumps(attention)).varying == attention.varying
    assert attention.replace(gamma=1.0).varying == attention.varying
    assert attention.without("q").beta["q"] == 0
    with pytest.raises(DissonanceError, match="a hard arc does not support a sample-dependent weight"):
        Attention.only({"p": inf}, varying={"p": Varying(by_x)})
    with pytest.raises(DissonanceError, match="no arc named 'Q'"):
        inconsistency(chain([0.5, 0.5]), Attention.only({"p": inf, "k": inf}, varying={"Q": Varying(by_x)}))


def test_what_cannot_honour_it_says_so():
    pdg = chain([0.7, 0.3])
    attention = Attention.only({"p": inf, "k": inf, "q": 1.0}, {}, 1.0, {"q": Varying(by_x)})
    for solver in ("newton", "given", "sum-product", "concave-convex", "paper"):
        with pytest.raises(CapabilityError, match="does not support sample-dependent attention"):
            inconsistency(pdg, attention, solver=solver)
    with pytest.raises(
        CapabilityError, match=r"'q' .* depends on the sample, which needs acyclic hard arcs .* makes 'Y'"
    ):
        inconsistency(pdg, attention.replace(beta={"k": 1.0}))
    with pytest.raises(CapabilityError, match="ask for the inconsistency"):
        incompatibility(inconsistency(pdg, attention).mu, pdg, attention)
    with pytest.raises(CapabilityError, match="does not support sample-dependent attention"):
        minimiser(pdg, attention)
    with pytest.raises(FormatError, match="'q' depends on the sample"):
        to_bytes(pdg, Focus(attention))
    with pytest.raises(CapabilityError, match="give lir an `attention`"):
        lir(pdg, Cycle(Focus(attention, Control({"q": 1.0}))), steps=1)
    with pytest.raises(DissonanceError, match=r"6 samples need a weight each, found \(3,\)"):
        inconsistency(pdg, attention.replace(varying={"q": Varying(lambda seen: W)}))
    with pytest.raises(DissonanceError, match="an arc 'r' that is not attended"):
        inconsistency(pdg, attention.replace(varying={"q": Varying(lambda seen: seen.log_prob("r"))}))


def test_blame_is_not_a_number_where_there_is_no_one_weight():
    attention = Attention.only({"p": inf, "k": inf, "q": 1.0}, varying={"q": Varying(by_x)})
    rows = {r.name: r for r in inconsistency(chain([0.7, 0.3]), attention).by_arc(saved=False)}
    assert math.isnan(rows["q"].contribution) and rows["p"].contribution == 0
