"""Delimited text: rows of cells between commas, semicolons or tabs, whichever of them every line agrees on.

A delimiter fits a text if it divides the heading into several cells and every other row into as many. It is taken if no
other fits and no other divides the heading as often; else the text is refused, which could be read as another table.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dissonance.errors import FormatError

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}

NUMBER = re.compile(r"[-+]?[\d.,]*\d(?:[eE][-+]?\d+)? ?%?")
"""A number, whatever its marks mean."""
DECIMAL = re.compile(r"([-+]?\d*),(\d+(?:[eE][-+]?\d+)? ?%?)")
"""A number with a decimal comma."""
GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(?:[.,]\d{3})+")
"""A number whose marks may stand between thousands."""


@dataclass(frozen=True)
class Delimited:
    """The rows of a text that are not blank, the heading first, and the line where each of them starts."""

    delimiter: str
    rows: list[list[str]]
    lines: list[int]
    broken: FormatError | None = None
    """Why the delimiter does not fit the text, if it does not."""

    @property
    def width(self) -> int:
        """The number of cells of the heading."""
        return len(self.rows[0]) if self.rows else 0

    def with_points(self, columns: Iterable[int]) -> Delimited:
        """Return the rows with decimal points in the numbers of these columns.

        Where commas delimit, a number has a point already. Elsewhere it may have a comma; numbers whose marks may stand
        between thousands, and numbers of both kinds in one file, are refused.
        """
        if self.delimiter == ",":
            return self
        places = [(k, i) for i in columns for k, row in enumerate(self.rows) if k and i < len(row)]
        cells = [(k, self.rows[k][i].strip()) for k, i in places]
        marked = [(k, x) for k, x in cells if ("," in x or "." in x) and NUMBER.fullmatch(x)]
        if marked and all(GROUPED.fullmatch(x) for _, x in marked):
            k, x = marked[0]
            plain = re.sub("[.,]", "", x)
            raise FormatError(f"{x!r} may be {plain} or a decimal number: write {plain}, or {x}0.", self.lines[k])
        commas = [(k, x) for k, x in marked if "," in x]
        if commas and len(commas) < len(marked):
            (k, x), (_, y) = commas[0], next(m for m in marked if "," not in m[1])
            raise FormatError(f"{x!r} has a comma where {y!r} has a point: write all numbers alike.", self.lines[k])
        rows = [row.copy() for row in self.rows]
        for k, i in places:
            if number := DECIMAL.fullmatch(rows[k][i].strip()):
                rows[k][i] = f"{number[1]}.{number[2]}"
        return replace(self, rows=rows)


def delimited(text: str, *, short: bool = False) -> Delimited:
    """Take a text apart by the delimiter that fits it; `short`: rows may lack cells at their ends."""
    wide = [x for x in (_divided(text, d, short) for d in DELIMITERS if d in text) if x.width > 1]
    if len(wide) > 1:  # a delimiter that parts a cell in quotes is none
        wide = [x for x in wide if _is_quoted_well(text, x.delimiter)] or wide
    best, *others = sorted(wide, key=lambda x: -x.width) or [_divided(text, ",", short)]
    if rivals := [x for x in others if x.width == best.width or x.broken is best.broken is None]:
        these = " or ".join(f"{DELIMITERS[x.delimiter]} ({x.width} columns)" for x in (best, *rivals))
        raise FormatError(f"may be separated by {these}: put the cells that hold one of them in quotes.", 1)
    if best.broken is not None:
        raise best.broken
    if best.width == 1:
        for line, row in zip(best.lines, best.rows, strict=True):
            if odd := next((d for d in ";\t" if d in row[0] and d not in best.rows[0][0]), None):
                raise FormatError(f"found {DELIMITERS[odd]} where the heading has none.", line)
    return best


def _is_quoted_well(text: str, delimiter: str) -> bool:
    """Whether the quotes of the heading are around whole cells."""
    start = len(text) - len(text.lstrip())
    start = max(text.rfind(end, 0, start) for end in "\r\n") + 1
    cell = rf' *+(?:"(?:[^"]|"")*+" *+|[^"{delimiter}\r\n]*+)'
    return re.compile(rf"{cell}(?:{delimiter}{cell})*+(?:[\r\n]|$)").match(text, start) is not None


def _divided(text: str, delimiter: str, short: bool) -> Delimited:
    """Take a text apart by one delimiter, up to the row that it does not fit."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    line, broken = 1, None
    try:
        for row in reader:
            here, line = line, reader.line_num + 1
            if not any(x.strip() for x in row):
                continue
            if rows and (len(row) > len(rows[0]) or (len(row) < len(rows[0]) and not short)):
                what = f"found {len(row)} columns where the heading has {len(rows[0])}"
                broken = FormatError(f"{what}: a cell with a delimiter in it needs quotes.", here)
                break
            rows.append(row)
            lines.append(here)
    except csv.Error as error:
        broken = FormatError(f"is not CSV: {error}.", line)
    return Delimited(delimiter, rows, lines, broken)
