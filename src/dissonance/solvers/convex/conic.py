"""A program handed to Clarabel: an exponential cone for every entropy term, -log p in the linear cost.

    m log(m/s) <= t   is   (-t, m, s) in K_exp = closure of {(x, y, z): y exp(x/y) <= z, y > 0}

The dual of the cone's third entry is W m/s: the conditionals that certify.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dissonance.errors import DissonanceError
from dissonance.solvers.convex.layout import HARD, Ints
from dissonance.solvers.convex.program import Floats, Program
from dissonance.solvers.convex.solve import Outcome, prove


class Sparse(NamedTuple):
    """One problem as sparse matrices: m = T mu, s = R m (by row), A mu = b; `soft`: the entries of T, `row`: theirs;
    `every`: mu(s,t) of all entries."""

    c: Floats
    T: Any
    R: Any
    A: Any
    b: Floats
    W: Floats
    soft: Ints
    row: Ints
    every: Any


def sparse(program: Program) -> Sparse:
    """The first problem of a program; the rows of A are those of the separators, then those of the hard entries."""
    import scipy.sparse as sp

    s, lay, kind = program.structure, program.structure.layout, program.structure.kind
    n, entries, unknowns = len(lay.own), len(lay.row), int(lay.unknown_at[-1])
    every = sp.csr_matrix((np.ones(len(lay.entry)), (lay.entry, s.cell_of)), shape=(entries, n))
    weight = program.numbers.W[0][s.term]
    soft, hard = np.flatnonzero((kind != HARD) & (weight > 0)), np.flatnonzero(kind == HARD)
    rows = len(lay.entry_at) - 1
    by_row = sp.csr_matrix((np.ones(entries), (lay.row, np.arange(entries))), shape=(rows, entries))
    own = sp.csr_matrix((np.ones(n), (lay.own, np.arange(n))), shape=(unknowns, n))
    separators = own - sp.csr_matrix((np.ones(len(lay.above)), (lay.above, s.cell_above)), shape=(unknowns, n))
    p = sp.diags(program.numbers.p[0])
    held = (every - p @ (by_row.T @ (by_row @ every)))[hard]
    b = np.zeros(unknowns + len(hard))
    b[s.roots] = 1.0
    used, row = np.unique(lay.row[soft], return_inverse=True)
    R, A = by_row[used][:, soft], sp.vstack([separators, held])
    return Sparse(program.numbers.c[0], every[soft], R, A, b, weight[soft], soft, row, every)


class Iterate(NamedTuple):
    """Where Clarabel stopped: the point (1, point), its steps, and the multipliers of what was to be >= 0."""

    at: Floats
    steps: int
    multipliers: Floats


def conic(program: Program, tol: float, among: Sparse | None = None, inside: Any = None) -> Iterate:
    """Clarabel's last iterate for one problem; its own report is not used.

    `among`: its matrices, if they are known; `inside`: a matrix G, for the minimum where G mu >= 0.
    """
    try:
        clarabel: Any = importlib.import_module("clarabel")
    except ImportError:
        raise DissonanceError('the conic solver needs Clarabel: pip install "clarabel>=0.9".') from None
    import scipy.sparse as sp

    s = among or sparse(program)
    G: Any = sp.csr_matrix((0, len(s.c))) if inside is None else inside
    k, n, e, rows, g = len(s.W), len(s.c), len(s.b), s.R.shape[0], G.shape[0]
    pick = sp.csr_matrix((np.ones(k), (np.arange(k), s.row)), shape=(k, rows))
    # the unknowns: mu, a bound t on every term, the mass s of every row
    cones = sp.bmat([[None, sp.identity(k), None], [-s.T, None, None], [None, None, -pick]]).tocsr()
    equations = sp.bmat([[s.A, None, None], [s.R @ s.T, sp.csr_matrix((rows, k)), -sp.identity(rows)]])
    positive = sp.hstack([-sp.vstack([sp.identity(n), G]), sp.csr_matrix((n + g, k + rows))])
    order = np.arange(3 * k).reshape(3, k).T.ravel()  # the three rows of a cone stand together
    A = sp.vstack([equations, positive, cones[order]]).tocsc()
    b = np.concatenate([s.b, np.zeros(rows + n + g + 3 * k)])
    kinds = [clarabel.ZeroConeT(e + rows), clarabel.NonnegativeConeT(n + g)] + [clarabel.ExponentialConeT()] * k
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    settings.max_iter = 200
    settings.max_threads = 1
    cost = np.concatenate([program.numbers.c[0], s.W, np.zeros(rows)])
    size = len(cost)
    solution = clarabel.DefaultSolver(sp.csc_matrix((size, size)), cost, A, b, kinds, settings).solve()
    x, dual = np.array(solution.x), np.array(solution.z)
    z, nu, cone = np.split(dual[e + rows :], [n, n + g])
    y = np.zeros(len(program.structure.layout.row))
    y[s.soft] = np.log(np.maximum(cone.reshape(k, 3)[:, 2], 1e-300))
    unknowns = int(program.structure.layout.unknown_at[-1])
    y[program.structure.kind == HARD] = -dual[unknowns:e]
    return Iterate(np.concatenate([x[:n], z, y, -dual[:unknowns]])[None], int(solution.iterations), nu)


def by_clarabel(program: Program, tol: float) -> Iterator[Outcome]:
    """Outcomes of one problem, each better than the one before as a rule: where Clarabel stops, and what Newton makes
    of that."""
    at, taken, _ = conic(program, 1e-2 * tol)
    found = prove(program, at)
    found.steps += taken
    yield found
    yield prove(program, at, 1e-4 * tol)
