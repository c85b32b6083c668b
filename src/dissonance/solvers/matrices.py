"""Symmetric matrices: roots, determinants, and how far one may move."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import cholesky, eigvalsh, solve_triangular

from dissonance.attended import Array


def root(matrix: Array) -> Array:
    """L with L L' = matrix, lower triangular; LinAlgError unless it is positive definite."""
    return cholesky(matrix, lower=True, check_finite=False)


def log_det(matrix: Array) -> float:
    """log det of a symmetric matrix, -inf unless it is positive definite."""
    try:
        found = 2 * float(np.log(np.diag(root(matrix))).sum())
    except np.linalg.LinAlgError:
        return -math.inf
    return -math.inf if math.isnan(found) else found


def longest_positive_step(matrix: Array, move: Array) -> float:
    """How far matrix + t move stays positive definite."""
    L = root(matrix)
    inner = solve_triangular(L, solve_triangular(L, move, lower=True).T, lower=True)
    lowest = float(eigvalsh((inner + inner.T) / 2, subset_by_index=(0, 0))[0])
    return math.inf if lowest >= 0 else -1 / lowest
