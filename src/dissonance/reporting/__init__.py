"""A report on beliefs that disagree: one file that says who, where, by how much, and what would reconcile them."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import dissonance
from dissonance.arc import Arc
from dissonance.chance import chance
from dissonance.control import Chi
from dissonance.drawing import draw
from dissonance.errors import DissonanceError
from dissonance.focus import Control, Focus
from dissonance.inconsistency import BlameRow, Inconsistency
from dissonance.io import files
from dissonance.lir.refocus import default_control
from dissonance.lir.resolving import Resolved, Resolving, resolve, with_theta
from dissonance.reporting.blocks import Block, Code, Figure, Grid, Heading, Paragraph, as_html, as_markdown
from dissonance.variables import label_texts
from dissonance.verdict import MOST_ARCS, verdict

__all__ = ["ConflictReport", "report"]

MOST_ROWS = 60
"""The longest table of a report; what is left out is counted."""

MOST_DRAWN = 60
"""Pictures of more variables or arcs are left out: they could not be read."""


@dataclass(frozen=True)
class ConflictReport:
    """A report, ready to be saved as .html or .md."""

    title: str
    blocks: tuple[Block, ...]
    resolved: Resolved | None = field(default=None, repr=False)
    """The run that reconciled the tables, if there was one."""

    def html(self) -> str:
        """One file with everything in it, printable, light or dark as the reader prefers."""
        return as_html(self.title, self.blocks)

    def markdown(self, picture: str | None = None) -> str:
        """Markdown that refers to the picture by this file name, or has none."""
        return as_markdown(self.blocks, picture)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as the suffix says: .html, or .md with the picture in a file of the same name beside it."""
        where = Path(path)
        check_suffix(where)
        if where.suffix.lower() == ".html":
            files.write(where, self.html().encode())
            return
        pictures = [b for b in self.blocks if isinstance(b, Figure)]
        beside = where.with_suffix(".svg")
        if pictures:
            files.write(beside, pictures[0].svg.encode())
        files.write(where, self.markdown(beside.name if pictures else None).encode())

    def _repr_html_(self) -> str:
        return self.html()


def check_suffix(path: Path) -> None:
    """Raise if a report cannot be written under that name."""
    if path.suffix.lower() not in (".html", ".md"):
        raise DissonanceError(f"{path}: a report is written as .html or .md.")


def report(
    result: Inconsistency,
    *,
    title: str = "Do these beliefs fit together?",
    top: int = 12,
    steps: int = 20,
    replicates: int = 400,
    reproduce: str | None = None,
    control: Control | Chi | None = None,
) -> ConflictReport:
    """A report on a result, for readers who know nothing of it yet.

    `top`: how many cells of tables are listed. `steps`: how many steps of LIR reconcile the tables, 0 for none; they
    move what `control` lets move, by default everything but facts (beta = inf).
    `replicates`: how many samples are drawn to say whether samples that disagree do so by chance, 0 for none.
    `reproduce`: the command or code that makes this report again, if the reader is to know it.
    """
    saved = len(result.pdg) <= MOST_ARCS
    rows = result.by_arc(saved=saved)
    finite = math.isfinite(result.upper)
    blocks: list[Block] = [Heading(title, 1), Paragraph(verdict(result, rows), stands_out=True)]
    blocks += [Paragraph(_measured(result)), *_sources(result), *_picture(result), *_blame(rows)]
    resolved: Resolved | None = None
    if finite:
        blocks += [*_chance(result, replicates), *_where(result, top), *_compromise(result)]
        if steps and result.upper > 1e-7 and any(a.has_table for a in result.pdg.arcs):
            resolved = _resolved(result, steps, control)
            blocks += _reconciled(resolved)
    return ConflictReport(title, (*blocks, *_how(reproduce)), resolved)


def _measured(result: Inconsistency) -> str:
    if result.is_bracket:
        highest = f"{result.upper:.9g}" if result.upper < math.inf else "infinity"
        return (
            f"Inconsistency proved to lie between {result.lower:.9g} and {highest} nats: {result.caution}. It is 0 if "
            f"and only if one distribution satisfies every belief. Solver {result.solver}, gamma {result.gamma:g}."
        )
    if result.upper == math.inf:
        return "The inconsistency is infinite: no distribution satisfies all of them at once."
    if result.standard_error:
        return f"Inconsistency {result.upper:.6g} +- {result.standard_error:.2g} nats, estimated from samples."
    proof = (
        "an upper bound only: the problem is not convex"
        if result.lower == -math.inf
        else f"proved to lie between {result.lower:.9g} and {result.upper:.9g}"
    )
    open_gap = "" if result.converged else ". The solver stopped early, and the bounds do not meet"
    return (
        f"Inconsistency {result.upper:.6g} nats ({result.upper / math.log(2):.6g} bits), {proof}{open_gap}. It is 0 if "
        f"and only if one distribution satisfies every belief. Solver {result.solver}, gamma {result.gamma:g}."
    )


def _sources(result: Inconsistency) -> Iterator[Block]:
    yield Heading("The beliefs")
    rows = [
        (a.name, _belief(a), f"{result.attention.beta.get(a.name, 0.0):g}", _observations(a)) for a in result.pdg.arcs
    ]
    yield from _grid(("belief", "about", "beta", "observations"), rows, 2)


def _belief(arc: Arc) -> str:
    targets, sources = (", ".join(v.name for v in vs) for vs in (arc.targets, arc.sources))
    return f"{targets} given {sources}" if sources else targets


def _observations(arc: Arc) -> str:
    return "" if arc.counts is None else f"{float(arc.counts.sum()):,.6g}"


