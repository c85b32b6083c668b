"""Counts that were pasted from a spreadsheet, as the table and the confidence of an arc."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import msgspec
import numpy as np

from dissonance.arc import Arc
from dissonance.errors import DissonanceError
from dissonance.io.cells import Cells, of_columns
from dissonance.io.tables import from_table
from dissonance.studio.documents import Model, pdg_of
from dissonance.studio.place import StudioPlace
from dissonance.variables import cells, setting_texts, shape

Rows = list[list[str]]


class Counts(msgspec.Struct, forbid_unknown_fields=True):
    """A model, the arc that the numbers are for, and the numbers: as text, or in rows.

    They may be bare, a row for each setting of the sources; a crosstab, with the values above and beside them; or a
    table with a heading, as CSV files have. `counts` says whether they are counts, or probabilities, each row of which
    is divided by its sum; by default their sums do, if they can.
    """

    model: Model
    arc: str
    text: str | None = None
    rows: list[list[str | float]] | None = None
    counts: bool | None = None
    pseudocount: float = 0.0


def counts(place: StudioPlace, params: Counts) -> dict[str, Any]:
    """The table, and the confidence: n for counts of n, None if the numbers are probabilities."""
    if (params.text is None) is (params.rows is None):
        raise DissonanceError("counts: give the numbers as text, or in rows.")
    arc = pdg_of(params.model)[0][params.arc]
    if not arc.has_table:
        raise DissonanceError(f"{arc} has no table.")
    rows = _split(params.text) if params.text is not None else [[str(x) for x in row] for row in params.rows or ()]
    rows = [[x.strip() for x in row] for row in rows if any(x.strip() for x in row)]
    made = _made(arc, _cells(arc, rows), params)
    ordered = Arc(arc.name, arc.sources, arc.targets, made.cpd)  # the same variables, or an error
    counted = made.counts is not None and params.counts is not False
    return {"table": ordered.cpd.table().tolist(), "confidence": made.beta if counted else None, "counts": counted}


def _made(arc: Arc, found: Cells, params: Counts) -> Arc:
    """The arc of the cells; probabilities are scaled as counts are, and mean no number of observations."""
    try:
        return from_table(
            arc.name,
            found,
            given=arc.sources,
            of=arc.targets,
            counts=None if params.counts is None else True,
            pseudocount=params.pseudocount,
            variables=arc.scope,
        )
    except DissonanceError as error:
        if "counts=True" not in str(error):
            raise
        raise DissonanceError(
            f"{arc}: the numbers may be counts, or probabilities that do not sum to 1. Say which they are."
        ) from None


def _split(text: str) -> Rows:
    """The cells of a text: spreadsheets put tabs between them, files commas or semicolons."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    apart = next((c for c in "\t;," if c in first), None)
    if apart is None:
        return [line.split() for line in text.splitlines()]
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=apart, strict=True))
    except csv.Error as error:
        raise DissonanceError(f"counts: {error}.") from None


def _cells(arc: Arc, rows: Rows) -> Cells:
    if not rows:
        raise DissonanceError("counts: there are no numbers.")
    if all(_is_number(x) for row in rows for x in row):
        return _bare(arc, rows)
    above, beside = list(setting_texts(arc.targets)), list(setting_texts(arc.sources))
    heading, body = rows[0], rows[1:]
    if set(heading[-len(above) :]) == set(above) and len(heading) <= len(above) + 1:
        return _crosstab(arc, heading[-len(above) :], body, above, beside)
    width = len(heading)
    if odd := next((row for row in body if len(row) != width), None):
        raise DissonanceError(f"counts: found {len(odd)} columns where the heading has {width}.")
    return of_columns(arc.name, heading, [[row[i] for row in body] for i in range(width)])


def _crosstab(arc: Arc, heading: list[str], body: Rows, above: list[str], beside: list[str]) -> Cells:
    """Rows in the order of the arc, found by what is written above and beside them."""
    by_name: dict[str, list[str]] = {}
    for row in body:
        name = row[0] if len(row) > len(heading) else ""
        if name in by_name or (arc.sources and name not in beside):
            raise DissonanceError(f"counts: expected one row for each of {', '.join(beside)}; found {name!r}.")
        by_name[name] = row[-len(heading) :]
    rows = [by_name.get(name, []) for name in (beside if arc.sources else [""])]
    place = [heading.index(t) for t in above]
    return _bare(arc, [[row[i] for i in place] if len(row) == len(place) else [] for row in rows])


def _bare(arc: Arc, rows: Rows) -> Cells:
    """Numbers in the order of the arc's own table; a single column serves if there is one row to fill."""
    tall, wide = cells(arc.sources), cells(arc.targets)
    if tall == 1 and len(rows) == wide and all(len(row) == 1 for row in rows):
        rows = [[row[0] for row in rows]]
    if len(rows) != tall or any(len(row) != wide for row in rows):
        found = f"{len(rows)} rows of {', '.join(sorted({str(len(r)) for r in rows}))}"
        raise DissonanceError(f"counts: {arc} needs {tall} rows of {wide} numbers, found {found}.")
    if odd := next((x for row in rows for x in row if not _is_number(x)), None):
        raise DissonanceError(f"counts: {odd!r} is not a number.")
    numbers = np.array([[float(x) for x in row] for row in rows])
    codes = np.indices(shape(arc.scope)).reshape(len(arc.scope), -1)
    columns = tuple([v.finite.labels[i] for i in code] for v, code in zip(arc.scope, codes, strict=True))
    return Cells(arc.names, columns, numbers.reshape(-1), given=arc.source_names)


def _is_number(x: str) -> bool:
    try:
        return math.isfinite(float(x))
    except ValueError:
        return False
