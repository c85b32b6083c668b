"""A program handed to Clarabel: an exponential cone for every entropy term, -log p in the linear cost.

    m log(m/s) <= t   is   (-t, m, s) in K_exp = closure of {(x, y, z): y exp(x/y) <= z, y > 0}

The dual of the cone's third entry is W m/s: the conditionals that certify.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from dissonance.errors import DissonanceError
from dissonance.solvers.newton import Iterate
from dissonance.solvers.program import Program


def conic(program: Program, tol: float) -> Iterate:
    """Clarabel's last iterate, with l = log q; its own report on how good it is is not used."""
    try:
        clarabel: Any = importlib.import_module("clarabel")
    except ImportError:
        raise DissonanceError('the conic solver needs Clarabel: pip install "clarabel>=0.9".') from None
    k, n, e = len(program.W), len(program.c), len(program.b)
    rows = len(program.row_starts)
    to_row = sp.csr_matrix((np.ones(k), (program.row, np.arange(k))), shape=(rows, k)) @ program.T
    pick = sp.csr_matrix((np.ones(k), (np.arange(k), program.row)), shape=(k, rows))
    # the unknowns: mu, a bound t on every term, the mass s of every row
    cones = _interleave(
        sp.hstack([sp.csr_matrix((k, n)), sp.identity(k), sp.csr_matrix((k, rows))]),
        sp.hstack([-program.T, sp.csr_matrix((k, k + rows))]),
        sp.hstack([sp.csr_matrix((k, n + k)), -pick]),
    )
    A = sp.vstack(
        [
            sp.hstack([program.A, sp.csr_matrix((e, k + rows))]),
            sp.hstack([to_row, sp.csr_matrix((rows, k)), -sp.identity(rows)]),
            sp.hstack([-sp.identity(n), sp.csr_matrix((n, k + rows))]),
            cones,
        ]
    ).tocsc()
    b = np.concatenate([program.b, np.zeros(rows + n + 3 * k)])
    kinds = [clarabel.ZeroConeT(e + rows), clarabel.NonnegativeConeT(n)] + [clarabel.ExponentialConeT()] * k
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    settings.max_iter = 200
    settings.max_threads = 1
    cost = np.concatenate([program.c, program.W, np.zeros(rows)])
    size = len(cost)
    solution = clarabel.DefaultSolver(sp.csc_matrix((size, size)), cost, A, b, kinds, settings).solve()
    x, dual = np.array(solution.x), np.array(solution.z)
    z, cone = dual[e + rows : e + rows + n], dual[e + rows + n :].reshape(k, 3)
    l = program.log_softmax(np.log(np.maximum(cone[:, 2], 1e-300)))  # noqa: E741
    return Iterate(x[:n], z, l, -dual[:e], int(solution.iterations))


def _interleave(*blocks: Any) -> Any:
    """Row i of the first, row i of the second, ..., row i + 1 of the first, ..."""
    count = blocks[0].shape[0]
    order = np.arange(len(blocks) * count).reshape(len(blocks), count).T.reshape(-1)
    return sp.vstack(blocks).tocsr()[order]
