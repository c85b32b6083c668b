"""Cpds that are drawn from: whatever does not fit its variables is refused by name when the arc is made."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Beta, Categorical, Distribution, Independent, MultivariateNormal, Normal

from dissonance import PDG, Arc, Attention, CapabilityError, DissonanceError, Euclidean, Variable, inconsistency
from dissonance.cpds import (
    CPD,
    BernoulliImages,
    Data,
    Distributed,
    Function,
    Generated,
    LinearGaussian,
    NeuralGaussian,
    UniformBox,
)

inf = math.inf
X, Y, Z = Variable("X", Euclidean(3)), Variable("Y", 4), Variable("Z", Euclidean(2))


class Made(nn.Module):
    """What a function makes of three numbers that a linear map has made two of."""

    def __init__(self, make: Callable[[Tensor], Distribution]) -> None:
        super().__init__()
        self.f, self.make = nn.Linear(3, 2), make

    def forward(self, x: Tensor) -> Distribution:
        return self.make(self.f(x))


@pytest.mark.parametrize(
    ("cpd", "why"),
    [
        (NeuralGaussian(nn.Linear(3, 3)), "Linear makes (3,) numbers of a row; the targets need 2"),
        (NeuralGaussian(nn.Linear(3, 2), nn.Linear(3, 1)), "Linear makes (1,) numbers of a row; the targets need 2"),
        (NeuralGaussian(both=nn.Linear(3, 3)), "Linear makes (3,) numbers of a row; the targets need 4"),
        (BernoulliImages(nn.Linear(3, 3)), "Linear makes (3,) numbers of a row; the targets need 2"),
        (Function(nn.Linear(2, 2)), "Linear cannot take the sources (X: Euclidean(3)): mat1 and mat2"),
        (Generated(nn.Linear(3, 2), 1), "Linear cannot take the sources (X: Euclidean(3), noise: Euclidean(1))"),
        (UniformBox([0.0] * 3, 1.0), "there are 3 bounds for 2 dimensions"),
        (Distributed(Made(lambda x: Normal(x, 1.0))), "Normal has events of shape (); the targets need (2,)"),
        (Distributed(Made(lambda x: Categorical(logits=x))), "Categorical has events of shape ()"),
        (Distributed(Made(lambda x: Independent(Normal(x @ x, 1.0), 1))), "Made cannot take the sources"),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, CPD) else "",
)
def test_dimensions_that_do_not_match_are_refused_by_name(cpd: CPD, why: str):
    with pytest.raises(DissonanceError, match=re.escape(f"arc 'q' (X -> Z): {why}")):
        Arc("q", X, Z, cpd)


def test_a_distributed_cpd_without_a_distribution_is_refused():
    with pytest.raises(DissonanceError, match="a Distributed needs a `make`"):
        Distributed()


def test_trying_a_cpd_at_zero_changes_nothing_in_it_and_zero_need_not_be_a_value():
    norm = nn.BatchNorm1d(3)
    net = nn.Sequential(norm, nn.Dropout(), nn.Linear(3, 2)).train()
    norm.eval()
    Arc("q", X, Z, NeuralGaussian(net))
    assert net.training and net[1].training and not norm.training
    assert norm.running_mean is not None and torch.equal(norm.running_mean, torch.zeros(3))
    Arc("q", X, Z, Distributed(lambda x: Independent(Beta(x[:, :2], 1.0), 1)))  # Beta(0, 1) is none


def test_any_torch_distribution_is_wrapped():
    """KL(N(m, S) || N(0, 1)) of a full covariance, against its closed form."""
    scale = torch.tensor([[1.0, 0.0], [0.6, 0.5]])
    pdg = PDG(
        Arc("q", (), Z, Distributed(lambda: MultivariateNormal(torch.tensor([[0.3, -0.2]]), scale_tril=scale))),
        Arc("p", (), Z, LinearGaussian(None, [0.0, 0.0], 1.0, learnable=False)),
    )
    from dissonance.solvers import Sampled

    found = inconsistency(pdg, Attention.only({"q": inf, "p": 1.0}), solver=Sampled(count=20_000))
    exact = 0.5 * (float((scale @ scale.T).trace()) + 0.13 - 2) - math.log(0.5)
    assert found.upper == pytest.approx(exact, abs=5 * found.standard_error) and found.standard_error < 0.02


class NoDensity(Distribution):
    """Uniform noise about a place, by someone who has not told its density."""

    has_rsample = False

    def __init__(self, loc: Tensor) -> None:
        super().__init__(loc.shape[:1], loc.shape[1:], validate_args=False)
        self.loc = loc

    def sample(self, sample_shape: torch.Size = torch.Size()) -> Tensor:  # noqa: B008
        return (self.loc + torch.rand(*sample_shape, *self.loc.shape)).detach()


def test_what_can_neither_be_reparameterised_nor_scored_is_refused_with_the_way_out():
    pdg = PDG(
        Arc("d", (), X, Data(torch.zeros(2, 3))),
        Arc("q", X, Z, Distributed(Made(NoDensity))),
        Arc("p", X, Z, NeuralGaussian(nn.Linear(3, 2))),
    )
    with pytest.raises(
        CapabilityError, match=r"NoDensity of the arc X -> Z has neither rsample nor log_prob.*the cpd Generated"
    ):
        inconsistency(pdg, Attention.only({"d": inf, "q": inf, "p": 1.0}, {"p": 1.0}, 1.0))
    with pytest.raises(CapabilityError, match="NoDensity of the arc X -> Z has no log_prob"):
        pdg["q"].cpd.log_prob([torch.zeros(1, 2)], [torch.zeros(1, 3)])


def test_a_value_up_to_a_constant_says_so():
    x = Arc("x", (), Z, Data(torch.zeros(4, 2)))
    density = PDG(x, Arc("p", (), Z, UniformBox(-1.0, 1.0)))
    found = inconsistency(density, Attention.only({"x": inf, "p": 1.0}))
    assert found.up_to_constant and "up to a constant" in repr(found)
    labelled = PDG(Arc("x", (), (Z, Y), Data(torch.zeros(4, 2), torch.arange(4))), Arc("p", Z, Y, _even()))
    found = inconsistency(labelled, Attention.only({"x": inf, "p": 1.0}))
    assert not found.up_to_constant and "constant" not in repr(found)
    assert found.upper == pytest.approx(math.log(4))


def _even() -> CPD:
    return Distributed(lambda z: Categorical(probs=torch.full((len(z), 4), 0.25)))


def test_every_domain_has_its_base_measure():
    assert [v.domain.measure for v in (X, Y)] == ["Lebesgue", "counting"]
