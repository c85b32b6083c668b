"""The lower bound of arcs in columns: every arc a problem of its own, tied to others by multipliers of its variables.

    D = sum over arcs of min_s [ lam(s) - beta log sum_t p(t|s) e^(-lam(t)/beta) ]  -  sum over variables of
        B log sum_x e^(mean log p(x) + theta(x)/B),       theta(x) = all multipliers of the variable's value x,

where lam(s) and lam(t) add up over the variables of s and t, and B and the mean are of the beliefs about that variable
alone (max_x theta(x) if there is none). It is `dual.py` for regions that are single arcs, in arrays from end to end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dissonance.bounds.dual import SmoothedDual
from dissonance.bounds.terms import Floats, Ints, grid
from dissonance.columns import Column, ColumnarPDG
from dissonance.compiled import compiled, expect
from dissonance.costs import LOG_SCORE, FlatRows
from dissonance.problem import EPS
from dissonance.threads import side_by_side

PIECES = 4
"""Pieces of the arcs of a column that are done side by side."""

SECONDS = 1e-5
"""What an entry takes, roughly, if it is interpreted."""


@compiled
def raise_arcs(
    x: Floats,
    log_p: Floats,
    beta: Floats,
    sv: Ints,
    tv: Ints,
    eps: float,
    mass: Floats,
    gradient: Floats,
    found: Floats,
) -> None:
    """The minimum of each arc, smoothed; mu(s,t) of each where it is, and its marginals (the gradient)."""
    sources, targets = log_p.shape[1], log_p.shape[2]
    row, part = np.empty(sources), np.empty(targets)
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
        found[a] = least - eps * np.log(whole)
        gradient[a] = 0.0
        for s in range(sources):
            share = row[s] / whole
            for i in range(sv.shape[1]):
                gradient[a, sv[s, i]] += share
            for t in range(targets):
                mass[a, s, t] *= share
                for i in range(tv.shape[1]):
                    gradient[a, tv[t, i]] += mass[a, s, t]


class ArcColumn:
    """Arcs of one shape: `which` column they are from, and which `rows` of it; `scope` (n, variables).

    x has their multipliers from `at` on, the values of each variable one after another; `sv` and `tv`: which of these
    the settings of sources and targets have; `by_row`: rows of the table of an arc.
    """

    def __init__(self, column: Column, which: int, sizes: Ints, log_p: Floats, beta: Floats, at: int) -> None:
        self.which, self.rows, self.at = which, np.flatnonzero(beta > 0), at
        self.log_p, self.beta = np.ascontiguousarray(log_p[self.rows]), beta[self.rows]
        self.scope = np.ascontiguousarray(column.scopes[self.rows])
        self.sizes: tuple[int, ...] = tuple(sizes[column.scopes[0]].tolist())
        self.width = sum(self.sizes)
        self.end = at + len(self.scope) * self.width
        first, cut = np.cumsum((0, *self.sizes))[:-1, None], column.sources.shape[1]
        self.sv, self.tv = (
            np.ascontiguousarray((grid(self.sizes[part]) + first[part]).T) for part in (slice(cut), slice(cut, None))
        )
        self.by_row = FlatRows.wide(np.full(self.log_p.shape[1], self.log_p.shape[2]))

    def values(self, value_at: Ints) -> Ints:
        """Return, by multiplier, which value of which variable it is of."""
        parts = [value_at[self.scope[:, i]][:, None] + np.arange(n) for i, n in enumerate(self.sizes)]
        return np.concatenate(parts, 1).ravel()

    def contributions(self, mass: Floats) -> Floats:
        """Return beta KL of each arc at mu(s,t), (n, entries)."""
        flat = self.log_p.reshape(len(self.log_p), -1)
        return self.beta * LOG_SCORE.value(mass.reshape(flat.shape), flat, self.by_row).sum(1)


class ColumnDual(SmoothedDual):
    """D of a PDG in columns at x, one number for every value of every variable of every arc that is about several.

    `alone`: arcs about one variable. What they say of a variable is pooled: `own_beta` is the sum, `own_log` the mean.
    """

    pairs = 6

    def __init__(self, pdg: ColumnarPDG, log_p: Sequence[Floats], beta: Floats) -> None:
        self.sizes: Ints = np.asarray(pdg.sizes, dtype=np.int64)
        self.value_at: Ints = np.concatenate([[0], np.cumsum(self.sizes)])
        self.arcs: list[ArcColumn] = []
        self.alone: list[ArcColumn] = []
        self.size = 0
        weights = np.split(beta, np.cumsum([len(c) for c in pdg.columns])[:-1])
        for k, (column, weight) in enumerate(zip(pdg.columns, weights, strict=True)):
            if not (weight > 0).any():
                continue
            made = ArcColumn(column, k, self.sizes, log_p[k], weight, self.size)
            if made.scope.shape[1] == 1:
                self.alone.append(made)
            else:
                self.arcs.append(made)
                self.size = made.end
        self.variable: Ints = np.repeat(np.arange(len(self.sizes)), self.sizes)
        self.by_variable = FlatRows(self.variable, self.value_at[:-1])
        self.own_beta, self.own_log = np.zeros(len(self.sizes)), np.zeros(len(self.variable))
        for c in self.alone:
            self.own_beta += np.bincount(c.scope[:, 0], c.beta, len(self.sizes))
            said = (c.beta[:, None] * c.log_p[:, 0]).ravel()
            self.own_log += np.bincount(c.values(self.value_at), said, len(self.own_log))
        self.own_log /= np.where(self.own_beta > 0, self.own_beta, 1.0)[self.variable]
        self.cell: Ints = np.concatenate([np.zeros(0, np.int64), *(c.values(self.value_at) for c in self.arcs)])
        self.masses = [np.empty(c.log_p.shape) for c in self.arcs]

    def smoothed(self, x: Floats, eps: float) -> tuple[float, Floats, Floats]:
        """D with minima smoothed, its gradient, and the mass of each value of each variable; `masses` has the arcs'."""
        gradient, found = np.empty(self.size), [np.empty(len(c.scope)) for c in self.arcs]
        expect(SECONDS * sum(m.size for m in self.masses))

        def work(k: int, i: int) -> None:
            c, n = self.arcs[k], len(self.arcs[k].scope)
            here = slice(i * n // PIECES, (i + 1) * n // PIECES)
            own, slope = (y[c.at : c.end].reshape(n, c.width)[here] for y in (x, gradient))
            raise_arcs(own, c.log_p[here], c.beta[here], c.sv, c.tv, eps, self.masses[k][here], slope, found[k][here])

        side_by_side([lambda k=k, i=i: work(k, i) for k in range(len(self.arcs)) for i in range(PIECES)])
        # variables: -B log sum_x e^(mean log p + theta/B), or a maximum, smoothed, where nothing is said
        weight, theta = np.where(self.own_beta > 0, self.own_beta, eps), np.bincount(self.cell, x, len(self.variable))
        scaled = self.own_log + theta / weight[self.variable]
        top = np.maximum.reduceat(scaled, self.by_variable.at)
        part = np.exp(scaled - top[self.variable])
        total = self.by_variable.totals(part)
        share = part / total
        gradient -= share[self.cell]
        value = weight * (top + np.log(total[self.by_variable.at]))
        return float(np.concatenate([*found, -value]).sum()), gradient, share

    def blur(self, x: Floats) -> float:
        """Return what rounding may have added: ulps of all sizes."""
        return EPS * self._lengths * (4 * float(np.abs(x).sum()) + self._tables)

    @cached_property
    def _lengths(self) -> int:
        """Ulps that a number may be off by: one for each multiplier of a value of a variable, and 96."""
        return 96 + int(np.bincount(self.cell, minlength=1).max(initial=0))

    @cached_property
    def _tables(self) -> float:
        """Sizes of what is added up besides multipliers."""
        largest = [(c.beta, _finite(c.log_p).max((1, 2))) for c in self.arcs]
        largest.append((self.own_beta, np.maximum.reduceat(_finite(self.own_log), self.by_variable.at)))
        return math.fsum(float(beta @ (2 * log_p + 1)) for beta, log_p in largest)


def _finite(log_p: Floats) -> Floats:
    return np.where(log_p > -math.inf, np.abs(log_p), 0.0)
