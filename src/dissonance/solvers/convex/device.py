"""The same Newton method for thousands of small problems at once, in torch: on a GPU, a batch is one problem.

The system of a step (see `elimination.py`) is factored as a whole, dense, problem by problem:

    | G  -B' | | mu |   | g |     B: X' - E' of the separators, V' of the hard arcs (less the likeliest value of a row)
    | B   0  | | u  | = | e |     u: d and lam

The formulas are those of `steps.py`, `interior.py` and `certificate.py`, and tests hold it against them.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dissonance.solvers.convex.certificate import EPS
from dissonance.solvers.convex.dense import TINY
from dissonance.solvers.convex.interior import FINAL, LEAST_FOLLOWED, PATIENCE, RUNAWAY, UNIFORM_SHARE, WARM_STEPS
from dissonance.solvers.convex.layout import HARD
from dissonance.solvers.convex.program import Floats, Program, Structure, owners
from dissonance.solvers.convex.solve import Outcome, unsolved
from dissonance.tolerances import FEASIBLE, ROUNDING, UNSEEN

RIDGE = 1e-14
"""Added to the diagonal of the multipliers, in units of what they are divided by: equations may repeat others."""

LARGEST = 512
"""Cells and unknowns of a problem up to which its system is factored as a whole."""


def small_enough(s: Structure) -> bool:
    """Whether problems are small enough to be factored as a whole."""
    L = s.flat_layout[1]
    return L.cells + L.unknowns + int((s.kind == HARD).sum()) <= LARGEST


def solve(program: Program, tol: Floats, enough: Floats, near: Floats | None, known: Any, device: str) -> Outcome:
    """Solve and prove, as `solve.solve` does."""
    batch, on = DeviceBatch(program.structure, device), partial(_on, device)
    batch, found = batch.of(*map(on, program.numbers)), unsolved(program)
    with torch.inference_mode():
        starts = None if near is None or not known.any() else (on(near), on(known))
        at, mu, bounds, steps = batch.solve(on(tol), on(enough), starts)
        found.at, found.mu, found.bounds, found.steps = (x.cpu().numpy().copy() for x in (at, mu, bounds, steps))
        if program.structure.hard:
            found.contradiction = batch.contradiction(at).cpu().numpy().copy()
    return found


def _on(device: str, x: npt.NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(x)).to(device)


class DeviceBatch:
    """P problems of one structure on a device. A point is mu, z, y and d side by side, (P, point)."""

    c: Tensor
    W: Tensor
    p: Tensor

    def __init__(self, s: Structure, device: str) -> None:
        """What problems of a structure have in common; `of` adds their numbers."""
        lay = s.layout
        self.L = s.flat_layout[1]
        n, entries, unknowns = self.L.cells, self.L.entries, self.L.unknowns
        on = partial(_on, device)
        M = np.zeros((n, entries))
        M[s.cell_of, lay.entry] = 1.0
        B = np.zeros((n, unknowns))
        B[np.arange(n), lay.own] += 1.0
        np.add.at(B, (s.cell_above, lay.above), -1.0)
        same = (lay.row[:, None] == lay.row[None, :]).astype(float)
        roots = np.zeros(unknowns)
        roots[s.roots] = 1.0
        self.M, self.R, self.same, self.B, self.roots = on(M), on(M @ same), on(same), on(B), on(roots)
        cluster, child = owners(lay.cell_at), owners(lay.above_at)
        self.term, self.hard, self.cluster = on(s.term), on(s.kind == HARD), on(cluster)
        self.own, self.count = on(lay.own), len(lay.parent)
        self.size = on(np.diff(lay.cell_at).astype(float))[self.cluster]
        depth = np.zeros(len(lay.parent), dtype=np.int64)
        for k, p in enumerate(lay.parent.tolist()):
            depth[k] = depth[p] + 1 if p >= 0 else 0
        below = [np.flatnonzero(depth[child] == x) for x in range(int(depth.max(initial=0)) + 1)]
        self.levels = [
            (on(s.cell_above[some]), on(lay.above[some]), on(np.flatnonzero(depth[cluster] == x)))
            for x, some in enumerate(below)
        ]

    def of(self, c: Tensor, W: Tensor, p: Tensor) -> DeviceBatch:
        """Problems with these numbers; see `program.Numbers`."""
        made = object.__new__(DeviceBatch)
        made.__dict__ = {**self.__dict__, "c": c, "W": W, "p": p}
        return made

    def take(self, some: Tensor) -> DeviceBatch:
        """Some of the problems."""
        return self.of(self.c[some], self.W[some], self.p[some])

    def solve(
        self, tol: Tensor, enough: Tensor, near: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Where problems stop, (P, point); mu, (P, cells); bounds, as `certify` has them, (P, 3); Newton steps, (P,).

        `near`: where nearby problems stopped, (P, point), and for which of them that is known, (P,).
        """
        device, count = self.c.device, len(self.c)
        start, mu = self.cold(), torch.zeros_like(self.c)
        steps = torch.zeros(count, dtype=torch.long, device=device)
        bounds = torch.full((count, 3), math.inf, dtype=torch.float64, device=device)
        rest = torch.arange(count, device=device)
        if near is not None:
            old = near[1].nonzero()[:, 0]
            start[old] = near[0][old]
            for stage in range(3):
                if not len(old):
                    break
                some = self.take(old)
                if stage == 1:
                    gap = (bounds[old, 1] - bounds[old, 0]).nan_to_num(nan=1.0).clamp(1e-8, 1.0)
                    start[old] = some.inside(start[old], gap)
                most = (5, WARM_STEPS, 2 * WARM_STEPS)[stage]
                start[old], taken = some.newton(start[old], tol[old], most, stage == 0)
                steps[old] += taken
                mu[old], bounds[old] = some.certify(start[old])
                old = old[bounds[old, 1] - bounds[old, 0] > enough[old] * bounds[old, 1].abs().clamp(min=1.0)]
            rest = torch.cat([old, (~near[1]).nonzero()[:, 0]])
        if len(rest):
            some = self.take(rest)
            start[rest], taken = some.newton(some.cold(), tol[rest], 60, False)
            steps[rest] += taken
            mu[rest], bounds[rest] = some.certify(start[rest])
        return start, mu, bounds, steps

    def split(self, at: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """mu, z, y and d."""
        L = self.L
        return at.split([L.cells, L.cells, L.entries, L.unknowns], 1)  # type: ignore[return-value]

    def normalised(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """y with log q normalised, and q; lam and p at hard entries."""
        shift = (y.exp() @ self.same).log()
        y = torch.where(self.hard, y, y - shift)
        return y, torch.where(self.hard, self.p, y.exp())

    def lift(self, y: Tensor, q: Tensor, d: Tensor) -> Tensor:
        """W log q + sum_children d_c - d - (lam - sum_t p lam), (P, cells)."""
        lam = torch.where(self.hard, y, 0.0)
        entries = torch.where(self.hard, (q * lam) @ self.same - lam, self.W[:, self.term] * y)
        return entries @ self.M.T - d @ self.B.T

    def cold(self) -> Tensor:
        """A cold start, from the tables alone."""
        y = torch.where(self.hard, 0.0, self.p.log())
        zeros = y.new_zeros(len(y), self.L.unknowns)
        return torch.cat([(1 / self.size).expand_as(self.c), torch.ones_like(self.c), y, zeros], 1)

    def inside(self, at: Tensor, gap: Tensor) -> Tensor:
        """Points whose bounds are `gap` (P,) apart, shifted inside."""
        mu, _, y, d = self.split(at)
        y, q = self.normalised(y)
        slack = self.c + self.lift(y, q, d)
        mix = (UNIFORM_SHARE * gap).clamp(max=0.3)[:, None]
        mu = (1 - mix) * mu.clamp(min=0.0) + mix / self.size
        return torch.cat([mu, slack.clamp(min=0.0) + gap[:, None] / self.L.cells, y, d], 1)

    def newton(self, at: Tensor, tol: Tensor, most: int, following: bool) -> tuple[Tensor, Tensor]:
        """Points and steps (P,): `interior.newton`, for all problems together; those that are done leave."""
        final, active = at.clone(), torch.arange(len(at), device=at.device)
        taken = torch.zeros(len(at), dtype=torch.long, device=at.device)
        least = before = torch.full_like(tol, math.inf)
        stalled, best, here = torch.zeros_like(taken), torch.zeros_like(taken), self
        largest = self.c.abs().amax(1)
        for step in range(most + 1):
            now = _Now(here, at)
            target, score = tol * now.scale, now.merit + now.off
            finite = torch.isfinite(score)
            if following:
                done = (now.merit < target) & (now.off < 1e-7) | (step == most)
                keep = torch.full_like(done, step == 0)
            else:
                close = now.merit < 100 * target
                stalled = stalled + (close & (now.merit > 0.5 * before))
                done = (now.merit < target) & (now.off < tol.clamp(min=1e-9))
                done = done | (close & (stalled >= 2) & (now.off < 1e-7))
                keep = score < least
            away = torch.where(self.hard, now.y, 0.0).abs().amax(1) if self.L.entries else torch.zeros_like(score)
            done = finite & (done | (away > RUNAWAY * (1 + largest)))
            keep = finite & keep | done
            final[active[keep]] = at[keep]
            least, best = torch.where(keep, score, least), torch.where(keep, step, best)
            stop = done | ~finite | (step > best + PATIENCE)
            taken[active] = step
            if stop.all() or step == most:
                break
            before = now.merit
            at, length = now.step(tol, following)
            stop = stop | (length <= LEAST_FOLLOWED) if following else stop
            taken[active[~done]] = step + 1
            go = ~stop
            if not go.any():
                break
            active, tol, at, here = active[go], tol[go], at[go], here.take(go)
            least, before, stalled, best, largest = (x[go] for x in (least, before, stalled, best, largest))
        return final, taken

    def certify(self, at: Tensor) -> tuple[Tensor, Tensor]:
        """The mu (P, cells) of the upper bound; lower, upper and how far hard arcs are from holding, (P, 3)."""
        mu, _, y, d = self.split(at)
        y, q = self.normalised(y)
        slack = self.c + self.lift(y, q, d)
        lam = torch.where(self.hard, y, 0.0).abs()
        slack = slack - ROUNDING * torch.where(self.hard, (q * lam) @ self.same, 0.0) @ self.M.T
        parts = torch.where(self.hard, (q * lam) @ self.same + lam, (self.W[:, self.term] * y).abs())
        size = self.c.abs() + parts @ self.M.T + d.abs() @ self.B.abs().T
        least = torch.full((len(mu), self.count), math.inf, dtype=mu.dtype, device=mu.device)
        least.scatter_reduce_(1, self.cluster.expand_as(mu), slack - 8 * EPS * size, "amin")
        low = d @ self.roots + least.sum(1)
        low = low - UNSEEN * lam.sum(1) - EPS * (2 * d.abs() @ self.roots + math.sqrt(self.count) * least.abs().sum(1))
        mu = self.agree(mu)
        m = mu @ self.M
        total = m @ self.same
        ratio = torch.where(m > 0, m / total.clamp(min=TINY), 1.0).log()
        W = torch.where(self.hard, 0.0, self.W[:, self.term])
        off = torch.where(self.hard, m - self.p * total, 0.0).abs()
        high = (self.c * mu).sum(1) + (W * m * ratio).sum(1) + (lam * off).sum(1)
        rounding = 32 * EPS * (1 + (self.c.abs() * mu).sum(1) + self.W.abs().sum(1))
        beyond = torch.where(off > UNSEEN, (off - UNSEEN) / (self.p * total), 0.0)
        residual = beyond.amax(1) if self.L.entries else torch.zeros_like(low)
        bounds = [(low - rounding).nan_to_num(nan=-math.inf), (high + rounding).nan_to_num(nan=math.inf), residual]
        return mu, torch.stack(bounds, 1)

    def agree(self, mu: Tensor) -> Tensor:
        """Clusters that agree exactly."""
        mu = mu.nan_to_num(nan=0.0, posinf=0.0).clamp(min=0.0)
        found = mu.new_zeros(len(mu), self.L.unknowns).index_add_(1, self.own, mu)
        mu = torch.where((found == 0)[:, self.own], 1.0, mu)
        found = mu.new_zeros(len(mu), self.L.unknowns).index_add_(1, self.own, mu)
        given, mass = mu / found[:, self.own], self.roots.repeat(len(mu), 1)
        for cell, state, mine in self.levels:
            if len(cell):
                mass.index_add_(1, state, given[:, cell])
            given[:, mine] *= mass[:, self.own[mine]]
        return given

    def contradiction(self, at: Tensor) -> Tensor:
        """If positive, the multipliers prove that hard arcs do not hold closely enough at any mu, (P,)."""
        lam = torch.where(self.hard, self.split(at)[2], 0.0)
        size = lam.abs().amax(1, keepdim=True)
        lam = lam / size.clamp(min=TINY)
        cost = ((self.p * (lam - FEASIBLE * lam.abs())) @ self.same - lam) @ self.M.T
        least = torch.full((len(at), self.L.unknowns), math.inf, dtype=at.dtype, device=at.device)
        for cell, state, mine in reversed(self.levels):
            least.scatter_reduce_(1, self.own[mine].expand(len(at), -1), cost[:, mine], "amin")
            if len(cell):
                cost.index_add_(1, cell, least[:, state])
        found = torch.where(self.roots > 0, least, 0.0).sum(1) - UNSEEN * lam.abs().sum(1)
        return torch.where(torch.isfinite(size[:, 0]) & (size[:, 0] > 0), found, -math.inf)


class _Now:
    """How far points are from done, and the steps from there."""

    def __init__(self, batch: DeviceBatch, at: Tensor) -> None:
        self.batch = batch
        self.mu, self.z, y, self.d = batch.split(at)
        self.y, self.q = batch.normalised(y)
        slack = batch.c + batch.lift(self.y, self.q, self.d)
        self.r = slack - self.z
        self.gap, self.rest = (self.mu * self.z).sum(1), (self.mu * self.r.abs()).sum(1)
        self.merit = self.gap + self.rest - slack.clamp(max=0.0).sum(1)
        self.m = self.mu @ batch.M
        total = self.m @ batch.same
        off_hard = torch.where(batch.hard, self.q * total - self.m, 0.0)
        self.off = (batch.roots - self.mu @ batch.B).abs().sum(1) + off_hard.abs().sum(1)
        self.scale = (self.d @ batch.roots).abs().clamp(min=1.0)
        self.curve = 2 / (total * self.q + self.m).clamp(min=TINY)

    def step(self, tol: Tensor, following: bool) -> tuple[Tensor, Tensor]:
        """The next point, and how much of the step is taken, (P,)."""
        b, n = self.batch, self.batch.L.cells
        V = b.M - b.R * self.q[:, None, :]  # (P, cells, entries)
        w = torch.where(b.hard, 0.0, b.W[:, b.term] * self.curve)
        likeliest = self.q >= torch.where(b.same > 0, self.q[:, None, :], 0.0).amax(2)
        first = (likeliest.to(V.dtype) @ b.same.tril(-1).T) == 0
        held = V.transpose(1, 2) * (b.hard & ~(likeliest & first))[:, :, None]
        held = held[:, b.hard]
        B = torch.cat([b.B.T.expand(len(V), -1, -1), held], 1)
        system = V.new_zeros(len(V), n + B.shape[1], n + B.shape[1])
        system[:, :n, :n] = (V * w[:, None, :]) @ V.transpose(1, 2)
        system[:, :n, :n].diagonal(dim1=1, dim2=2).add_(self.z / self.mu)
        system[:, :n, n:], system[:, n:, :n] = -B.transpose(1, 2), B
        inverse = (B * B * (self.mu / self.z)[:, None, :]).sum(2)
        system[:, n:, n:].diagonal(dim1=1, dim2=2).add_(RIDGE * inverse + (inverse == 0))
        LU, pivots, _ = torch.linalg.lu_factor_ex(system)
        mass = torch.cat([b.roots.expand(len(V), -1), V.new_zeros(len(V), held.shape[1])], 1)

        def solve(g: Tensor, refinements: int) -> Tensor:
            right = torch.cat([g, mass], 1)[..., None]
            x = torch.linalg.lu_solve(LU, pivots, right)
            for _ in range(refinements):
                x = x + torch.linalg.lu_solve(LU, pivots, right - system @ x)
            return x[..., 0]

        if following:
            target = (FINAL * tol / n)[:, None].expand_as(self.mu)
        else:
            a = solve(-self.r, 0)[:, :n] / self.mu
            primal, dual = (1 - a).amax(1, keepdim=True).clamp(min=0.99), a.amax(1, keepdim=True).clamp(min=0.99)
            ahead = (self.mu * self.z * (1 + (a - 1) / primal) * (1 - a / dual)).sum(1) / n
            gap = self.gap / n
            tau = torch.maximum((ahead / gap) ** 3 * gap, torch.maximum(0.1 * self.rest, 0.1 * tol) / n)[:, None]
            gap = gap[:, None]
            target = tau - (self.mu * self.z * a * (1 - a)).clamp(-gap, gap)
        found = solve(target / self.mu - self.r, 3 if held.shape[1] else 1)
        x, d, held_lam = found.split([n, b.L.unknowns, held.shape[1]], 1)
        lam = V.new_zeros(len(V), b.L.entries)
        lam[:, b.hard] = held_lam
        ratio = x / self.mu
        dz = target / (self.mu * self.z) - ratio
        m = x @ b.M
        dl = (m - self.q * (m @ b.same)) * self.curve
        dl = torch.where(b.hard, 0.0, dl - (self.q * dl) @ b.same)
        primal = (0.99 / (1 - ratio).amax(1, keepdim=True).clamp(min=0.99)).clamp(max=1.0)
        dual = (0.99 / (-dz).amax(1, keepdim=True).clamp(min=0.99)).clamp(max=1.0)
        if b.L.entries:
            dual = torch.minimum(dual, 4 / dl.abs().amax(1, keepdim=True).clamp(min=4.0))
        moved = [
            self.mu + primal * (x - self.mu),
            self.z + dual * dz * self.z,
            self.y + dual * torch.where(b.hard, lam, dl),
            self.d + dual * d,
        ]
        return torch.cat(moved, 1), torch.minimum(primal, dual)[:, 0]
