"""Whether any mu satisfies the hard arcs and the zeros, as one linear program over the dense joint."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from dissonance.focus import Attention
from dissonance.pdg import PDG
from reference.dense import summing, table_of


def least_violation(pdg: PDG, attention: Attention) -> float:
    """The smallest t with |mu(s,t) - p(t|s) mu(s)| <= t for some mu on the supported states; inf if none is left."""
    states = math.prod(v.size for v in pdg.variables)
    possible = np.ones(states, dtype=bool)
    equations = []
    for arc in pdg.arcs:
        beta = attention.beta.get(arc.name, 0.0)
        if beta <= 0:
            continue
        p = table_of(arc)
        joint = summing(pdg, arc)
        possible &= joint.T @ (p.reshape(-1) == 0).astype(float) == 0
        if beta == math.inf:
            row = sp.kron(sp.identity(len(p)), np.ones((p.shape[1], 1))).tocsr()
            equations.append(joint - sp.diags(p.reshape(-1)) @ (row @ (row.T @ joint)))
    if not possible.any():
        return math.inf
    if not equations:
        return 0.0
    A = sp.vstack(equations).tocsc()[:, np.flatnonzero(possible)]
    n = A.shape[1]
    slack = -np.ones((A.shape[0], 1))
    found = linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=sp.vstack([sp.hstack([A, slack]), sp.hstack([-A, slack])]),
        b_ub=np.zeros(2 * A.shape[0]),
        A_eq=np.append(np.ones(n), 0.0)[None, :],
        b_eq=[1.0],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert found.status == 0, found.message
    return float(found.fun)
