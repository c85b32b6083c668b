"""Problems of one structure with the room to solve them, and what compiled functions do with a row of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dissonance import threads
from dissonance.compiled import expect
from dissonance.solvers.convex.entries import aim, certify, measure, newton, slack, solve_system
from dissonance.solvers.convex.interior import BROAD, COLD, HERE
from dissonance.solvers.convex.layout import Ints
from dissonance.solvers.convex.program import Floats, Numbers, Structure
from dissonance.solvers.convex.room import AT
from dissonance.solvers.convex.subtrees import over_subtrees, subtrees
from dissonance.tolerances import ROUNDING

SECONDS_PER_CELL, SECONDS_PER_PRODUCT, WARM = 7e-4, 1.7e-6, 0.4
"""What a solve takes a cell, and a multiplication of a Newton step, roughly, if it is interpreted; and the part of that
which it takes from a point that is known."""

NARROW, ANY = 1e-7, 1e300
"""The gap at which a point is a start for other gammas; and any move of mu will do there."""


class Sharing(NamedTuple):
    """When threads save time: cells, of all problems together, for each thread; and multiplications of a Newton step
    from which on the subtrees of one problem are shared out over threads."""

    cells_per_thread: int = 20_000
    subtree_work: float = 2e7


SHARING = Sharing()


class Work:
    """Some problems of one structure, with room to solve them: a row of X each; see `room.py`.

    `at`: where the iteration stands; `broad`: where it stood when the gap was BROAD, 0 if it never was; `mu`; `proved`:
    the mu of the upper bound; `bounds`: lower, upper, how far hard arcs are from holding.
    """

    def __init__(self, s: Structure, numbers: Numbers, at: Floats | None = None, sharing: Sharing = SHARING) -> None:
        self.sharing = sharing
        self.structure, self.I, self.L = s, *s.flat_layout
        self.offsets = np.array(self.L)
        self.X = np.zeros((len(numbers.c), self.L.width))
        self.clusters = s.clusters
        self.at, self.broad = self.view("mu", "d"), self.view("broad")  # (P, point)
        self.mu, self.proved, self.bounds = self.view("mu"), self.view("proved"), self.view("bounds")
        for name, values in zip(Numbers._fields, numbers, strict=True):
            self.view(name)[...] = values
        if at is not None:
            self.at[...] = at

    def view(self, first: str, last: str = "") -> Floats:
        """What the problems have of something, or from one thing to another in their room, (P, size), in place."""
        return self.X[:, getattr(self.L, first) : self.L[getattr(AT, last or first) + 1]]

    def rows(self) -> list[tuple[Ints, Floats, Ints]]:
        """The arguments of compiled functions, problem by problem."""
        return [(self.I, x, self.offsets) for x in self.X]

    def newton(
        self,
        tol: Floats,
        start: int = COLD,
        most: int = 100,
        *,
        mu_tol: float = math.inf,
        which: Ints | None = None,
        taken: Ints | None = None,
    ) -> Floats:
        """Iterate and prove some problems, all by default: how far mu moved last, (P,); see `interior.newton`."""
        count = len(self.X)
        some = np.arange(count) if which is None else which
        taken = np.zeros(count, dtype=np.int64) if taken is None else taken
        moves = np.zeros(count)
        each = SECONDS_PER_CELL * self.L.cells + SECONDS_PER_PRODUCT * self.structure.work
        expect(each * len(some) * (1.0 if start == COLD else WARM), newton)
        args = self.I, self.X, self.offsets, self.clusters, some, start, tol, mu_tol, most, taken, moves
        if self.structure.work < self.sharing.subtree_work:
            newton(*args)
        else:
            with threads.without_blas_threads():
                (self.over_subtrees if len(some) == 1 and threads.free() > 1 else newton)(*args)
        return moves

    @cached_property
    def over_subtrees(self) -> Callable[..., None]:
        """`newton` for one large problem: over threads, if its tree has branches that are worth it."""
        size = self.structure.fronts.size.astype(np.float64)
        parts, above = subtrees(self.structure.layout.parent, size**2 * (size + 10.0), threads.free())
        return over_subtrees(parts, above) if len(parts) > 1 else newton

    def settle(self, tol: Floats, mu_tol: float, most: int, start: Floats | None = None) -> tuple[Floats, Floats]:
        """Until mu stands still, from a cold start or one given: how far it moved last (P,), a start for other gammas.

        A start (P, point) is where the gap is BROAD, for from there on gamma matters; for other gammas, NARROW.
        """
        if start is None:
            self.newton(np.full(len(self.X), BROAD), COLD, most, mu_tol=ANY)
        else:
            self.at[...] = start
        self.newton(np.maximum(tol, NARROW), HERE, most, mu_tol=ANY)
        start = self.at.copy()
        return self.newton(tol, HERE, most, mu_tol=mu_tol), start

    def certify(self) -> None:
        """Prove bounds."""
        for row in self.rows():
            certify(*row, ROUNDING)

    def derivative(self, twice: Numbers, least: Floats) -> Floats:
        """mu less its derivative times gamma (P, cells): `twice` are the numbers at 2 gamma; `least` slack (P,)."""
        numbers, r, z = self.view("c", "p"), self.view("r"), self.view("z")
        other = np.concatenate(twice, axis=1)
        for b, row in enumerate(self.rows()):
            measure(*row)
            before, own = r[b] + z[b], numbers[b].copy()
            numbers[b] = other[b]
            slack(*row, self.L.r, 1.0, 0.0)
            numbers[b] = own
            np.maximum(z[b], least[b], out=z[b])
            self.solve_system(b, z[b] + (r[b] - before), 3)
        return self.view("x")

    def solve_system(self, b: int, g: Floats | float, refinements: int, mass: float = 1.0) -> Floats:
        """mu+ (cells,) of a problem's system at its point, for a right side g (cells,), and roots of some mass."""
        row = self.rows()[b]
        aim(*row, 0.0, mass)
        self.view("g")[b] = g
        solve_system(*row, self.clusters, 1, 0, refinements, mass)
        return self.view("x")[b]
