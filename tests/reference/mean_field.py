"""Textbook variational inference on a dense table log p(z, evidence): coordinate ascent and natural gradients."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

import numpy as np

from dissonance import PDG


def log_joint(model: PDG, evidence: Mapping[str, int], latent: Sequence[str]) -> np.ndarray:
    """log prod_a p_a over the latent variables, axes in this order, at the evidence (given by position)."""
    total = np.zeros([model.variable(n).size for n in latent])
    for arc in model.arcs:
        names = [v.name for v in arc.scope]
        table = arc.log_table().detach().numpy()[tuple(evidence.get(n, slice(None)) for n in names)]
        left = [n for n in names if n not in evidence]
        order = sorted(range(len(left)), key=lambda i: latent.index(left[i]))
        wide = [total.shape[k] if n in left else 1 for k, n in enumerate(latent)]
        total = total + table.transpose(order).reshape(wide)
    return total


def expected(log_p: np.ndarray, q: Sequence[np.ndarray], i: int) -> np.ndarray:
    """E_{-i}[log p] as a function of block i; blocks are consecutive axes of log_p."""
    letters = iter(string.ascii_letters)
    names = ["".join(next(letters) for _ in range(x.ndim)) for x in q]
    others = [(n, x) for k, (n, x) in enumerate(zip(names, q, strict=True)) if k != i]
    return np.einsum(
        f"{','.join([''.join(names), *(n for n, _ in others)])}->{names[i]}", log_p, *(x for _, x in others)
    )


def softmax(x: np.ndarray) -> np.ndarray:
    x = np.exp(x - x.max())
    return x / x.sum()


def ascend(log_p: np.ndarray, q: Sequence[np.ndarray], i: int, rate: float = 1.0) -> list[np.ndarray]:
    """log q_i <- (1 - rate) log q_i + rate E_{-i}[log p] + const; coordinate ascent at rate 1."""
    new = softmax((1 - rate) * np.log(q[i]) + rate * expected(log_p, q, i))
    return [new if k == i else x for k, x in enumerate(q)]


def elbo(log_p: np.ndarray, q: Sequence[np.ndarray]) -> float:
    """E_q[log p - log q]."""
    return float((expected(log_p, q, 0) * q[0]).sum() - sum((x * np.log(x)).sum() for x in q))


def log_evidence(log_p: np.ndarray) -> float:
    top = log_p.max()
    return float(top + np.log(np.exp(log_p - top).sum()))
