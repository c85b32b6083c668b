"""The incompatibility of a dense joint, in plain numpy: eqs. 1 and 2 written out once more."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from dissonance.arc import Arc
from dissonance.focus import Attention
from dissonance.pdg import PDG


def table_of(arc: Arc) -> np.ndarray:
    """p(T|S) as (source settings, target settings)."""
    rows = math.prod(v.size for v in arc.sources)
    return arc.cpd.table().detach().numpy().reshape(rows, -1)


def rows_of(pdg: PDG, mu: np.ndarray, arc: Arc) -> np.ndarray:
    """mu(S, T) as (source settings, target settings), summed out cell by cell."""
    axis = {v.name: i for i, v in enumerate(pdg.variables)}
    order = [axis[v.name] for v in arc.scope]
    rest = tuple(i for i in range(mu.ndim) if i not in order)
    kept = sorted(order)
    table = mu.sum(rest).transpose([kept.index(i) for i in order])
    return table.reshape(math.prod(v.size for v in arc.sources), -1)


def summing(pdg: PDG, arc: Arc) -> sp.csr_matrix:
    """The matrix that takes a flat joint to the flat mu(S, T)."""
    shape = [v.size for v in pdg.variables]
    grid = np.indices(shape).reshape(len(shape), -1)
    axis = {v.name: i for i, v in enumerate(pdg.variables)}
    flat = np.ravel_multi_index(tuple(grid[axis[v.name]] for v in arc.scope), tuple(v.size for v in arc.scope))
    n = math.prod(shape)
    return sp.csr_matrix((np.ones(n), (flat, np.arange(n))), shape=(math.prod(v.size for v in arc.scope), n))


def xlogx(x: float) -> float:
    """x log x with 0 log 0 = 0."""
    return 0.0 if x == 0 else x * math.log(x)


def entropy(table: np.ndarray) -> float:
    """H of a table of probabilities."""
    return -math.fsum(xlogx(float(x)) for x in table.reshape(-1))


def conditional_entropy(joint: np.ndarray) -> float:
    """H(T|S) = H(S,T) - H(S)."""
    return entropy(joint) - entropy(joint.sum(1))


def divergence(joint: np.ndarray, p: np.ndarray) -> float:
    """KL( mu(s,t) || p(t|s) mu(s) ), +inf where mu has mass and p has none."""
    parts = []
    for s, t in itertools.product(*map(range, joint.shape)):
        if joint[s, t] > 0:
            if p[s, t] == 0:
                return math.inf
            parts.append(joint[s, t] * math.log(joint[s, t] / (p[s, t] * joint[s].sum())))
    return math.fsum(parts)


def divergences(pdg: PDG, mu: np.ndarray) -> list[float]:
    """KL of every arc, in order."""
    return [divergence(rows_of(pdg, mu, a), table_of(a)) for a in pdg.arcs]


def conditional_entropies(pdg: PDG, mu: np.ndarray) -> list[float]:
    """H(T|S) of every arc, in order."""
    return [conditional_entropy(rows_of(pdg, mu, a)) for a in pdg.arcs]


def structural_deficiency(pdg: PDG, mu: np.ndarray, alpha: Sequence[float]) -> float:
    """-H(X) + sum_a alpha_a H(T|S)."""
    return -entropy(mu) + math.fsum(w * h for w, h in zip(alpha, conditional_entropies(pdg, mu), strict=True))


def incompatibility(pdg: PDG, attention: Attention, mu: np.ndarray, slack: float = 0.0) -> float:
    """OInc(mu) + gamma SDef(mu); hard arcs must hold to within `slack`, and then cost nothing."""
    total = 0.0
    for arc, kl in zip(pdg.arcs, divergences(pdg, mu), strict=True):
        beta = attention.beta.get(arc.name, 0.0)
        if beta == math.inf:
            joint = rows_of(pdg, mu, arc)
            if np.abs(joint - joint.sum(1, keepdims=True) * table_of(arc)).max() > slack:
                return math.inf
        elif beta:
            total += beta * kl
    alpha = [attention.alpha.get(a.name, 0.0) for a in pdg.arcs]
    return total + attention.gamma * structural_deficiency(pdg, mu, alpha)
