"""Who disagrees most, and about what, in a sentence that needs no table."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence

import torch

from dissonance.arc import Arc, Theta
from dissonance.errors import DissonanceError
from dissonance.focus import Attention
from dissonance.inconsistency import BlameRow, Inconsistency, inconsistency
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
        if result.is_bracket:
            return f"The beliefs cost at least {result.lower:.6g} nats; no compromise was found to blame anybody by."
        return contradicting_zeros(result, rows)
    known = result.by_arc(saved=len(result.pdg) <= MOST_ARCS) if rows is None else rows
    blamed = sorted((r for r in known if _blame(r) > NOTHING), key=lambda r: -r.contribution)
    if not blamed:
        return "The beliefs disagree, but no single one is to blame."
    if result.is_bracket:  # without one of them it would take as long again, and be another bracket
        cell = _largest(cell_rows(result.mu, [result.pdg[blamed[0].name]], result.attention.beta, result.theta))
        details = "" if cell is None else f": {_claim('it', cell)}, which makes it {_percent(cell.reconciled)}"
        return f"{blamed[0].name} costs most in the compromise that was found{details}."
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


def contradicting_zeros(result: Inconsistency, rows: Sequence[BlameRow] | None = None) -> str:
    """Which zeros of tables contradict each other outright, and what to do. `rows`: as for `verdict`.

    Those without which the rest would fit; if there is no such arc, of all arcs that are attended.
    """
    known = result.by_arc(saved=len(result.pdg) <= MOST_ARCS) if rows is None else rows
    enough = {r.name for r in known if r.saved_if_dropped == math.inf}
    weights = result.attention.beta
    zeros: list[str] = []
    for arc in result.pdg.arcs:
        if weights.get(arc.name, 0.0) > 0 and arc.has_table and (not enough or arc.name in enough):
            impossible = _impossible(arc, result.theta)
            if impossible:
                more = f" and {len(impossible) - 1} more" if len(impossible) > 1 else ""
                zeros.append(f"{arc.name} gives {impossible[0]}{more} probability 0")
    listed = "; ".join(zeros[:4]) + (f"; and {len(zeros) - 4} more" if len(zeros) > 4 else "")
    if at_odds := _facts_at_odds(result):
        names = f"{', '.join(at_odds[:-1])} and {at_odds[-1]}"
        return (
            f"The facts (beta = inf) {names} contradict each other{': ' if listed else ''}{listed}. Give one of them a "
            "finite beta, or leave it out."
        )
    return (
        f"Some beliefs contradict each other outright{': ' if listed else ''}{listed}. Where a zero only means that it "
        "was not seen, give counts and a pseudocount; else leave out what is wrong."
    )


def _facts_at_odds(result: Inconsistency) -> list[str]:
    """Facts that contradict each other, none of which can be left out of the contradiction; none if facts agree."""
    kept = [a.name for a in result.pdg.arcs if result.attention.beta.get(a.name, 0.0) == math.inf]
    if len(kept) < 2 or len(kept) > MOST_ARCS or not _contradict(result, kept):
        return []
    for name in tuple(kept):
        if len(kept) > 1 and _contradict(result, rest := [n for n in kept if n != name]):
            kept = rest
    return kept if len(kept) > 1 else []


def _contradict(result: Inconsistency, names: Sequence[str]) -> bool:
    """Whether no distribution satisfies all of these facts."""
    attention = Attention.only(dict.fromkeys(names, math.inf))
    return inconsistency(result.pdg, attention, solver=result.asked, theta=result.theta).upper == math.inf


def _blame(row: BlameRow) -> float:
    """What leaving the arc out would save, if that is known; else what it contributes."""
    found = row.contribution if row.saved_if_dropped is None else row.saved_if_dropped
    return 0.0 if math.isnan(found) else found


def _claim(who: str, cell: CellRow) -> str:
    return f"{who} says {_event(cell.value, cell.given)} {_percent(cell.claimed)}"


def _impossible(arc: Arc, theta: Theta | None) -> list[str]:
    """The cells to which an arc gives probability 0."""
    found: list[str] = []
    for at in torch.nonzero(arc.log_table(theta).detach() == -math.inf).tolist():
        named = {v.name: v.finite.labels[i] for v, i in zip(arc.scope, at, strict=True)}
        given = {n: named.pop(n) for n in arc.source_names}
        found.append(_event(named, given))
    return found


def _event(value: Mapping[str, Hashable], given: Mapping[str, Hashable]) -> str:
    return _said(value) + (f" given {_said(given)}" if given else "")


def _furthest(result: Inconsistency, arc: Arc) -> tuple[CellRow | None, float]:
    """The cell where the arc is furthest from what the others make of it, and what they make of it."""
    if not arc.has_table:
        return None, math.nan
    try:
        rest = inconsistency(result.pdg, result.attention.without(arc.name), solver=result.asked, theta=result.theta)
        rows = cell_rows(rest.mu, [arc], {arc.name: 1.0}, result.theta)
    except DissonanceError:
        return None, math.nan
    best = _largest(rows)
    return best, math.nan if best is None else best.reconciled


def _largest(rows: Iterable[CellRow]) -> CellRow | None:
    """The cell that is furthest off, weighed by how probable its condition is; of two, the rarer."""
    return max(rows, key=lambda r: (round(r.mass * abs(r.claimed - r.reconciled), 9), -r.claimed), default=None)


def _said(event: Mapping[str, Hashable]) -> str:
    return ", ".join(f"{name}={label}" for name, label in event.items())


def _percent(p: float) -> str:
    return f"{100 * p:.3g} %"
