"""What a notebook shows of a PDG, of an inconsistency, of a distribution, and of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import singledispatch
from html import escape

from dissonance.arc import Arc
from dissonance.distributions import Distribution
from dissonance.drawing.arrow_styles import short_number
from dissonance.drawing.chart import bars, falling
from dissonance.drawing.picture import draw
from dissonance.drawing.svg import svg
from dissonance.drawing.tables import joint_table, marginals_of, marginals_table
from dissonance.inconsistency import Inconsistency
from dissonance.lir import Run, Trace
from dissonance.pdg import PDG
from dissonance.query import Posterior

MOST_VARIABLES, MOST_ARCS = 80, 160
"""Larger PDGs are shown as a table only: a cell should not take seconds to appear."""
MOST_ROWS = 60
MOST_BARS = 20


@singledispatch
def html(value: object) -> str:
    """The value as HTML; names are escaped."""
    return f"<pre>{escape(repr(value))}</pre>"


@html.register
def _(value: PDG) -> str:
    n, m = len(value.variables), len(value.arcs)
    heading = f"<b>PDG</b> with {n} variable{'s' * (n != 1)} and {m} arc{'s' * (m != 1)}"
    return _whole(heading, _drawn(value), _folded("arcs", _arcs(value)))


@html.register
def _(value: Inconsistency) -> str:
    error = f" ± {value.standard_error:.2g}" if value.standard_error else ""
    known = f"{_digits(value.upper)}{error} nats{_proof(value)}"
    if value.is_bracket:
        known = f"between {_digits(value.lower)} and {_digits(value.upper)} nats (<b>{escape(value.caution)}</b>)"
    parts = [f"<b>Inconsistency</b> {known}, solver {escape(value.solver)}, gamma {value.gamma:g}"]
    if len(value.pdg.arcs) <= MOST_ARCS:
        rows = [(r.name, r.contribution) for r in value.by_arc(saved=False)]
        known = sorted(((a, x) for a, x in rows if not math.isnan(x)), key=lambda r: -r[1])
        if known:
            parts.append(svg(bars(known[:MOST_BARS], "Who is to blame: beta KL of each arc, in nats")))
            more = len(known) - MOST_BARS
            parts += [f"and {more} more arc{'s' * (more > 1)}, less to blame"] if more > 0 else []
            parts.append(_compromise(value))
    return _whole(*parts)


@html.register
def _(value: Distribution) -> str:
    n = len(value.variables)
    heading = f"<b>{type(value).__name__}</b> over {n} variable{'s' * (n != 1)}"
    return _whole(heading, joint_table(value), marginals_of(value))


@html.register
def _(value: Posterior) -> str:
    variables = list(value.variables.values())
    if value.log_partition.dim():
        sets = len(value.log_partition)
        return _whole(f"<b>Posterior</b> of {len(variables)} variables given each of {sets} evidence sets")
    chance = f"log-probability of the evidence {_digits(float(value.log_partition))}"
    shown = {v.name: value[v.name] for v in variables}
    return _whole(f"<b>Posterior</b>, {chance}", marginals_table(variables, shown))


@html.register
def _(value: Trace) -> str:
    return _whole(f"<b>Trace</b> of {len(value.rows)} rows", _chart(value))


@html.register
def _(value: Run) -> str:
    gone = "" if math.isnan(value.resolution_percent) else f" ({value.resolution_percent:.1f} % resolved)"
    heading = f"<b>Run</b> {value.before} → {value.after} nats{gone}"
    names = f"refocus {value.refocus}, flow {value.flow}, solver {value.solver}"
    return _whole(
        f"{heading}, {value.steps} steps, {escape(names)}{', interrupted' * value.interrupted}", _chart(value.trace)
    )


def _compromise(value: Inconsistency) -> str:
    """The marginals of mu*, where it is known and all of it is tables."""
    if not math.isfinite(value.upper) or not all(v.is_finite for v in value.mu.variables):
        return ""
    return _folded("the best compromise", marginals_of(value.mu))


def _whole(*parts: str) -> str:
    return "<div>" + "".join(f"<div>{p}</div>" for p in parts if p) + "</div>"


def _drawn(pdg: PDG) -> str:
    if not pdg.variables or len(pdg.variables) > MOST_VARIABLES or len(pdg.arcs) > MOST_ARCS:
        return ""
    return draw(pdg).svg()


def _chart(trace: Trace) -> str:
    if not trace.rows:
        return ""
    steps, overall, local = (trace.column(name) for name in ("step", "global_upper", "local_upper"))
    note = '<span style="color:#2353e0">line</span>: all arcs; <span style="color:#d9660a">dots</span>: in focus (nats)'
    return svg(falling(steps, overall, local, "Inconsistency over the steps")) + f"<div><small>{note}</small></div>"


def _proof(value: Inconsistency) -> str:
    if not math.isfinite(value.upper) or value.standard_error:
        return ""
    if value.lower == -math.inf:
        return ", an upper bound (not convex)"
    return f" in [{_digits(value.lower)}, {_digits(value.upper)}]{'' if value.converged else ', <b>not converged</b>'}"


def _digits(x: float) -> str:
    return f"{x:.9g}" if math.isfinite(x) else short_number(x)


def _arcs(pdg: PDG) -> str:
    rows = [_cells("th", ("arc", "from", "to", "cpd", "parameters"))]
    rows += [_cells("td", _arc(a)) for a in pdg.arcs[:MOST_ROWS]]
    more = len(pdg.arcs) - MOST_ROWS
    return f"<table>{''.join(rows)}</table>" + (f"{more} more not shown" if more > 0 else "")


def _arc(arc: Arc) -> Sequence[str]:
    left, right = (", ".join(v.name for v in ends) for ends in (arc.sources, arc.targets))
    return arc.name, left, right, type(arc.cpd).__name__, str(sum(p.numel() for p in arc.cpd.parameters()))


def _cells(tag: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(t)}</{tag}>' for t in texts)}</tr>"


def _folded(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>{content}</details>"
