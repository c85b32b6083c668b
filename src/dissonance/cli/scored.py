"""What `dissonance score` prints for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from dissonance.cli.output import TableColumn, as_text, as_texts, console, fitted_table
from dissonance.scored import MOST_RECORDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from dissonance.arc import Arc
    from dissonance.chance import Chance
    from dissonance.cli.score import Unit
    from dissonance.inconsistency import BlameRow, Inconsistency
    from dissonance.scored import Marginals, Scored, ScoredColumns
    from dissonance.scores import CellRow

MAX_ARCS = 40
MAX_VARIABLES = 20
MAX_VALUES = 6


def show_scored(scored: Scored, unit: Unit) -> None:
    """Print the inconsistency, the verdict, the arcs and cells by blame, and the marginals of the best compromise."""
    out, result = console(), scored.result
    out.print(_headline(result, unit))
    out.print(Text(f"{_bounds(result, unit)}solver {result.solver}, gamma {result.gamma:g}, {scored.seconds:.3g} s"))
    if result.upper > -math.inf:
        out.print(as_text(scored.verdict))
    if scored.rows:
        ranked = sorted(scored.rows, key=_blameworthiness, reverse=True)
        table = _blame({a.name: a for a in result.pdg.arcs}, ranked[:MAX_ARCS], unit)
        _count(table, len(ranked) - MAX_ARCS, "arc")
        out.print(_heading("Who is to blame", f"in {unit}"), table)
    if scored.chance is not None:
        _is_it_chance(out, scored.chance, unit)
    costly = [c for c in scored.cells if c.contribution > 1e-9]
    if costly:
        out.print(_heading("Where", f"the cells that cost most, in {unit}"), _where(costly, unit))
    if scored.marginals:
        out.print(_heading("The best compromise", "marginal probabilities"), _compromise(result, scored.marginals))


def show_columns(scored: ScoredColumns, unit: Unit) -> None:
    """Print the bracket of very many beliefs, and those most to blame."""
    out, found = console(), scored.found
    bounds = f"between {_shown(found.lower, unit)} and {_shown(found.upper, unit)}"
    out.print(Text(f"Inconsistency: {bounds} {unit}", style="bold").append("   (NOT converged)", style="red"))
    out.print(Text(f"solver bounds, gamma 0, {found.states} joint states, {found.seconds:.3g} s"))
    out.print(as_text(scored.verdict))
    rows = scored.rows(MAX_ARCS)
    table = _blame({r.name: scored.pdg[r.name] for r in rows}, rows, unit)
    _count(table, len(scored.pdg) - MAX_ARCS, "arc", f"--json has the {MOST_RECORDS:,} most to blame")
    out.print(_heading("Who is to blame", f"in {unit}"), table)


def _is_it_chance(out: Console, found: Chance, unit: Unit) -> None:
    """The p-value in words, and intervals for blame."""
    out.print(_heading("Is it more than chance?", found.method))
    out.print(as_text(found.sentence))
    degrees = "" if found.degrees is None else f", {found.degrees} degree{'s' * (found.degrees != 1)} of freedom"
    each = [("asymptotic", found.asymptotic), ("bootstrap", found.bootstrap)]
    listed = ", ".join(f"{name} p = {p:.3g}" for name, p in each if p is not None)
    out.print(Text(f"twice the inconsistency of the samples: {found.statistic:.5g}{degrees}; {listed}"))
    for reason in found.unmet:
        out.print(as_text(f"the asymptotic p-value is not relied on: {reason}"))
    if found.left_out:
        out.print(as_text(f"no samples, and left out of this: {', '.join(found.left_out)}"))
    if not found.blame:
        return
    columns = [
        TableColumn("sample", number=False),
        TableColumn("contribution"),
        TableColumn(f"{100 * found.confidence:g} % interval"),
    ]
    columns += [TableColumn("by chance", needed=False), TableColumn("most to blame", needed=False)]
    rows: list[list[str]] = []
    for b in found.blame:
        numbers = (_shown(x, unit, digits=4) for x in (b.contribution, b.low, b.high, b.by_chance))
        mine, low, high, usual = numbers
        rows.append([b.name, mine, f"{low} to {high}", usual, f"{b.most:.1%}"])
    out.print(fitted_table(columns, rows, out))


def _where(cells: list[CellRow], unit: Unit) -> Table:
    """What each arc claims, what the compromise makes of it, and what that costs."""
    columns = [TableColumn("arc", number=False), TableColumn("cell", number=False)]
    columns += [TableColumn("claimed"), TableColumn("reconciled"), TableColumn("contribution", needed=False)]
    rows: list[list[str]] = []
    for c in cells:
        value, given = (", ".join(f"{n}={x}" for n, x in part.items()) for part in (c.value, c.given))
        cell = f"{value} | {given}" if given else value
        cost = _shown(c.contribution, unit, digits=4)
        rows.append([c.arc, cell, f"{c.claimed:.4f}", f"{c.reconciled:.4f}", cost])
    return fitted_table(columns, rows, console())


def _headline(result: Inconsistency, unit: Unit) -> Text:
    line = Text(f"Inconsistency: {_value(result, unit)}", style="bold")
    if math.isfinite(result.upper) or result.is_bracket:
        return line.append(f" {unit}").append("" if result.converged else "   (NOT converged)", style="red")
    nothing = "a disbelieved arc rules something out, or nothing bounds a Euclidean variable"
    why = "" if result.upper > 0 else f"{nothing}: "
    return line.append(f" ({why}there is no best compromise)", style="not bold")


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


def _blame(arcs: Mapping[str, Arc], rows: list[BlameRow], unit: Unit) -> Table:
    """These arcs, in this order."""
    columns = [TableColumn("arc", number=False), TableColumn("belief", number=False, needed=False)]
    columns += [TableColumn("beta", needed=False), TableColumn("divergence", needed=False)]
    columns += [TableColumn("contribution"), TableColumn("saved if dropped", needed=False)]
    lines: list[list[str]] = []
    for r in rows:
        saved = math.nan if r.saved_if_dropped is None else r.saved_if_dropped
        cost = (_shown(x, unit, digits=4) for x in (r.divergence, r.contribution, saved))
        lines.append([r.name, _belief(arcs[r.name]), f"{r.beta:g}", *cost])
    return fitted_table(columns, lines, console())


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
    finite = {v.name for v in result.pdg.variables if v.is_finite}
    rows = {name: _values(p, name in finite) for name, p in marginals.items()}
    for _ in range(max(min(len(values), MAX_VALUES + 1) for values in rows.values())):
        table.add_column(overflow="fold")
    for name, values in list(rows.items())[:MAX_VARIABLES]:
        more = [f"... {len(values) - MAX_VALUES} more"] if len(values) > MAX_VALUES else []
        table.add_row(*as_texts([name, *values[:MAX_VALUES], *more]))
    _count(table, len(marginals) - MAX_VARIABLES, "variable")
    return table


def _values(marginal: dict[str, Any], finite: bool) -> list[str]:
    """Each value with its probability, or each dimension with its mean and standard deviation."""
    if not finite:
        spread = [math.sqrt(max(0.0, row[i])) for i, row in enumerate(marginal["covariance"])]
        return [f"{m:.4g} +- {s:.3g}" for m, s in zip(marginal["mean"], spread, strict=True)]
    return [f"{x} {q:.4f}" for x, q in marginal.items()]


def _heading(title: str, note: str) -> Text:
    return Text.assemble("\n", (title, "bold"), f", {note}")


def _count(table: Table, left_out: int, word: str, where: str = "--json has them all") -> None:
    if left_out > 0:
        table.caption = f"{left_out} more {word}{'s' * (left_out > 1)} not shown; {where}"
        table.caption_justify = "left"


def _shown(nats: float, unit: Unit, digits: int = 6) -> str:
    value = nats / unit.size
    return "-" if math.isnan(value) else "0" if abs(value) < 1e-9 else f"{value:.{digits}g}"