def _picture(result: Inconsistency) -> Iterator[Block]:
    if len(result.pdg.variables) <= MOST_DRAWN and len(result.pdg) <= MOST_DRAWN and result.pdg.variables:
        svg = draw(result.pdg, attention=result.attention, blame=result).svg()
        yield Figure(svg, "The beliefs as arrows; the redder, the more to blame (numbers in nats).")


def _blame(rows: list[BlameRow]) -> Iterator[Block]:
    yield Heading("Who is to blame")
    yield Paragraph(
        "What a belief contributes is its weight times how far the best compromise is from it. What is saved is how "
        "much lower the inconsistency would be without it."
    )
    ranked = sorted(rows, key=lambda r: (-_order(r.contribution), -_order(r.saved_if_dropped)))
    cells = [(r.name, _number(r.divergence), _number(r.contribution), _number(r.saved_if_dropped)) for r in ranked]
    yield from _grid(("belief", "divergence", "contributes", "saved if dropped"), cells, 1)


def _order(x: float | None) -> float:
    return -1.0 if x is None or math.isnan(x) else round(x, 9)


def _number(x: float | None) -> str:
    return "-" if x is None or math.isnan(x) else "0" if abs(x) < 1e-9 else f"{x:.4g}"


def _chance(result: Inconsistency, replicates: int) -> Iterator[Block]:
    """Only where there are two samples, or one and facts."""
    beta = result.attention.beta
    samples = [a for a in result.pdg.arcs if a.counts is not None and 0 < beta.get(a.name, 0.0) < math.inf]
    facts = [a for a in result.pdg.arcs if beta.get(a.name, 0.0) == math.inf]
    if not replicates or result.gamma or not samples or len(samples) + len(facts) < 2:
        return
    yield Heading("Is it more than chance?")
    try:
        found = chance(result, replicates=replicates)
    except DissonanceError as error:  # too large, or a sample without observations in some row
        yield Paragraph(f"This was not tested: {error}")
        return
    left_out = f" No samples, and left out of this: {', '.join(found.left_out)}." if found.left_out else ""
    large = f"of large samples, {found.degrees} degrees of freedom"
    how = large if found.method == "asymptotic" else f"of {found.replicates} replicates by the parametric bootstrap"
    yield Paragraph(f"{found.sentence} The p-value is that {how}.{left_out}")
    rows = [
        (b.name, _number(b.contribution), f"{_number(b.low)} to {_number(b.high)}", _number(b.by_chance))
        for b in found.blame
    ]
    yield from _grid(("sample", "contributes", f"{100 * found.confidence:g} % interval", "by chance"), rows, 1)


def _where(result: Inconsistency, top: int) -> Iterator[Block]:
    cells = [c for c in result.by_cell(top) if c.contribution > 1e-9]
    if not cells:
        return
    yield Heading("Where")
    rows: list[tuple[str, ...]] = []
    for c in cells:
        value, given = (", ".join(f"{n}={x}" for n, x in part.items()) for part in (c.value, c.given))
        numbers = f"{c.claimed:.4f}", f"{c.reconciled:.4f}", _number(c.contribution)
        rows.append((c.arc, value, given, *numbers))
    yield from _grid(("belief", "says of", "given", "claimed", "reconciled", "contributes"), rows, 3)


def _compromise(result: Inconsistency) -> Iterator[Block]:
    shown = [v for v in result.pdg.variables if v.is_finite and v.size <= MOST_ROWS]
    if not shown:
        return
    yield Heading("The best compromise")
    marginals = result.mu.marginals([(v.name,) for v in shown])
    rows = [
        (v.name, label, f"{p:.4f}")
        for v, marginal in zip(shown, marginals, strict=True)
        for label, p in zip(label_texts(v), marginal.tolist(), strict=True)
    ]
    yield from _grid(("variable", "value", "probability"), rows, 2)


def _resolved(result: Inconsistency, steps: int, control: Control | Chi | None) -> Resolved:
    """What `dissonance resolve` makes of the beliefs as they were scored."""
    pdg = result.pdg if result.theta is None else with_theta(result.pdg, result.theta)
    free = dict.fromkeys(pdg.arc_names, 1.0)
    chosen = default_control(free, result.attention) if control is None else Control.of(control)
    chosen.check(pdg)
    return resolve(pdg, Focus(result.attention, chosen), Resolving(steps=steps, solver=result.asked))


def _reconciled(found: Resolved) -> Iterator[Block]:
    run, after = found.run, found.final
    yield Heading("Reconciled tables")
    if after.upper == math.inf:
        yield Paragraph(f"The tables were not reconciled: {found.contradiction}")
        return
    moved = found.moves()
    names = list(dict.fromkeys(m.arc for m in moved))
    who = f"Moving {', '.join(names)}" if 0 < len(names) <= 4 else f"Moving {len(names)} of {len(found.before)} beliefs"
    yield Paragraph(
        f"{who}, in {run.steps} steps of local inconsistency resolution, leaves "
        f"{after.upper:.3g} of {found.initial.upper:.6g} nats. Rows that are not listed did not move."
    )
    rows = [(m.arc, m.given_text, label, f"{old:.4f}", f"{new:.4f}") for m in moved for label, old, new in m.changes]
    yield from _grid(("belief", "given", "value", "was", "is"), rows, 3)


def _how(reproduce: str | None) -> Iterator[Block]:
    yield Heading("How to reproduce")
    yield Paragraph(f"Made by dissonance {dissonance.__version__} with Python {platform.python_version()}.")
    if reproduce:
        yield Code(reproduce)


def _grid(headings: tuple[str, ...], rows: list[tuple[str, ...]], numbers_from: int) -> Iterator[Block]:
    yield Grid(headings, rows[:MOST_ROWS], numbers_from)
    if len(rows) > MOST_ROWS:
        yield Paragraph(f"{len(rows) - MOST_ROWS} more rows are not shown.")
