"""What `dissonance coherence` prints for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from dissonance.cli.output import console

if TYPE_CHECKING:
    from dissonance.coherence.book import BeliefRow, Coherence
    from dissonance.coherence.files import Book

MAX_BELIEFS, MAX_SETS, MAX_WORLDS = 40, 20, 8

SMALL = 1e-7
"""A gain that is as good as none."""


def show_books(books: Sequence[Book], results: Sequence[Coherence], seconds: float) -> None:
    """One book in full, or many in a table, and how good the forecasts were."""
    out = console()
    if len(results) == 1:
        _one(results[0], seconds)
    else:
        _many(books, results, seconds)
    before, after = (_means([getattr(r, when) for r in results]) for when in ("before", "after"))
    if before[0]:
        out.print(Text.assemble("\n", ("Against outcomes", "bold"), f", {before[0]} forecasts"))
        for name, i in (("log loss", 1), ("Brier", 2)):
            out.print(Text(f"  {name:8} {before[i]:.4f} as they are, {after[i]:.4f} reconciled"))


def _one(result: Coherence, seconds: float) -> None:
    out = console()
    unit = result.unit
    if result.lower == math.inf:
        out.print(Text("Certain gain: inf. What one belief takes for certain is impossible by others.", style="bold"))
        return
    out.print(Text(f"Certain gain: {_gain(result)} {unit}", style="bold"))
    out.print(
        Text(f"certified between {result.lower:.9g} and {result.upper:.9g}; {result.score} score, {seconds:.3g} s")
    )
    if result.lower <= SMALL:
        out.print(Text("The beliefs fit together: no set of bets is certain to win."))
    out.print(Text.assemble("\n", ("The bets", "bold"), f", and what is coherent; in {unit}"), _slip(result))
    if result.worlds and result.lower > SMALL:
        out.print(Text.assemble("\n", ("What they win", "bold"), ", world by world, the worst first"), _worlds(result))
    if not math.isnan(result.realised):
        out.print(Text(f"\nThey won {result.realised:.6g} {unit} as it turned out."))


def _slip(result: Coherence) -> Table:
    table = _table("belief", "p", "coherent", "blame", "bet", "stake", "if true", "if false")
    rows = sorted(result.rows, key=lambda r: -r.contribution)
    for r in rows[:MAX_BELIEFS]:
        bet = "-" if abs(r.stake) <= SMALL else "for" if r.stake > 0 else "against"
        numbers = (_number(abs(r.stake)), _number(r.if_true), _number(r.if_false)) if bet != "-" else ("-", "-", "-")
        table.add_row(Text(r.belief.label), _p(r), f"{r.coherent:.4f}", _number(r.contribution), bet, *numbers)
    _left(table, len(rows) - MAX_BELIEFS, "belief")
    return table


def _p(row: BeliefRow) -> str:
    b = row.belief
    return f"{b.low:g} to {b.high:g}" if isinstance(b.p, tuple) else f"{b.low:g}"


def _worlds(result: Coherence) -> Table:
    worlds = result.worlds or ()
    table = _table("world", "gain")
    for w in worlds[:MAX_WORLDS]:
        table.add_row(Text(", ".join(f"{k}={v}" for k, v in w.values.items())), _number(w.gain))
    _left(table, len(worlds) - MAX_WORLDS, "world")
    return table


def _many(books: Sequence[Book], results: Sequence[Coherence], seconds: float) -> None:
    out = console()
    total, wrong = sum(r.lower for r in results), sum(r.lower > SMALL for r in results)
    unit = results[0].unit if results else "nats"
    out.print(Text(f"Certain gain: {_number(total)} {unit} in {wrong} of {len(results)} sets", style="bold"))
    proved = sum(r.converged for r in results)
    out.print(Text(f"certified in {proved} sets; {seconds:.3g} s"))
    table = _table("set", "gain", "beliefs", "the most to blame", "p", "coherent")
    ranked = sorted(zip(books, results, strict=True), key=lambda x: -x[1].lower)
    for book, r in ranked[:MAX_SETS]:
        worst = max(r.rows, key=lambda row: row.contribution, default=None)
        said = (Text(worst.belief.label), _p(worst), f"{worst.coherent:.4f}") if worst else ("-", "-", "-")
        table.add_row(Text(book.name or "-"), _gain(r), str(len(r.rows)), *said)
    _left(table, len(ranked) - MAX_SETS, "set")
    out.print(Text(""), table)


def _means(scores: Sequence[object]) -> tuple[int, float, float]:
    known = [s for s in scores if getattr(s, "count", 0)]
    counts = np.array([getattr(s, "count", 0) for s in known])
    if not len(known):
        return 0, math.nan, math.nan
    log, brier = (float(np.average([getattr(s, x) for s in known], weights=counts)) for x in ("log", "brier"))
    return int(counts.sum()), log, brier


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column(first, style="bold", overflow="fold")
    for title in others:
        table.add_column(title, justify="left" if title in ("bet", "the most to blame") else "right", overflow="fold")
    return table


def _left(table: Table, left_out: int, word: str) -> None:
    if left_out > 0:
        table.caption = f"{left_out} more {word}{'s' * (left_out > 1)} not shown; --json has them all"
        table.caption_justify = "left"


def _gain(result: Coherence) -> str:
    """The gain, or the bracket that is known of it."""
    if result.converged or result.lower == math.inf:
        return _number(result.upper)
    return f"between {_number(result.lower)} and {_number(result.upper)}"


def _number(x: float) -> str:
    return "-" if math.isnan(x) else "0" if abs(x) < 1e-9 else f"{x:.4g}"
