"""The quadratic score: the gain that is certain is the distance to what is coherent, in squared probabilities.

    minimise   sum_a beta_a mu(G) (mu(E|G) - p)^2  =  sum_a beta_a (m - p s)^2 / s       m = mu(E, G), s = mu(G)

over cluster marginals on a junction tree. m^2/s is a perspective, so that this is convex: second-order cones, for
Clarabel; without conditions it is a least-squares projection. For any q, m^2/s >= 2 q m - q^2 s, so that the sum is at
least the mean of beta ((p - v)^2 - (q - v)^2), v = 1 if the event happens: what those bets win in the worst world is a
lower bound, whatever the q. `certificate.certify` finds that world, as it does for the log score.
"""

from __future__ import annotations

import importlib
import math
from functools import cached_property
from typing import Any

import numpy as np

from dissonance.costs import BRIER_SCORE, FlatRows, Floats, Ints
from dissonance.problem import Batch
from dissonance.proof import EPS, Accuracy, ProvedBounds, TableRows
from dissonance.solvers.convex.conic import Sparse, sparse
from dissonance.solvers.convex.hard import satisfy
from dissonance.solvers.convex.layout import HARD
from dissonance.solvers.convex.program import Numbers, Program, Structure
from dissonance.solvers.convex.solve import Work
from dissonance.tolerances import FEASIBLE

ENOUGH = 1e-9
"""The gap above which the multipliers of hard arcs are improved."""


