"""One Newton system of a program, condensed to the terms of its arcs and its equations.

With J = d slack / dy for y = (l, u), B the curvature of the arcs' terms, and r = slack - z, the next mu, z and y solve

    P mu+ = tau'/mu - r - J' dy,     J mu+ + (0, b) = B dy,     z + dz = (tau' - z dmu)/mu
    B = W mu(s) (diag qt - qt qt' + 1 1') row by row,     qt = (q + mu(t|s))/2;     1 1' fixes the gauge of the softmax

so that, with M = P^-1,

    K dy = J M (tau'/mu - r) + (0, b),     K = J M J' + B,     mu+ = M (tau'/mu - r - J' dy)

At gamma = 0, P = diag(z/mu). At gamma > 0 the entropy of the clusters has a term for every cell x in the state s of its
separator, with an l of its own. These are not among the unknowns, but eliminated: with f = mu(s) qt

    P = diag(z/mu) + gamma V diag(1/f) V',     V = 1 - 1 q' in every separator state,     dl = (mu+ - q mu+(s)) / f

is diagonal plus rank two, so is M, and K is as small as at gamma = 0.

J of a term has every cell of its row, for the softmax. Where rows are long and K is sparse, J has only the term's own
cells instead, an equation q' dl = 0 holds the row, and its multiplier is one more unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import splu

from dissonance.problem import Array
from dissonance.solvers.program import Program
from dissonance.solvers.support import Ints

Solve = Callable[[Array], Array]

RIDGE = 1e-14
"""Added to the diagonal of K, scaled to 1: redundant equations make K singular."""

HELD = 1e-8
"""Taken from the diagonal of the multipliers of long rows, scaled to 1."""

REFINED = 12
"""Solves of one right side at most."""

TINY = 1e-300


class Condensed:
    """What does not change between the Newton steps of a program.

    Small systems are dense (below a few hundred unknowns the overhead of sparse matrices outweighs their savings). In
    others K is dense if it would be nearly full, as for one wide cluster, and J too, as for a joint.
    """

    DENSE, FULLER, FULL, LONG = 400, 0.01, 0.3, 16

    def __init__(self, program: Program) -> None:
        self.program = program
        k = program.structural
        self.row, self.W, self.terms = program.row[:k], program.W[:k], program.T[:k]
        self.starts = np.flatnonzero(np.diff(self.row, prepend=-1)).astype(np.int64)
        self.size = n = k + len(program.b)
        long = np.diff(np.append(self.starts, k))[self.row] >= self.LONG if k else np.zeros(0, dtype=np.bool_)
        self.own: Any = sp.vstack([sp.diags(self.W) @ self.terms, -program.A]).tocsr()
        spread = self._rows(np.ones_like(long))
        per_cell = np.diff(spread.tocsc().indptr) + np.diff(program.A.tocsc().indptr)
        work = float(per_cell @ per_cell)  # of a sparse product, about a hundred times slower than a dense one
        self.dense = n <= self.DENSE or work > self.FULLER * n * n * len(program.c)
        self.full, self.long = True, np.zeros(0, dtype=np.int64)
        if not self.dense:
            short = self._rows(~long)
            pattern = abs(self.own) + short
            self.full = (pattern @ pattern.T).nnz > self.FULL * n * n
            if not self.full:
                spread, self.long = short, np.flatnonzero(long)
        self.spread: Any = spread
        if self.dense:
            self.own, self.spread = self.own.toarray(), self.spread.toarray()
        self.first, self.second = self._pairs()
        self.cell = program.T.indices[program.T.indptr[k] :]  # of the terms that are not the arcs'
        self.state = np.zeros(len(program.c), dtype=np.int64)  # of its separator, for every cell
        self.states = 0
        if program.gamma > 0:
            self.state[self.cell] = program.row[k:] - program.row[k]
            self.states = int(self.state.max()) + 1

    def _rows(self, some: npt.NDArray[np.bool_]) -> Any:
        """W where a cell is in the row of a term, for some of the terms, (unknowns, cells)."""
        k = len(self.W)
        in_row = sp.csr_matrix((np.ones(k), (self.row, np.arange(k))), shape=(len(self.starts), k))
        spread = sp.diags(self.W * some) @ (in_row.T @ (in_row @ self.terms))
        spread.eliminate_zeros()
        return sp.vstack([spread, sp.csr_matrix((self.size - k, spread.shape[1]))]).tocsr()

    def _pairs(self) -> tuple[Ints, Ints]:
        """All pairs of terms in one row; in a long row, of a term with itself."""
        starts, row = self.starts, self.row
        if not len(row):
            return row, row
        length = np.diff(np.append(starts, len(row)))[row]
        length[self.long] = 1
        start = starts[row]
        start[self.long] = self.long
        first = np.repeat(np.arange(len(row)), length)
        within = np.arange(len(first)) - np.repeat(np.cumsum(length) - length, length)
        return first, start[first] + within

    def total(self, cells: Array) -> Array:
        """Sums over the cells of every separator state."""
        return np.bincount(self.state, cells, self.states).astype(np.float64, copy=False)

    def at(self, mu: Array, z: Array, q: Array) -> Factored:
        """The system at an iterate, factored; LinAlgError or RuntimeError if K is singular to working precision."""
        k, n = len(self.W), self.size
        M, B = self._inverse(mu, z, q[k:]), self._curvature(mu, q[:k])
        padded = np.concatenate([q[:k], np.zeros(n - k)])
        if self.dense:
            J = self.own - padded[:, None] * self.spread
            K: Any = (J * M.a) @ J.T
            K[self.first, self.second] += B
        else:
            J = self.own - sp.diags(padded) @ self.spread
            K = J @ sp.diags(M.a) @ J.T + sp.csr_matrix((B, (self.first, self.second)), shape=(n, n))
        ranks = [self._by_state(J, x) for x in (M.up, M.down)] if self.states else []
        if self.full:
            K = _array(K)
            for x, sign in zip(ranks, (1.0, -1.0), strict=False):
                K = K + sign * _array(x @ x.T)
            return Factored(self, _dense(K), J, M, mu, z)
        # The ranks as unknowns of their own: their products would fill K.
        border = [(x, sign * sp.identity(self.states)) for x, sign in zip(ranks, (-1.0, 1.0), strict=False)]
        if len(self.long):
            _, row = np.unique(self.row[self.long], return_inverse=True)
            count = int(row.max()) + 1
            held = sp.csr_matrix(((self.W * q[:k])[self.long], (self.long, row)), shape=(n, count))
            border.append((held, sp.csr_matrix((count, count))))
        return Factored(self, _sparse(_bordered(K, border), n), J, M, mu, z)

    def _curvature(self, mu: Array, q: Array) -> Array:
        """The entries of B at the pairs."""
        if not len(q):
            return q
        m = self.terms @ mu
        s = np.add.reduceat(m, self.starts)[self.row]
        qt = 0.5 * (q + m / np.maximum(s, TINY))
        i, j = self.first, self.second
        free = np.ones_like(q)
        free[self.long] = 0.0
        return (self.W * s)[i] * (np.where(i == j, qt[i], 0.0) - free[i] * (qt[i] * qt[j] - 1.0))

    def _inverse(self, mu: Array, z: Array, q: Array) -> Inverse:
        """M at mu, z and q(x|s), without cancellation.

        P = diag(1/a) + gamma rho w w' - (gamma/rho) v v' with 1/a = z/mu + gamma/f, v = q/f, rho = sum q v and
        w = 1 - v/rho, in every separator state: two updates of rank one.
        """
        if not self.states:
            return Inverse(mu / z, *4 * (np.zeros(0),))
        gamma, state = self.program.gamma, self.state
        given = np.empty_like(mu)
        given[self.cell] = q
        f = np.maximum(0.5 * (self.total(mu)[state] * given + mu), TINY)
        stiff = z + gamma * mu / f
        a, v = mu / stiff, given / f
        rho = np.maximum(self.total(given * v), TINY)[state]
        w = 1 - v / rho
        slope = z * f / stiff * v  # (f - gamma a) v
        left = np.maximum(self.total(slope * v), TINY)  # rho - gamma sum a v^2
        y = a * (w - (self.total(slope * w) / left)[state] * v)
        kappa = gamma * rho / (1 + gamma * rho * self.total(w * y)[state])
        return Inverse(a, np.sqrt(gamma / left)[state] * a * v, np.sqrt(kappa) * y, given, f)

    def _by_state(self, J: Any, x: Array) -> Any:
        """J times the cells of every separator state, (unknowns, states)."""
        E = sp.csr_matrix((x, (np.arange(len(x)), self.state)), shape=(len(x), self.states))
        return (E.T @ J.T).T if self.dense else J @ E


@dataclass(frozen=True)
class Inverse:
    """M = diag a + up up' - down down' in every separator state; and q(x|s) and f = mu(s) qt for every cell."""

    a: Array
    up: Array
    down: Array
    q: Array
    f: Array


@dataclass(frozen=True)
class Factored:
    """A system at mu and z, its K factored."""

    of: Condensed
    solve: Solve
    J: Any
    M: Inverse
    mu: Array
    z: Array

    def times(self, x: Array) -> Array:
        """M x."""
        M, of = self.M, self.of
        if not of.states:
            return M.a * x
        return M.a * x + M.up * of.total(M.up * x)[of.state] - M.down * of.total(M.down * x)[of.state]

    def direction(self, target: Array, r: Array) -> tuple[Array, Array, Array, Array]:
        """dl, du, dz and the next mu, towards mu z = target."""
        of, k = self.of, len(self.of.W)
        start = self.times(target / self.mu - r)
        rhs = self.J @ start
        rhs[k:] += of.program.b
        dy = self.solve(rhs)
        mu = start - self.times(self.J.T @ dy)
        dl = dy[:k]
        if of.states:
            dl = np.concatenate([dl, ((mu - self.M.q * of.total(mu)[of.state]) / self.M.f)[of.cell]])
        return dl, dy[k:], (target - self.z * mu) / self.mu, mu


def _array(x: Any) -> Array:
    return x if isinstance(x, np.ndarray) else x.toarray()


def _dense(K: Array) -> Solve:
    """A solver for K."""
    scale = 1 / np.sqrt(np.maximum(K.diagonal(), 1e-200))
    K = K * scale[:, None] * scale
    K[np.diag_indices_from(K)] += RIDGE
    factor = cho_factor(K, lower=True, check_finite=False)
    return _refined(lambda x: cho_solve(factor, x, check_finite=False), K, scale, RIDGE)


def _bordered(K: Any, border: list[tuple[Any, Any]]) -> Any:
    """K with more unknowns, each block of them coupled to K's and to itself."""
    if not border:
        return K
    corner = sp.block_diag([own for _, own in border])
    side = sp.hstack([x for x, _ in border])
    return sp.bmat([[K, side], [side.T, corner]])


