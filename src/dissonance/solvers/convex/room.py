"""One problem's numbers and all the room its solution takes, in two flat vectors, as compiled code wants them.

`I` has the integers of a layout and `X` the reals of a problem; `L` says where what begins. Functions begin by looking
up what they need, and give it the name of its vector: with `i_own = L[AT.own]` and `x_mu = L[AT.mu]`, `I[i_own + i]` is
own[i] of the layout and `X[x_mu + i]` mu of cell i; `n_cells` is how many there are. (Compiled functions are made and
called ten times faster with three arrays than with fifty.) The point of an iteration, mu, z, y and d, stands together.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple, cast

import numpy as np

from dissonance.solvers.convex.layout import BY_CELLS, GIVEN, Fronts, Ints, Layout


class Offsets(NamedTuple):
    """How many there are of everything, and where what begins."""

    clusters: int
    cells: int
    entries: int
    terms: int
    unknowns: int
    widest: int  # cells of a cluster that is eliminated by its cells, at most
    most: int  # states of a separator, at most
    careful: int  # 1 if there are clusters that are eliminated by their multipliers, else 0
    point: int  # mu, z, y and d together
    width: int  # of X
    # in I: of the layout
    parent: int
    cell_at: int
    unknown_at: int
    own: int
    child_at: int
    child: int
    above_at: int
    above: int
    term_at: int
    kind: int
    term_cell: int
    entry: int
    row_at: int
    entry_at: int
    row: int
    # of the fronts
    way: int
    size: int
    absorbed: int
    front_at: int
    vector_at: int
    message_at: int
    # in X: the numbers of the problem
    c: int  # cells
    W: int  # terms
    p: int  # entries: hard tables, or a first guess of q
    # the point: primal, slack, l = log q of soft entries and lam of hard ones, separators
    mu: int
    z: int
    y: int
    d: int
    best: int  # another point
    broad: int  # the point where the gap was BROAD (see `interior.py`); 0 if it never was
    # the proof
    proved: int  # cells: the mu of the upper bound
    bounds: int  # lower, upper, how far hard arcs are from holding
    # a step: tau', mu+, dlam, dd; what it leaves of its right side, and mu+, dlam, dd for that: or another step
    target: int
    x: int
    dlam: int
    dd: int
    left: int
    more: int
    # by cells: r = slack - z, the right side
    r: int
    g: int
    # by entries: conditionals, mu(s,t), 1/(s qt), dl, what is missing of hard arcs
    q: int
    m: int
    curve: int
    dl: int
    off_hard: int
    # by unknowns: what is missing of the separators' equations, what clusters tell their parents
    off: int
    told: int
    # the factored system: pivot cells; M = diag a + up up' - down down'; sqrt w of soft entries, -1 of hard ones
    pivot: int
    a: int
    up: int
    down: int
    scale: int
    vector: int
    front: int
    message: int
    cholesky: int  # of messages to clusters that are eliminated by multipliers with m given: L, Q = L L'


AT = cast("Offsets", ModuleType("AT"))
"""The place of each number in `L`. It is a module because Numba compiles a number of a module as a constant, and
one of a named tuple as a constant of all its numbers, each time."""
vars(AT).update({name: place for place, name in enumerate(Offsets._fields)})


def offsets(lay: Layout, f: Fronts) -> tuple[Ints, Offsets]:
    """The integers of a layout in one vector, and where everything begins."""
    counts = {
        "clusters": len(lay.parent),
        "cells": len(lay.own),
        "entries": len(lay.row),
        "terms": len(lay.kind),
        "unknowns": int(lay.unknown_at[-1]),
        "widest": int(f.size[f.way == BY_CELLS].max(initial=1)),
        "most": int(np.diff(lay.unknown_at).max(initial=1)),
        "careful": int((f.way != BY_CELLS).any()),
    }
    names = Offsets._fields
    ints = [getattr(lay if hasattr(lay, name) else f, name) for name in names[names.index("parent") : names.index("c")]]
    cells, entries, terms, unknowns = (counts[name] for name in ("cells", "entries", "terms", "unknowns"))
    wide, change = cells * counts["careful"], cells + entries + unknowns
    point = cells + change
    sizes = [cells, terms, entries, cells, cells, entries, unknowns, point, point, cells, 3]
    sizes += [cells, cells, entries, unknowns, cells, change, cells, cells]
    sizes += [entries] * 5 + [unknowns] * 2 + [cells, wide, wide, wide, entries]
    sizes += [int(x[-1]) for x in (f.vector_at, f.front_at, f.message_at)]
    sizes.append(sizes[-1] if (f.way == GIVEN).any() else 0)
    starts = np.cumsum([0, *sizes]).tolist()
    at = np.cumsum([0, *(len(x) for x in ints)]).tolist()
    every = [*counts.values(), point, starts[-1], *at[:-1], *starts[:-1]]
    return np.concatenate(ints).astype(np.int64), Offsets._make(every)
