"""CSV: one table of one source, with a heading.

    given Age,Buys,p                      long: a column a variable, and the number
    young,never,0.6

    given Age,Buys=never,Buys=often       wide: a column a value
    young,0.6,0.4

The number is headed p, percent or count; without one every row is an observation. `given` marks what the belief is
conditional on. `dissonance.io.tables` says what becomes of it.
"""

from __future__ import annotations

import csv
import io
from itertools import product

from dissonance.errors import FormatError
from dissonance.focus import Attention, Focus
from dissonance.io import strict
from dissonance.io.cells import GIVEN, CellError, of_columns
from dissonance.io.tables import from_table
from dissonance.pdg import PDG


def from_bytes(content: bytes, learnable: bool, name: str = "table") -> tuple[PDG, Focus]:
    """The PDG of one arc of that name."""
    lines, rows = _rows(content)
    if not rows:
        raise FormatError("holds nothing but blank lines.", 1)
    headings = [h.strip() for h in rows[0]]
    if len(rows) == 1:
        raise FormatError("has a heading and nothing below it.", 1)
    if "" in headings:
        raise FormatError(f"column {headings.index('') + 1} has no heading.", 1)
    for line, row in zip(lines, rows, strict=True):
        if len(row) != len(headings):
            raise FormatError(f"found {len(row)} columns where the heading has {len(headings)}.", line)
    columns = [[row[i].strip() for row in rows[1:]] for i in range(len(headings))]
    try:
        arc = from_table(name, of_columns(name, headings, columns))
    except CellError as error:
        raise FormatError(str(error), lines[1 + error.row]) from None
    pdg = PDG(arc.learnable() if learnable else arc)
    return pdg, Focus(Attention().on(pdg))


def _rows(content: bytes) -> tuple[list[int], list[list[str]]]:
    """The rows that are not blank, and the line where each ends."""
    reader = csv.reader(io.StringIO(strict.text(content).decode(), newline=""), strict=True)
    found: list[tuple[int, list[str]]] = []
    try:
        for row in reader:
            if any(x.strip() for x in row):
                found.append((reader.line_num, row))
    except csv.Error as error:
        raise FormatError(f"is not CSV: {error}.", reader.line_num) from None
    return [line for line, _ in found], [row for _, row in found]


def to_bytes(pdg: PDG, focus: Focus) -> bytes:
    """A long table; counts if the arc has them, else probabilities."""
    if len(pdg) != 1:
        raise FormatError(f"a CSV file holds one table, and the PDG has {len(pdg)} arcs.")
    (arc,) = pdg.arcs
    attention = focus.attention
    held = 1.0 if arc.counts is None else float(arc.counts.sum())
    if attention.beta.get(arc.name, 0.0) != held or attention.gamma or focus.control.chi:
        raise FormatError("a CSV file holds no weights: gamma, beta and control must be those it would be read with.")
    if odd := [v for v in arc.scope if not v.is_finite]:
        raise FormatError(f"variable {odd[0].name!r} is {odd[0].domain}; a CSV file holds finite variables.")
    numbers = (arc.cpd.table().detach() if arc.counts is None else arc.counts).reshape(-1).tolist()
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    headings = [f"{GIVEN}{v.name}" for v in arc.sources] + [v.name for v in arc.targets]
    writer.writerow([*headings, "p" if arc.counts is None else "count"])
    for labels, number in zip(product(*(v.finite.labels for v in arc.scope)), numbers, strict=True):
        writer.writerow([*labels, repr(number)])
    return out.getvalue().encode()
