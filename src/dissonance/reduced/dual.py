"""The reduced dual at gamma > 0: the only unknowns are conditionals q and the multipliers of hard arcs.

For any q(t|s) > 0 with rows that sum to 1, -H(T|S) = E_mu[log mu(t|s)] >= E_mu[log q(t|s)], with equality at
q = mu(t|s). A mechanism whose weight w = sum of beta - gamma alpha is not negative can therefore be made linear, and

    incompatibility(mu)  >=  E_mu[cost] - gamma H(mu)  >=  -gamma log sum_x e^(-cost(x)/gamma)  =:  D(log q, lam),
    cost = sum_a -beta_a log p_a  +  sum_m w_m log q_m  +  sum over hard arcs of lam(s,t) - sum_t p(t|s) lam(s,t),

the last of which is 0 on average if the hard arcs hold (where also H(T|S) is linear in mu). D is one upward pass over
the junction tree; the downward pass is its gradient, w (mu(s,t) - q(t|s) mu(s)) and mu(s,t) - p(t|s) mu(s), at the
calibrated mu ~ e^(-cost/gamma), whose incompatibility is D + sum_m w_m E[log mu(t|s)/q(t|s)] if hard arcs hold. With
q = softmax(z) D is concave in (z, lam): it is concave and increasing in log q, and log q is concave in z.

The unknowns are one number an entry of a table; nothing is ever stored for a pair of cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from dissonance.attended import Attended, Mechanism
from dissonance.costs import LOG_SCORE, FlatRows
from dissonance.distributions.messages import Messages
from dissonance.distributions.tree import Tree
from dissonance.problem import EPS, Batch
from dissonance.tolerances import UNSEEN

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SOFT, FIXED, HARD = 0, 1, 2

LEAST, MOST = -100.0, 1e3
"""The least log q that is looked at, and the largest multiplier, times what everything costs at most."""


@dataclass(frozen=True)
class ReducedTerm:
    """The soft arcs of one mechanism, or a hard arc: its fixed cost in each entry (sources..., targets...), inf where
    nothing can be; and the weight of log q, or log p of the hard arc."""

    scope: tuple[str, ...]
    kind: int
    width: int
    cost: Floats
    weight: float
    log_p: Floats
    name: str


def reduced_terms(part: Batch) -> list[ReducedTerm]:
    """The terms of a convex part."""
    found: list[ReducedTerm] = []
    gamma, weights = part.gamma.item(), part.weights
    by_mechanism: dict[Mechanism, list[Attended]] = {}
    for a in part.arcs:
        by_mechanism.setdefault(a.mechanism, []).append(a)
    for mechanism, arcs in by_mechanism.items():
        first, width = arcs[0], math.prod(part.sizes[v] for v in arcs[0].targets)
        soft, left = [a for a in arcs if not a.hard], 0.0
        if soft:
            tables = [(a, _ordered(a, first)) for a in soft]
            cost = np.zeros(first.log_p.size)
            for a, log_p in tables:
                cost -= a.beta * log_p if a.beta else 0.0
            if mechanism in weights and weights[mechanism] > 0:
                weight, kind = weights[mechanism], SOFT
            else:
                weight, kind = 0.0, FIXED
                left = sum(a.beta - gamma * a.alpha for a in soft) if mechanism not in weights else 0.0
            mean = sum((max(a.beta, 0.0) * log_p for a, log_p in tables if a.beta > 0), np.zeros_like(cost))
            start = mean / max(EPS, sum(max(a.beta, 0.0) for a in soft))
            found.append(ReducedTerm(first.scope, kind, width, cost, weight, start, first.name))
        for a in arcs:
            if a.hard:
                log_p = a.log_p.reshape(-1)
                cost = np.where(np.isneginf(log_p), math.inf, (left - gamma * a.alpha) * np.maximum(log_p, -1e300))
                found.append(ReducedTerm(a.scope, HARD, width, cost, 0.0, log_p, a.name))
                left = 0.0
    return found


def _ordered(a: Attended, first: Attended) -> Floats:
    """log p with the axes in the order of another arc of the same mechanism."""
    if a.scope == first.scope:
        return a.log_p.reshape(-1)
    return a.log_p.transpose([a.scope.index(v) for v in first.scope]).reshape(-1)


@dataclass(frozen=True)
class ReducedPoint:
    """What an evaluation finds at x: D, its gradient, mu in the entries of all terms (`mass`) and their rows, log q,
    the `gap` to mu's incompatibility if hard arcs hold, E_mu[cost], and mu in the cells of all clusters.

    `temperature` stands for gamma, and is no less: D is then a lower bound still, because H(mu) >= 0.
    """

    x: Floats
    temperature: float
    value: float
    gradient: Floats
    mass: Floats
    rows: Floats
    log_q: Floats
    gap: float
    mean: float
    cells: torch.Tensor

    def incompatibility(self, gamma: float) -> float:
        """That of mu if hard arcs hold: E[cost] + gap - gamma H(mu), where temperature H(mu) = E[cost] - D."""
        entropy = (self.mean - self.value) / self.temperature
        return self.mean + self.gap - gamma * max(0.0, entropy)


class ReducedDual:
    """D of terms at x: z of the soft entries, lam of the hard ones; other entries of x mean nothing."""

    def __init__(self, tree: Tree, terms: Sequence[ReducedTerm]) -> None:
        """On a junction tree of the terms."""
        self.given, self.terms = tree, terms
        self.tree = with_leaves(tree, terms)
        self.messages = Messages(self.tree)
        sizes = np.array([len(t.cost) for t in terms], dtype=np.int64)
        widths = np.array([t.width for t in terms], dtype=np.int64)
        self.at: Ints = np.concatenate([[0], np.cumsum(sizes)])
        cost = np.concatenate([t.cost for t in terms])
        self.alive: Bools = cost < math.inf
        self.cost: Floats = np.where(self.alive, cost, 0.0)
        kind = np.repeat([t.kind for t in terms], sizes)
        self.soft: Bools = (kind == SOFT) & self.alive
        self.hard: Bools = (kind == HARD) & self.alive
        self.weight: Floats = np.repeat([t.weight for t in terms], sizes)
        log_p = np.concatenate([t.log_p for t in terms])
        self.p: Floats = np.where(kind == HARD, np.exp(log_p), 0.0)
        self.by_row = FlatRows.wide(np.repeat(widths, sizes // widths))
        self.start: Floats = np.where(self.soft, np.maximum(log_p, LEAST), 0.0)

    def tamed(self, x: Floats) -> Floats:
        """The same point with log q for z, none below LEAST, and no multiplier above `most`: what hardly matters, and
        what has no maximum, must not run away."""
        return np.where(self.soft, np.maximum(self._log_q(x), LEAST), np.clip(x, -self.most, self.most))

    @cached_property
    def most(self) -> float:
        """The largest multiplier that is looked at."""
        return MOST * max(1.0, self.dearest)

    @cached_property
    def dearest(self) -> float:
        """What no mu can cost more than, if hard arcs hold at any: entropies only lower it."""
        return float(np.maximum.reduceat(np.where(self.alive, self.cost, -math.inf), self.at[:-1]).sum())

    def _log_q(self, x: Floats) -> Floats:
        """z - log sum e^z over the entries of a row that can be; 0 where there is no q."""
        z = np.where(self.soft, x, -math.inf)
        top = np.maximum.reduceat(z, self.by_row.at)
        top = np.where(np.isneginf(top), 0.0, top)[self.by_row.of]
        total = self.by_row.totals(np.exp(z - top))
        return np.where(self.soft, x - top - np.log(np.where(total > 0, total, 1.0)), 0.0)

    def _costs(self, x: Floats, log_q: Floats) -> Floats:
        found = self.cost + self.weight * log_q
        if self.hard.any():
            lam = np.where(self.hard, x, 0.0)
            found += lam - self.by_row.totals(self.p * lam)
        return found

    def at_point(self, x: Floats, temperature: float) -> ReducedPoint:
        """D and all that one upward and one downward pass tell, with `temperature` for gamma."""
        log_q = self._log_q(x)
        costs = self._costs(x, log_q)
        logs = np.where(self.alive, -costs / temperature, -math.inf)
        top = np.maximum.reduceat(logs, self.at[:-1])
        if np.isneginf(top).any():
            return ReducedPoint(x, temperature, math.inf, x, x, x, log_q, math.inf, math.inf, torch.zeros(0))
        logs -= np.repeat(top, np.diff(self.at))
        with torch.no_grad():
            log_z, cells = self.messages.calibrate(torch.from_numpy(np.concatenate([self._nothing, logs])))
        mass = cells[len(self._nothing) :].numpy()
        rows = self.by_row.totals(mass)
        gradient = np.where(self.soft, self.weight * (mass - np.exp(log_q) * rows), 0.0)
        gradient = np.where(self.hard, mass - self.p * rows, gradient)
        gap = float((self.weight * np.where(self.soft, LOG_SCORE.value(mass, log_q, self.by_row), 0.0)).sum())
        value = -temperature * (float(log_z) + math.fsum(top))
        mean = math.fsum(mass * costs)
        return ReducedPoint(x, temperature, value, gradient, mass, rows, log_q, gap, mean, cells)

    def least(self, point: ReducedPoint) -> float:
        """D at gamma = 0: the least cost of a joint state."""
        costs = np.where(self.alive, self._costs(point.x, point.log_q), math.inf)
        return float(self.messages.minimum(torch.from_numpy(np.concatenate([self._nothing, costs]))))

    def blur(self, point: ReducedPoint) -> float:
        """What rounding may have added to D or taken from it.

        All that a pass adds up is positive: log Z is off by an ulp for everything that is added to or multiplied with
        something on the way, and by those of the logarithms that go in. Where a pass takes logarithms or minima, by an
        ulp of the largest of them instead, which is no larger than what all tables span.
        """
        costs = self._costs(point.x, point.log_q)
        size = np.where(self.alive, np.abs(self.cost) + self.weight * np.abs(point.log_q), 0.0)
        lam = np.where(self.hard, np.abs(point.x), 0.0)
        size += lam + self.by_row.totals(self.p * lam)
        largest = np.maximum.reduceat(size, self.at[:-1])
        span = np.maximum.reduceat(costs, self.at[:-1]) - np.minimum.reduceat(costs, self.at[:-1])
        operations, messages = self._effort
        widths = sum(t.weight * (t.width + 4) for t in self.terms)
        passed = point.temperature * operations + (float(span.sum()) + 40 * point.temperature) * messages
        found = 8 * float(largest.sum()) + passed + widths + 4 * abs(point.value)
        return EPS * found

    def given_up(self, x: Floats, within: float) -> float:
        """What breaking hard arcs by `within` may gain."""
        if not self.hard.any():
            return 0.0
        lam = np.where(self.hard, np.abs(x), 0.0)
        mean = self.by_row.totals(self.p * lam)
        return UNSEEN * float(lam.sum()) + within * float(np.maximum.reduceat(mean, self.at[:-1]).sum())

    @cached_property
    def _nothing(self) -> Floats:
        """What the clusters themselves add: all of it is in the leaves."""
        return np.zeros(self.given.cells)

    @cached_property
    def _effort(self) -> tuple[float, float]:
        """How many numbers a pass adds up or multiplies along the tree, and how many messages there are."""
        tree = self.tree
        states = [math.prod(tree.sizes[v] for v in s) for s in tree.separators]
        rest = sum(math.prod(shape) // n for shape, n in zip(tree.shapes, states, strict=True))
        return rest + 4.0 * len(tree.clusters), 2.0 * len(tree.clusters)

    def broken(self, point: ReducedPoint) -> Floats:
        """How far mu is from each hard arc, entry by entry, as `numerics.broken` has it; 0 in other entries."""
        expected = self.p * point.rows
        beyond = np.maximum(np.abs(point.mass - expected) - UNSEEN, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.hard & (beyond > 0), beyond / expected, 0.0)

    def onto(self, point: ReducedPoint, term: int) -> Floats:
        """x at which D is largest among those that differ in the multipliers of one hard arc: there it holds."""
        here = slice(int(self.at[term]), int(self.at[term + 1]))
        x, alive = point.x.copy(), self.hard[here]
        mass, wanted = point.mass[here], self.p[here] * point.rows[here]
        with np.errstate(divide="ignore", invalid="ignore"):
            move = point.temperature * np.log(mass / wanted)
        x[here] += np.where(alive & (mass > 0) & (wanted > 0), move, 0.0)
        return x


def with_leaves(tree: Tree, terms: Sequence[ReducedTerm]) -> Tree:
    """The tree with a leaf for every term below the smallest cluster that holds it."""
    homes = tree.homes([t.scope for t in terms])
    sizes = tree.sizes
    return Tree(sizes, (*tree.clusters, *(t.scope for t in terms)), (*tree.parent, *homes.tolist()))
