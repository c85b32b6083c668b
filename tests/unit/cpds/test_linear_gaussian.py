"""Linear-Gaussian cpds: shapes, densities, samples, projection."""

from __future__ import annotations

import pytest
import torch

from dissonance import PDG, Arc, CapabilityError, DissonanceError, Euclidean, LinearGaussian, Variable, inconsistency
from dissonance.distributions import Gaussian

X, Y, P = Variable("X", Euclidean(1)), Variable("Y", Euclidean(1)), Variable("P", Euclidean(2))
CPD = LinearGaussian([[1.0, 0.5, -1.0], [0.0, 2.0, 0.3]], [1.0, -1.0], [[2.0, 0.5], [0.5, 1.0]])
"""(X, P) -> P' in all but name: three dimensions in, two out."""


def test_numbers_stand_for_matrices():
    cpd = Arc("y", X, Y, LinearGaussian(2, 1, 0.25)).cpd
    assert (cpd.A.tolist(), cpd.b.tolist(), cpd.Sigma.tolist()) == ([[2.0]], [1.0], [[0.25]])
    wide = LinearGaussian(None, [0.0, 0.0, 0.0], 2.0)
    assert torch.allclose(wide.Sigma, 2 * torch.eye(3, dtype=torch.float64))


def test_log_prob_is_that_of_torch():
    generator = torch.Generator().manual_seed(0)
    s, t = (torch.randn(5, k, generator=generator, dtype=torch.float64) for k in (3, 2))
    wanted = torch.distributions.MultivariateNormal(s @ CPD.A.T + CPD.b, CPD.Sigma).log_prob(t)
    assert torch.allclose(CPD.log_prob([t[:, :1], t[:, 1:]], [s[:, :1], s[:, 1:]]), wanted)


def test_samples_are_reparameterised_and_have_the_right_moments():
    drawn = CPD.rsample([torch.tensor([1.0, 0.0, 2.0])], (20000,), torch.Generator().manual_seed(0))
    assert torch.allclose(drawn.mean(0), torch.tensor([0.0, -0.4]).double(), atol=0.05)
    assert torch.allclose(torch.cov(drawn.T), CPD.Sigma, atol=0.06)
    assert drawn.requires_grad


def test_a_projection_is_the_conditional_of_mu_and_the_argmin():
    mu = Gaussian([X, Y], [1.0, -1.0], [[2.0, 0.6], [0.6, 1.0]])
    cpd = LinearGaussian(0.0)
    cpd.project(mu.rows([X], [Y]))
    assert [x.item() for x in cpd.linear_gaussian()] == pytest.approx([0.3, -1.3, 1.0 - 0.18])
    cost = -mu.expected_log_prob((["X"], ["Y"]), cpd.linear_gaussian())
    for gradient in torch.autograd.grad(cost, list(cpd.parameters())):
        assert gradient.abs().max() < 1e-12


def test_full_control_of_a_saturated_arc_resolves_the_conflict():
    pdg = PDG(
        Arc("x", (), X, LinearGaussian(None, 1.0, 2.0)),
        Arc("y", X, Y, LinearGaussian(0.5, 3.0, 0.1)),
        Arc("q", (), Y, LinearGaussian(None, 0.0, 1.0)),
    )
    assert inconsistency(pdg).upper > 0.1
    pdg["y"].cpd.project(inconsistency(pdg.without("y")).mu.rows([X], [Y]))
    assert inconsistency(pdg).upper < 1e-9


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: LinearGaussian(1.0, 0.0, 0.0), "positive definite"),
        (lambda: LinearGaussian(None, [0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (lambda: LinearGaussian(None, [0.0, 0.0, 1.0], [[1.0, 0.0], [0.0, 1.0]]), "as many rows"),
        (lambda: LinearGaussian(float("nan")), "not finite"),
        (lambda: LinearGaussian("slope"), "A is an array of numbers"),
        (lambda: Arc("y", X, P, LinearGaussian(1.0)), r"arc 'y' \(X -> P\): A is 1 x 1, .* needs 2 x 1"),
    ],
)
def test_what_does_not_fit_is_one_line(make, line: str):
    with pytest.raises(DissonanceError, match=line):
        make()


def test_finite_variables_are_refused():
    with pytest.raises(CapabilityError, match=r"needs Euclidean variables; C is \{0, 1\}"):
        Arc("y", Variable("C", 2), Y, LinearGaussian(1.0))
