"""Tables of any shape taken apart into cells: each has the labels of its variables, and a number."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dissonance.errors import DissonanceError, suggest

Floats = NDArray[np.float64]

PROBABILITIES = ("p", "probability", "prob", "proportion", "share")
PERCENTAGES = ("percent", "percentage", "%")
COUNTS = ("count", "counts", "n", "weight", "freq", "frequency")
NUMBERS = (*PROBABILITIES, *PERCENTAGES, *COUNTS)
"""Headings of the column that holds the numbers of a long table."""

GIVEN = "given "
"""What the heading of a source begins with."""

TOTALS = ("all", "total", "sum", "totals")
"""What the total of a table is called."""

ROUNDED = 0.01
"""Sums that are off by less are taken for 1 with rounded parts; the parts are divided by their sum."""


@dataclass(frozen=True)
class Cells:
    """A table taken apart: for each variable a column of labels, and a column of numbers.

    `given`: the variables that the table itself marks as sources. `along`: those along the rows of a crosstab, which
    are the sources if every row sums to 1. `counted`: whether the numbers are counts, None if that is not known.
    `domains`: the values of variables of which the table says more than occurs.
    """

    names: tuple[str, ...]
    columns: tuple[Sequence[Hashable], ...]
    numbers: Floats
    given: tuple[str, ...] = ()
    along: tuple[str, ...] = ()
    counted: bool | None = None
    domains: Mapping[str, Sequence[Hashable]] = field(default_factory=dict)


class CellError(DissonanceError):
    """A cell is no number; `row` counts from 0."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


def is_number(heading: str) -> bool:
    """Return whether a column with this heading holds the numbers of a table."""
    return heading.lower() in NUMBERS


def has_label(heading: str) -> bool:
    """Return whether a heading is `Variable=label`."""
    return "=" in heading.strip("=")


def as_numbers(name: str, given: Iterable[object], heading: str | None = None) -> Floats:
    """Numbers from 0 on, or an error that shows what is none."""
    found: list[float] = []
    for i, x in enumerate(given):
        where = f"cell {i + 1}" if heading is None else f"row {i + 1} of {heading!r}"
        try:
            if isinstance(x, bool):
                raise TypeError
            number = float(x)  # pyright: ignore[reportArgumentType]
        except (TypeError, ValueError):
            raise CellError(f"arc {name!r}: {x!r}, in {where}, is not a number.", i) from None
        if not 0 <= number < math.inf:
            what = "missing" if math.isnan(number) else f"{number:g}; it must be a number from 0 on"
            raise CellError(f"arc {name!r}: {where} is {what}.", i)
        found.append(number)
    return np.array(found, dtype=np.float64)


def of_columns(
    name: str, headings: Sequence[str], columns: Sequence[Sequence[Any]], values: str | None = None
) -> Cells:
    """The cells of a table with headings, as a file or a data frame has it.

    Long: a column for each variable, and one for the number, headed p, percent or count (or `values`). Wide: columns
    headed `Variable=label` hold the numbers, the others the labels of the rows; a column n may say how many
    observations a row of proportions stands for. Data: no numbers, every row is an observation.
    `given X` marks a source.
    """
    if len(set(headings)) < len(headings):
        twice = next(h for h in headings if list(headings).count(h) > 1)
        raise DissonanceError(f"arc {name!r}: two columns are headed {twice!r}.")
    numbers = [values] if values is not None else [h for h in headings if is_number(h)]
    if values is not None and values not in headings:
        raise DissonanceError(f"arc {name!r}: no column headed {values!r}.{suggest(values, headings)}")
    wide = [h for h in headings if has_label(h)]
    if wide:
        return _of_wide(name, headings, columns, wide, numbers)
    if len(numbers) > 1:
        listed = " and ".join(map(repr, numbers))
        raise DissonanceError(f"arc {name!r}: the columns {listed} could both hold the numbers: say values=...")
    labels = [(h, c) for h, c in zip(headings, columns, strict=True) if h not in numbers]
    if not labels:
        raise DissonanceError(f"arc {name!r}: no column holds the labels of a variable.")
    given = tuple(h.removeprefix(GIVEN).strip() for h, _ in labels if h.startswith(GIVEN))
    names = tuple(h.removeprefix(GIVEN).strip() for h, _ in labels)
    if not numbers:
        _check_data(name, dict(zip(names, (c for _, c in labels), strict=True)))
        return Cells(names, tuple(c for _, c in labels), np.ones(len(columns[0])), given, counted=True)
    kind = numbers[0].lower()
    read = as_numbers(name, columns[list(headings).index(numbers[0])], numbers[0])
    counted = True if kind in COUNTS else False if kind in (*PROBABILITIES, *PERCENTAGES) else None
    return Cells(names, tuple(c for _, c in labels), read / (100 if kind in PERCENTAGES else 1), given, counted=counted)


