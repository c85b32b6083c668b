"""Who disagrees most, and about what, in a sentence that needs no table."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

from dissonance.errors import DissonanceError
from dissonance.inconsistency import BlameRow, Inconsistency, inconsistency
from dissonance.pdg import Arc
from dissonance.scores import CellRow, cell_rows

MOST_ARCS = 100
"""Up to how many arcs each is tried without: it takes a solve for each."""

TIED = 1e-3
"""Blames that differ by a smaller part are the same."""

NOTHING = 1e-7
"""An inconsistency up to this many nats is none."""


def verdict(result: Inconsistency, rows: Sequence[BlameRow] | None = None) -> str:
    """Who disagrees most, about what. `rows`: what `by_arc` returned, if that is known already.

    The one to blame is the arc without which the rest would be least inconsistent. What it claims is compared with what
    the others say without it, at the cell where they are furthest apart.
    """
    if result.upper <= NOTHING:
        return "Nobody disagrees: the beliefs fit together."
    if result.upper == math.inf:
        return "Some beliefs contradict each other outright: one says impossible what another says happens."
    known = result.by_arc(saved=len(result.pdg) <= MOST_ARCS) if rows is None else rows
    blamed = sorted((r for r in known if _blame(r) > NOTHING), key=lambda r: -r.contribution)
    if not blamed:
        return "The beliefs disagree, but no single one is to blame."
    most = max(map(_blame, blamed))
    tied = [r.name for r in blamed if _blame(r) >= most * (1 - TIED)]
    if len(blamed) == 2 == len(tied):
        cell, other = _furthest(result, result.pdg[tied[0]])
        details = "" if cell is None else f": {_claim(tied[0], cell)}, {tied[1]} makes it {_percent(other)}"
        return f"{tied[0]} and {tied[1]} disagree{details}."
    cell, others = _furthest(result, result.pdg[tied[0]])
    details = "" if cell is None else f": {_claim('it', cell)} where the others make it {_percent(others)}"
    if len(tied) == 1:
        return f"{tied[0]} disagrees most{details}."
    listed = f"{', '.join(tied[:-1])} and {tied[-1]}" if len(tied) <= 4 else f"{len(tied)} beliefs"
    enough = most >= result.upper * (1 - TIED)
    effect = "without any one of them the rest would" if enough else "leaving out any one of them saves as much"
    return f"{listed} do not fit together, and {effect}; {tied[0]} is furthest off{details}."


def _blame(row: BlameRow) -> float:
    """What leaving the arc out would save, if that is known; else what it contributes."""
    found = row.contribution if row.saved_if_dropped is None else row.saved_if_dropped
    return 0.0 if math.isnan(found) else found


def _claim(who: str, cell: CellRow) -> str:
    given = f" given {_said(cell.given)}" if cell.given else ""
    return f"{who} says {_said(cell.value)}{given} {_percent(cell.claimed)}"


def _furthest(result: Inconsistency, arc: Arc) -> tuple[CellRow | None, float]:
    """The cell where the arc is furthest from what the others make of it, weighed by how probable its condition is."""
    if not arc.has_table:
        return None, math.nan
    try:
        rest = inconsistency(result.pdg, result.attention.without(arc.name), solver=result.asked, theta=result.theta)
        rows = list(cell_rows(rest.mu, [arc], {arc.name: 1.0}, result.theta))
    except DissonanceError:
        return None, math.nan
    best = max(rows, key=lambda r: (r.mass * abs(r.claimed - r.reconciled), r.claimed))
    return best, best.reconciled


def _said(event: Mapping[str, Hashable]) -> str:
    return ", ".join(f"{name}={label}" for name, label in event.items())


def _percent(p: float) -> str:
    return f"{100 * p:.3g} %"
