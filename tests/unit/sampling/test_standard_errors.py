"""Standard errors of averages over draws, calibrated on linear-Gaussian graphs whose exact value is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from dissonance import (
    PDG,
    Arc,
    Attention,
    Euclidean,
    LinearGaussian,
    SizeError,
    Variable,
    inconsistency,
)
from dissonance.cpds import Data, NeuralCategorical, NeuralGaussian, StandardNormal
from dissonance.focus import Varying
from dissonance.sampling import blocks as in_blocks
from dissonance.solvers import Auto, Sampled

inf = math.inf


def layers(count: int, seed: int) -> tuple[PDG, Attention]:
    """Hard V0 -> V1 -> ..., and another belief, soft, about each of these steps."""
    rng = np.random.default_rng(seed)
    variables = [Variable(f"V{i}", Euclidean(1)) for i in range(count)]
    arcs: list[Arc] = []
    for i, v in enumerate(variables):
        for name in ("q", "p"):
            slope = [[rng.normal()]] if i else None
            cpd = LinearGaussian(slope, [rng.normal()], [[rng.uniform(0.3, 1.3)]])
            arcs.append(Arc(f"{name}{i}", variables[i - 1] if i else (), v, cpd))
    return PDG(*arcs), Attention.only({a.name: inf if a.name[0] == "q" else 1.0 for a in arcs})


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("count", [30, 1000])
@torch.no_grad()
def test_standard_errors_cover_the_exact_value_at_their_level(depth: int, count: int):
    """200 seeds: 95 % of the errors within 1.96 standard errors (binomial: 91 to 98.5 %), mean square near 1."""
    pdg, attention = layers(depth, seed=depth)
    exact = inconsistency(pdg, attention).upper
    found = [inconsistency(pdg, attention, solver=Sampled(count, seed)) for seed in range(200)]
    z = np.array([(r.upper - exact) / r.standard_error for r in found])
    assert 0.89 < np.mean(np.abs(z) < 1.96) <= 1
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.25


def test_a_default_result_has_an_error_that_means_something():
    pdg, attention = layers(2, seed=5)
    exact = inconsistency(pdg, attention).upper
    found = inconsistency(pdg, attention, solver="sampled")
    assert len(found.answers[0].mu) == 10_000  # pyright: ignore[reportArgumentType]
    assert 0 < found.standard_error < 0.2 and abs(found.upper - exact) < 4 * found.standard_error


def test_one_draw_has_no_standard_error_and_does_not_claim_one():
    pdg, attention = layers(1, seed=0)
    found = inconsistency(pdg, attention, solver=Sampled(1))
    assert math.isnan(found.standard_error) and "+- nan" in repr(found)


def encoded(rows: int) -> tuple[PDG, Attention]:
    """Data, a code for each row, and classes that depend on it: rows, draws, and all values of what comes after."""
    X, Z, C = Variable("X", Euclidean(1)), Variable("Z", Euclidean(1)), Variable("C", 3)
    torch.manual_seed(0)
    x = 3 * torch.randn(rows, 1, dtype=torch.float64)
    pdg = PDG(
        Arc("d", (), X, Data(x)),
        Arc("q", X, Z, NeuralGaussian(torch.nn.Linear(1, 1).double())),
        Arc("c", Z, C, NeuralCategorical(torch.nn.Linear(1, 3).double())),
        Arc("z", (), Z, StandardNormal()),
        Arc("u", (), C, [0.5, 0.3, 0.2]),
    )
    hard = {"d": inf, "q": inf, "c": inf}
    return pdg, Attention.only({**hard, "z": 1.0, "u": 1.0}, {"z": 1.0}, 1.0)


@torch.no_grad()
def test_rows_of_data_are_no_noise_and_classes_of_one_draw_are_no_draws():
    """The spread over seeds is what the error says, with several draws a row; with one it is on the safe side."""
    pdg, attention = encoded(40)
    for count, factor in ((10, (0.85, 1.15)), (1, (0.9, inf))):
        found = [inconsistency(pdg, attention, solver=Sampled(count, seed)) for seed in range(120)]
        spread = np.std([r.upper for r in found], ddof=1)
        error = np.mean([r.standard_error for r in found])
        assert factor[0] * spread < error < factor[1] * spread


def test_blocks_add_up_to_the_same_value_error_and_derivatives(monkeypatch: pytest.MonkeyPatch):
    """Entropies of finite variables included, which all draws make together."""
    pdg, attention = encoded(4)
    theta: dict[str, Tensor] = {k: v.detach().clone().requires_grad_() for k, v in pdg.theta.items()}
    keys = [k for k in theta if theta[k].is_floating_point() and k[0] in "qc"]

    def asked() -> tuple[float, float, list[Tensor]]:
        found = inconsistency(pdg, attention, solver=Sampled(5000), theta=theta)
        return found.upper, found.standard_error, list(torch.autograd.grad(found.value, [theta[k] for k in keys]))

    whole = asked()
    monkeypatch.setattr(in_blocks, "NUMBERS", 4 * 9 * 700)
    parts = asked()
    assert parts[0] == pytest.approx(whole[0], abs=4 * whole[1]) and parts[1] == pytest.approx(whole[1], rel=0.1)
    for a, b in zip(whole[2], parts[2], strict=True):
        assert torch.allclose(a, b, atol=0.05)
    again = asked()
    assert again[0] == parts[0] and all(torch.equal(a, b) for a, b in zip(parts[2], again[2], strict=True))


def test_the_number_of_draws_is_no_matter_of_memory():
    """Two million draws of three layers: mu holds a block of them."""
    pdg, attention = layers(3, seed=2)
    exact = inconsistency(pdg, attention)
    found = inconsistency(pdg, attention, solver=Auto(samples=2_000_000, seed=1))  # auto: exact, nothing is drawn
    assert found.standard_error == 0 and found.upper == pytest.approx(exact.upper)
    found = inconsistency(pdg, attention, solver=Sampled(2_000_000))
    assert abs(found.upper - exact.upper) < 4 * found.standard_error < 0.1
    assert len(found.answers[0].mu) < 2_000_000  # pyright: ignore[reportArgumentType]
    slopes = [torch.autograd.grad(r.value, pdg["p1"].cpd.b)[0].item() for r in (exact, found)]
    assert slopes[1] == pytest.approx(slopes[0], rel=0.02)


def test_what_cannot_be_drawn_in_blocks_is_refused_with_its_size():
    pdg, attention = layers(1, seed=0)
    varying = Varying(lambda seen: torch.ones_like(seen.weights))
    attention = Attention.only(dict(attention.beta), {"p0": 1.0}, 1.0, {"p0": varying})
    with pytest.raises(SizeError, match=r"GiB at once.*fewer draws"):
        inconsistency(pdg, attention, solver=Sampled(10**9))