def _check_data(name: str, columns: Mapping[str, Sequence[Any]]) -> None:
    """Refuse what would be read as a row an observation and is a table of numbers: shares, or a crosstab."""
    numbers = {n: [_number(x) for x in c] for n, c in columns.items()}
    for n, found in numbers.items():
        if any(x is not None and not (math.isnan(x) or x.is_integer()) for x in found):
            raise DissonanceError(
                f"arc {name!r}: the column {n!r} holds numbers, not labels. Head it p or count, or give values=..."
            )
    rows = [c for n, c in columns.items() if None in numbers[n]]
    across = [n for n in columns if None not in numbers[n]]
    count = len(next(iter(columns.values())))
    if len(across) > 1 and rows and count > 1 and len(set(zip(*rows, strict=True))) == count:
        raise DissonanceError(
            f"arc {name!r}: the columns {across[0]!r} and {across[1]!r} hold numbers, a row a label: a crosstab? "
            f"Head them Variable={across[0]} and so on; or add a column count if every row is an observation."
        )


def _number(x: Any) -> float | None:
    """What is a number, or a text that says one."""
    try:
        return None if isinstance(x, bool) else float(x)
    except (TypeError, ValueError):
        return None


def _of_wide(
    name: str, headings: Sequence[str], columns: Sequence[Sequence[Any]], wide: list[str], numbers: list[str]
) -> Cells:
    """Columns headed `Variable=label` hold numbers."""
    by = dict(zip(headings, columns, strict=True))
    target = wide[0].partition("=")[0].strip()
    if odd := [h for h in wide if h.partition("=")[0].strip() != target]:
        raise DissonanceError(
            f"arc {name!r}: columns of two variables, {wide[0]!r} and {odd[0]!r}: make it a long table."
        )
    if odd := [h for h in numbers if h.lower() not in COUNTS]:
        raise DissonanceError(
            f"arc {name!r}: {odd[0]!r} beside columns like {wide[0]!r}, which hold the numbers already."
        )
    rows = [h for h in headings if h not in wide and h not in numbers]
    given = tuple(h.removeprefix(GIVEN).strip() for h in rows if h.startswith(GIVEN))
    names = (*(h.removeprefix(GIVEN).strip() for h in rows), target)
    labels = [h.partition("=")[2].strip() for h in wide]
    found = np.stack([as_numbers(name, by[h], h) for h in wide], 1)
    if numbers:  # how many observations each row stands for
        sums = found.sum(1, keepdims=True)
        if not is_one(sums).all():
            raise DissonanceError(f"arc {name!r}: a column {numbers[0]!r} goes with rows that sum to 1.")
        found = found / sums * as_numbers(name, by[numbers[0]], numbers[0])[:, None]
    count = len(found)
    column = [[x for x in by[h] for _ in wide] for h in rows]
    along = names[:-1] if rows else ()
    return Cells(names, (*column, labels * count), found.reshape(-1), given, along, True if numbers else None)


def check_margins(name: str, cells: Cells) -> None:
    """A last value that is the sum of all the others is a total, as crosstabs with margins have it, and no value."""
    if len(cells.names) < 2 or not len(cells.numbers):
        return
    for n, column in zip(cells.names, cells.columns, strict=True):
        values = list(dict.fromkeys(map(python_label, column)))
        total = values[-1]
        if len(values) < 3 or str(total).casefold() not in TOTALS:
            continue
        is_total = np.array([python_label(x) == total for x in column])
        if math.isclose(float(cells.numbers[is_total].sum()), float(cells.numbers[~is_total].sum())):
            raise DissonanceError(
                f"arc {name!r}: {n}={total} is the sum of the other values of {n!r}: leave the totals out."
            )


def is_one(sums: Any) -> Any:
    """Which sums are 1, but for rounding."""
    return np.abs(sums - 1) <= ROUNDED


def python_label(value: Any) -> Hashable:
    """A label as Python has it, not numpy."""
    return value.item() if isinstance(value, np.generic) else value
