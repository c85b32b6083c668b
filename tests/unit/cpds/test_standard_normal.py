"""StandardNormal is LinearGaussian(None, 0, 1) in all that it is asked for."""

import pytest
import torch

from dissonance import PDG, Arc, DissonanceError, Euclidean, Variable, inconsistency
from dissonance.cpds import LinearGaussian, StandardNormal

X, Y = Variable("X", Euclidean(2)), Variable("Y", Euclidean(1))
GENERAL = LinearGaussian(None, torch.zeros(3), 1.0, learnable=False)


def pair() -> tuple[Arc, Arc]:
    return Arc("p", (), (X, Y), StandardNormal()), Arc("q", (), (X, Y), GENERAL)


def test_its_density_and_matrices_are_those_of_the_general_one():
    ours, theirs = pair()
    values = [torch.randn(5, 2, dtype=torch.float64), torch.randn(5, 1, dtype=torch.float64)]
    torch.testing.assert_close(ours.cpd.log_prob(values, []), theirs.cpd.log_prob(values, []))
    for a, b in zip(ours.cpd.linear_gaussian(), theirs.cpd.linear_gaussian(), strict=True):
        assert torch.equal(a, b)


def test_it_draws_what_the_general_one_draws():
    draws = [arc.cpd.draw([], 4, torch.Generator().manual_seed(3)) for arc in pair()]
    for a, b in zip(draws[0].values, draws[1].values, strict=True):
        torch.testing.assert_close(a, b)
    assert torch.equal(draws[0].weights, draws[1].weights)


def test_the_gaussian_solver_takes_it():
    shifted = Arc("q", (), (X, Y), LinearGaussian(None, [2.0, 0.0, 0.0], 1.0))
    found = inconsistency(PDG(pair()[0], shifted))
    assert found.value.item() == pytest.approx(2 * 0.5 * 1.0**2)  # the compromise is half way: KL = 1/2 to each


def test_sources_are_refused():
    with pytest.raises(DissonanceError, match="no sources, found Y"):
        Arc("p", Y, X, StandardNormal())