class Projection:
    """Books of one structure; `no` and `yes` (B, ends): where the tables of the arcs say so of each belief."""

    def __init__(self, structure: Structure, no: Ints, yes: Ints) -> None:
        self.structure = structure
        belief, end = np.nonzero(np.stack([no[:, 0] >= 0, no[:, 0] != no[:, 1]], -1))  # a range has two rows
        self.belief, self.no, self.yes = belief, no[belief, end], yes[belief, end]

    @cached_property
    def _spread(self) -> Any:
        """Cells to table entries, as a sparse matrix."""
        import scipy.sparse as sp

        lay = self.structure.layout
        at = lay.arc_cell
        cell = np.repeat(lay.cell_at[lay.home] - at[:-1], np.diff(at)) + np.arange(at[-1])
        shape = int(lay.table_at[-1]), len(lay.own)
        return sp.csr_matrix((np.ones(len(cell)), (lay.arc_table, cell)), shape=shape)

    def solve(self, a: Batch) -> list[Floats]:
        """Solve one book after another.

        Returns bounds, (P,) each; mu(s,t) of the arcs, and what bets on soft beliefs win, (P, entries of tables) each;
        and the multipliers of hard arcs, (P, entries of the structure).
        """
        found = [self._one(a.take(np.array([k]))) for k in range(len(a.beta))]
        return [np.stack(x) for x in zip(*found, strict=True)]

    def _one(self, a: Batch) -> tuple[Floats, ...]:
        s = self.structure
        p, hard = np.exp(a.log_p[0, self.yes]), s.layout.hard[self.belief]
        beta = np.where(hard, 0.0, a.beta[0, self.belief])
        nothing = Numbers(np.zeros((1, len(s.layout.own))), np.zeros((1, len(s.layout.kind))), s.numbers(a).p)
        mu, d, y, q = self._conic(Program(s, nothing), p, beta)
        with np.errstate(divide="ignore"):
            log_q = np.log(np.stack([1 - q, q], -1).ravel())
        ends, both = FlatRows.wide(np.full(len(p), 2)), np.stack([self.no, self.yes], -1).ravel()
        log_p, weight = a.log_p[0, both], np.repeat(beta, 2)
        cost = np.zeros(int(s.layout.table_at[-1]))
        np.add.at(cost, both, weight * BRIER_SCORE.price(log_q, log_p, ends))
        at = np.concatenate([mu, np.zeros(len(mu)), y, d])[None]
        w = Work(s, Numbers((self._spread.T @ cost)[None], nothing.W, nothing.p), at)
        w.certify()
        impossible = s.hard and satisfy(w, np.full(1, ENOUGH))[0] > 0
        lower, upper, residual = w.bounds[0].tolist()
        joint = self._spread @ w.proved[0]
        off = weight * BRIER_SCORE.value(joint[both], log_p, ends)
        broken = max(0.0, upper - float(cost @ joint))  # the price of what mu misses of hard beliefs, and of rounding
        high, rows = float(off.sum()) + broken, np.ones(len(beta), dtype=np.int64)
        accuracy = Accuracy(TableRows(rows, 2 * rows, 0.0), None, beta[None], np.zeros((1, len(beta))), np.zeros(1))
        bounds = ProvedBounds.proved(
            accuracy,
            lower,
            high,
            32 * EPS,
            tol=math.inf,
            broken=residual,
            within=FEASIBLE,
            contradicted=np.array([impossible]),
        )
        lower, upper, _ = bounds.one
        y = w.view("y")[0].copy() if residual <= FEASIBLE else y
        return np.array(lower), np.array(upper), joint, cost, y

    @cached_property
    def _cones(self) -> tuple[Any, Any, Any, list[Any]]:
        """m and s of each row as matrices; the constraints that all books share, and their kinds."""
        import scipy.sparse as sp

        clarabel: Any = importlib.import_module("clarabel")
        m, mass = self._spread[self.yes], self._spread[self.yes] + self._spread[self.no]
        n, rows = m.shape[1], m.shape[0]
        t, none = sp.identity(rows), sp.csr_matrix((rows, rows))
        # m^2 <= t s is (t + s, t - s, 2 m) in the second-order cone
        parts = sp.hstack([-mass, -t]), sp.hstack([mass, -t]), sp.hstack([-2 * m, none])
        order = np.arange(3 * rows).reshape(3, rows).T.ravel()
        cones = sp.vstack(parts).tocsr()[order]
        positive = sp.hstack([-sp.identity(n), sp.csr_matrix((n, rows))])
        kinds = [clarabel.NonnegativeConeT(n)] + [clarabel.SecondOrderConeT(3)] * rows
        return m, mass, sp.vstack([positive, cones]), kinds

    @cached_property
    def _equations(self) -> Sparse:
        """What clusters must satisfy, if there are no hard beliefs."""
        lay = self.structure.layout
        zeros = Numbers(*(np.zeros((1, n)) for n in (len(lay.own), len(lay.kind), len(lay.row))))
        return sparse(Program(self.structure, zeros))

    def _conic(self, program: Program, p: Floats, beta: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """mu, d of the separators, the multipliers of hard entries, and q of each row, from Clarabel."""
        import scipy.sparse as sp

        clarabel: Any = importlib.import_module("clarabel")
        m, mass, cones, kinds = self._cones
        shared = sparse(program) if program.structure.hard else self._equations
        n, rows, equal = m.shape[1], m.shape[0], len(shared.b)
        left = sp.vstack([sp.hstack([shared.A, sp.csr_matrix((equal, rows))]), cones]).tocsc()
        b = np.concatenate([shared.b, np.zeros(n + 3 * rows)])
        linear = np.concatenate([mass.T @ (beta * p**2) - 2 * (m.T @ (beta * p)), beta])
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.max_iter, settings.max_threads = False, 200, 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
        size = n + rows
        solver = clarabel.DefaultSolver(
            sp.csc_matrix((size, size)), linear, left, b, [clarabel.ZeroConeT(equal), *kinds], settings
        )
        solution = solver.solve()
        x, z = np.array(solution.x), np.array(solution.z)
        cone = z[equal + n :].reshape(rows, 3)
        weight = cone[:, 0] + cone[:, 1]
        q = np.where(weight > 0, -cone[:, 2] / np.where(weight > 0, weight, 1.0), p)
        unknowns = int(program.structure.layout.unknown_at[-1])
        y = np.zeros(len(program.structure.layout.row))
        y[program.structure.kind == HARD] = -z[unknowns:equal]
        return np.maximum(x[:n], 0.0), -z[:unknowns], y, np.clip(q, 0.0, 1.0)