def _sparse(K: Any, n: int) -> Solve:
    """A solver for the first n unknowns of K, where the right side of the others is 0.

    One without a diagonal may be eliminated before what it is coupled to: a little of one, refined away, makes that
    possible.
    """
    K = K.tocsc()
    diagonal = np.abs(K.diagonal())
    none = diagonal == 0
    if none.any():
        diagonal = np.where(none, K.multiply(K).T @ np.where(none, 0.0, 1 / np.maximum(diagonal, TINY)), diagonal)
    scale = 1 / np.sqrt(np.maximum(diagonal, 1e-200))
    ridge = np.where(none, -HELD, np.where(np.arange(len(scale)) < n, RIDGE, 0.0))
    K = (sp.diags(scale) @ K @ sp.diags(scale) + sp.diags(ridge)).tocsc()
    lu = splu(K, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    solve = _refined(lu.solve, K, scale, ridge)
    return lambda x: solve(np.concatenate([x, np.zeros(len(scale) - n)]))[:n]


def _refined(solve: Solve, K: Any, scale: Array, ridge: Array | float) -> Solve:
    """Solve the balanced system, refined thrice and then while that halves what is left, in the original scale."""

    def refined(rhs: Array) -> Array:
        left = rhs = scale * rhs
        y = np.zeros_like(rhs)
        size = np.inf
        for solves in range(REFINED):
            y = y + solve(left)
            left = rhs - (K @ y - ridge * y)
            before, size = size, np.linalg.norm(left)
            if solves >= 3 and not size < 0.5 * before:
                break
        return scale * y

    return refined
