"""One Newton system, eliminated along the tree.

The system is a quadratic programme in mu:

    G mu = g - lift(0, d, lam),     E mu = e,     A mu = a

(E: neighbours agree on their separator, at a root the mass; A: hard arcs; `lift` is their transpose, see `batch.py`.)
G lives on pairs of cells of one cluster. A cluster whose children are gone is a quadratic V(m) = m'Q m/2 - h'm of its
separator's marginal m, which is all its parent needs to know: fronts have the size of one cluster, however many
children it has. In a deep tree the clusters far from the leaves are not eliminated one after another: eliminating their
mu all at once leaves a sparse system in their d.

The system's own residual is solved for once more: near the end G is nearly singular, and d would lose half its digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import splu
from torch import Tensor

from dissonance.problem import Array
from dissonance.solvers.batch import Batch, padded
from dissonance.solvers.structure import Front, Structure

RIDGE = 1e-13

DENSE_ALONE, DENSE_TOGETHER = 64, 256
"""Unknowns up to which a spine's system is dense: for one problem, and for a batch."""


@dataclass(frozen=True)
class Step:
    """A solution of the system: mu (P, cells), d (P, unknowns), lam (P, hard)."""

    mu: Tensor
    d: Tensor
    lam: Tensor

    def __add__(self, other: Step) -> Step:
        """Both solutions together."""
        return Step(self.mu + other.mu, self.d + other.d, self.lam + other.lam)


