"""What `dissonance score` prints for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from dissonance.cli.output import console, shown

if TYPE_CHECKING:
    from dissonance.cli.score import Marginals, Scored, Unit
    from dissonance.inconsistency import BlameRow, Inconsistency
    from dissonance.pdg import Arc
    from dissonance.scores import CellRow

MAX_ARCS = 40
MAX_VARIABLES = 20
MAX_VALUES = 6


def show(scored: Scored, unit: Unit, seconds: float) -> None:
    """Print the inconsistency, the verdict, the arcs and cells by blame, and the marginals of the best compromise."""
    out, result = console(), scored.result
    out.print(_headline(result, unit))
    out.print(Text(f"{_bounds(result, unit)}solver {result.solver}, gamma {result.gamma:g}, {seconds:.3g} s"))
    if math.isfinite(result.upper):
        out.print(shown(scored.verdict))
    if scored.rows:
        out.print(_heading("Who is to blame", f"in {unit}"), _blame(result, scored.rows, unit))
    costly = [c for c in scored.cells if c.contribution > 1e-9]
    if costly:
        out.print(_heading("Where", f"the cells that cost most, in {unit}"), _where(costly, unit))
    if scored.marginals:
        out.print(_heading("The best compromise", "marginal probabilities"), _compromise(result, scored.marginals))


def _where(cells: list[CellRow], unit: Unit) -> Table:
    """What each arc claims, what the compromise makes of it, and what that costs."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("arc", style="bold", overflow="fold")
    table.add_column("cell", overflow="fold")
    for title in ("claimed", "reconciled", "contribution"):
        table.add_column(title, justify="right", no_wrap=True)
    for c in cells:
        value, given = (", ".join(f"{n}={x}" for n, x in part.items()) for part in (c.value, c.given))
        cell = f"{value} | {given}" if given else value
        cost = _shown(c.contribution, unit, digits=4)
        table.add_row(shown(c.arc), shown(cell), f"{c.claimed:.4f}", f"{c.reconciled:.4f}", cost)
    return table


def _headline(result: Inconsistency, unit: Unit) -> Text:
    line = Text(f"Inconsistency: {_value(result, unit)}", style="bold")
    if math.isfinite(result.upper) or result.is_bracket:
        return line.append(f" {unit}").append("" if result.converged else "   (NOT converged)", style="red")
    nothing = "a disbelieved arc rules something out, or nothing bounds a Euclidean variable"
    why = "some beliefs contradict each other outright" if result.upper > 0 else nothing
    return line.append(f" ({why}: there is no best compromise)", style="not bold")


def _value(result: Inconsistency, unit: Unit) -> str:
    """The value, or the bracket that is known of it."""
    if result.is_bracket:
        return f"between {_shown(result.lower, unit)} and {_shown(result.upper, unit)}"
    return _shown(float(result.value), unit)


def _bounds(result: Inconsistency, unit: Unit) -> str:
    if not math.isfinite(result.upper):
        return ""
    if result.lower == -math.inf:
        return "an upper bound only (the problem is not convex); "
    return f"certified between {result.lower / unit.size:.9g} and {result.upper / unit.size:.9g}; "


def _blame(result: Inconsistency, rows: list[BlameRow], unit: Unit) -> Table:
    """The arcs, the most to blame first."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("arc", style="bold", overflow="fold")
    table.add_column("belief", overflow="fold")
    for title in ("beta", "divergence", "contribution", "saved if dropped"):
        table.add_column(title, justify="right")
    ranked = sorted(rows, key=_blameworthiness, reverse=True)
    for r in ranked[:MAX_ARCS]:
        saved = math.nan if r.saved_if_dropped is None else r.saved_if_dropped
        cost = (_shown(x, unit, digits=4) for x in (r.divergence, r.contribution, saved))
        table.add_row(shown(r.name), shown(_belief(result.pdg[r.name])), f"{r.beta:g}", *cost)
    _count(table, len(ranked) - MAX_ARCS, "arc")
    return table


def _blameworthiness(row: BlameRow) -> tuple[float, ...]:
    """The contribution, then what dropping the arc would save; differences too small to be shown do not count."""
    return tuple(
        -math.inf if x is None or math.isnan(x) else round(x, 9) for x in (row.contribution, row.saved_if_dropped)
    )


def _belief(arc: Arc) -> str:
    left = ", ".join(v.name for v in arc.sources)
    return f"{left}{' ' if left else ''}-> {', '.join(v.name for v in arc.targets)}"


def _compromise(result: Inconsistency, marginals: Marginals) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, show_header=False)
    table.add_column("variable", style="bold", overflow="fold")
    rows = {name: _values(result, name, p) for name, p in marginals.items()}
    for _ in range(max(min(len(values), MAX_VALUES + 1) for values in rows.values())):
        table.add_column(overflow="fold")
    for name, values in list(rows.items())[:MAX_VARIABLES]:
        more = [f"... {len(values) - MAX_VALUES} more"] if len(values) > MAX_VALUES else []
        table.add_row(shown(name), *map(shown, values[:MAX_VALUES] + more))
    _count(table, len(marginals) - MAX_VARIABLES, "variable")
    return table


def _values(result: Inconsistency, name: str, marginal: dict[str, Any]) -> list[str]:
    """Each value with its probability, or each dimension with its mean and standard deviation."""
    if not result.pdg.variable(name).is_finite:
        spread = [math.sqrt(max(0.0, row[i])) for i, row in enumerate(marginal["covariance"])]
        return [f"{m:.4g} +- {s:.3g}" for m, s in zip(marginal["mean"], spread, strict=True)]
    return [f"{x} {q:.4f}" for x, q in marginal.items()]


def _heading(title: str, note: str) -> Text:
    return Text.assemble("\n", (title, "bold"), f", {note}")


def _count(table: Table, left_out: int, word: str) -> None:
    if left_out > 0:
        table.caption = f"{left_out} more {word}{'s' * (left_out > 1)} not shown; --json has them all"
        table.caption_justify = "left"


def _shown(nats: float, unit: Unit, digits: int = 6) -> str:
    value = nats / unit.size
    return "-" if math.isnan(value) else "0" if abs(value) < 1e-9 else f"{value:.{digits}g}"
