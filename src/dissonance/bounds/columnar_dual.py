"""The lower bound of arcs in columns: every arc a problem of its own, tied to others by multipliers of its variables.

    D = sum over arcs of min_s [ lam(s) - beta log sum_t p(t|s) e^(-lam(t)/beta) ]  -  sum over variables of
        B log sum_x e^(mean log p(x) + theta(x)/B),       theta(x) = all multipliers of the variable's value x,

where lam(s) and lam(t) add up over the variables of s and t, and B and the mean are of the beliefs about that variable
alone (max_x theta(x) if there is none). It is `dual.py` for regions that are single arcs, in arrays from end to end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dissonance import lbfgs
from dissonance.bounds.terms import Floats, Ints, grid
from dissonance.columns import ColumnarPDG
from dissonance.compiled import clock, compiled, expect
from dissonance.problem import EPS
from dissonance.threads import side_by_side

PIECES = 4
"""Pieces of the arcs of a column that are done side by side."""

SECONDS = 1e-5
"""What an entry takes, roughly, if it is interpreted."""


@compiled
def raise_arcs(
    x: Floats, log_p: Floats, beta: Floats, sv: Ints, tv: Ints, eps: float, mass: Floats, gradient: Floats
) -> float:
    """The sum of the arcs' minima, smoothed; mu(s,t) of each where it is, and its marginals (the gradient)."""
    sources, targets = log_p.shape[1], log_p.shape[2]
    row, part = np.empty(sources), np.empty(targets)
    total = 0.0
    for a in range(len(x)):
        least = np.inf
        for s in range(sources):
            top = -np.inf
            for t in range(targets):
                part[t] = log_p[a, s, t]
                for i in range(tv.shape[1]):
                    part[t] -= x[a, tv[t, i]] / beta[a]
                top = max(top, part[t])
            whole = 0.0
            for t in range(targets):
                part[t] = np.exp(part[t] - top)
                whole += part[t]
            for t in range(targets):
                mass[a, s, t] = part[t] / whole
            row[s] = -beta[a] * (top + np.log(whole))
            for i in range(sv.shape[1]):
                row[s] += x[a, sv[s, i]]
            least = min(least, row[s])
        whole = 0.0
        for s in range(sources):
            row[s] = np.exp((least - row[s]) / eps)
            whole += row[s]
        total += least - eps * np.log(whole)
        gradient[a] = 0.0
        for s in range(sources):
            share = row[s] / whole
            for i in range(sv.shape[1]):
                gradient[a, sv[s, i]] += share
            for t in range(targets):
                mass[a, s, t] *= share
                for i in range(tv.shape[1]):
                    gradient[a, tv[t, i]] += mass[a, s, t]
    return total


@compiled
def least_arcs(x: Floats, log_p: Floats, beta: Floats, sv: Ints, tv: Ints, found: Floats, size: Floats) -> None:
    """The minimum of each arc, and the size of what was added up for it."""
    for a in range(len(x)):
        found[a] = np.inf
        size[a] = np.sum(np.abs(x[a]))
        for s in range(log_p.shape[1]):
            top, whole, fixed, biggest = -np.inf, 0.0, 0.0, 0.0
            for again in range(2):
                for t in range(log_p.shape[2]):
                    cost = log_p[a, s, t]
                    for i in range(tv.shape[1]):
                        cost -= x[a, tv[t, i]] / beta[a]
                    if again:
                        whole += np.exp(cost - top)
                    else:
                        top = max(top, cost)
                        if log_p[a, s, t] > -np.inf:
                            biggest = max(biggest, abs(log_p[a, s, t]) + abs(cost))
            for i in range(sv.shape[1]):
                fixed += x[a, sv[s, i]]
            found[a] = min(found[a], fixed - beta[a] * (top + np.log(whole)))
            size[a] = max(size[a], np.sum(np.abs(x[a])) + beta[a] * (biggest + 1.0))


@dataclass(frozen=True)
class ArcColumn:
    """Arcs of one shape about two or more variables: `scope` (n, variables); x has their multipliers from `at` on, the
    values of each variable one after another; `sv` and `tv`: which of them the settings of sources and targets have."""

    which: int
    rows: Ints
    scope: Ints
    sizes: tuple[int, ...]
    log_p: Floats
    beta: Floats
    sv: Ints
    tv: Ints
    at: int

    @property
    def width(self) -> int:
        """Multipliers of an arc."""
        return sum(self.sizes)

    @property
    def end(self) -> int:
        """Where the multipliers of the next column begin."""
        return self.at + len(self.scope) * self.width


