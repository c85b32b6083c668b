"""Compile the solver now: before several processes would each do it for themselves."""

from __future__ import annotations

import math

from dissonance.compiled import engage, kept


def precompile() -> None:
    """Compile the functions of the solver and cache them on disk; does nothing if the cache is up to date."""
    if kept():
        return
    from dissonance.focus import Attention
    from dissonance.pdg import PDG, Arc
    from dissonance.problem import prepare
    from dissonance.solvers.convex.selection import select
    from dissonance.solvers.exact import Newton
    from dissonance.variables import Variable

    engage()
    a, b, c = (Variable(x, 2) for x in "ABC")
    rows = [[0.7, 0.3], [0.4, 0.6]]
    pdg = PDG(Arc("ab", a, b, rows), Arc("bc", b, c, rows), Arc("ca", c, a, [[1.0, 0.0], [0.5, 0.5]]))
    for beta in (1.0, math.inf):
        (problem,) = prepare(pdg, Attention.uniform(pdg).replace(beta={"ab": beta})).components
        (found,) = Newton().solve_many([problem])
        select(found)
