"""theta is checked, results keep what they were computed from, and nothing is aliased."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    DissonanceError,
    LinearGaussian,
    SoftmaxTable,
    Variable,
    incompatibility,
    inconsistency,
)
from dissonance.distributions import Joint
from dissonance.variables import Euclidean

inf, nan = math.inf, math.nan
X, Y, Z, T = Variable("X", 2), Variable("Y", 3), Variable("Z", 2), Variable("T", Euclidean(1))


def learnable() -> PDG:
    return PDG(
        Arc("p", X, Y, SoftmaxTable([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])),
        Arc("q", (), X, SoftmaxTable([0.5, 0.5])),
        Arc("r", (), Y, [0.3, 0.3, 0.4]),
    )


# -- what theta may be -------------------------------------------------------------------------------------------------


def test_a_tensor_of_another_shape_is_refused():
    with pytest.raises(DissonanceError, match=r"arc 'p' \(X -> Y\): theta\['p.logits'\] has shape \(3, 2\)"):
        inconsistency(learnable(), theta={"p.logits": torch.zeros(3, 2)})
    with pytest.raises(DissonanceError, match=r"arc 'r' .* has shape \(2,\)"):
        inconsistency(learnable(), theta={"r.p": torch.tensor([0.5, 0.5])})


def test_an_unknown_key_is_refused_with_the_nearest():
    with pytest.raises(DissonanceError, match=r"'p.logit'.*Did you mean 'p.logits'?"):
        inconsistency(learnable(), theta={"p.logit": torch.zeros(2, 3)})


def test_what_is_no_tensor_is_refused():
    with pytest.raises(DissonanceError, match="must be a tensor, found list"):
        inconsistency(learnable(), theta={"q.logits": [0.0, 1.0]})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("odd", [nan, inf])
def test_nan_and_inf_are_no_certificate(odd):
    theta = {"q.logits": torch.tensor([0.0, odd], dtype=torch.float64)}
    pdg = learnable()
    mu = inconsistency(pdg).mu
    wanted = f"arc 'q' .* the parameter 'q.logits' holds {odd}"
    with pytest.raises(DissonanceError, match=wanted):
        inconsistency(pdg, theta=theta)
    with pytest.raises(DissonanceError, match=wanted):
        incompatibility(mu, pdg, Attention.uniform(pdg), theta)
    with torch.no_grad():
        pdg["q"].cpd.logits.copy_(theta["q.logits"])
    with pytest.raises(DissonanceError, match=wanted):
        inconsistency(pdg)


def test_a_gaussian_that_is_nan_is_refused():
    arc = Arc("g", (), T, LinearGaussian(b=[0.0], learnable=True))
    with torch.no_grad():
        arc.cpd.b.fill_(nan)
    with pytest.raises(DissonanceError, match=r"arc 'g' .* the parameter 'g.* holds nan"):
        inconsistency(PDG(arc, Arc("h", (), T, LinearGaussian(b=[1.0]))))


def test_a_fixed_table_that_was_overwritten_with_nan_is_refused():
    pdg = learnable()
    pdg["r"].cpd.p[0] = nan
    with pytest.raises(DissonanceError, match=r"arc 'r' .* its table holds NaN or inf"):
        inconsistency(pdg)


def test_a_logarithm_of_0_is_a_parameter():
    theta = {"q.logits": torch.tensor([0.0, -inf], dtype=torch.float64)}
    assert inconsistency(learnable(), theta=theta).converged


# -- nothing is aliased ------------------------------------------------------------------------------------------------


def test_what_is_done_to_a_table_that_was_asked_for_does_not_change_the_cpd():
    arc = Arc("r", (), Y, [0.3, 0.3, 0.4])
    arc.cpd.table()[0] = 9.0
    assert arc.cpd.table().tolist() == [0.3, 0.3, 0.4]


def test_a_joint_does_not_change_with_what_it_was_made_of():
    table = np.array([0.5, 0.5])
    mu = Joint([X], table)
    table[0] = 9.0
    assert mu.marginal("X").tolist() == [0.5, 0.5]


# -- results keep what they were computed from -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attention", [None, Attention.only({"q": 1.0, "r": 1.0}), Attention.only({"p": inf, "q": inf, "r": 1.0})]
)
def test_blame_after_a_step_of_an_optimiser_is_that_of_before(attention):
    pdg = learnable()
    wanted = inconsistency(pdg, attention).by_arc()
    result = inconsistency(pdg, attention)
    with torch.no_grad():
        for p in pdg.parameters():
            p += torch.linspace(-1, 1, p.numel()).reshape(p.shape)
    assert result.by_arc() == wanted


def test_blame_of_gaussians_after_a_step_is_that_of_before():
    pdg = PDG(Arc("g", (), T, LinearGaussian(b=[0.0], learnable=True)), Arc("h", (), T, LinearGaussian(b=[1.0])))
    wanted, result = inconsistency(pdg).by_arc(), inconsistency(pdg)
    with torch.no_grad():
        for p in pdg.parameters():
            p += 0.5
    assert result.by_arc() == wanted


# -- second derivatives ------------------------------------------------------------------------------------------------


def test_a_second_derivative_is_refused_where_mu_moves():
    pdg = learnable()
    logits = pdg["q"].cpd.logits
    (slope,) = torch.autograd.grad(inconsistency(pdg).value, logits, create_graph=True)
    (plain,) = torch.autograd.grad(inconsistency(pdg).value, logits)
    assert torch.equal(slope.detach(), plain)
    with pytest.raises(DissonanceError, match="no second derivative"):
        torch.autograd.grad(slope[0], logits)


def test_a_second_derivative_is_right_where_hard_arcs_make_mu():
    pdg = PDG(Arc("p", (), X, SoftmaxTable([0.3, 0.7])), Arc("q", (), X, [0.6, 0.4]))
    logits = pdg["p"].cpd.logits

    def slope(at: torch.Tensor) -> torch.Tensor:
        result = inconsistency(pdg, Attention.only({"p": inf, "q": 1.0}), theta={"p.logits": at})
        return torch.autograd.grad(result.value, at, create_graph=True)[0]

    at = logits.detach().clone().requires_grad_()
    (found,) = torch.autograd.grad(slope(at)[0], at)
    step = torch.tensor([1e-6, 0.0], dtype=torch.float64)
    ahead, behind = (slope((at.detach() + sign * step).requires_grad_())[0] for sign in (1, -1))
    assert float(found[0]) == pytest.approx(float((ahead - behind).detach()) / 2e-6, rel=1e-6)


def test_a_softmax_table_at_theta_is_the_cpd_with_that_theta():
    arc = Arc("p", X, [Y, Z], SoftmaxTable(torch.full((2, 3, 2), 1 / 6)))
    logits = torch.randn(2, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    asked, copied = arc.log_table({"p.logits": logits}), arc.at({"p.logits": logits}).log_table()
    assert torch.equal(asked, copied) and torch.allclose(asked.exp().sum((1, 2)), torch.ones(2).double())
    weights = torch.arange(12.0, dtype=torch.float64).reshape(2, 3, 2)
    slopes = [torch.autograd.grad((weights * x).sum(), logits)[0] for x in (asked, copied)]
    assert torch.equal(*slopes) and bool(slopes[0].any())
    assert torch.equal(arc.log_table({"q.logits": logits}), arc.log_table())
