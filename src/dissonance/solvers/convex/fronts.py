"""How each cluster is eliminated: by its cells, or by its multipliers; see `elimination.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dissonance.compiled import compiled
from dissonance.solvers.convex.layout import HARD, Bools, Ints, Layout

WIDE = 64
"""Cells above which a cluster is eliminated by its multipliers, if these are fewer."""

FEWER = 0.8
"""How many multipliers a cell there may be at most for that."""


class Fronts(NamedTuple):
    """How each cluster is eliminated. `size` (clusters,) of its front, of which the last are its separator's states;
    `by_cells`; `absorbed`: the term in P (-1: none); `front_at`, `vector_at`, `message_at`: where matrices begin."""

    size: Ints
    by_cells: Bools
    absorbed: Ints
    front_at: Ints
    vector_at: Ints
    message_at: Ints


@compiled
def fronts(lay: Layout) -> Fronts:
    """The cheaper way for each cluster; by multipliers from every hard arc up to its root."""
    C = len(lay.parent)
    size, absorbed = np.zeros(C, dtype=np.int64), np.full(C, -1)
    by_cells = np.ones(C, dtype=np.bool_)
    front_at, vector_at, message_at = np.zeros(C + 1, np.int64), np.zeros(C + 1, np.int64), np.zeros(C + 1, np.int64)
    for k in range(C - 1, -1, -1):
        n, own = lay.cell_at[k + 1] - lay.cell_at[k], lay.unknown_at[k + 1] - lay.unknown_at[k]
        count, hard = own, not by_cells[k]
        for t in range(lay.term_at[k + 1] - 1, lay.term_at[k] - 1, -1):
            entries = lay.entry_at[lay.row_at[t + 1]] - lay.entry_at[lay.row_at[t]]
            hard |= lay.kind[t] == HARD
            if entries == n and lay.kind[t] != HARD and absorbed[k] < 0:
                absorbed[k] = t
            else:
                count += entries
        for j in range(lay.child_at[k], lay.child_at[k + 1]):
            c = lay.child[j]
            count += lay.unknown_at[c + 1] - lay.unknown_at[c]
        by_cells[k] = not (hard or (n > WIDE and count < FEWER * n))
        size[k] = n if by_cells[k] else count
        if hard and lay.parent[k] >= 0:
            by_cells[lay.parent[k]] = False  # marks it: its turn comes later
    for k in range(C):
        own = lay.unknown_at[k + 1] - lay.unknown_at[k]
        front_at[k + 1] = front_at[k] + size[k] * size[k]
        vector_at[k + 1] = vector_at[k] + size[k]
        message_at[k + 1] = message_at[k] + own * own
    return Fronts(size, by_cells, absorbed, front_at, vector_at, message_at)
