"""The quadratic score where no junction tree fits: a bracket, by the regions and the joint states of `bounds/`.

    minimise   sum_a beta_a (m - p s)^2 / s,     m = mu(E, G), s = mu(G)

From below: m^2/s >= 2 q m - q^2 s for any q, so that a belief costs at least the mean of what its bet wins, beta ((p -
v)^2 - (q - v)^2) where G holds. That is linear in mu, and concave in q for each world; with multipliers that make
regions agree,

    D = sum_r min over cells x of r of [ multipliers at x + sum of what the bets at r win at x ]

is at most the least cost, and concave in multipliers and q together. From above: joint states, 1/N at each, which are
moved to where they cost less; their marginals are counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from dissonance import lbfgs
from dissonance.bounds.bracketing import Bracketing
from dissonance.bounds.descent import StateDescent
from dissonance.bounds.dual import GIVEN_UP, RelaxedDual, softmin
from dissonance.bounds.regions import Regions
from dissonance.bounds.states import Sampler, States
from dissonance.bounds.tally import CellTally
from dissonance.bounds.terms import SOFT, Floats, Ints, Terms
from dissonance.bounds.worlds import STEPS, Worlds
from dissonance.problem import EPS, Batch
from dissonance.solvers import Bounds

TEMPERATURE = 1e-4
"""At which states move, times a large beta: squared errors differ by less than logarithms do."""

TYPICAL = 0.1
"""A large squared error."""


class SquaredErrors(NamedTuple):
    """Beliefs about the same event given the same, as one: beta (m - p s)^2 / s + c s, by row of the tables of terms.

    `zero` and `one`: its two entries among those of all soft terms; `always`: there is no condition, s = 1. `soft`:
    these terms, where the entries of each begin, and how many there are.
    """

    zero: Ints
    one: Ints
    beta: Floats
    p: Floats
    c: Floats
    always: Ints
    soft: list[tuple[int, int, int]]

    @classmethod
    def of(cls, terms: Terms, tables: Sequence[Floats], beta: Floats) -> SquaredErrors:
        """Those of all soft terms; `tables` (entries,) and `beta`: of the arcs of the component."""
        found, where, used = [], [], 0
        for k, t in enumerate(terms.terms):
            if t.kind != SOFT:
                continue
            open_ = np.isfinite(t.log_p).reshape(-1, t.width)
            weight = beta[list(t.arcs)]
            for row in np.flatnonzero(open_.sum(1) == 2).tolist():
                zero, one = (row * t.width + np.flatnonzero(open_[row])).tolist()
                said = np.array([tables[a][one] for a in t.arcs])
                whole = weight.sum()
                p = weight @ said / whole
                found.append((used + zero, used + one, whole, p, weight @ (said - p) ** 2, len(open_) == 1))
            where.append((k, used, len(t.log_p)))
            used += len(t.log_p)
        columns = np.array(found, dtype=np.float64).reshape(-1, 6).T
        zero, one, always = (columns[i].astype(np.int64) for i in (0, 1, 5))
        return cls(zero, one, columns[2], columns[3], columns[4], always, where)

    @property
    def entries(self) -> int:
        """How many there are in all."""
        return sum(size for _, _, size in self.soft)

    def cost(self, zeros: Floats, ones: Floats) -> float:
        """The cost of masses at the two entries."""
        s = zeros + ones
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.where(s > 0, (ones - self.p * s) ** 2 / s, 0.0)
        return math.fsum(self.beta * off + self.c * s)

    def by_term(self, q: Floats) -> dict[int, Floats]:
        """By soft term, q of every entry of its table: NaN where nothing is bet on."""
        found = np.full(self.entries, math.nan)
        found[self.zero], found[self.one] = 1 - q, q
        return {k: found[at : at + size] for k, at, size in self.soft}

    def wins(self, q: Floats) -> tuple[Floats, Floats]:
        """What bets at q win at the two entries, c included."""
        return self.beta * (self.p**2 - q**2) + self.c, self.beta * ((1 - self.p) ** 2 - (1 - q) ** 2) + self.c


class SquaredDual(RelaxedDual):
    """D at x: multipliers, then q."""

    def __init__(self, regions: Regions, errors: SquaredErrors, terms: Terms) -> None:
        super().__init__(regions)
        self.errors, self.size = errors, self.count + len(errors.p)
        self.at = regions.entry_at[regions.row_at[regions.region_at]]
        number = {s: i for i, s in enumerate(regions.scopes)}
        place = np.full(int(regions.dense_at[-1]), -1, dtype=np.int64)
        place[regions.dense_at[regions.cell_region] + regions.cell] = np.arange(len(regions.cell))
        which = np.full((2, errors.entries), -1, dtype=np.int64)
        which[0, errors.zero] = which[1, errors.one] = np.arange(len(errors.p))
        none = np.zeros(0, dtype=np.int64)
        cells, rows = [[none], [none]], [[none], [none]]
        used = 0
        for t in (t for t in terms.terms if t.kind == SOFT):
            here = place[regions.dense_at[number[t.scope]] + np.arange(len(t.entry))]
            for v in (0, 1):
                row = np.where((here >= 0) & (t.entry >= 0), which[v, used + t.entry], -1)
                cells[v].append(here[row >= 0])
                rows[v].append(row[row >= 0])
            used += len(t.log_p)
        self.zeros, self.ones = (
            sparse.csr_matrix(
                (np.ones(sum(map(len, r))), (np.concatenate(c), np.concatenate(r))), (len(regions.cell), len(errors.p))
            )
            for c, r in zip(cells, rows, strict=True)
        )
        self.zeros_back, self.ones_back = self.zeros.T.tocsr(), self.ones.T.tocsr()

    @property
    def start(self) -> Floats:
        """No multipliers, and no bets: q = p."""
        return np.concatenate([np.zeros(self.count), self.errors.p])

    def _won(self, x: Floats) -> Floats:
        zero, one = self.errors.wins(x[self.count :])
        return self.r.ties @ x[: self.count] + self.zeros @ zero + self.ones @ one

    def smoothed(self, x: Floats, eps: float) -> tuple[float, Floats, Floats]:
        """D with minima smoothed, its gradient, and the mass of cells that it is."""
        least, mass = softmin(self._won(x), self.at, self.r.cell_region, eps)
        q, beta = x[self.count :], self.errors.beta
        slope = 2 * beta * ((1 - q) * (self.ones_back @ mass) - q * (self.zeros_back @ mass))
        return float(least.sum()), np.concatenate([self.back @ mass, slope]), mass

    def certified(self, x: Floats) -> float:
        """D, less what rounding may have added."""
        r, e = self.r, self.errors
        found = np.minimum.reduceat(self._won(x), self.at)
        most = 4 * e.beta * (1 + x[self.count :] ** 2) + e.c
        size = abs(r.ties) @ np.abs(x[: self.count]) + self.zeros @ most + self.ones @ most
        spread = float(np.maximum.reduceat(size, self.at).sum())
        given_up = GIVEN_UP * float(np.abs(x[r.hard]).sum()) if len(r.hard) else 0.0
        return math.fsum(found) - 32 * EPS * spread - given_up


class SquaredTally(CellTally):
    """Joint states, counted; what one more or one less costs in squared errors."""

    def __init__(self, sampler: Sampler, states: States, errors: SquaredErrors) -> None:
        self.errors = errors
        super().__init__(sampler, states)

    def _tables(self, numbers: Floats) -> Floats:
        e, found = self.errors, np.zeros((5, self.errors.entries))
        for v, entry in ((0, e.zero), (1, e.one)):
            found[:, entry] = np.stack([e.beta, e.p, e.c, np.full(len(e.p), v), e.always])
        return found


class SquaredWorlds(Worlds):
    """Joint states that are known, and the q that are best against them."""

    def __init__(self, sampler: Sampler, states: States, errors: SquaredErrors) -> None:
        super().__init__(sampler, states)
        self.errors = errors

    @property
    def start(self) -> Floats:
        """The point to start from: q = p."""
        return self.errors.p

    def bets(self, z: Floats) -> dict[int, Floats]:
        """q, by term."""
        return self.errors.by_term(z)

    def gains(self, z: Floats) -> Floats:
        """What the bets win at every entry."""
        found = np.zeros(self.errors.entries)
        found[self.errors.zero], found[self.errors.one] = self.errors.wins(z)
        return found

    def best(self, z: Floats, eps: float) -> Floats:
        """q whose least price over the known states, smoothed, is largest."""
        known, e = self.known, self.errors
        back, first = known.T.tocsr(), np.zeros(1, dtype=np.int64)
        one = np.zeros(len(self.entries), dtype=np.int64)

        def at(q: Floats) -> tuple[float, Floats]:
            value, part = softmin(known @ self.gains(q), first, one, eps)
            mass = back @ part
            return float(value[0]), 2 * e.beta * ((1 - q) * mass[e.one] - q * mass[e.zero])

        return lbfgs.raised(at, z, maxiter=STEPS, maxcor=12)[0]


class SquaredBracketing(Bracketing):
    """The brackets of a book; `tables` and `beta`: what the arcs of the component really say, and how strongly."""

    def __init__(self, solver: Bounds, component: Batch, tables: Sequence[Floats]) -> None:
        super().__init__(solver, component)
        self.tables = tables

    @cached_property
    def errors(self) -> SquaredErrors:
        """The squared errors of the beliefs, as a function of mu."""
        return SquaredErrors.of(self.terms, self.tables, self.component.beta[0])

    @cached_property
    def scale(self) -> float:
        """A typical cost of a world: squared errors are small."""
        return TYPICAL * float(np.median(self.errors.beta)) if len(self.errors.beta) else 1.0

    @property
    def close(self) -> bool:
        """Whether the bounds are as close as was asked for, relative to what squared errors are."""
        return self.upper < math.inf and self.upper - self.lower <= self.solver.tol * max(self.scale, self.upper)

    def _dual(self) -> SquaredDual:
        return SquaredDual(self.regions, self.errors, self.terms)

    def _descent(self, sampler: Sampler, states: States) -> StateDescent:
        found = StateDescent(sampler, states, self.generator, SquaredTally(sampler, states, self.errors))
        found.temperature = TEMPERATURE
        return found

    def _worlds(self, sampler: Sampler, states: States) -> Worlds:
        return SquaredWorlds(sampler, states, self.errors)

    def _cost(self, sampler: Sampler, states: States) -> float:
        masses = sampler.masses(sampler.counts(states)) / states.shape[1]
        return self.errors.cost(masses[self.errors.zero], masses[self.errors.one])

    def _log_q(self) -> dict[str, Floats]:
        return {}

    def wins(self) -> dict[str, Floats]:
        """By arc, what the bet on it that the lower bound is made of wins at every entry of its table."""
        found: dict[str, Floats] = {}
        if self.dual is None:
            return found
        by_term = self.searched or self.errors.by_term(self.best[self.dual.count :])
        for k, mine in by_term.items():
            t = self.terms.terms[k]
            other = 1 - mine
            for a in t.arcs:
                won = (1 - self.tables[a]) ** 2 - other**2
                found[self.component.arcs[a].name] = self.component.beta[0, a] * np.where(np.isnan(mine), 0.0, won)
        return found
