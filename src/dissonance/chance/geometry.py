"""What the conflict of samples is distributed as, when they are large and come from one population.

Near a population mu, the tables of the samples are p = mu(T|S) + e, and twice the inconsistency is

    min_u  (e - U u)' W (e - U u),      W = n mu(s) / mu(t|s) on the diagonal,

where the columns of U span the directions in which mu(T|S) of all the arcs can move together. e is normal with
covariance V, rows independent: (diag mu(t|s) - mu(t|s) mu(t|s)') / n(s). So it is a sum of squares of independent
standard normals, weighted with the eigenvalues of R V R', R = Q W^(1/2) and Q the projection that takes W^(1/2) U out.
Without sources W is the inverse of V, and all weights are 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dissonance.arc import Arc
from dissonance.distributions import Distribution
from dissonance.errors import SizeError
from dissonance.variables import Variable, cells, shape

Floats = npt.NDArray[np.float64]

MOST_ENTRIES = 3000
"""Entries of all tables together, whose covariance is a matrix."""

MOST_CELLS = 1 << 22
"""Cells of a marginal over the variables of two arcs."""

RANK = 1e-9
"""Eigenvalues below this part of the largest are 0."""


def chi_square_weights(
    mu: Distribution, samples: Sequence[Arc], facts: Sequence[Arc], counts: Sequence[Floats]
) -> Floats:
    """The weights of the chi-squares, the largest first; `counts` (sources, targets) of every sample.

    `facts` hold in every population: directions that would break them are none.
    """
    arcs = (*samples, *facts)
    joints = [mu.rows(a.sources, a.targets).detach().numpy() for a in arcs]
    if sum(j.size for j in joints) > MOST_ENTRIES:
        raise SizeError(f"the tables have more than {MOST_ENTRIES} entries together: ask for a bootstrap.")
    conditionals = [_conditional(j) for j in joints]
    centred = [_centred(j, q) for j, q in zip(joints, conditionals, strict=True)]
    G = np.block([[ca @ _pair(mu, a, b) @ cb.T for b, cb in zip(arcs, centred, strict=True)]  # noqa: N806
                  for a, ca in zip(arcs, centred, strict=True)])  # fmt: skip
    size = sum(j.size for j in joints[: len(samples)])
    U = G[:size] @ _kernel(G[size:]) if facts else G[:size]  # noqa: N806
    W, V = [], []  # noqa: N806
    for joint, q, n in zip(joints, conditionals, counts, strict=False):
        alive = joint > 0
        mass = joint.sum(1, keepdims=True)
        W.append(np.where(alive, n.sum() * mass / np.where(alive, q, 1.0), 0.0).ravel())
        block = np.zeros((q.size, q.size))
        for s, (row, total) in enumerate(zip(q, n.sum(1), strict=True)):
            at = slice(s * q.shape[1], (s + 1) * q.shape[1])
            if total > 0:
                block[at, at] = (np.diag(row) - np.outer(row, row)) / total
        V.append(block)
    root = np.sqrt(np.concatenate(W))
    basis = _range(root[:, None] * U)
    R = np.diag(root) - basis @ (basis.T * root)  # noqa: N806
    covariance = np.zeros((size, size))
    start = 0
    for block in V:
        end = start + len(block)
        covariance[start:end, start:end] = block
        start = end
    found = np.asarray(np.linalg.eigvalsh(R @ covariance @ R.T)[::-1], dtype=np.float64)
    return found[found > RANK * max(1.0, found[0])]


def _conditional(joint: Floats) -> Floats:
    mass = joint.sum(1, keepdims=True)
    return np.divide(joint, mass, out=np.zeros_like(joint), where=mass > 0)


def _centred(joint: Floats, q: Floats) -> Floats:
    """How mu(t|s) follows mu(s,t): d mu(t|s) = (d mu(s,t) - mu(t|s) d mu(s)) / mu(s), (entries, entries)."""
    rows, width = joint.shape
    found = np.zeros((joint.size, joint.size))
    for s in range(rows):
        mass = joint[s].sum()
        if mass > 0:
            at = slice(s * width, (s + 1) * width)
            found[at, at] = (np.eye(width) - q[s][:, None]) / mass
    return found


def _pair(mu: Distribution, a: Arc, b: Arc) -> Floats:
    """mu that both arcs are at given entries, (entries of a, entries of b)."""
    scope = [*a.scope, *(v for v in b.scope if v.name not in a.names)]
    if cells(scope) > MOST_CELLS:
        raise SizeError(f"{a} and {b} have more than {MOST_CELLS} settings together: ask for a bootstrap.")
    joint = mu.marginal(*(v.name for v in scope)).detach().numpy()
    found = np.zeros((cells(a.scope), cells(b.scope)))
    np.add.at(found, (_entries(scope, a), _entries(scope, b)), joint.ravel())
    return found


def _entries(scope: Sequence[Variable], arc: Arc) -> npt.NDArray[np.int64]:
    """The entry of the arc's table at every setting of the scope."""
    names = [v.name for v in scope]
    settings = np.unravel_index(np.arange(cells(scope)), shape(scope))
    return np.ravel_multi_index([settings[names.index(n)] for n in arc.names], shape(arc.scope))


def _kernel(A: Floats) -> Floats:  # noqa: N803
    """An orthonormal basis of what A takes to 0."""
    _, s, vt = np.linalg.svd(A)
    rank = int((s > RANK * max(s.max(initial=0.0), 1e-300)).sum())
    return vt[rank:].T


def _range(A: Floats) -> Floats:  # noqa: N803
    """An orthonormal basis of the range of A."""
    u, s, _ = np.linalg.svd(A, full_matrices=False)
    return u[:, s > RANK * max(s.max(initial=0.0), 1e-300)]
