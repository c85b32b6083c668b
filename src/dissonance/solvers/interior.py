"""The dual interior-point Newton method, for many problems of one structure at once.

Unknowns: l, d, lam and a pair mu, z > 0 with z -> slack(l, d, lam). Eliminating dz and dl from Newton's equations
leaves the quadratic programme of `elimination.py` with

    G = diag(z/mu) + sum_terms H,     g = tau'/mu - r,     r = slack - z,     tau' = tau - dz dmu
    H = (W/s) (I - 1 q') diag(1/qt) (I - q 1')  on the cells of one row,     qt = (q + mu(t|s)) / 2
    dz = tau'/mu - (z/mu) mu+,     dl = (m+ - q s+) / (s qt)

Mehrotra's predictor-corrector chooses tau. Finished problems leave the batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dissonance.solvers.batch import Batch, Tables, log_softmax
from dissonance.solvers.elimination import TINY, Elimination, Step


@dataclass(frozen=True)
class State:
    """Where the iteration stands, for P problems; `steps` (P,) counts its steps."""

    mu: Tensor
    z: Tensor
    l: Tables  # noqa: E741 - the letter of the formula
    d: list[Tensor]
    lam: Tables
    steps: Tensor

    def take(self, keep: Tensor) -> State:
        """Some of the problems."""
        return State(
            self.mu[keep],
            self.z[keep],
            [[x[keep] for x in xs] for xs in self.l],
            [x[keep] for x in self.d],
            [[x[keep] for x in xs] for xs in self.lam],
            self.steps[keep],
        )

    def put(self, where: Tensor, other: State) -> None:
        """Overwrite some of the problems, in place."""
        mine = [self.mu, self.z, self.steps, *self.d, *(x for xs in (*self.l, *self.lam) for x in xs)]
        theirs = [other.mu, other.z, other.steps, *other.d, *(x for xs in (*other.l, *other.lam) for x in xs)]
        for x, y in zip(mine, theirs, strict=True):
            x[where] = y


def cold(batch: Batch) -> State:
    """A start that knows nothing but the tables: uniform clusters, unit slack."""
    s, P = batch.structure, len(batch)
    mu = s.join(uniform(batch))
    return State(
        mu,
        torch.ones_like(mu),
        [[x.clone() for x in xs] for xs in batch.start],
        [batch.c.new_zeros(P, g.count, g.separator.rows) for g in s.groups],
        [[torch.zeros_like(p) for p in ps] for ps in batch.p],
        torch.zeros(P, dtype=torch.long, device=batch.c.device),
    )


def uniform(batch: Batch) -> list[Tensor]:
    """Every cluster uniform over its live cells."""
    live = [torch.ones_like(x) for x in batch.structure.split(batch.c)]
    return [x / x.sum(-1, keepdim=True) for x in batch.masked(live, 0.0)]


def warm(batch: Batch, near: State, gap: Tensor) -> State:
    """A start near a solution whose bounds are `gap` (P,) apart on these problems: shifted inside.

    Reusing the last iterate as it is would be slower than a cold start: its slack is too close to 0.
    """
    s = batch.structure
    gap = gap.clamp(1e-8, 1.0)[:, None]
    mix = 0.3 * gap
    slack = s.join(batch.slack(log_softmax(near.l), near.d, near.lam))
    return State(
        (1 - mix) * near.mu.clamp(min=0.0) + mix * s.join(uniform(batch)),
        slack.clamp(min=0.0) + gap / s.cells,
        near.l,
        near.d,
        near.lam,
        torch.zeros_like(near.steps),
    )


def interior(batch: Batch, start: State, tol: Tensor, *, settle: float = math.inf, steps: int = 60) -> State:
    """Iterate until each problem's own proof is tight to `tol` (P,) and its mu moves by less than `settle`.

    `tol` is relative to max(1, |value|). A problem whose proof is within 100 `tol` and no longer tightens is done, too:
    near the end the Newton system is so ill-conditioned that further steps only lose what was gained.
    """
    state, final = start, start.take(torch.arange(len(batch), device=batch.c.device))
    active = torch.arange(len(batch), device=batch.c.device)
    moved = torch.full_like(tol, 0.0 if settle == math.inf else math.inf)
    before = torch.full_like(tol, math.inf)
    runaway = 1e11 * (1 + batch.c.abs().amax(-1))  # only contradictory hard arcs push their multipliers that far
    for step in range(steps + 1):
        log_q = log_softmax(state.l)
        parts = batch.slack(log_q, state.d, state.lam)
        r = batch.structure.join(parts) - state.z
        below = sum((-x.amin(-1)).clamp(min=0.0).sum(-1) for x in parts)
        merit = (state.mu * (state.z + r.abs())).sum(-1) + below
        off, far = _equations(batch, state)
        target = tol * _value(batch, state).abs().clamp(min=1.0)
        done = (merit < target) & (off < tol.clamp(min=1e-9)) & (moved < settle)
        done |= (merit < 100 * target) & ((merit > 0.5 * before) | (off > 1e-9)) & (off < 1e-7) & (settle == math.inf)
        before = merit
        done |= ~torch.isfinite(merit) | (far > runaway) | (step == steps)
        if done.any():
            final.put(active[done], state.take(done))
            keep = ~done
            if not keep.any():
                break
            active, tol, moved, runaway, r = active[keep], tol[keep], moved[keep], runaway[keep], r[keep]
            before = before[keep]
            batch, state = batch.take(keep), state.take(keep)
            log_q = [[x[keep] for x in xs] for xs in log_q]
        state, moved = _newton_step(batch, state, log_q, r, tol)
    return final


def _value(batch: Batch, state: State) -> Tensor:
    """The dual value, (P,): what the roots pay for their mass."""
    roots = (b for b in batch.structure.links if b.parent_group < 0)
    return sum((state.d[b.group][:, b.members].sum((1, 2)) for b in roots), torch.zeros_like(batch.gamma))


def _equations(batch: Batch, state: State) -> tuple[Tensor, Tensor]:
    """How far mu is from its equations, and how far the multipliers of hard arcs have run, (P,) each."""
    miss, hard = batch.misfit(batch.structure.split(state.mu))
    off, far = torch.zeros_like(batch.gamma), torch.zeros_like(batch.gamma)
    for x in (*miss, *(y.flatten(2) for ys in hard for y in ys)):
        off = off + x.abs().sum((1, 2))
    for x in (y for ys in state.lam for y in ys):
        far = torch.maximum(far, x.abs().amax((1, 2, 3)))
    return off, far


def _newton_step(batch: Batch, state: State, log_q: Tables, r: Tensor, tol: Tensor) -> tuple[State, Tensor]:
    s, mu, z = batch.structure, state.mu, state.z
    live = None if batch.alive is None else batch.alive
    safe = mu if live is None else torch.where(live, mu, 1.0)
    q = [
        [torch.where(x == -math.inf, 0.0, y.exp()) for x, y in zip(a, b, strict=True)]
        for a, b in zip(state.l, log_q, strict=True)
    ]
    parts = s.split(safe)
    H, curvature = hessian(batch, s.split(mu), q)
    system = Elimination(batch, [h + torch.diag_embed(b / a) for h, a, b in zip(H, parts, s.split(z), strict=True)])

    def direction(target: Tensor, refinements: int) -> tuple[Tensor, Tensor, Step]:
        step = system.solve(s.split(target / safe - r), refinements)
        ahead = s.join(step.mu)
        dz = target / safe - z / safe * ahead
        if live is not None:
            ahead, dz = torch.where(live, ahead, 0.0), torch.where(live, dz, 0.0)
        return ahead - mu, dz, step

    count = s.cells if live is None else live.sum(-1)
    dmu, dz, _ = direction(torch.zeros_like(mu), 0)
    gap = (mu * z).sum(-1) / count
    ahead = ((mu + _reach(mu, dmu) * dmu) * (z + _reach(z, dz) * dz)).sum(-1) / count
    floor = torch.maximum(0.1 * (mu * r.abs()).sum(-1), 0.1 * tol) / count
    tau = torch.maximum((ahead / gap) ** 3 * gap, floor)[:, None]
    dmu, dz, step = direction(tau - torch.clamp(dz * dmu, -gap[:, None], gap[:, None]), 3 if any(batch.p) else 1)
    dl = _dual_direction(batch, step.mu, q, curvature)
    longest = torch.zeros_like(gap)
    for x in (y for ys in dl for y in ys):
        longest = torch.maximum(longest, x.abs().amax((1, 2, 3)))
    primal = (0.99 * _reach(mu, dmu)).clamp(max=1.0)
    dual = torch.minimum((0.99 * _reach(z, dz)).clamp(max=1.0), (4 / longest.clamp(min=4.0))[:, None])
    far = dual[..., None]
    moved = State(
        mu + primal * dmu,
        z + dual * dz,
        [[x + far[..., None] * y for x, y in zip(a, b, strict=True)] for a, b in zip(state.l, dl, strict=True)],
        [x + far * y for x, y in zip(state.d, step.d, strict=True)],
        [[x + far[..., None] * y for x, y in zip(a, b, strict=True)] for a, b in zip(state.lam, step.lam, strict=True)],
        state.steps + 1,
    )
    return moved, (primal * dmu).abs().sum(-1)


def hessian(batch: Batch, mu: list[Tensor], q: Tables) -> tuple[list[Tensor], Tables]:
    """sum H by group, (P, count, n, n), and 1/(s qt) by group and term (0 at dead terms)."""
    found: list[Tensor] = []
    curvature: Tables = []
    for i, g in enumerate(batch.structure.groups):
        total = mu[i].new_zeros(*mu[i].shape, g.size)
        curvature.append([])
        for role, W, qi in zip(g.terms, batch.W[i], q[i], strict=True):
            m = role.collect(mu[i])
            s = m.sum(-1, keepdim=True).clamp(min=TINY)
            inverse = torch.where(qi > 0, 2 / (s * qi + m).clamp(min=TINY), 0.0)  # 1 / (s qt)
            curvature[i].append(inverse)
            a = qi * inverse
            H = torch.diag_embed(inverse) - a[..., None] - a[..., None, :] + (qi * a).sum(-1)[..., None, None]
            H = (W[..., None] * H).flatten(2)
            total += torch.cat([H, H.new_zeros(*H.shape[:2], 1)], -1)[..., role.pairs]
        found.append(total)
    return found, curvature


def _dual_direction(batch: Batch, mu: list[Tensor], q: Tables, curvature: Tables) -> Tables:
    """dl = (m+ - q s+) / (s qt), centred: the softmax does not see a shift."""
    found: Tables = []
    for i, g in enumerate(batch.structure.groups):
        found.append([])
        for role, qi, c in zip(g.terms, q[i], curvature[i], strict=True):
            m = role.collect(mu[i])
            x = (m - qi * m.sum(-1, keepdim=True)) * c
            found[i].append(x - (qi * x).sum(-1, keepdim=True))
    return found


def _reach(x: Tensor, dx: Tensor) -> Tensor:
    """(P, 1) the longest step that keeps x + step dx >= 0, at most 1 / 0.99."""
    ratio = torch.where(dx < 0, -x / dx, math.inf)
    return ratio.amin(-1, keepdim=True).clamp(max=1 / 0.99)
