"""The dual interior-point Newton method, for many problems of one structure at once.

Unknowns: l, d, lam and a pair mu, z > 0 with z -> slack(l, d, lam). Eliminating dz and dl from Newton's equations
leaves the quadratic programme of `elimination.py` with

    G = diag(z/mu) + sum_terms V diag(W / (s qt)) V',    V = 1[x in (s,t)] - q(t|s) 1[x in s],    qt = (q + mu(t|s)) / 2
    g = tau'/mu - r,     r = slack - z,     tau' = tau - dz dmu
    dz = tau'/mu - (z/mu) mu+,     dl = (m+ - q s+) / (s qt)

Mehrotra's predictor-corrector chooses tau. Finished problems leave the batch.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dissonance.solvers.base import State
from dissonance.solvers.batch import TINY, Batch, padded
from dissonance.solvers.elimination import Elimination
from dissonance.solvers.whole import SMALL, Whole


def cold(batch: Batch) -> State:
    """A start that knows nothing but the tables: uniform clusters, unit slack."""
    mu = uniform(batch)
    return State(
        mu,
        torch.ones_like(mu),
        batch.start.clone(),
        mu.new_zeros(len(mu), len(batch.structure.roots)),
        torch.zeros_like(batch.p),
        torch.zeros(len(mu), dtype=torch.long, device=mu.device),
    )


def uniform(batch: Batch) -> Tensor:
    """Every cluster uniform over its live cells."""
    s = batch.structure
    live = torch.ones_like(batch.c) if batch.alive is None else batch.alive.to(batch.c.dtype)
    count = live.new_zeros(len(live), len(s.tree.clusters)).index_add_(1, s.cluster, live)
    return live / count[:, s.cluster].clamp(min=1.0)


def warm(batch: Batch, near: State, gap: Tensor | None = None) -> State:
    """A start near a solution whose bounds are `gap` (P,) apart on these problems (None: a guess): shifted inside.

    Reusing the last iterate as it is would be slower than a cold start: its slack is too close to 0.
    """
    l = batch.normalised(near.l)  # noqa: E741
    slack = batch.slack(l, near.d, near.lam)
    if gap is None:
        gap = (near.mu * slack.abs() - slack.clamp(max=0.0)).sum(-1) / 3
    gap = gap.clamp(min=1e-8)[:, None]
    mix = (min(3.0, 10 / len(batch.structure.tree.clusters)) * gap).clamp(max=0.3)
    return State(
        batch.masked((1 - mix) * near.mu.clamp(min=0.0) + mix * uniform(batch), 0.0),
        slack.clamp(min=0.0) + gap / batch.structure.cells,
        l,
        near.d,
        near.lam,
        torch.zeros_like(near.steps),
    )


def interior(batch: Batch, start: State, tol: Tensor, *, settle: float = math.inf, steps: int = 60) -> State:
    """Iterate until each problem's own proof is tight to `tol` (P,) and its mu moves by less than `settle`.

    `tol` is relative to max(1, |value|). A problem whose proof is within 100 `tol` and twice did not tighten is done,
    too: near the end the Newton system is so ill-conditioned that further steps only lose what was gained.
    """
    active = torch.arange(len(batch), device=batch.c.device)
    state, final = start, start.take(active)
    moved = torch.full_like(tol, 0.0 if settle == math.inf else math.inf)
    before, stalled = torch.full_like(tol, math.inf), torch.zeros_like(tol)
    runaway = 1e11 * (1 + batch.c.abs().amax(-1))  # only contradictory hard arcs push their multipliers that far
    for step in range(steps + 1):
        now = _Now(batch, state)
        target = tol * now.scale
        done = (now.merit < target) & (now.off < tol.clamp(min=1e-9)) & (moved < settle)
        if settle == math.inf:
            close = now.merit < 100 * target
            stalled = stalled + (close & (now.merit > 0.5 * before))
            lost = (now.off > 1e-9) & (now.off < (1e-7 if batch.p.shape[1] else math.inf))  # else arcs may contradict
            done |= close & ((stalled >= 2) & (now.off < 1e-7) | lost)
        before = now.merit
        done |= ~torch.isfinite(now.merit) | (step == steps)
        if batch.p.shape[1]:
            done |= state.lam.abs().amax(-1) > runaway
        if done.any():
            final.put(active[done], state.take(done))
            keep = ~done
            if not keep.any():
                break
            active, tol, moved, runaway = (x[keep] for x in (active, tol, moved, runaway))
            before, stalled = before[keep], stalled[keep]
            batch, state, now = batch.take(keep), state.take(keep), now.take(keep)
        careful = bool(batch.p.shape[1]) or bool((now.off > 1e-12).any())
        newton = _Newton(batch, state, now)
        state, moved, _ = newton.step(newton.corrected(tol), 3 if careful else 1)
    return final


FINAL = 0.3
"""The gap at which a solution is followed, in units of the tolerance."""

SHORT = 0.5
"""A Newton step of which less than this can be taken ends following."""


def follow(batch: Batch, near: State, tol: Tensor, *, steps: int = 5) -> State:
    """From the solutions of nearby problems to those of these, for as many as it works.

    Newton's method at the final tau at once, two or three steps, as long as every mu and z changes by little of itself.
    A problem where that does not hold keeps its `near`, and one that is not done after so many steps what it has.
    """
    active = torch.arange(len(batch), device=batch.c.device)
    state, final = near, near.take(active)
    for step in range(steps + 1):
        now = _Now(batch, state)
        done = (now.merit < tol * now.scale) & (now.off < 1e-7) | ~torch.isfinite(now.merit) | (step == steps)
        final.put(active[done], state.take(done))
        keep = ~done
        if not keep.any():
            break
        active, tol = active[keep], tol[keep]
        batch, state, now = batch.take(keep), state.take(keep), now.take(keep)
        newton = _Newton(batch, state, now)
        state, _, length = newton.step((FINAL * tol)[:, None] / newton.count, 1)
        free = length > SHORT
        if not free.all():
            final.steps[active[~free]] = state.steps[~free]
            active, tol = active[free], tol[free]
            batch, state = batch.take(free), state.take(free)
    return final


class _Now:
    """How far states are from done, (P,) each: `merit`, the gap of their own proof; `off`, how far mu is from its
    equations; `scale`, max(1, |value|). Also m = mu(s,t) (P, soft), and r = slack - z (P, cells)."""

    def __init__(self, batch: Batch, state: State) -> None:
        slack = batch.slack(state.l, state.d, state.lam)
        self.r = slack - state.z
        self.merit = (state.mu * (state.z + self.r.abs()) - slack.clamp(max=0.0)).sum(-1)
        self.m, miss, miss_hard = batch.misfit(state.mu)
        self.off = miss.abs().sum(-1) + miss_hard.abs().sum(-1)
        self.scale = (state.d @ batch.structure.roots).abs().clamp(min=1.0)

    def take(self, keep: Tensor) -> _Now:
        """Some of them."""
        made = object.__new__(_Now)
        made.__dict__ = {k: v[keep] for k, v in vars(self).items()}
        return made


class _Newton:
    """The Newton system of a batch at a state, factored.

    All steps are relative: mu+ = a mu by the predictor, b mu by the corrector; z moves by (tau'/(mu z) - b) z.
    """

    def __init__(self, batch: Batch, state: State, now: _Now) -> None:
        self.batch, self.state, self.r = batch, state, now.r
        self.mu = batch.masked(state.mu, 1.0)
        self.q = batch.conditionals(state.l)
        self.curvature = curve(batch, now.m, self.q)
        self.system = _system(batch, self.q, self.curvature, state.z / self.mu)
        self.count = batch.structure.cells if batch.alive is None else batch.alive.sum(-1, keepdim=True)

    def corrected(self, tol: Tensor) -> Tensor:
        """tau' (P, cells): Mehrotra's tau from how far the predictor gets, less the product of its steps."""
        batch, product = self.batch, self.mu * self.state.z
        carried = batch.masked(product, 0.0)
        gap = carried.sum(-1, keepdim=True) / self.count
        a = batch.masked(self.system.solve(-self.r, 0).mu / self.mu, 1.0)
        ahead = carried * (1 + _reach(a - 1) * (a - 1)) * (1 - _reach(-a) * a)
        ahead = ahead.sum(-1, keepdim=True) / self.count
        floor = torch.maximum(0.1 * (self.state.mu * self.r.abs()).sum(-1), 0.1 * tol)[:, None] / self.count
        tau = torch.maximum((ahead / gap) ** 3 * gap, floor)
        return tau - (product * (a * (1 - a))).clamp(-gap, gap)

    def step(self, target: Tensor, refinements: int) -> tuple[State, Tensor, Tensor]:
        """Towards mu z = target: the next state, how far mu moves, and how much of the step can be taken, (P,)."""
        batch, state = self.batch, self.state
        step = self.system.solve(target / self.mu - self.r, refinements)
        b = batch.masked(step.mu / self.mu, 1.0)
        dz = batch.masked(target / (self.mu * state.z) - b, 0.0)
        dl = _dual_direction(batch, step.mu, self.q, self.curvature)
        primal = (0.99 * _reach(b - 1)).clamp(max=1.0)
        dual = (0.99 * _reach(dz)).clamp(max=1.0)
        if dl.shape[1]:
            dual = torch.minimum(dual, 4 / dl.abs().amax(-1, keepdim=True).clamp(min=4.0))
        dmu = primal * (b - 1) * state.mu
        moved = State(
            state.mu + dmu,
            state.z + dual * dz * state.z,
            batch.normalised(state.l + dual * dl),
            state.d + dual * step.d,
            state.lam + dual * step.lam,
            state.steps + 1,
        )
        return moved, dmu.abs().sum(-1), torch.minimum(primal, dual)[:, 0]


def _system(batch: Batch, q: Tensor, curvature: Tensor, diagonal: Tensor) -> Whole | Elimination:
    s = batch.structure
    if len(batch) * (s.cells + len(s.roots)) ** 3 <= SMALL and s.whole is not None:
        return Whole(batch, s.whole, q, batch.W * curvature, diagonal)
    return Elimination(batch, hessian(batch, q, curvature, diagonal))


def curve(batch: Batch, m: Tensor, q: Tensor) -> Tensor:
    """1/(s qt) (P, soft), 0 at dead entries."""
    s = batch.structure.rows.total(m)
    found = 2 / (s * q + m).clamp(min=TINY)
    return found if batch.seen is None else found * batch.seen


def hessian(batch: Batch, q: Tensor, curvature: Tensor, diagonal: Tensor) -> Tensor:
    """G (P, pairs of cells inside fronts): the terms' curvature and a diagonal (P, cells)."""
    s, P = batch.structure, len(q)
    found = q.new_empty(P, s.pairs)
    q, weight = padded(q), padded(batch.W * curvature)
    for f in (*s.fronts, *s.spine):
        V = f.M - f.R * q[:, f.soft][:, :, None]
        G = (V * weight[:, f.soft][:, :, None]) @ V.mT
        G.diagonal(dim1=-2, dim2=-1).add_(f.gather(diagonal, 1.0))
        found[:, f.pairs] = G.flatten(1)
    return found


def _dual_direction(batch: Batch, mu: Tensor, q: Tensor, curvature: Tensor) -> Tensor:
    """dl = (m+ - q s+) / (s qt), centred: the softmax does not see a shift."""
    s = batch.structure
    m = s.split(s.incidence.sums(mu))[0]
    x = (m - q * s.rows.total(m)) * curvature
    return x - s.rows.total(q * x)


def _reach(dx: Tensor) -> Tensor:
    """(P, 1) the longest step that keeps 1 + step dx >= 0, at most 1 / 0.99."""
    return 1 / (-dx.amin(-1, keepdim=True)).clamp(min=0.99)