@dataclass(frozen=True)
class _Factor:
    """An eliminated front, (P, count, ., .): mu = G^-1 (g + X d) under A mu = a.

    `Y` is G^-1 X projected onto A mu = 0; `YA` is G^-1 A'; `LS` a factor of A G^-1 A'. Without hard arcs `F` is the
    inverse of G itself (the matrices are small and many, and refinement takes care of its rounding), else its factor.
    """

    front: Front
    F: Tensor
    X: Tensor
    Y: Tensor
    A: Tensor | None
    YA: Tensor
    LS: Tensor

    @cached_property
    def K(self) -> Tensor:  # noqa: N802 - a matrix
        """X'Y, (P, count, k, k)."""
        return self.X.mT @ self.Y

    def start(self, g: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        """mu and lam at d = 0, (P, count, ., 1)."""
        f = self.front
        here = f.gather(g)[..., None]
        if self.A is None:
            y = self.F @ here
            return y, y
        y = torch.cholesky_solve(here, self.F)
        lam = torch.cholesky_solve(padded(a)[:, f.hard][..., None] - self.A @ y, self.LS)
        return y + self.YA @ lam, lam

    def finish(self, y: Tensor, lam: Tensor, d: Tensor, into: Step) -> None:
        """Write mu and lam at this d (P, count, k) into a step whose lam is padded."""
        f, d = self.front, d[..., None]
        f.scatter((y + self.Y @ d)[..., 0], into.mu)
        if self.A is not None:
            lam = lam - torch.cholesky_solve(self.YA.mT @ (self.X @ d), self.LS)
            into.lam[:, f.hard] = lam[..., 0]


class Elimination:
    """The factors of one system, G (P, pairs of cells inside fronts)."""

    def __init__(self, batch: Batch, G: Tensor) -> None:
        self.batch, self.G = batch, G
        s = batch.structure
        self.alive = None if batch.alive is None else batch.alive.to(G.dtype)
        self.factors: list[_Factor] = []
        self.Q: list[Tensor] = []
        total = G.clone() if len(s.fronts) + len(s.spine) > 1 else G
        for f in s.fronts:
            self.factors.append(_eliminate(batch, f, total, self.alive))
            self.Q.append(_inverse(self.factors[-1].K, RIDGE if f.hard.numel() else 0.0))
            if len(f.up_pair):
                total.index_add_(1, f.up_pair, self.Q[-1].flatten(1).index_select(1, f.up_from_pair))
        self.spine = _Spine(s, [_eliminate(batch, f, total, self.alive) for f in s.spine]) if s.spine else None

    def solve(self, g: Tensor, refinements: int, mass: float = 1.0) -> Step:
        """mu, d and lam for any g (P, cells), roots of this mass, hard arcs that hold.

        The residual is solved for as often as asked.
        """
        e = (mass * self.batch.structure.roots).expand(len(g), -1)
        step = self._solve(g, e, torch.zeros_like(self.batch.p))
        for _ in range(refinements):
            left = g - self._product(step.mu) - self.batch.lift(torch.zeros_like(self.batch.W), step.d, step.lam)
            step = step + self._solve(left, *self.batch.misfit(step.mu, mass)[1:])
        return step

    def _product(self, mu: Tensor) -> Tensor:
        """G mu."""
        s, P = self.batch.structure, len(mu)
        found = torch.empty_like(mu)
        for f in (*s.fronts, *s.spine):
            G = self.G[:, f.pairs].view(P, f.count, f.n, f.n)
            f.scatter((G @ f.gather(mu)[..., None])[..., 0], found)
        return found

    def _solve(self, g: Tensor, e: Tensor, a: Tensor) -> Step:
        """Up the tree, then down."""
        s, P = self.batch.structure, len(g)
        if self.alive is not None:
            g = g * self.alive
            lives = torch.zeros_like(e).index_add_(1, s.own, self.alive)
            e = torch.where(lives > 0, e, 0.0)
        elif len(s.fronts) > 1:
            g = g.clone()
        local: list[tuple[Tensor, Tensor]] = []
        short: list[Tensor] = []
        for f, x, Q in zip(s.fronts, self.factors, self.Q, strict=True):
            local.append(x.start(g, a))
            short.append(e[:, f.unknowns][..., None] - x.X.mT @ local[-1][0])
            if len(f.up_cell):
                message = (Q @ short[-1]).flatten(1)
                g.index_add_(1, f.up_cell, message.index_select(1, f.up_from), alpha=-1)
                if self.alive is not None:
                    g = g * self.alive
        step = Step(torch.zeros_like(g), torch.zeros_like(e), padded(torch.zeros_like(a)))
        if self.spine is not None:
            self.spine.solve(g, e, a, step)
        for f, x, Q, (y, lam), miss in reversed(list(zip(s.fronts, self.factors, self.Q, local, short, strict=True))):
            if len(f.up_cell):
                above = miss.new_zeros(P, miss.shape[1] * miss.shape[2])
                above.index_add_(1, f.up_from, step.mu.index_select(1, f.up_cell))
                miss = miss + above.view(miss.shape)
            d = (Q @ miss)[..., 0]
            x.finish(y, lam, d, step)
            step.d[:, f.unknowns] = d
        return Step(step.mu, step.d, step.lam[:, :-1])


def _eliminate(batch: Batch, f: Front, total: Tensor, alive: Tensor | None) -> _Factor:
    P = len(total)
    G, X = total[:, f.pairs].view(P, f.count, f.n, f.n), f.X
    A = (f.A - f.S * padded(batch.p)[:, f.hard][:, :, None]).mT if f.hard.numel() else None
    if alive is not None:
        live = f.gather(alive)
        G = G * live[..., None] * live[..., None, :] + torch.diag_embed(1 - live)
        X = X * live[..., None]
        A = None if A is None else A * live[..., None, :]
    X = X.expand(P, *X.shape[-3:])
    L = _cholesky(G)
    if A is None:
        inverse = torch.cholesky_inverse(L)
        Y = inverse @ X
        return _Factor(f, inverse, X, Y, None, Y, Y)
    Y, YA = torch.cholesky_solve(torch.cat([X, A.mT], -1), L).split([X.shape[-1], A.shape[-2]], -1)
    S = A @ YA
    LS = _cholesky(S + _gauge(f.same, S))
    return _Factor(f, L, X, Y - YA @ torch.cholesky_solve(A @ Y, LS), A, YA, LS)


class _Spine:
    """K d = e - sum X'y over fronts that are not eliminated one after another, K = sum X'Y: dense or sparse."""

    def __init__(self, s: Structure, factors: list[_Factor]) -> None:
        self.structure, self.factors = s, factors
        values = torch.cat([x.K.flatten(1) for x in factors], 1)
        P, size = len(values), len(s.spine_unknowns)
        self.inverse: Tensor | None = None
        self.lu: list[Callable[[Array], Array]] = []
        if size <= (DENSE_ALONE if P == 1 else DENSE_TOGETHER):
            K = values.new_zeros(P, size * size).index_add_(1, s.spine_square, values)
            self.inverse = _inverse(K.view(P, size, size), 1e-15)
            return
        K = values.new_zeros(P, len(s.spine_rows)).index_add_(1, s.spine_entry, values)
        diagonal = K[:, s.spine_diagonal]
        K[:, s.spine_diagonal] += torch.where(diagonal > 0, 1e-15 * diagonal, 1.0)
        rows, starts = s.spine_rows.cpu().numpy(), s.spine_starts.cpu().numpy()
        for x in K.cpu().numpy():
            self.lu.append(_factored(sp.csc_matrix((x, rows, starts), shape=(size, size))))

    def solve(self, g: Tensor, e: Tensor, a: Tensor, into: Step) -> None:
        """Write mu, d and lam of the spine into a step."""
        rhs = e[:, self.structure.spine_unknowns]
        local = [x.start(g, a) for x in self.factors]
        for x, (y, _) in zip(self.factors, local, strict=True):
            rhs.index_add_(1, x.front.unknowns.reshape(-1), (x.X.mT @ y).flatten(1), alpha=-1)
        if self.inverse is not None:
            d = (self.inverse @ rhs[..., None])[..., 0]
        else:
            found = np.stack([lu(x) for lu, x in zip(self.lu, rhs.cpu().numpy(), strict=True)])
            d = torch.from_numpy(found).to(rhs)
        for x, (y, lam) in zip(self.factors, local, strict=True):
            x.finish(y, lam, d[:, x.front.unknowns], into)
        into.d[:, self.structure.spine_unknowns] = d


def _factored(K: sp.csc_matrix) -> Callable[[Array], Array]:
    """What solves for K, eliminating in its order; nothing (NaN) where rounding has made it singular."""
    try:
        return splu(K, permc_spec="NATURAL", diag_pivot_thresh=0.0, options={"SymmetricMode": True}).solve
    except RuntimeError:
        return lambda x: np.full_like(x, np.nan)


def _cholesky(G: Tensor) -> Tensor:
    """A Cholesky factor; where rounding has made G indefinite, of a G with the lightest extra diagonal that has one."""
    L, bad = torch.linalg.cholesky_ex(G)
    if not bad.any():
        return L
    diagonal = G.diagonal(dim1=-2, dim2=-1)
    ridge = 1e-15
    while bad.any() and ridge < 1:
        again, still = torch.linalg.cholesky_ex(G + torch.diag_embed(ridge * diagonal))
        L = torch.where((bad > 0)[..., None, None], again, L)
        bad = torch.where(bad > 0, still, bad)
        ridge *= 100
    return L


def _inverse(M: Tensor, ridge: float) -> Tensor:
    """The inverse of a symmetric positive matrix whose empty rows (dead separator states) count as 1."""
    M = 0.5 * (M + M.mT)
    diagonal = M.diagonal(dim1=-2, dim2=-1)
    diagonal += torch.where(diagonal > 0, ridge * diagonal, 1.0)
    return torch.cholesky_inverse(_cholesky(M))


def _gauge(same: Tensor, S: Tensor) -> Tensor:
    """What to add to S = A G^-1 A' to make it regular, on the scale of each row.

    The equations of a row of a hard arc add up to nothing: 1 1' fixes the multiplier that is free. Dead ones get a 1,
    and a ridge keeps the multipliers of arcs that repeat each other from running off.
    """
    diagonal = S.diagonal(dim1=-2, dim2=-1)
    size = ((same @ diagonal[..., None])[..., 0] / same.sum(-1).clamp(min=1.0)).sqrt()
    return same * size[..., None] * size[..., None, :] + torch.diag_embed(
        torch.where(diagonal > 0, RIDGE * diagonal, 1.0)
    )