class ColumnDual:
    """D of a PDG in columns at x, one number for every value of every variable of every arc that is about several."""

    def __init__(self, pdg: ColumnarPDG, log_p: Sequence[Floats], beta: Floats) -> None:
        self.sizes: Ints = np.asarray(pdg.sizes, dtype=np.int64)
        self.value_at: Ints = np.concatenate([[0], np.cumsum(self.sizes)])
        self.own_beta, self.own_log = np.zeros(len(self.sizes)), np.zeros(int(self.value_at[-1]))
        self.arcs: list[ArcColumn] = []
        self.own: list[tuple[int, Ints, Ints, Floats, Floats]] = []
        first = at = 0
        for k, column in enumerate(pdg.columns):
            weight, scope = beta[first : first + len(column)], column.scopes
            rows, first = np.flatnonzero(weight > 0), first + len(column)
            if not len(rows):
                continue
            table, scope, weight = log_p[k][rows], np.ascontiguousarray(scope[rows]), weight[rows]
            if scope.shape[1] == 1:
                self.own.append((k, rows, scope[:, 0], table[:, 0, :], weight))
                continue
            sizes = tuple(self.sizes[scope[0]].tolist())
            made = _arc_column(k, rows, scope, sizes, column.sources.shape[1], table, weight, at)
            self.arcs.append(made)
            at = made.end
        self.size = at
        for _, _, v, table, weight in self.own:
            self.own_beta += np.bincount(v, weight, len(self.sizes))
            cells = self.value_at[v][:, None] + np.arange(table.shape[1])
            self.own_log += np.bincount(cells.ravel(), (weight[:, None] * table).ravel(), len(self.own_log))
        self.variable: Ints = np.repeat(np.arange(len(self.sizes)), self.sizes)
        self.own_log /= np.where(self.own_beta > 0, self.own_beta, 1.0)[self.variable]
        self.cell: Ints = np.concatenate([_cells(c, self.value_at) for c in self.arcs] or [np.zeros(0, dtype=np.int64)])
        self.masses = [np.empty(c.log_p.shape) for c in self.arcs]

    def smoothed(self, x: Floats, eps: float) -> tuple[float, Floats, Floats]:
        """D with minima smoothed, its gradient, and the mass of each value of each variable; `masses` has the arcs'."""
        gradient, totals = np.empty(self.size), [0.0] * (PIECES * len(self.arcs))
        expect(SECONDS * sum(m.size for m in self.masses))

        def work(k: int, i: int) -> None:
            c, n = self.arcs[k], len(self.arcs[k].scope)
            here = slice(i * n // PIECES, (i + 1) * n // PIECES)
            own, slope = (y[c.at : c.end].reshape(n, c.width)[here] for y in (x, gradient))
            found = raise_arcs(own, c.log_p[here], c.beta[here], c.sv, c.tv, eps, self.masses[k][here], slope)
            totals[PIECES * k + i] = found

        side_by_side([lambda k=k, i=i: work(k, i) for k in range(len(self.arcs)) for i in range(PIECES)])
        weight = np.where(self.own_beta > 0, self.own_beta, eps)
        value, share = self._at_variables(x, weight)
        gradient -= share[self.cell]
        return sum(totals) - float((weight * value).sum()), gradient, share

    def _theta(self, x: Floats) -> Floats:
        return np.bincount(self.cell, x, int(self.value_at[-1])).astype(np.float64)

    def _at_variables(self, x: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """log sum_x e^(mean log p + theta/weight) of each variable, and the share of each value."""
        at, v = self.value_at[:-1], self.variable
        scaled = self.own_log + self._theta(x) / weight[v]
        top = np.maximum.reduceat(scaled, at)
        part = np.exp(scaled - top[v])
        total = np.add.reduceat(part, at)
        return top + np.log(total), part / total[v]

    def certified(self, x: Floats) -> float:
        """D, less what rounding may have added."""
        totals, sizes = [], []
        for c in self.arcs:
            found, size = np.empty(len(c.scope)), np.empty(len(c.scope))
            own = x[c.at : c.end].reshape(len(c.scope), c.width)
            least_arcs(own, c.log_p, c.beta, c.sv, c.tv, found, size)
            totals.append(found)
            sizes.append(size)
        at, v, told = self.value_at[:-1], self.variable, self.own_beta > 0
        theta, all_of = self._theta(x), np.bincount(self.cell, np.abs(x), int(self.value_at[-1]))
        weight = np.where(told, self.own_beta, 1.0)
        value, _ = self._at_variables(x, weight)
        totals.append(np.where(told, -weight * value, -np.maximum.reduceat(theta, at)))
        own = np.where(self.own_log > -np.inf, np.abs(self.own_log), 0.0)
        sizes.append(np.maximum.reduceat(all_of + weight[v] * (own + 1) + np.abs(theta), at))
        lengths = int(np.bincount(self.cell, minlength=1).max(initial=0)) + 32
        every = np.concatenate(totals)
        spread = float(np.concatenate(sizes).sum())
        return float(every.sum()) - EPS * (lengths * spread + 64 * float(np.abs(every).sum()))

    def raised(self, x: Floats, eps: float, steps: int, deadline: float) -> Floats:
        """x after so many steps up the smoothed D, or those that there is time for."""

        def check() -> None:
            if clock() > deadline:
                raise StopIteration

        options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": 6, "ftol": 1e-9, "gtol": 1e-9}
        return lbfgs.raised(lambda x: self.smoothed(x, eps)[:2], x, check, None, **options)[0]


def _arc_column(
    which: int,
    rows: Ints,
    scope: Ints,
    sizes: tuple[int, ...],
    sources: int,
    log_p: Floats,
    beta: Floats,
    at: int,
) -> ArcColumn:
    offsets = np.concatenate([[0], np.cumsum(sizes)])[:-1].astype(np.int64)
    sv = np.ascontiguousarray((grid(sizes[:sources]) + offsets[:sources, None]).T)
    tv = np.ascontiguousarray((grid(sizes[sources:]) + offsets[sources:, None]).T)
    return ArcColumn(which, rows, scope, sizes, np.ascontiguousarray(log_p), beta.copy(), sv, tv, at)


def _cells(c: ArcColumn, value_at: Ints) -> Ints:
    """By multiplier: which value of which variable it is of."""
    parts = [value_at[c.scope[:, i]][:, None] + np.arange(n) for i, n in enumerate(c.sizes)]
    return np.concatenate(parts, 1).ravel()
