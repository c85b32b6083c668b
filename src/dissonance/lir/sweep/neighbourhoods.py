"""Neighbourhoods: which foci a sweep visits, in batches of one shape, and in colours whose foci do not touch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dissonance.columns import ColumnarPDG
from dissonance.compiled import engage
from dissonance.errors import DissonanceError, suggest
from dissonance.lir.sweep import loops

Ints = npt.NDArray[np.int64]
Lists = tuple[Ints, Ints]
"""Lists of numbers: where each begins, and all of them one after another."""

MOST_VARIABLES, MOST_CELLS = 5, 1 << 10
"""How large a block may be."""

MANY = 2000
"""Arcs from which on loops are compiled."""


@dataclass(frozen=True, eq=False)
class FociBatch:
    """Foci of one shape: `arcs` (foci, arcs), in an order in which all look alike; `variables` (foci, variables); and
    the scope of each arc, as numbers of these."""

    arcs: Ints
    variables: Ints
    scopes: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.arcs)

    def take(self, some: slice) -> FociBatch:
        """Some of the foci."""
        return FociBatch(self.arcs[some], self.variables[some], self.scopes)


class _Graph:
    """The attended arcs: the scope of each, and the arcs at each variable."""

    def __init__(self, pdg: ColumnarPDG, attended: npt.NDArray[np.bool_]) -> None:
        self.at, self.scopes = pdg.scopes
        self.sizes, self.arcs = pdg.sizes, np.flatnonzero(attended)
        begins, around = pdg.incidence
        kept = attended[around]
        self.around_at = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)[begins]
        self.around = around[kept]
        degree = np.diff(self.around_at)
        entry_arc = np.repeat(np.arange(len(self.at) - 1), np.diff(self.at))
        order = np.lexsort((degree[self.scopes], entry_arc))  # the variable of each arc with the fewest arcs
        home = self.scopes[order][self.at[:-1]]
        by_home = self.arcs[np.argsort(home[self.arcs], kind="stable")]
        self.home_at = np.searchsorted(home[by_home], np.arange(len(self.sizes) + 1))
        self.home = by_home

    @property
    def variables(self) -> int:
        """How many there are."""
        return len(self.sizes)

    def inside(self, sets: Lists) -> Lists:
        """The arcs whose scope lies within each set of variables."""
        begins = np.zeros(len(sets[0]), dtype=np.int64)
        given = (*sets, self.home_at, self.home, self.at, self.scopes, self.variables, begins)
        count = loops.fill_inside(*given, begins[:0], False)
        found = np.zeros(count, dtype=np.int64)
        loops.fill_inside(*given, found, True)
        return begins, found


def edges(g: _Graph) -> tuple[Lists, Ints]:
    """One focus for every scope of two variables or more: all arcs about these variables and no others.

    So it has the arc, those parallel to it either way, and the beliefs about each of its ends. Variables that no wider
    arc mentions have a focus of their own.
    """
    width = np.diff(g.at)[g.arcs]
    sets: list[Ints] = []
    for w in np.unique(width[width > 1]).tolist():
        scope = np.sort(g.scopes[g.at[g.arcs[width == w]][:, None] + np.arange(w)], 1)
        key = scope[:, 0]
        for j in range(1, w):
            key = np.unique(key * g.variables + scope[:, j], return_inverse=True)[1] if j < w - 1 else (
                key * g.variables + scope[:, j])  # fmt: skip
        sets.append(scope[np.sort(np.unique(key, return_index=True)[1])])
    wide = np.zeros(g.variables, dtype=np.bool_)
    for each in sets:
        wide[each.ravel()] = True
    sets.append(np.flatnonzero(~wide & (np.diff(g.around_at) > 1))[:, None])
    sizes = np.concatenate([np.full(len(x), x.shape[1]) for x in sets])
    begins = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    found = g.inside((begins, np.concatenate([x.ravel() for x in sets])))
    return found, np.full(len(begins) - 1, -1)


def stars(g: _Graph, closed: bool = False) -> tuple[Lists, Ints]:
    """One focus for every variable: the arcs that mention it."""
    begins = np.zeros(g.variables + 1, dtype=np.int64)
    given = (g.around_at, g.around, g.at, g.scopes, g.variables, closed, begins)
    found = np.zeros(loops.fill_stars(*given, begins[:0], False), dtype=np.int64)
    loops.fill_stars(*given, found, True)
    return (begins, found), np.arange(g.variables)


def closed(g: _Graph) -> tuple[Lists, Ints]:
    """One focus for every variable: the arcs that mention it, and those about one of its neighbours alone."""
    return stars(g, closed=True)


def blocks(g: _Graph) -> tuple[Lists, Ints]:
    """Connected sets of a few variables, until every arc lies in one: all arcs about these variables only."""
    given = (g.arcs, g.around_at, g.around, g.at, g.scopes, g.sizes, MOST_VARIABLES, MOST_CELLS)
    none = np.zeros(0, dtype=np.int64)
    count, total = loops.fill_blocks(*given, none, none, False)
    begins, found = np.zeros(count + 1, dtype=np.int64), np.zeros(total, dtype=np.int64)
    loops.fill_blocks(*given, begins, found, True)
    return g.inside((begins, found)), np.full(count, -1)


NEIGHBOURHOODS: dict[str, Callable[[_Graph], tuple[Lists, Ints]]] = {
    "edge": edges,
    "star": stars,
    "closed": closed,
    "blocks": blocks,
}


def neighbourhood_named(name: str) -> str:
    """The name itself; an error if there is no such neighbourhood."""
    if name not in NEIGHBOURHOODS:
        raise DissonanceError(f"no neighbourhood named {name!r}.{suggest(str(name), NEIGHBOURHOODS)}")
    return name


def batches(pdg: ColumnarPDG, attended: npt.NDArray[np.bool_], neighbourhood: str) -> list[list[FociBatch]]:
    """The foci, by colour: those of one colour have no arc in common; each colour in batches of one shape.

    A focus of a single arc is left out: a belief does not contradict itself.
    """
    if len(pdg) >= MANY:
        engage()
    g = _Graph(pdg, attended)
    (begins, arcs), centre = NEIGHBOURHOODS[neighbourhood_named(neighbourhood)](g)
    count = np.diff(begins)
    keep = count > 1
    arcs, centre = arcs[np.repeat(keep, count)], centre[keep]
    begins = np.concatenate([[0], np.cumsum(count[keep])]).astype(np.int64)
    kind = np.repeat(np.arange(len(pdg.columns)), [len(c) for c in pdg.columns])
    seen_at = np.zeros(len(begins), dtype=np.int64)
    seen = np.zeros(int(np.diff(g.at)[arcs].sum()) + len(centre), dtype=np.int64)
    sign = np.zeros(len(centre), dtype=np.uint64)
    loops.in_common_order(begins, arcs, centre, g.at, g.scopes, kind, g.variables, seen_at, seen, sign)
    colour = np.zeros(len(centre), dtype=np.int64)
    most = loops.colours(begins, arcs, len(pdg), colour)
    found: list[list[FociBatch]] = [[] for _ in range(most)]
    shape = np.unique(sign, return_inverse=True)[1]
    order = np.lexsort((shape, colour))
    cuts = np.flatnonzero(np.diff(colour[order]) | np.diff(shape[order])) + 1
    for members in np.split(order, cuts) if len(order) else []:
        found[int(colour[members[0]])].append(_batch(g, (begins, arcs), (seen_at, seen), members))
    return found


def _batch(g: _Graph, foci: Lists, seen: Lists, members: Ints) -> FociBatch:
    """The foci of one shape and colour."""

    def rows(lists: Lists) -> Ints:
        at, held = lists
        return held[at[members][:, None] + np.arange(int(at[members[0] + 1] - at[members[0]]))]

    arcs, variables = rows(foci), rows(seen)
    number = {int(v): i for i, v in enumerate(variables[0])}
    scopes = tuple(tuple(number[int(v)] for v in g.scopes[g.at[a] : g.at[a + 1]]) for a in arcs[0])
    for j, scope in enumerate(scopes):  # what the signs of shapes say is not taken on trust
        for i, local in enumerate(scope):
            assert (g.scopes[g.at[arcs[:, j]] + i] == variables[:, local]).all()
    return FociBatch(arcs, variables, scopes)
