"""Differentiating the minimiser itself: mu* as a function of theta and of the attention, for gamma > 0.

At gamma > 0 (and beta >= gamma alpha) mu* is unique, and its optimality conditions

    grad F(mu) = A'u,     A mu = b

define it implicitly. For a function of mu with gradient v, the adjoint system  F'' w - A'nu = v,  A w = 0  is the same
quadratic programme a Newton step solves, and gives every derivative at once:

    d/d log p_a = beta_a w(s,t)
    d/d beta_a  = - sum w(s,t) log mu(t|s)/p_a(t|s)
    d/d alpha_a = gamma sum w(s,t) log mu(t|s)
    d/d gamma   = - sum w ( log mu(rest | separator) of every cluster - sum_a alpha_a log mu(t|s) )
    hard arcs:  d/d p_a = - lambda_a(s,t) w(s) - nu_a(s,t) mu(s)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.answer import Answer
from dissonance.arc import Theta
from dissonance.distributions import CliqueTree
from dissonance.errors import CapabilityError, DissonanceError
from dissonance.focus import Attention
from dissonance.pdg import PDG
from dissonance.problem import prepare
from dissonance.solvers import Newton

__all__ = ["Weights", "minimiser"]

BARRIER = 1e-11
"""Keeps the Hessian regular where a whole separator state could move; refinement removes its trace."""


@dataclass(frozen=True)
class Weights:
    """The attention as tensors, so that it can be learned: scalars keyed by arc, and gamma."""

    beta: Mapping[str, Tensor]
    alpha: Mapping[str, Tensor]
    gamma: Tensor

    @classmethod
    def of(cls, attention: Attention) -> Weights:
        """An attention's numbers as tensors without gradient."""
        if attention.varying:
            raise CapabilityError("the minimiser does not support sample-dependent attention.")
        return cls(
            {k: numerics.real(v) for k, v in attention.beta.items()},
            {k: numerics.real(v) for k, v in attention.alpha.items()},
            numerics.real(attention.gamma),
        )

    @property
    def attention(self) -> Attention:
        """The present numbers."""
        return Attention.only(
            {k: float(v.detach()) for k, v in self.beta.items()},
            {k: float(v.detach()) for k, v in self.alpha.items()},
            float(self.gamma.detach()),
        )


def minimiser(pdg: PDG, attention: Attention | Weights, *, theta: Theta | None = None) -> CliqueTree:
    """mu*, differentiable in the parameters of the PDG (or `theta`) and in the attention if it is made of tensors.

    Needs gamma > 0 and beta >= gamma alpha, where mu* is unique and smooth as long as its support does not change.
    """
    weights = attention if isinstance(attention, Weights) else Weights.of(attention.on(pdg))
    now = weights.attention
    if now.gamma == 0:
        raise CapabilityError("mu* is differentiable for gamma > 0 only: at gamma = 0 it is not unique.")
    pdg.check(theta)
    parts: list[CliqueTree] = []
    for part in prepare(pdg, now, theta).parts:
        solution = Newton().solve(part)
        if not math.isfinite(solution.upper):
            raise DissonanceError("the inconsistency is infinite: there is no mu to differentiate.")
        names = [a.name for a in part.beliefs]
        zero = numerics.real(0.0)
        live = [a.log_table(theta) for a in part.beliefs]
        live += [weights.beta.get(n, zero) for n in names] + [weights.alpha.get(n, zero) for n in names]
        found = _Minimiser.apply(solution, weights.gamma, *live)
        assert solution.on is not None
        parts.append(CliqueTree(part.variables, solution.on.tree, found))
    return CliqueTree.combined((v for v in pdg.variables if v.is_finite), parts)


class _Minimiser(torch.autograd.Function):
    """The cluster tables of a solution, as a function of gamma, the log tables, the betas and the alphas."""

    @staticmethod
    def forward(ctx: Any, solution: Answer, gamma: Tensor, *live: Tensor) -> tuple[Tensor, ...]:
        ctx.solution = solution
        assert solution.on is not None
        return tuple(t.clone() for t in solution.on.tables)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gamma, logs, betas, alphas = input_gradients(ctx.solution, gradients)
        return (None, gamma, *logs, *betas, *alphas)


def input_gradients(
    solution: Answer, gradients: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
    """From d/d(cluster tables) to d/d gamma, d/d(log p of each arc), d/d(beta of each), d/d(alpha of each)."""
    part, on = solution.part, solution.on
    assert on is not None
    from dissonance.solvers.convex.solve import adjoint as adjoint_step
    from dissonance.solvers.convex.support import structure_of

    s = structure_of(part, on.tree)
    assert s is not None
    x, lam = adjoint_step(s, s.numbers(part), s.flat(on.tables), s.flat(gradients), BARRIER)
    parts = s.tables(x)
    w = CliqueTree(part.variables, on.tree, parts)
    nu = torch.from_numpy(s.spread_multipliers(lam[None])[0])
    each = [_arc(solution, w, k, nu) for k in range(len(part.beliefs))]
    logs, betas, alphas = ([x[i] for x in each] for i in range(3))
    gamma = -sum(float(numerics.times(x, _log_conditional(solution, i)).sum()) for i, x in enumerate(parts))
    gamma += sum(a.alpha * float(x) / part.gamma.item() for a, x in zip(part.arcs, alphas, strict=True))
    return numerics.real(gamma), logs, betas, alphas


def _log_conditional(solution: Answer, cluster: int) -> Tensor:
    """log mu(rest | separator) of a cluster, 0 where mu is 0."""
    assert solution.on is not None
    tree, table = solution.on.tree, solution.on.tables[cluster]
    inside, separator = tree.clusters[cluster], tree.separators[cluster]
    total = table.sum([i for i, v in enumerate(inside) if v not in separator], keepdim=True)
    return torch.where(table > 0, numerics.log(table / total.clamp(min=1e-300)), 0.0)


def _arc(solution: Answer, w: CliqueTree, k: int, nu: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """d/d log p, d/d beta and d/d alpha of one arc; `nu` are the adjoint multipliers of hard entries."""
    part, gamma, a = solution.part, solution.part.gamma.item(), solution.part.arcs[k]
    here, m = (x.rows(a.arc.sources, a.arc.targets) for x in (w, solution.mu))
    log_p = torch.from_numpy(a.log_p).reshape(m.shape)
    log_m = torch.where(m > 0, numerics.log(numerics.conditional(m)), 0.0)
    alpha = gamma * (here * log_m).sum()
    if not a.hard:
        beta = -(here * (log_m - torch.where(m > 0, log_p, 0.0))).sum()
        return (a.beta * here).reshape(a.log_p.shape), beta, alpha
    assert solution.on is not None and solution.on.multipliers is not None
    entries = part.entries([k])
    lam, nu = (x[entries].reshape(m.shape) for x in (torch.from_numpy(solution.on.multipliers[0]), nu))
    d_p = -lam * here.sum(-1, keepdim=True) - nu * m.sum(-1, keepdim=True)
    same = (b for b in part.arcs if not b.hard and b.mechanism == a.mechanism)
    weight = sum((b.beta - gamma * b.alpha for b in same), -gamma * a.alpha)
    return (log_p.exp() * d_p - weight * here).reshape(a.log_p.shape), numerics.real(0.0), alpha
