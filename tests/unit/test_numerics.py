"""The conventions of logarithms of probabilities: decided once, differentiable everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dissonance import numerics
from reference import dense

inf = math.inf


def t(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_log_of_zero_is_minus_infinity():
    assert numerics.log(t(0.0, 1.0, math.e)).tolist() == pytest.approx([-inf, 0.0, 1.0])


def test_zero_times_anything_is_zero_and_nothing_else_is():
    assert numerics.times(t(0.0, 0.0, 2.0, 2.0, 2.0), t(inf, -inf, -inf, 3.0, 0.0)).tolist() == [0, 0, -inf, 6, 0]
    assert numerics.times(t(inf, inf), t(0.0, 1.0)).tolist() == [0, inf]


def test_an_unattended_cost_is_no_cost():
    assert float(numerics.scale(0.0, t(inf).sum())) == 0
    assert float(numerics.scale(2.0, t(inf).sum())) == inf


def test_x_log_y_follows_the_conventions():
    found = numerics.xlogy(t(0.0, 0.0, 0.5, 0.5), t(0.0, 0.3, 0.0, 0.5))
    assert found.tolist() == pytest.approx([0.0, 0.0, -inf, 0.5 * math.log(0.5)])


def test_entropy_of_a_point_mass_is_zero_and_of_a_uniform_log_n():
    assert float(numerics.entropy(t(0.0, 1.0, 0.0))) == 0
    assert float(numerics.entropy(torch.full((2, 3), 1 / 6, dtype=torch.float64))) == pytest.approx(math.log(6))


def test_a_row_without_mass_is_uniform_unless_told_otherwise():
    joint = torch.tensor([[0.25, 0.75], [0.0, 0.0]], dtype=torch.float64)
    assert numerics.conditional(joint).tolist() == [[0.25, 0.75], [0.5, 0.5]]
    fallback = torch.tensor([[0.9, 0.1], [0.2, 0.8]], dtype=torch.float64)
    assert numerics.conditional(joint, fallback).tolist() == [[0.25, 0.75], [0.2, 0.8]]


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 4), st.floats(0, 0.8))
def test_divergence_and_conditional_entropy_agree_with_the_plain_formulas(
    seed: int, rows: int, columns: int, zeros: float
):
    rng = np.random.default_rng(seed)
    joint = rng.random((rows, columns)) * (rng.random((rows, columns)) >= zeros)
    joint[0, 0] += 0.1
    joint /= joint.sum()
    p = rng.random((rows, columns)) * (rng.random((rows, columns)) >= 0.5 * zeros)
    p[:, 0] += 0.01
    p /= p.sum(1, keepdims=True)
    mu = torch.from_numpy(joint)
    assert float(numerics.divergence(mu, numerics.log(torch.from_numpy(p)))) == pytest.approx(
        dense.divergence(joint, p), abs=1e-12
    )
    assert float(numerics.conditional_entropy(mu)) == pytest.approx(dense.conditional_entropy(joint), abs=1e-12)


def test_mass_where_p_is_zero_is_infinite_even_if_tiny():
    joint = torch.tensor([[1.0, 1e-300]], dtype=torch.float64)
    assert float(numerics.divergence(joint, numerics.log(t(1.0, 0.0)[None]))) == inf
    assert float(numerics.divergence(t(1.0, 0.0)[None], numerics.log(t(1.0, 0.0)[None]))) == 0


@pytest.mark.parametrize(
    "f",
    [
        lambda p: numerics.log(p)[1:].sum(),
        lambda p: numerics.xlogy(p, p).sum(),
        numerics.entropy,
        lambda p: numerics.conditional_entropy(p.reshape(2, 2)),
        lambda p: numerics.divergence(p.reshape(2, 2), numerics.log(t(1.0, 0.0, 0.5, 0.5)).reshape(2, 2)),
        lambda p: numerics.divergence(t(0.5, 0.0, 0.5, 0.0).reshape(2, 2), numerics.log(p).reshape(2, 2)),
        lambda p: numerics.conditional(p.reshape(2, 2)).square().sum(),
        lambda p: numerics.times(p, t(-inf, 1.0, 1.0, inf)).sum(),
    ],
)
@pytest.mark.parametrize("point", [(0.0, 0.0, 1.0, 0.0), (1.0, 0.0, 0.0, 0.0), (0.3, 0.0, 0.7, 0.0)])
def test_gradients_are_never_nan_at_zeros(f, point: tuple[float, ...]):
    p = t(*point).requires_grad_()
    f(p).backward()
    assert not p.grad.isnan().any()


def test_the_gradient_of_the_log_is_zero_where_the_convention_applies():
    p = t(0.0, 0.5).requires_grad_()
    torch.where(p > 0, numerics.log(p), 0.0).sum().backward()
    assert p.grad.tolist() == [0.0, 2.0]


def test_everything_is_float64():
    assert numerics.real([1, 2]).dtype == numerics.real(torch.ones(2)).dtype == numerics.DTYPE == torch.float64


def test_a_divergence_of_zero_has_the_derivatives_of_its_cells():
    """Where mu(t|s) is p(t|s) to the last bit, -mu(s,t) is still the derivative in log p(t|s)."""
    joint = torch.tensor([[0.125, 0.375], [0.25, 0.25]], dtype=torch.float64)
    log_p = torch.log(joint / joint.sum(-1, keepdim=True)).requires_grad_()
    (slope,) = torch.autograd.grad(numerics.divergence(joint, log_p), log_p)
    torch.testing.assert_close(slope, -joint)
