"""Lower bounds where the incompatibility is not convex: relaxation of its concave terms, branch and bound.

A mechanism of weight -w < 0 adds w H(T|S) = sum_s w mu(s) h(mu(T|s)), h the entropy, which is concave. Suppose that a
row mu(T|s) is known to lie in a simplex with vertices v_1, ..., v_k. Then every linear l with

    l . v_i <= h(v_i)    for all i

is below h all over the simplex, and w l . mu(s, T) is a linear cost that is too low, if anything. With such a cost in
the place of every concave term the problem is convex, and `convex/certificate.py` proves a lower bound for all mu whose
rows lie in these simplices. The best l come from the multipliers of "the row lies in its simplex". A simplex is cut in
two where the relaxation is furthest off; the least bound of all parts is a bound on the whole, and the parts that
cannot hold anything better than what is known are dropped.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dissonance.attended import Array
from dissonance.proof import EPS
from dissonance.solvers import convex

LEAST_CUT = 0.2
"""An edge is cut at this part of it at least, so that every simplex shrinks."""


def row_entropy(vertices: Array) -> Array:
    """h of each row."""
    return -(vertices * np.log(np.where(vertices > 0, vertices, 1.0))).sum(-1)


@dataclass(frozen=True)
class ConcaveRow:
    """mu(s, T) of a concave term at one s: its entries, and the weight w > 0 of its entropy."""

    entries: slice
    weight: float


@dataclass(order=True)
class SimplexPart:
    """The mu whose rows lie in some simplices (vertices in rows; the whole simplex if left out), and a lower bound."""

    lower: float
    number: int
    simplices: Mapping[int, Array] = field(compare=False)
    mu: Array = field(compare=False)


@dataclass(frozen=True)
class Branching:
    """One problem: its structure, the numbers of its convex part, and the weight of every term, negative if concave."""

    structure: convex.program.Structure
    numbers: convex.program.Numbers
    weight: Array

    @cached_property
    def rows(self) -> list[ConcaveRow]:
        """The rows that have an entropy: those of concave terms, with two entries or more."""
        lay, found = self.structure.layout, list[ConcaveRow]()
        for t in np.flatnonzero(self.weight < 0).tolist():
            for r in range(int(lay.row_at[t]), int(lay.row_at[t + 1])):
                first, stop = int(lay.entry_at[r]), int(lay.entry_at[r + 1])
                if stop - first > 1:
                    found.append(ConcaveRow(slice(first, stop), -float(self.weight[t])))
        return found

    def tangent(self, mu: Array) -> tuple[Array, float]:
        """w log mu(t|s) of the concave terms w sum m log(m/s), added up at every cell, and their mean; mass that has
        vanished may return."""
        s = self.structure
        m = s.entry_sums(mu[None])
        ratio = np.maximum(m, 1e-30) / np.maximum(s.row_sums(m), 1e-30)
        found = np.minimum(self.weight, 0.0)[s.term] * np.log(ratio)
        return s.cell_sums(found)[0], float(m[0] @ found[0])

    def value(self, mu: Array) -> tuple[float, float, float]:
        """The incompatibility of mu, how rounding may have changed it, and how far hard arcs are from holding."""
        value, blur, broken = convex.solve.value(self.structure, self.numbers, mu)
        concave = self.tangent(mu)[1]
        weights = float(np.minimum(self.weight, 0.0).sum())
        return value + concave, blur + 32 * EPS * (abs(concave) - weights), broken

    @cached_property
    def matrices(self) -> convex.conic.Sparse:
        """The convex part as sparse matrices."""
        return convex.conic.sparse(convex.program.Program(self.structure, self.numbers))

    def bound(self, simplices: Mapping[int, Array], tol: float) -> tuple[float, Array]:
        """A lower bound over the mu whose rows lie in these simplices, and the mu that attains about that."""
        import scipy.sparse as sp

        every = self.matrices.every
        flat = {r: _through(v) for r, v in simplices.items()}
        places = {r: np.linalg.inv(v.T) for r, v in simplices.items()}  # mu(s, T) -> its coordinates, >= 0 inside
        inside: Any = None
        if simplices:
            blocks = [sp.csr_matrix(places[r]) @ every[self.rows[r].entries] for r in simplices]
            inside = sp.vstack(blocks).tocsr()
        found = convex.conic.conic(self._program(flat), tol, self.matrices, inside)
        nu = iter(np.split(found.multipliers, np.cumsum([len(v) for v in simplices.values()])[:-1]))
        tilted = {r: _below(v, flat[r] - places[r].T @ next(nu) / self.rows[r].weight) for r, v in simplices.items()}
        proved = convex.solve.prove(self._program(tilted), found.at)
        return float(proved.bounds[0, 0]), proved.mu[0]

    def _program(self, costs: Mapping[int, Array]) -> convex.program.Program:
        """The convex part with linear costs in the place of entropies (0 where there are none)."""
        entries = np.zeros(len(self.structure.layout.row))
        for r, cost in costs.items():
            entries[self.rows[r].entries] += self.rows[r].weight * cost
        c = self.numbers.c + (self.matrices.every.T @ entries)[None]
        return convex.program.Program(self.structure, self.numbers._replace(c=c))

    def cut(self, part: SimplexPart) -> Iterator[dict[int, Array]]:
        """The row whose entropy is furthest above its relaxation, its simplex cut in two across its longest edge."""
        joint = self.matrices.every @ part.mu
        worst, chosen, at = 0.0, -1, np.zeros(0)
        for r, row in enumerate(self.rows):
            m = joint[row.entries]
            if m.sum() <= 0:
                continue
            q = m / m.sum()
            v = part.simplices.get(r, np.eye(len(q)))
            off = row.weight * m.sum() * (row_entropy(q) - q @ _through(v))
            if off > worst:
                worst, chosen, at = off, r, np.linalg.solve(v.T, q)
        if chosen < 0:
            return
        v = part.simplices.get(chosen, np.eye(len(at)))
        i, j = np.unravel_index(np.linalg.norm(v[:, None] - v[None], axis=-1).argmax(), (len(v), len(v)))
        share = float(np.clip(at[j] / max(at[i] + at[j], 1e-300), LEAST_CUT, 1 - LEAST_CUT))
        middle = (1 - share) * v[i] + share * v[j]
        for k in (i, j):
            half = v.copy()
            half[k] = middle
            yield {**part.simplices, chosen: half}

    def search(self, upper: Callable[[Array], float], gap: float, nodes: int, seconds: float) -> tuple[float, int]:
        """A lower bound on the whole, and how many parts were looked at: it ends within `gap` of the upper bound, or
        after so many parts or so many seconds.

        `upper`: told the mu of every part, it answers with the upper bound that is known then.
        """
        stop = time.perf_counter() + seconds
        tol = 1e-2 * gap
        lower, mu = self.bound({}, tol)
        best, looked = upper(mu), 1
        waiting = [SimplexPart(lower, 0, {}, mu)]
        dropped = np.inf
        while waiting and waiting[0].lower < best - gap and looked < nodes and time.perf_counter() < stop:
            part = heapq.heappop(waiting)
            children = list(self.cut(part))
            for simplices in children:
                lower, mu = self.bound(simplices, tol)
                best, looked = upper(mu), looked + 1
                child = SimplexPart(max(lower, part.lower), looked, simplices, mu)
                if child.lower >= best - gap:
                    dropped = min(dropped, child.lower)
                else:
                    heapq.heappush(waiting, child)
            if not children:  # its bound is that of a convex problem, and cannot be tightened
                dropped = min(dropped, part.lower)
        return min(dropped, waiting[0].lower if waiting else np.inf, best), looked


def _through(vertices: Array) -> Array:
    """The linear l with l . v_i = h(v_i) at every vertex."""
    return np.asarray(np.linalg.solve(vertices, row_entropy(vertices)), dtype=np.float64)


def _below(vertices: Array, cost: Array) -> Array:
    """A linear cost moved down, if need be, so that it is below h at every vertex whatever rounding did."""
    over = float((vertices @ cost - row_entropy(vertices)).max())
    return cost - max(0.0, over) - 1e-15 * (1.0 + float(np.abs(cost).max()))
