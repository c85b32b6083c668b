"""The inner loop of the paper's published runs: Adam on the dense joint, not converged. To reproduce their numbers.

As it was, with what the paper's text leaves out:

- the cost is the incompatibility *in bits* of the clipped, normalised joint, plus (total - 1)^2 of the clipped one;
- mu is the best of the iterates, by that cost, not the last;
- where mu(s,t) = 0 the derivative is not that of OInc, -inf, but -1: mass comes back slowly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.adam import Adam
from dissonance.answer import DEFAULT_TOL, Answer, Marginals, Solver, infinite
from dissonance.arc import Arc
from dissonance.distributions.messages import broadcast_over
from dissonance.distributions.tree import single
from dissonance.errors import CapabilityError
from dissonance.numerics import DTYPE
from dissonance.problem import BUDGET, Batch
from dissonance.solvers import convex
from dissonance.solvers.exact import Newton
from dissonance.variables import Variable, cells, shape

BIT = math.log(2)


@dataclass(frozen=True)
class Paper(Solver):
    """The best of `iterations` iterates of Adam on the clipped, normalised joint, from the uniform one.

    The published runs took 50 iterations for the first mu, then 20 warm-started ones an outer step (see `Published`),
    at learning rate 1e-3. Their joint also had variables that no attended arc mentions: with `spread` settings of
    those, every cell is one of `spread` equal ones, and Adam, which ignores scale, moves their sum `spread` times
    faster. The result's lower bound is proved, but loose: it comes from mu's own conditionals. `converged` is False
    unless Adam happened to arrive.
    """

    name = "paper"

    iterations: int = 50
    rate: float = 1e-3
    spread: int = 1
    tol: float = DEFAULT_TOL
    budget: int = BUDGET

    def solve(self, part: Batch) -> Answer:
        """The incompatibility of the best of the iterates."""
        hard = next((a for a in part.arcs if a.hard), None)
        if hard is not None:
            raise CapabilityError(f"{hard.arc} is hard (beta = inf), and the paper's solver has no constraints.")
        tree = single(part.sizes)
        s = Newton(budget=self.budget).structure(part, tree)
        if s is None:
            return infinite(part, self.name)
        dense = Dense.of(part.variables, part.beliefs)
        arcs = StackedArcs(*map(torch.from_numpy, (part.log_p, part.beta, part.alpha, part.gamma)))
        mu, _ = dense.descend(dense.uniform(1), arcs, self.iterations, self.rate * self.spread)
        value = float(dense.score(mu, arcs)[1])
        low = -math.inf
        if part.convex and math.isfinite(value):
            low = min(value, convex.solve.lower_from(s, s.numbers(part), mu[0].numpy()[s.layout.full]))
        table = mu.reshape(shape(part.variables))
        bounds = part.proved(low, value, tol=self.tol)
        return Answer(part, bounds, self.name, Marginals(tree, (table,)), steps=self.iterations)


@dataclass(frozen=True)
class StackedArcs:
    """The arcs of P problems, one after another: log p (P, entries), beta and alpha (P, arcs), gamma (P,)."""

    log_p: Tensor
    beta: Tensor
    alpha: Tensor
    gamma: Tensor


@dataclass(frozen=True)
class Dense:
    """The joint states of some variables, the entries (s,t) of their arcs' tables, and the arc of each entry.

    `entry`: that of every state, arc after arc; `row`: the first of those that have the same s.
    """

    states: int
    entry: Tensor
    row: Tensor
    arc_at: Tensor

    @classmethod
    def of(cls, variables: Sequence[Variable], arcs: Sequence[Arc]) -> Dense:
        """Tables one after another, (sources..., targets...) in C order."""
        joint, none = single({v.name: v.size for v in variables}), torch.zeros(0, dtype=torch.long)
        counts = [cells(a.scope) for a in arcs]
        entry, row = [none], [none]
        for a, at in zip(arcs, accumulate(counts, initial=0), strict=False):
            own = torch.arange(at, at + cells(a.scope))
            everywhere = broadcast_over(own.view(shape(a.scope)), a.names, joint, 0).expand(joint.shapes[0])
            entry.append(everywhere.reshape(-1))
            row.append(at + (own - at) // cells(a.targets))
        arc_at = torch.repeat_interleave(torch.arange(len(arcs)), torch.tensor(counts))
        return cls(joint.cells, torch.cat(entry), torch.cat(row), arc_at)

    def sums(self, mu: Tensor) -> Tensor:
        """mu(s,t) of every entry, (P, entries), of mu (P, states)."""
        arcs = len(self.entry) // self.states
        return mu.new_zeros(len(mu), len(self.row)).index_add_(1, self.entry, mu.repeat(1, arcs))

    def back(self, costs: Tensor) -> Tensor:
        """Costs of entries, (P, entries), added up at every state: the transpose."""
        return costs.index_select(1, self.entry).view(len(costs), -1, self.states).sum(1)

    def uniform(self, count: int) -> Tensor:
        """The uniform joint, so many times: (count, states)."""
        return torch.full((count, self.states), 1 / self.states, dtype=DTYPE)

    def score(self, mu: Tensor, a: StackedArcs) -> tuple[Tensor, Tensor, Tensor]:
        """mu(s,t), the incompatibility of mu, (P, 1), and the published derivative of it in mu.

        Of OInc it is sum_a beta_a log mu(t|s)/p_a(t|s); where mu(s,t) = 0, that of the other cells' mu(s), which is -1.
        """
        m = self.sums(mu)
        mass = torch.zeros_like(m).index_add_(1, self.row, m).index_select(1, self.row)
        some = m > 0
        beta = a.beta[:, self.arc_at]
        weight = beta - a.gamma[:, None] * a.alpha[:, self.arc_at]
        ratio = m.where(some, 1.0).log() - mass.where(some, 1.0).log()
        cost = torch.where(some, weight * ratio - numerics.times(beta, a.log_p), -weight * (mass > 0))
        value, slope = (m * cost).sum(1, keepdim=True), self.back(cost)
        if (a.gamma > 0).any():
            value = value + a.gamma[:, None] * numerics.xlogy(mu, mu).sum(1, keepdim=True)
            slope = slope + a.gamma[:, None] * torch.where(mu > 0, mu.where(mu > 0, 1.0).log() + 1, 0.0)
        return m, value, slope

    def possible(self, a: StackedArcs) -> Tensor:
        """Which joint states no believed arc makes impossible, (P, states)."""
        zero = (a.log_p == -math.inf) & (a.beta > 0)[:, self.arc_at]
        return self.back(zero.to(DTYPE)) == 0

    def descend(self, start: Tensor, a: StackedArcs, iterations: int, rate: float) -> tuple[Tensor, Tensor]:
        """The best mu that Adam passes on its way from `start`, and mu(s,t) of all that it passes, added up.

        Impossible states stay empty; a start that has nothing else is given up for the uniform joint.
        """
        alive = self.possible(a)
        kept = start * alive
        x = torch.where(kept.sum(1, keepdim=True) > 0, kept, alive.to(DTYPE))
        x = x / x.sum(1, keepdim=True).clamp(min=1e-300)
        best, lowest = x, torch.full((len(x), 1), math.inf, dtype=DTYPE)
        passed, adam = torch.zeros_like(a.log_p), Adam.fresh(x)
        for _ in range(iterations):
            clipped = x.clamp(min=0)
            total = clipped.sum(1, keepdim=True)
            mu = clipped / total
            m, value, slope = self.score(mu, a)
            cost = value / BIT + (total - 1) ** 2
            best, lowest = torch.where(cost <= lowest, mu, best), torch.minimum(cost, lowest)
            passed += m
            inward = (slope - (slope * mu).sum(1, keepdim=True)) / BIT / total + 2 * (total - 1)
            x = x - rate * adam.direction(torch.where((x >= 0) & alive, inward, 0.0))
        return best, passed
