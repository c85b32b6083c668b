"""One Newton system, eliminated along the tree.

The system is a quadratic programme in mu, G and g given by group:

    G mu = g + E d - sum_children E_c d_c + A' lam,     E'mu - (parents' marginal) = e,     A mu = a

(E: separator of a cluster, at a root its mass; A: hard arcs.) A cluster whose children are gone is a quadratic
V(m) = m'Q m/2 - h'm of its separator's marginal m, which is all its parent needs to know: fronts have the size of one
cluster, however many children it has. In a deep tree the clusters far from the leaves are not eliminated one after
another: eliminating their mu all at once leaves a sparse system in their d.

The system's own residual is solved for once more: near the end G is nearly singular, and d would lose half its digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import splu
from torch import Tensor

from dissonance.solvers.batch import Batch, Tables
from dissonance.solvers.structure import DEEP, Group, Spine

TINY = 1e-300
RIDGE = 1e-13


@dataclass(frozen=True)
class Step:
    """A solution of the system: mu by group, d by group, lam by group and hard arc."""

    mu: list[Tensor]
    d: list[Tensor]
    lam: Tables

    def __add__(self, other: Step) -> Step:
        """Both solutions together."""
        return Step(
            [a + b for a, b in zip(self.mu, other.mu, strict=True)],
            [a + b for a, b in zip(self.d, other.d, strict=True)],
            [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(self.lam, other.lam, strict=True)],
        )


@dataclass(frozen=True)
class _Front:
    """Eliminated clusters that look alike, (P, members, ., .): mu = G^-1 (g + X d) under A mu = a.

    `Y` is G^-1 X projected onto A mu = 0; `YA` is G^-1 A'; `LS` a factor of A G^-1 A'. Without hard arcs `F` is the
    inverse of G itself (the matrices are small and many, and refinement takes care of its rounding), else its factor.
    """

    group: int
    members: Tensor
    F: Tensor
    X: Tensor
    Y: Tensor
    A: Tensor | None
    YA: Tensor
    LS: Tensor

    def start(self, g: Sequence[Tensor], a: Tables) -> tuple[Tensor, Tensor]:
        """mu and lam at d = 0."""
        here = g[self.group][:, self.members][..., None]
        if self.A is None:
            y = self.F @ here
            return y, y
        y = torch.cholesky_solve(here, self.F)
        wanted = torch.cat([x[:, self.members].flatten(-2) for x in a[self.group]], -1)[..., None]
        lam = torch.cholesky_solve(wanted - self.A @ y, self.LS)
        return y + self.YA @ lam, lam

    def finish(self, y: Tensor, lam: Tensor, d: Tensor, step: Step) -> None:
        """Write mu and lam at this d into a step."""
        step.mu[self.group][:, self.members] = (y + self.Y @ d[..., None])[..., 0]
        if self.A is not None:
            lam = lam - torch.cholesky_solve(self.YA.mT @ (self.X @ d[..., None]), self.LS)
            into = step.lam[self.group]
            for x, part in zip(into, lam[..., 0].split([x[0, 0].numel() for x in into], -1), strict=True):
                x[:, self.members] = part.unflatten(-1, x.shape[-2:])


@dataclass
class _SpineSystem:
    """K d = e - sum X'y over the spine, K = sum X'Y: one sparse factorisation a problem."""

    spines: tuple[Spine, ...]
    fronts: list[_Front] = field(default_factory=list)
    factors: list[Any] = field(default_factory=list[Any])

    def factor(self) -> None:
        """Assemble and factor K from the fronts."""
        rows = np.concatenate([_pairs(x.unknowns)[0] for x in self.spines])
        columns = np.concatenate([_pairs(x.unknowns)[1] for x in self.spines])
        size = int(max(x.unknowns.max() for x in self.spines)) + 1
        values = torch.cat([(f.X.mT @ f.Y).flatten(1) for f in self.fronts], 1).cpu().numpy()
        for v in values:
            K = sp.csc_matrix((v, (rows, columns)), shape=(size, size))
            diagonal = K.diagonal()
            K = K + sp.diags(np.where(diagonal > 0, 1e-15 * diagonal, 1.0))
            options = {"SymmetricMode": True}
            self.factors.append(splu(K.tocsc(), permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options))

    def solve(self, local: list[tuple[Tensor, Tensor]], e: Sequence[Tensor]) -> list[Tensor]:
        """d of every front, (P, members, k)."""
        like = local[0][0]
        size = int(max(x.unknowns.max() for x in self.spines)) + 1
        rhs = like.new_zeros(len(like), size)
        for s, f, (y, _) in zip(self.spines, self.fronts, local, strict=True):
            own = e[s.group].shape[-1]
            rhs[:, s.unknowns[:, :own]] += e[s.group][:, s.members]
            rhs.index_add_(1, s.unknowns.reshape(-1), -(f.X.mT @ y)[..., 0].flatten(1))
        found = np.stack([lu.solve(x) for lu, x in zip(self.factors, rhs.cpu().numpy(), strict=True)])
        d = torch.from_numpy(found).to(like)
        return [d[:, s.unknowns] for s in self.spines]


class Elimination:
    """The factors of one system; `solve` finds mu, d and lam for any g."""

    def __init__(self, batch: Batch, G: Sequence[Tensor]) -> None:
        self.batch, self.G = batch, G
        s = batch.structure
        self.alive = None if batch.alive is None else [x.to(batch.c.dtype) for x in s.split(batch.alive)]
        self.raked = [b for b in s.blocks if not s.spines or b.height < DEEP]
        self.fronts: list[_Front] = []
        self.Q: list[Tensor] = []
        total = [x.clone() for x in G]
        for b in self.raked:
            front = self._eliminate(b.group, b.members, s.groups[b.group].separator.row_sums, total[b.group])
            Q = _inverse(front.X.mT @ front.Y, RIDGE if front.A is not None else 0.0)
            if b.parent_group >= 0:
                total[b.parent_group].index_add_(1, b.parents, Q[..., b.above, :][..., b.above])
            self.fronts.append(front)
            self.Q.append(Q)
        self.spine = _SpineSystem(s.spines)
        if s.spines:
            self.spine.fronts += [self._eliminate(x.group, x.members, x.X, total[x.group]) for x in s.spines]
            self.spine.factor()

    def _eliminate(self, group: int, members: Tensor, X: Tensor, total: Tensor) -> _Front:
        g, G = self.batch.structure.groups[group], total[:, members]
        A = _rows(g, [p[:, members] for p in self.batch.p[group]]) if g.hard else None
        if self.alive is not None:
            live = self.alive[group][:, members]
            G = G * live[..., None] * live[..., None, :] + torch.diag_embed(1 - live)
            X = X * live[..., None]
            A = None if A is None else A * live[..., None, :]
        X = X.expand(*G.shape[:2], *X.shape[-2:])
        L = _factor(G)
        if A is None:
            inverse = torch.cholesky_inverse(L)
            Y = inverse @ X
            return _Front(group, members, inverse, X, Y, None, Y, Y)
        Y, YA = torch.cholesky_solve(torch.cat([X, A.mT], -1), L).split([X.shape[-1], A.shape[-2]], -1)
        S = A @ YA
        LS = _factor(S + _gauge(g, S))
        return _Front(group, members, L, X, Y - YA @ torch.cholesky_solve(A @ Y, LS), A, YA, LS)

    def solve(self, g: list[Tensor], refinements: int, mass: float = 1.0) -> Step:
        """The step for a right-hand side g by group, with roots of this mass and hard arcs that hold."""
        s = self.batch.structure
        e = [x.new_zeros(len(x), gr.count, gr.separator.rows) for x, gr in zip(g, s.groups, strict=True)]
        for b in s.links:
            if b.parent_group < 0:
                e[b.group][:, b.members] = mass
        step = self._solve(g, e, [[torch.zeros_like(p) for p in ps] for ps in self.batch.p])
        for _ in range(refinements):
            step = step + self._solve(*self._residual(g, step, mass))
        return step

    def _residual(self, g: list[Tensor], step: Step, mass: float) -> tuple[list[Tensor], list[Tensor], Tables]:
        s = self.batch.structure
        left: list[Tensor] = []
        for i, gr in enumerate(s.groups):
            x = g[i] - (self.G[i] @ step.mu[i][..., None])[..., 0]
            x = x + step.d[i][..., gr.separator.cell // gr.separator.width]
            for role, p, y in zip(gr.hard, self.batch.p[i], step.lam[i], strict=True):
                x = x + role.spread(y - (p * y).sum(-1, keepdim=True))
            left.append(x)
        for b in s.links:
            s.to_parents(b, -step.d[b.group][:, b.members], left)
        return left, *self.batch.misfit(step.mu, mass)

    def _solve(self, g: list[Tensor], e: list[Tensor], a: Tables) -> Step:
        """Up the tree, then down."""
        s = self.batch.structure
        g = [x.clone() for x in g]
        if self.alive is not None:
            g = [x * y for x, y in zip(g, self.alive, strict=True)]
            seen = (x @ gr.separator.row_sums > 0 for x, gr in zip(self.alive, s.groups, strict=True))
            e = [torch.where(x, y, 0.0) for x, y in zip(seen, e, strict=True)]
        local: list[tuple[Tensor, Tensor]] = []
        short: list[Tensor] = []
        for b, f, Q in zip(self.raked, self.fronts, self.Q, strict=True):
            local.append(f.start(g, a))
            short.append(e[b.group][:, b.members] - (f.X.mT @ local[-1][0])[..., 0])
            s.to_parents(b, -(Q @ short[-1][..., None])[..., 0], g)
            if self.alive is not None and b.parent_group >= 0:
                g[b.parent_group] *= self.alive[b.parent_group]
        step = Step(
            [torch.zeros_like(x) for x in g],
            [torch.zeros_like(x) for x in e],
            [[torch.zeros_like(p) for p in ps] for ps in self.batch.p],
        )
        if s.spines:
            above = [f.start(g, a) for f in self.spine.fronts]
            for x, f, (y, lam), d in zip(s.spines, self.spine.fronts, above, self.spine.solve(above, e), strict=True):
                f.finish(y, lam, d, step)
                step.d[x.group][:, x.members] = d[..., : step.d[x.group].shape[-1]]
        for b, f, Q, (y, lam), miss in reversed(list(zip(self.raked, self.fronts, self.Q, local, short, strict=True))):
            if b.parent_group >= 0:
                miss = miss + s.above(b, step.mu)
            d = (Q @ miss[..., None])[..., 0]
            f.finish(y, lam, d, step)
            step.d[b.group][:, b.members] = d
        return step


def _pairs(unknowns: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The rows and columns of the blocks that clusters put into K."""
    k = unknowns.shape[1]
    return unknowns.repeat_interleave(k, 1).flatten().numpy(), unknowns.repeat(1, k).flatten().numpy()


