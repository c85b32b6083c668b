"""Components that are drawn from: values, gradients, standard errors, and what has no density."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    Control,
    DissonanceError,
    Euclidean,
    Focus,
    Record,
    Variable,
    inconsistency,
    lir,
)
from dissonance.cpds import (
    BernoulliImages,
    Data,
    Distributed,
    Function,
    LinearGaussian,
    NeuralCategorical,
    NeuralGaussian,
    PointMass,
    UniformBox,
)
from dissonance.solvers import Sampled

inf = math.inf
X, Y, Z = Variable("X", Euclidean(3)), Variable("Y", 4), Variable("Z", Euclidean(2))


@pytest.fixture
def data() -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    return torch.randn(40, 3, generator=g), torch.randint(4, (40,), generator=g)


def net(rows: int, columns: int, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(rows, 6), nn.Tanh(), nn.Linear(6, columns))


def classifier(data: tuple[torch.Tensor, torch.Tensor]) -> PDG:
    return PDG(Arc("d", (), (X, Y), Data(*data)), Arc("p", X, Y, NeuralCategorical(net(3, 4))))


def logits(pdg: PDG) -> nn.Module:
    found = pdg["p"].cpd.logits
    assert isinstance(found, nn.Module)
    return found


def test_labelled_data_against_a_classifier_has_the_cross_entropy(data: tuple[torch.Tensor, torch.Tensor]):
    pdg = classifier(data)
    found = inconsistency(pdg, Attention.only({"d": inf, "p": 1.0}))
    f = logits(pdg)
    loss = nn.functional.cross_entropy(f(data[0]), data[1])
    assert found.upper == pytest.approx(loss.item(), abs=1e-6)
    assert found.converged and found.standard_error == 0 and not found.up_to_constant
    mine = torch.autograd.grad(found.value, list(f.parameters()), retain_graph=True)
    theirs = torch.autograd.grad(loss, list(f.parameters()))
    for a, b in zip(mine, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-7)
    assert found.mu.marginal("Y").sum() == pytest.approx(1.0)


def test_steps_on_fresh_batches_are_stochastic_gradient_descent(data: tuple[torch.Tensor, torch.Tensor]):
    pdg = classifier(data)
    plain = copy.deepcopy(logits(pdg))
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)

    def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.randperm(40, generator=torch.Generator().manual_seed(step))[:8]
        return data[0][rows], data[1][rows]

    def refocus(_pdg: PDG, step: int, *_: object) -> Focus:
        x, y = batch(step)
        return Focus(Attention.only({"d": inf, "p": 1.0}), Control({"p": 0.1}), {"d.rows0": x, "d.rows1": y})

    trace = Record(globally=False, snapshots=1)
    run = lir(pdg, refocus, steps=20, flow="step", trace=trace)
    for step in range(20):
        x, y = batch(step)
        loss = nn.functional.cross_entropy(plain(x), y)
        assert run.trace.rows[step].local_upper == pytest.approx(float(loss.detach()), abs=1e-6)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = run.theta if step == 19 else run.trace.snapshots[step + 1]
        for n, p in plain.named_parameters():
            assert torch.allclose(now[f"p.logits.{n}"], p, atol=1e-6)


def test_encoder_prior_and_decoder_have_minus_the_elbo(data: tuple[torch.Tensor, torch.Tensor]):
    encoder, decoder = net(3, 4, 1), net(2, 3, 2)
    pdg = PDG(
        Arc("d", (), X, Data(data[0])),
        Arc("q", X, Z, NeuralGaussian(both=encoder)),
        Arc("prior", (), Z, LinearGaussian(None, torch.zeros(2), 1.0, learnable=False)),
        Arc("p", Z, X, NeuralGaussian(decoder, -0.5)),
    )
    attention = Attention.only({"d": inf, "q": inf, "prior": 1.0, "p": 1.0}, {"prior": 1.0, "p": 1.0}, 1.0)
    found = inconsistency(pdg, attention, solver=Sampled(count=400))
    mean, log_scale = encoder(data[0]).chunk(2, -1)
    kl = (0.5 * (mean**2 + (2 * log_scale).exp() - 1) - log_scale).sum(-1).mean()
    noise = torch.randn(400, 40, 2, generator=torch.Generator().manual_seed(9))
    made = decoder(mean + log_scale.exp() * noise)
    score = torch.distributions.Normal(made, math.exp(-0.5)).log_prob(data[0]).sum(-1).mean()
    assert found.upper == pytest.approx((kl - score).item(), abs=6 * found.standard_error)
    assert 0 < found.standard_error < 0.1 and found.up_to_constant and not found.converged
    again = inconsistency(pdg, attention, solver=Sampled(count=400))
    assert again.upper == found.upper


def test_what_cannot_be_reparameterised_has_the_gradient_of_its_score():
    N, rate = Variable("N", Euclidean(1)), nn.Parameter(torch.tensor([2.0]))

    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rate = rate

        def forward(self) -> torch.distributions.Distribution:
            made = torch.distributions.Poisson(self.rate.expand(1, 1), validate_args=False)
            return torch.distributions.Independent(made, 1)

    pdg = PDG(
        Arc("n", (), N, Distributed(Counts())),
        Arc("at", (), N, LinearGaussian(None, 0.0, 1.0, learnable=False)),
    )
    found = inconsistency(pdg, Attention.only({"n": inf, "at": 1.0}, {"at": 1.0}, 1.0), solver=Sampled(count=40_000))
    # E[n^2]/2 + log sqrt(2 pi) - H: the entropy has the derivative of -E[log p]
    (slope,) = torch.autograd.grad(found.value, rate)
    k = torch.arange(60.0)

    def exact(r: torch.Tensor) -> torch.Tensor:
        log_p = torch.distributions.Poisson(r, validate_args=False).log_prob(k)
        return (log_p.exp() * (k**2 / 2 + log_p)).sum() + 0.5 * math.log(2 * math.pi)

    r = torch.tensor(2.0, requires_grad=True)
    value = exact(r)
    assert found.upper == pytest.approx(float(value.detach()), abs=5 * found.standard_error)
    assert float(slope) == pytest.approx(float(torch.autograd.grad(value, r)[0]), abs=0.1)


def test_finite_variables_are_enumerated():
    C, W = Variable("C", 2), Variable("W", Euclidean(1))
    pdg = PDG(
        Arc("c", (), C, [0.25, 0.75]),
        Arc("w", C, W, Function(_Double())),
        Arc("at", (), W, LinearGaussian(None, 0.0, 1.0, learnable=False)),
    )
    found = inconsistency(pdg, Attention.only({"c": inf, "w": inf, "at": 1.0}))
    assert found.standard_error == 0
    assert found.upper == pytest.approx(0.75 * 2 + 0.5 * math.log(2 * math.pi))  # w = 2 c, so E[w^2]/2 = 1.5


class _Double(nn.Module):
    def forward(self, c: torch.Tensor) -> torch.Tensor:
        return 2.0 * c[:, None]


def test_a_point_feels_the_pull_of_a_density():
    pdg = PDG(
        Arc("x", (), Z, PointMass([1.0, -2.0])), Arc("n", (), Z, LinearGaussian(None, [0.0, 0.0], 1.0, learnable=False))
    )
    found = inconsistency(pdg, Attention.only({"x": inf, "n": 2.0}))
    found.value.backward()
    (slope,) = [p.grad for p in pdg["x"].cpd.parameters()]
    assert slope is not None and slope.tolist() == pytest.approx([2.0, -4.0])
    assert found.up_to_constant


def test_uniform_boxes_and_images_are_scored():
    pixels = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    box = PDG(Arc("d", (), Z, Data(pixels)), Arc("u", (), Z, UniformBox(-1.0, 3.0)))
    assert inconsistency(box, Attention.only({"d": inf, "u": 1.0})).upper == pytest.approx(2 * math.log(4))
    picture = Variable("I", Euclidean(2))
    images = PDG(
        Arc("d", (), (Z, picture), Data(torch.zeros(2, 2), pixels)),
        Arc("p", Z, picture, BernoulliImages(nn.Identity())),
    )
    assert inconsistency(images, Attention.only({"d": inf, "p": 1.0})).upper == pytest.approx(2 * math.log(2))


def test_finite_pinned_problems_have_the_value_the_pinned_solver_gives():
    A, B = Variable("A", 2), Variable("B", 3)
    pdg = PDG(
        Arc("a", (), A, [0.3, 0.7]),
        Arc("b", A, B, [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]),
        Arc("c", B, A, [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]),
        Arc("ab", (), (A, B), [[0.1, 0.2, 0.3], [0.1, 0.2, 0.1]]),
    )
    attention = Attention.only({"a": inf, "b": inf, "c": 2.0, "ab": -0.5}, {"c": 1.0, "b": 0.5}, 0.7)
    exact, found = (inconsistency(pdg, attention, solver=s) for s in ("pinned", "sampled"))
    assert found.upper == pytest.approx(exact.upper, abs=1e-6) and found.standard_error == 0
    with pytest.raises(CapabilityError, match=r"arc 'ab' .* second hard belief"):
        inconsistency(pdg, attention.replace(beta={"ab": inf}), solver="sampled")


def test_what_has_no_density_is_refused_by_name(data: tuple[torch.Tensor, torch.Tensor]):
    encoder = NeuralGaussian(both=net(3, 4, 1))
    pdg = PDG(
        Arc("d", (), X, Data(data[0])),
        Arc("q", X, Z, encoder),
        Arc("prior", (), Z, LinearGaussian(None, torch.zeros(2))),
    )
    with pytest.raises(CapabilityError, match=r"the entropy of \(Z\) is needed for arc 'prior'"):
        inconsistency(pdg, Attention.only({"d": inf, "q": inf, "prior": 1.0}))
    with pytest.raises(CapabilityError, match=r"arc 'q' .* cannot be tabulated.*no hard arc .* makes 'X'"):
        inconsistency(pdg, Attention.only({"q": inf, "prior": 1.0}, {"prior": 1.0}, 1.0))
    with pytest.raises(CapabilityError, match=r'the newton solver needs tables.*Use solver="auto" or "sampled"'):
        inconsistency(pdg, Attention.only({"d": inf, "q": inf}), solver="newton")


def test_values_must_fit_their_variables():
    with pytest.raises(DissonanceError, match=r"Y needs indices from 0 to 3"):
        Arc("d", (), (X, Y), Data(torch.zeros(2, 3), torch.tensor([0, 4])))
    with pytest.raises(DissonanceError, match=r"X is Euclidean\(3\), but its rows have shape \(2,\)"):
        Arc("d", (), X, Data(torch.zeros(5, 2)))
    with pytest.raises(DissonanceError, match="as many rows"):
        Data(torch.zeros(2, 3), torch.zeros(3, 1))
    with pytest.raises(DissonanceError, match=r"context has 'd\.rows7', which is no arc's buffer"):
        Focus(context={"d.rows7": torch.zeros(1)}).check(PDG(Arc("d", (), Z, Data(torch.zeros(5, 2)))))


def test_data_in_double_precision_is_averaged_in_double_precision():
    rows = torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64)
    U = Variable("U", Euclidean(1))
    pdg = PDG(Arc("d", (), U, Data(rows)), Arc("p", (), U, LinearGaussian(None, [0.0], [[1.0]])))
    found = inconsistency(pdg, Attention.only({"d": inf, "p": 1.0}))
    assert found.upper == pytest.approx(7 / 2 + math.log(2 * math.pi) / 2, rel=1e-14)
