"""One large problem over threads: whole subtrees of its junction tree are eliminated side by side.

The result of a cluster does not depend on the other threads: it reads the messages of its children in a fixed order,
whichever thread computed them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from dissonance.compiled import Entry
from dissonance.solvers.convex import entries, interior
from dissonance.solvers.convex.entries import downward, upward
from dissonance.solvers.convex.layout import Floats, Ints
from dissonance.threads import side_by_side


def subtrees(parent: Ints, work: Floats, threads: int) -> tuple[list[Ints], Ints]:
    """Whole subtrees for every thread, about as much work for each, and the clusters above them; children first.

    Cut where all is done soonest. Parents are numbered before their children.
    """
    below, up, total = work.tolist(), parent.tolist(), float(work.sum())
    for k in range(len(up) - 1, -1, -1):
        if up[k] >= 0:
            below[up[k]] += below[k]
    soonest, best = total, [-1] * len(up)
    for size in (total / 2**n for n in range(1, (4 * threads).bit_length())):
        tops = [k for k, p in enumerate(up) if below[k] <= size and (p < 0 or below[p] > size)]
        load, owner = [0.0] * threads, [-1] * len(up)
        for k in sorted(tops, key=lambda k: (-below[k], k)):
            owner[k] = load.index(min(load))
            load[owner[k]] += below[k]
        if total - sum(load) + max(load) < soonest:
            soonest, best = total - sum(load) + max(load), owner
    for k, p in enumerate(up):
        if best[k] < 0 and p >= 0:
            best[k] = best[p]
    owners = np.array(best)
    every = [np.flatnonzero(owners == i)[::-1].copy() for i in range(-1, threads)]
    return [x for x in every[1:] if len(x)], every[0]


def over_subtrees(parts: Sequence[Ints], above: Ints) -> Callable[..., None]:
    """`interior.newton` with subtrees eliminated side by side: the same loop, interpreted, for large problems."""

    def upward_all(I: Ints, X: Floats, L: Ints, g: int, x: int, _: Ints, factoring: int) -> None:
        side_by_side([lambda part=part: upward(I, X, L, g, x, part, factoring) for part in parts])
        upward(I, X, L, g, x, above, factoring)

    def downward_all(I: Ints, X: Floats, L: Ints, g: int, x: int, _: Ints, mu_alone: int) -> None:
        downward(I, X, L, g, x, above, mu_alone)
        side_by_side([lambda part=part: downward(I, X, L, g, x, part, mu_alone) for part in parts])

    known = {name: x for name, x in vars(entries).items() if isinstance(x, Entry)}
    passes = {**known, "upward": upward_all, "downward": downward_all}
    passes["solve_system"] = _calling(interior.solve_system, passes)
    passes["lengthen"] = _calling(interior.lengthen, passes)
    loop = _calling(interior.newton, passes)

    def newton(*args: Any) -> None:
        with np.errstate(all="ignore"):
            loop(*args)

    return newton


def _calling(function: Any, others: Mapping[str, Callable[..., Any]]) -> Callable[..., None]:
    """A compiled function as it stands, interpreted, but for what it calls."""
    plain = getattr(function, "py_func", None) or function.__wrapped__
    return FunctionType(plain.__code__, {**plain.__globals__, **others})