def _factor(G: Tensor) -> Tensor:
    """A Cholesky factor; where rounding has made G indefinite, of a G with the lightest extra diagonal that has one."""
    L, bad = torch.linalg.cholesky_ex(G)
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
    diagonal = M.diagonal(dim1=-2, dim2=-1)
    extra = torch.where(diagonal > 0, ridge * diagonal, 1.0)
    return torch.cholesky_inverse(_factor(0.5 * (M + M.mT) + torch.diag_embed(extra)))


def _rows(g: Group, tables: list[Tensor]) -> Tensor:
    """A of a block: mu(s,t) - p(t|s) mu(s) for every (s,t) of every hard arc, (P, members, equations, n)."""
    found: list[Tensor] = []
    for role, p in zip(g.hard, tables, strict=True):
        in_row = role.row_sums.T[:, None, :]  # (rows, 1, n)
        found.append((role.sums.T.unflatten(0, (role.rows, role.width)) - p[..., None] * in_row).flatten(-3, -2))
    return torch.cat(found, -2)


def _gauge(g: Group, S: Tensor) -> Tensor:
    """What to add to A G^-1 A' to make it regular, on the scale of each row.

    The equations of a row of a hard arc add up to nothing: 1 1' fixes the multiplier that is free. Dead ones get a 1,
    and a ridge keeps the multipliers of arcs that repeat each other from running off.
    """
    rows = torch.block_diag(*(torch.ones(r.width, r.width) for r in g.hard for _ in range(r.rows))).to(S)
    diagonal = S.diagonal(dim1=-2, dim2=-1)
    size = ((diagonal @ rows) / rows.sum(-1)).sqrt()
    return rows * size[..., None] * size[..., None, :] + torch.diag_embed(
        torch.where(diagonal > 0, RIDGE * diagonal, 1.0)
    )
