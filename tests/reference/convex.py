"""The inconsistency as one exponential-cone program over the dense joint, by cvxpy and Clarabel."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dissonance.focus import Attention
from dissonance.pdg import PDG
from reference.dense import incompatibility, summing, table_of


@dataclass(frozen=True)
class Reference:
    """The optimal value by cvxpy, its minimiser, the tolerance it was found with (inf: none), the largest beta."""

    value: float
    mu: np.ndarray | None
    tol: float
    weight: float

    @property
    def accurate(self) -> bool:
        """Whether the solver was content at any tolerance."""
        return self.tol < math.inf

    @property
    def slop(self) -> float:
        """How far the value may be off: each state's mass may be, by the tolerance, at a price of about -log of it."""
        states = 1 if self.mu is None else self.mu.size
        return -math.log(self.tol) * states * self.tol * max(1.0, abs(self.value), self.weight)


def solve(pdg: PDG, attention: Attention) -> Reference:
    """Minimise OInc + gamma SDef for beta >= gamma alpha arc by arc (beta may be inf, p may be 0)."""
    shape = tuple(v.size for v in pdg.variables)
    mu = cp.Variable(math.prod(shape), nonneg=True)
    constraints = [cp.sum(mu) == 1]
    objective: cp.Expression | float = -attention.gamma * cp.sum(cp.entr(mu)) if attention.gamma else 0.0
    for arc in pdg.arcs:
        beta = attention.beta.get(arc.name, 0.0)
        alpha = attention.gamma * attention.alpha.get(arc.name, 0.0)
        if beta == 0 and alpha == 0:
            continue
        p = table_of(arc)
        joint = summing(pdg, arc)
        row = sp.kron(sp.identity(len(p)), np.ones((p.shape[1], 1))).tocsr()  # spreads a row over its cells
        mass = row @ (row.T @ joint)
        m, s, p = joint @ mu, mass @ mu, p.reshape(-1)
        if beta > 0 and (p == 0).any():
            constraints.append(m[np.flatnonzero(p == 0)] == 0)
        keep = np.flatnonzero(p > 0) if beta > 0 else np.arange(len(p))
        minus_log = -np.log(np.where(p > 0, p, 1.0))
        if beta == math.inf:
            constraints.append(m == cp.multiply(p, s))
            objective = objective + alpha * (minus_log @ m)
            continue
        if beta < alpha - 1e-12:
            raise ValueError(f"{arc} is not convex")
        objective = objective + beta * (minus_log[keep] @ m[keep])
        if beta > alpha:
            objective = objective + (beta - alpha) * cp.sum(cp.rel_entr(m[keep], s[keep]))
    weight = max((b for b in attention.beta.values() if b < math.inf), default=0.0)
    return _solved(cp.Problem(cp.Minimize(objective), constraints), mu, shape, weight)


def _solved(problem: cp.Problem, mu: cp.Variable, shape: tuple[int, ...], weight: float) -> Reference:
    """The sharpest tolerance at which Clarabel itself is content."""
    for tol in (1e-10, 1e-9, 1e-8, 1e-7):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "solution may be inaccurate" is reported in the result instead
            try:
                problem.solve(
                    solver=cp.CLARABEL,
                    tol_gap_abs=tol,
                    tol_gap_rel=tol,
                    tol_feas=tol,
                    max_iter=300,
                    canon_backend="SCIPY",
                )
            except cp.SolverError:
                continue
        if problem.status == cp.INFEASIBLE:
            return Reference(math.inf, None, tol, weight)
        if problem.status == cp.OPTIMAL:
            table = np.maximum(mu.value, 0.0)
            return Reference(float(problem.value), (table / table.sum()).reshape(shape), tol, weight)
    return Reference(math.nan, None, math.inf, weight)


def attained(pdg: PDG, attention: Attention, reference: Reference) -> float:
    """The incompatibility of the reference's own minimiser, by the plain scorer: an upper bound if nothing is hard."""
    assert reference.mu is not None
    return incompatibility(pdg, attention, reference.mu, slack=1e-7)
