"""A dual interior-point Newton method on the program of one component.

Unknowns y = (l, u) with q = softmax(l), and the pair mu, z > 0 with z -> slack(l, u). With J = d slack / dy, D = mu/z
and r = slack - z, one step solves

    K dy = J' ((tau - dz dmu)/z - D r) + (0, b)
    K = J' D J + B,     B = W mu(s) (diag qt - qt qt' + 1 1') row by row
    dz = J dy + r,     mu + dmu = (tau - dz dmu)/z - D dz

with qt = (q + mu(t|s))/2; 1 1' fixes the gauge of the softmax. Mehrotra's predictor-corrector chooses tau.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import splu

from dissonance.problem import Array
from dissonance.solvers.program import Program
from dissonance.solvers.support import Ints

Solve = Callable[[Array], Array]

RIDGE = 1e-14
"""Added to the diagonal of K, scaled to 1: redundant equations make K singular."""


@dataclass(frozen=True)
class Iterate:
    """Where an interior-point method stands: primal mu, slack z, dual l and u."""

    mu: Array
    z: Array
    l: Array  # noqa: E741 - the letter of the formula
    u: Array
    steps: int = 0


def cold(program: Program) -> Iterate:
    """A start that knows nothing but the tables: uniform clusters, unit slack."""
    counts = np.diff(program.offsets)
    mu = np.repeat(1.0 / counts, counts)
    return Iterate(mu, np.ones_like(mu), program.start, np.zeros(len(program.b)))


def warm(program: Program, near: Iterate, gap: float) -> Iterate:
    """A start near a solution whose bounds are `gap` apart: shifted inside, so that Newton's steps are long."""
    log_q = program.log_softmax(near.l)
    counts = np.diff(program.offsets)
    uniform = np.repeat(1.0 / counts, counts)
    gap = float(np.clip(gap, 1e-8, 1.0))
    mix = 0.3 * gap
    mu = (1 - mix) * np.maximum(near.mu, 0.0) + mix * uniform
    z = np.maximum(program.slack(log_q, near.u), 0.0) + gap / len(mu)
    return Iterate(mu, z, np.maximum(log_q, -60.0), near.u)


def newton(program: Program, start: Iterate, tol: float, *, settle: float = np.inf, steps: int = 60) -> Iterate:
    """Iterate until complementarity and both residuals are below `tol` and mu moves by less than `settle`.

    `tol` is relative to max(1, |value|). Within 100 `tol`, it also stops when a step no longer helps. Gives up after
    `steps` steps, or when K is singular to working precision.
    """
    system = _System(program)
    mu, z, l, u = start.mu, start.z, start.l, start.u  # noqa: E741
    k = len(l)
    runaway = 1e7 * (1 + np.abs(program.c).max(initial=0.0))  # only contradictory hard arcs push u that far
    before = np.inf
    moved = np.inf if settle < np.inf else 0.0
    for step in range(1, steps + 1):
        log_q = program.log_softmax(l)
        slack = program.slack(log_q, u)
        r = slack - z
        below = -np.minimum(np.minimum.reduceat(slack, program.offsets[:-1]), 0.0).sum()
        off = np.abs(program.A @ mu - program.b).sum()
        if np.abs(u).max(initial=0.0) > runaway:
            return Iterate(mu, z, l, u, step - 1)
        merit, target = float(mu @ z + mu @ np.abs(r) + below), tol * max(1.0, abs(float(program.b @ u)))
        if merit < target and off < max(tol, 1e-12 * len(mu)) and moved < settle:
            return Iterate(mu, z, l, u, step - 1)
        if merit < 100 * target and merit > 0.5 * before and off < 1e-8 and settle == np.inf:
            return Iterate(mu, z, l, u, step - 1)
        before = merit
        try:
            solve, jacobian = system.factor(mu, z, np.exp(log_q))
        except (LinAlgError, RuntimeError):  # singular to working precision: the last iterate stands
            break

        def direction(
            target: Array, mu: Array = mu, z: Array = z, r: Array = r, solve: Solve = solve, jacobian: Any = jacobian
        ) -> tuple[Array, Array, Array]:
            rhs = jacobian @ (target / z - mu / z * r)
            rhs[k:] += program.b
            dy = solve(rhs)
            dz = jacobian.T @ dy + r
            return dy, dz, target / z - mu / z * dz

        _, dz, mu_next = direction(np.zeros_like(mu))
        dmu = mu_next - mu
        gap = mu @ z / len(mu)
        ahead = (mu + _reach(mu, dmu) * dmu) @ (z + _reach(z, dz) * dz) / len(mu)
        tau = max((ahead / gap) ** 3 * gap, 0.1 * float(np.mean(mu * np.abs(r))))
        dy, dz, mu_next = direction(tau - np.clip(dz * dmu, -gap, gap))
        dmu = mu_next - mu
        if not (np.isfinite(dy).all() and np.isfinite(dmu).all()):
            break
        primal = min(1.0, 0.99 * _reach(mu, dmu))
        dual = min(1.0, 0.99 * _reach(z, dz), 4 / max(4.0, float(np.abs(dy[:k]).max(initial=0.0))))
        mu, z = mu + primal * dmu, z + dual * dz
        moved = primal * float(np.abs(dmu).sum())
        l, u = l + dual * dy[:k], u + dual * dy[k:]  # noqa: E741
    else:
        step = steps
    return Iterate(mu, z, l, u, step)


