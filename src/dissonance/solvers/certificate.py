"""Proofs: bounds on the inconsistency from any primal and dual guess, independent of the solver that guessed.

lower   For any conditionals q and multipliers lambda of the hard arcs, with
            g(x) = sum_a [ W_a log q_a(t|s) + c_a ](x) - (A_hard' lambda)(x)
        every feasible mu costs at least min_x g(x) (gamma = 0), or -gamma log sum_x exp(-g(x)/gamma).
        Both are one pass over the tree.
upper   The incompatibility of a mu whose clusters agree exactly: mu(rest | separator) is carried down the tree. Where
        there are hard arcs, mu is first moved onto them: a mu that breaks them by 1e-10 can cost less than any that
        does not, and proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from dissonance.problem import Array
from dissonance.solvers.base import FEASIBLE
from dissonance.solvers.newton import Iterate
from dissonance.solvers.program import Program

EPS = float(np.finfo(np.float64).eps)

RIDGE = 1e-12
"""Added to a balanced matrix whose rows are redundant where hard arcs overlap."""

ROUNDS = 12
"""How often mu is moved onto the hard arcs at most; a cell that must nearly vanish shrinks by ten a round."""


@dataclass(frozen=True)
class Bounds:
    """lower <= inconsistency <= upper, with the consistent cluster marginals that prove the upper one.

    `residual`: how far hard arcs are from holding exactly; the upper bound includes its first-order price.
    """

    lower: float
    upper: float
    mu: Array
    residual: float

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower


def certify(program: Program, found: Iterate) -> Bounds:
    """Bounds from approximate cluster marginals, conditionals and multipliers."""
    log_q, u = program.log_softmax(found.l), found.u
    consistent = satisfy(program, agree(program, found.mu))
    upper = program.objective(consistent)
    A, u_hard = program.A[program.first_hard :], u[program.first_hard :]
    violation = np.abs(A @ consistent)
    price = float(np.abs(u_hard) @ violation)
    low = lower(program, log_q, u)
    rounding = 32 * EPS * (1.0 + float(np.abs(program.c) @ consistent) + float(program.W @ (program.T @ consistent)))
    return Bounds(low - rounding, upper + price + rounding, consistent, float(violation.max(initial=0.0)))


def lower(program: Program, log_q: Array, u: Array) -> float:
    """A lower bound from any conditionals and any multipliers of the hard arcs."""
    k, h = program.structural, program.first_hard
    terms, hard = program.W[:k] * log_q[:k], program.A[h:]
    cost = program.c + program.T[:k].T @ terms - hard.T @ u[h:]
    size = np.abs(program.c) + program.T[:k].T @ np.abs(terms) + abs(hard).T @ np.abs(u[h:])
    return aggregate(program, cost - 8 * EPS * size, program.gamma)


def contradiction(program: Program, u: Array) -> bool:
    """Whether these multipliers prove the hard arcs unsatisfiable: -(A_hard' u) > 0 at every joint state (Farkas)."""
    h = program.first_hard
    size = float(np.abs(u[h:]).max(initial=0.0))
    if not np.isfinite(size) or size == 0:
        return False
    return aggregate(program, -(program.A[h:].T @ (u[h:] / size)), 0.0) > FEASIBLE


def aggregate(program: Program, cost: Array, gamma: float) -> float:
    """min over joint states of the summed cluster costs, or their soft minimum -gamma log sum exp(-./gamma)."""
    tree, at = program.tree, program.offsets
    cost = cost.copy()
    total = 0.0
    for i in reversed(range(len(tree.clusters))):
        own = cost[at[i] : at[i + 1]]
        if tree.parent[i] < 0:
            total += _least(own, gamma)
            continue
        below, above = program.up[i], program.down[i]
        p = tree.parent[i]
        count = int(max(below.max(), above.max())) + 1
        message = np.full(count, np.inf)
        np.minimum.at(message, below, own)
        if gamma > 0:
            shift = np.where(np.isfinite(message), message, 0.0)
            mass = np.bincount(below, np.exp((shift[below] - own) / gamma), count)
            message = np.where(mass > 0, shift - gamma * np.log(np.where(mass > 0, mass, 1.0)), np.inf)
        cost[at[p] : at[p + 1]] += message[above]
    return total


def _least(cost: Array, gamma: float) -> float:
    least = float(cost.min())
    return least if gamma == 0 else least - gamma * float(np.log(np.exp((least - cost) / gamma).sum()))


def satisfy(program: Program, mu: Array) -> Array:
    """The cluster marginals moved onto the hard arcs: mu + D A'y with A D A'y = b - A mu and D = diag mu.

    Every cell moves in proportion to its mass, so that small ones keep their sign; a few rounds leave only rounding.
    """
    A, b = program.A, program.b
    for _ in range(ROUNDS if program.hard else 0):
        off = b - A @ mu
        if np.abs(off).max() <= EPS:
            break
        move = mu * (A.T @ _balanced_solve((A @ sp.diags(mu) @ A.T).tocsc(), off))
        shrinking = move < 0
        far = float((mu[shrinking] / -move[shrinking]).min(initial=np.inf))
        moved = agree(program, mu + min(1.0, 0.9 * far) * move)
        if not np.abs(b - A @ moved).max() < np.abs(off).max():
            break
        mu = moved
    return mu


def _balanced_solve(K: sp.csc_matrix, rhs: Array) -> Array:
    """K y = rhs for a positive semidefinite K with redundant rows: balanced, a little ridge, refined."""
    scale = 1 / np.sqrt(np.maximum(K.diagonal(), 1e-200))
    K = (sp.diags(scale) @ K @ sp.diags(scale)).tocsc()
    lu = splu((K + RIDGE * sp.identity(len(rhs))).tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
    rhs = scale * rhs
    y = lu.solve(rhs)
    for _ in range(2):
        y = y + lu.solve(rhs - K @ y)
    return scale * y


def agree(program: Program, mu: Array) -> Array:
    """Cluster marginals that agree exactly: each cluster's mu(rest | separator) times its parent's separator mass."""
    tree, at = program.tree, program.offsets
    mu = np.maximum(mu, 0.0)
    for i in range(len(tree.clusters)):
        own = mu[at[i] : at[i + 1]]
        p = tree.parent[i]
        if p < 0:
            total = own.sum()
            own[:] = own / total if total > 0 else 1 / len(own)
            continue
        below, above = program.up[i], program.down[i]
        count = int(max(below.max(), above.max())) + 1
        wanted = np.bincount(above, mu[at[p] : at[p + 1]], count)
        found = np.bincount(below, own, count)
        empty = (found <= 0) & (wanted > 0)
        if empty.any():
            own[empty[below]] = 1.0
            found = np.bincount(below, own, count)
        own *= (wanted / np.where(found > 0, found, 1.0))[below]
    return mu
