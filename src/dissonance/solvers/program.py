"""A component on a junction tree as one convex program in its cluster marginals.

    minimise   c . mu + sum_k W_k m_k log(m_k / s_k)     m = T mu,  s_k = sum of m over the row of k
    subject to A mu = b,  mu >= 0

mu holds the supported cells of every cluster, one after another. Each row of terms is mu(T | S=s) of one mechanism;
gamma > 0 adds for every cluster the terms of gamma H(cluster | separator). The rows of A say: the root has mass 1,
neighbours agree on their separator, hard arcs hold. Dual variables: l (one a term, q = softmax of l along its row) and
u (one an equation), with slack(l, u) = c + T' W log q - A' u >= 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from dissonance.distributions.tree import Tree
from dissonance.problem import Array, Attended
from dissonance.solvers.support import Ints


@dataclass(frozen=True)
class HardRows:
    """The equations of a hard arc: row `first + i` of A is about cell `cells[i]` of its flat (s, t) table."""

    arc: Attended
    first: int
    cells: Ints

    def multipliers(self, u: Array) -> Array:
        """lambda(s, t), shaped like the arc's table: 0 where no equation is needed."""
        found = np.zeros(self.arc.log_p.size)
        found[self.cells] = u[self.first : self.first + len(self.cells)]
        return found.reshape(self.arc.log_p.shape)


@dataclass(frozen=True)
class Program:
    """The arrays; see the module's formula. `structural` marks the terms of gamma H, which come last."""

    tree: Tree
    states: tuple[Ints, ...]
    c: Array
    T: sp.csr_matrix
    row: Ints
    W: Array
    A: sp.csr_matrix
    b: Array
    hard: tuple[HardRows, ...]
    up: tuple[Ints, ...]
    down: tuple[Ints, ...]
    start: Array
    structural: int
    gamma: float

    @cached_property
    def offsets(self) -> Ints:
        """Where each cluster's cells begin in mu."""
        return np.concatenate([[0], np.cumsum([len(s) for s in self.states])]).astype(np.int64)

    @cached_property
    def first_hard(self) -> int:
        """The first row of A that belongs to a hard arc."""
        return self.hard[0].first if self.hard else len(self.b)

    @cached_property
    def row_starts(self) -> Ints:
        """Where each row of terms begins; the terms of a row are contiguous."""
        return np.flatnonzero(np.diff(self.row, prepend=-1)).astype(np.int64)

    def along_rows(self, terms: Array) -> Array:
        """Sums over each row of terms, spread back to the terms."""
        return np.add.reduceat(terms, self.row_starts)[self.row] if len(terms) else terms

    def log_softmax(self, l: Array) -> Array:  # noqa: E741 - the letter of the formula
        """log q along the rows."""
        if not len(l):
            return l
        shifted = l - np.maximum.reduceat(l, self.row_starts)[self.row]
        return shifted - np.log(self.along_rows(np.exp(shifted)))

    def slack(self, log_q: Array, u: Array) -> Array:
        """c + T' W log q - A' u."""
        return self.c + self.T.T @ (self.W * log_q) - self.A.T @ u

    def objective(self, mu: Array) -> float:
        """The incompatibility of cluster marginals that agree with each other."""
        m = self.T @ mu
        s = self.along_rows(m)
        positive = m > 0
        ratio = np.log(np.divide(m, s, out=np.ones_like(m), where=positive))
        return float(self.c @ mu + (self.W * m * ratio).sum())