def _reach(x: Array, dx: Array) -> float:
    """The longest step that keeps x + step dx >= 0, at most 1 / 0.99."""
    shrinking = dx < 0
    return min(1 / 0.99, float((x[shrinking] / -dx[shrinking]).min(initial=np.inf)))


class _System:
    """K = J' D J + B, with everything that does not change between steps worked out once.

    Small systems are dense (below a few hundred unknowns the overhead of sparse matrices outweighs their savings). In
    others K is dense if it would be nearly full, as for one wide cluster, and J too, as for a joint with gamma > 0.
    """

    DENSE = 400

    def __init__(self, program: Program) -> None:
        self.program = program
        k = len(program.W)
        in_row = sp.csr_matrix((np.ones(k), (program.row, np.arange(k))), shape=(len(program.row_starts), k))
        self.T: Any = sp.diags(program.W) @ program.T
        self.spread: Any = sp.diags(program.W) @ (
            in_row.T @ (in_row @ program.T)
        )  # term x cell: the cell is in its row
        self.minus_A: Any = -program.A
        n = k + len(program.b)
        per_cell = np.diff(self.spread.tocsc().indptr) + np.diff(program.A.tocsc().indptr)
        work = float(per_cell @ per_cell)  # of a sparse product, about a hundred times slower than a dense one
        self.dense = n <= self.DENSE or work > 0.01 * n * n * len(program.c)
        self.full = self.dense or work > 0.1 * n * n
        if self.dense:
            self.T, self.spread, self.minus_A = (x.toarray() for x in (self.T, self.spread, self.minus_A))
        self.first, self.second = self._pairs()

    def _pairs(self) -> tuple[Ints, Ints]:
        """All pairs of terms in one row."""
        starts, row = self.program.row_starts, self.program.row
        if not len(row):
            return row, row
        length = np.diff(np.append(starts, len(row)))[row]
        first = np.repeat(np.arange(len(row)), length)
        within = np.arange(len(first)) - np.repeat(np.cumsum(length) - length, length)
        return first, starts[row][first] + within

    def blocks(self, mu: Array, q: Array) -> Array:
        """The entries of B at the pairs."""
        p = self.program
        m = p.T @ mu
        s = p.along_rows(m)
        qt = 0.5 * (q + m / np.maximum(s, 1e-300))
        i, j = self.first, self.second
        return (p.W * s)[i] * (np.where(i == j, qt[i], 0.0) - qt[i] * qt[j] + 1.0)

    def factor(self, mu: Array, z: Array, q: Array) -> tuple[Solve, Any]:
        """A solver for K, and J' (terms and equations by cells); LinAlgError or RuntimeError if K is singular."""
        n = len(q) + len(self.program.b)
        B = self.blocks(mu, q)
        if self.dense:
            J = np.concatenate([self.T - q[:, None] * self.spread, self.minus_A])
            K = (J * (mu / z)) @ J.T
            K[self.first, self.second] += B
        else:
            J = sp.vstack([self.T - sp.diags(q) @ self.spread, self.minus_A]).tocsr()
            K = J @ sp.diags(mu / z) @ J.T + sp.csr_matrix((B, (self.first, self.second)), shape=(n, n))
        if self.full:
            K = K if isinstance(K, np.ndarray) else K.toarray()
            scale = 1 / np.sqrt(np.maximum(K.diagonal(), 1e-200))
            K = K * scale[:, None] * scale
            K[np.diag_indices(n)] += RIDGE
            factor = cho_factor(K, lower=True, check_finite=False)
            return _refined(lambda x: cho_solve(factor, x, check_finite=False), K, scale), J
        scale = 1 / np.sqrt(np.maximum(K.diagonal(), 1e-200))
        K = (sp.diags(scale) @ K @ sp.diags(scale) + RIDGE * sp.identity(n)).tocsc()
        lu = splu(K, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        return _refined(lu.solve, K, scale), J


def _refined(solve: Solve, K: Any, scale: Array) -> Solve:
    """Solve the balanced system, refined until the ridge leaves no trace, in the original scale."""

    def refined(rhs: Array) -> Array:
        rhs = scale * rhs
        y = solve(rhs)
        for _ in range(3):
            y = y + solve(rhs - (K @ y - RIDGE * y))
        return scale * y

    return refined
