"""CSV: one table of one source, with a heading.

    given Age,Buys,p                      long: a column a variable, and the number
    young,never,0.6

    given Age,Buys=never,Buys=often       wide: a column a value
    young,0.6,0.4

The number is headed p, percent or count; without one every row is an observation. `given` marks what the belief is
conditional on. `dissonance.io.tables` says what becomes of it. Semicolons and tabs may stand in the place of commas:
`dissonance.io.delimited`. A table is written only if it is read again as the same table.
"""

from __future__ import annotations

import csv
import io
from itertools import product

import torch

from dissonance.arc import Arc
from dissonance.errors import FormatError
from dissonance.focus import Attention, Focus
from dissonance.io import strict
from dissonance.io.cells import GIVEN, CellError, has_label, is_number, of_columns
from dissonance.io.delimited import delimited
from dissonance.io.network import check_finite, value_names
from dissonance.io.tables import from_table
from dissonance.pdg import PDG


def from_bytes(content: bytes, learnable: bool, name: str = "table") -> tuple[PDG, Focus]:
    """The PDG of one arc of that name."""
    table = delimited(strict.text(content).decode())
    if not table.rows:
        raise FormatError("holds nothing but blank lines.", 1)
    headings = [h.strip() for h in table.rows[0]]
    if len(table.rows) == 1:
        raise FormatError("has a heading and nothing below it.", 1)
    if "" in headings:
        raise FormatError(f"column {headings.index('') + 1} has no heading.", 1)
    numeric = [i for i, h in enumerate(headings) if is_number(h) or has_label(h)]
    table = table.with_points(numeric or range(len(headings)))  # without a heading that says so, they may be numbers
    columns = [[row[i].strip() for row in table.rows[1:]] for i in range(len(headings))]
    for i in set(range(len(headings))) - set(numeric):
        if "" in columns[i]:
            raise FormatError(f"a label of {headings[i]!r} is missing.", table.lines[1 + columns[i].index("")])
    try:
        arc = from_table(name, of_columns(name, headings, columns))
    except CellError as error:
        raise FormatError(str(error), table.lines[1 + error.row]) from None
    pdg = PDG(arc.learnable() if learnable else arc)
    return pdg, Focus(Attention().on(pdg))


def to_bytes(pdg: PDG, focus: Focus) -> bytes:
    """A long table; counts if the arc has them, else probabilities."""
    if len(pdg) != 1:
        raise FormatError(f"a CSV file holds one table, and the PDG has {len(pdg)} arcs.")
    (arc,) = pdg.arcs
    if free := [v for v in pdg.variables if v not in arc.scope]:
        raise FormatError(f"a CSV file holds the variables of its table only, not {free[0].name!r}: use .json.")
    attention = focus.attention
    held = 1.0 if arc.counts is None else float(arc.counts.sum())
    weights = attention.beta.get(arc.name, 0.0), attention.alpha.get(arc.name, 0.0), attention.gamma
    if weights != (held, 1.0, 0.0) or focus.control.chi:
        raise FormatError(
            "a CSV file holds no weights: gamma, alpha, beta and control must be those it would be read with."
        )
    check_finite(pdg, "a CSV file")
    content = _written(arc)
    if odd := _misread(arc, content):
        raise FormatError(f"a CSV file cannot hold {arc}: {odd} Use .json.")
    return content


def _written(arc: Arc) -> bytes:
    """The table of an arc; where a cell has another delimiter in it, all cells are quoted, which tells them apart."""
    numbers = (arc.cpd.table().detach() if arc.counts is None else arc.counts).reshape(-1).tolist()
    headings = [f"{GIVEN}{v.name}" for v in arc.sources] + [v.name for v in arc.targets]
    values = [value_names(v)[0] for v in arc.scope]
    odd = any(c in text for text in (*headings, *(x for texts in values for x in texts)) for c in ";\t\r\n")
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL)
    writer.writerow([*headings, "p" if arc.counts is None else "count"])
    for labels, number in zip(product(*values), numbers, strict=True):
        writer.writerow([*labels, repr(number)])
    return out.getvalue().encode()


def _misread(arc: Arc, content: bytes) -> str | None:
    """What would be read from a file in place of the arc; None if it is the arc."""
    try:
        again = from_bytes(content, False, arc.name)[0][arc.name]
    except FormatError as error:
        return f"it would be read as another table ({error})"
    if len(again.scope) != len(arc.scope):
        return f"the variables {', '.join(arc.names)} would be read as {', '.join(again.names)}."
    for v, w in zip(arc.scope, again.scope, strict=True):
        if v.name != w.name or (v in arc.sources) != (w in again.sources):
            return f"the variable {v.name!r} would be read as {w.name!r}{' given' * (w in again.sources)}."
        for old, new in zip(value_names(v)[0], value_names(w)[0], strict=False):
            if old != new:
                return f"{v.name}={old!r} would be read as {new!r}."
    if again.beta != (1.0 if arc.counts is None else float(arc.counts.sum())):
        return "its confidence would be read as another one."
    if not torch.allclose(again.cpd.table(), arc.cpd.table().detach(), rtol=1e-12, atol=0):
        return "its numbers would be read as others."
    return None
