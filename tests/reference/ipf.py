"""Iterative proportional fitting on a dense joint: the I-projection onto given marginals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def fit(joint: np.ndarray, reports: Sequence[tuple[tuple[int, ...], np.ndarray]], sweeps: int = 5000) -> np.ndarray:
    """joint scaled in turn to have marginal `table` over `axes`, for each (axes, table), until nothing changes."""
    mu = joint.copy()
    for _ in range(sweeps):
        before = mu
        for axes, table in reports:
            rest = tuple(i for i in range(mu.ndim) if i not in axes)
            wanted = np.expand_dims(table.transpose(np.argsort(axes)), rest)
            mu = mu * wanted / mu.sum(rest, keepdims=True)
        if np.abs(mu - before).max() < 1e-15:
            break
    return mu
