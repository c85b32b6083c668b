"""Logarithms of probabilities: where 0 log 0 = 0 and -log 0 = inf are decided, once.

Every function is differentiable, and its gradient is 0 (never NaN) at the cells where the convention applies.
Units are nats; dtype is float64 throughout the library.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.tolerances import UNSEEN

DTYPE = torch.float64


def check_unlabelled(values: object) -> None:
    """Refuse a data frame or a Series where an array is read by position: its labels would be passed over."""
    if hasattr(values, "iloc"):
        raise DissonanceError(
            f"a {type(values).__name__} has labels, and an array is read by position: Arc.from_table(name, table, ...) "
            "goes by the labels; to_numpy() gives the numbers in their order."
        )


def real(values: object) -> Tensor:
    """The values as a float64 tensor, sharing memory and graph where possible; what would lose something is refused."""
    check_unlabelled(values[0] if isinstance(values, list | tuple) and values else values)
    if isinstance(values, Tensor):
        if values.is_complex() or values.layout is not torch.strided or values.is_quantized or values.is_meta:
            kind = f"{'complex, ' * values.is_complex()}{values.layout}".removesuffix(", torch.strided")
            raise DissonanceError(f"a dense tensor of real numbers is needed, found {values.dtype} ({kind}).")
    elif isinstance(values, np.ndarray | np.generic) and np.iscomplexobj(values):
        raise DissonanceError("real numbers are needed, found complex ones: take their real part.")
    elif isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise DissonanceError("a masked array has numbers that are not there: fill them in first.")
    return torch.as_tensor(values, dtype=DTYPE)


def log(p: Tensor) -> Tensor:
    """log p with log 0 = -inf and zero gradient there."""
    if not p.requires_grad:
        return torch.log(p.clamp(min=0.0))
    positive = p > 0
    return torch.where(positive, torch.log(torch.where(positive, p, 1.0)), -math.inf)


def log_softmax(x: Tensor) -> Tensor:
    """log softmax over the last axis; tall tables are turned over first, which is several times faster."""
    if x.dim() != 2 or len(x) < 1024 or x.shape[1] > 64:
        return torch.log_softmax(x, -1)
    return torch.log_softmax(x.T.contiguous(), 0).T


def times(weight: Tensor, value: Tensor) -> Tensor:
    """weight * value with 0 * (+-inf) = 0: what carries no mass costs nothing."""
    if not (weight.requires_grad or value.requires_grad):
        product = weight * value
        if not bool(product.sum().isnan()):  # then there was no 0 * inf
            return product
    massless = (weight == 0) | ((value == 0) & weight.isinf())  # a value that happens to be 0 still has a derivative
    return torch.where(massless, 0.0, weight * torch.where(massless, 0.0, value))


def expectation(weight: Tensor, value: Tensor) -> Tensor:
    """sum weight * value with 0 * (+-inf) = 0."""
    if not (weight.requires_grad or value.requires_grad):
        for a, b in ((weight, value), (weight.mT, value.mT) if weight.dim() == 2 else (weight, value)):
            if a.is_contiguous() and b.is_contiguous():
                total = torch.dot(a.reshape(-1), b.reshape(-1))  # one pass, and no copy
                if not bool(total.isnan()):
                    return total
    return times(weight, value).sum()


def scale(weight: float, value: Tensor) -> Tensor:
    """A number times a cost, with 0 * inf = 0: an unattended cost is no cost."""
    return torch.zeros_like(value) if weight == 0 else value if weight == 1 else weight * value


def toward(start: Tensor, end: Tensor, share: float | Tensor) -> Tensor:
    """start + share (end - start), where a logarithm of 0 at the start stays one."""
    return torch.where(start == -math.inf, start, start + share * (end - start))


def xlogy(x: Tensor, y: Tensor) -> Tensor:
    """x log y with 0 log y = 0 and x log 0 = -inf for x > 0."""
    if not (x.requires_grad or y.requires_grad):
        return torch.xlogy(x, y.clamp(min=0.0))
    return times(x, log(y))


def entropy(p: Tensor) -> Tensor:
    """H(p) = -sum p log p over all cells of p."""
    return -xlogy(p, p).sum()


def conditional(joint: Tensor, fallback: Tensor | None = None) -> Tensor:
    """p(t | s) from p(s, t) of shape (sources, targets); rows without mass take `fallback`, by default uniform."""
    total = joint.sum(-1, keepdim=True)
    empty = total == 0
    if not joint.requires_grad and not bool(empty.any()):
        return joint / total
    rows = joint / torch.where(empty, 1.0, total)
    other = torch.full_like(rows, 1 / joint.shape[-1]) if fallback is None else fallback
    return torch.where(empty, other, rows)


def conditional_entropy(joint: Tensor) -> Tensor:
    """H(T | S) of p(s, t), shape (sources, targets)."""
    return -xlogy(joint, conditional(joint)).sum()


def broken(joint: Tensor, p: Tensor) -> float:
    """How far mu is from a hard arc: at most ROUNDING if it holds, at most FEASIBLE if it holds closely enough.

    max (|mu(s,t) - p(t|s) mu(s)| - UNSEEN) / p(t|s) mu(s), for mu(s,t) and p(t|s), both (sources, targets); inf where
    mu has mass and p has none.
    """
    expected = joint.sum(-1, keepdim=True) * p
    beyond = ((joint - expected).abs() - UNSEEN).clamp(min=0.0)
    beyond = torch.where((p == 0) & (joint > 0), math.inf, beyond)
    return float(torch.where(beyond > 0, beyond / expected, 0.0).max())


def entry_divergence(joint: Tensor, mass: Tensor, log_p: Tensor) -> Tensor:
    """mu(s,t) log mu(t|s)/p(t|s) of mu(s,t), mu(s) and log p(t|s), broadcast: `costs.KL.value` for autograd."""
    return times(joint, log(joint / torch.where(mass > 0, mass, 1.0)) - log_p)


def divergence(joint: Tensor, log_p: Tensor) -> Tensor:
    """KL( mu(s,t) || p(t|s) mu(s) ) for mu(s,t) and log p(t|s), both (..., sources, targets).

    +inf as soon as mu has mass where p is 0.
    """
    return entry_divergence(joint, joint.sum(-1, keepdim=True), log_p).sum((-2, -1))
