"""Tables of results as CSV: a dataclass is a row."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import fields
from io import StringIO
from pathlib import Path
from typing import TypeVar

from dissonance.errors import FormatError
from dissonance.studies import sums

Row = TypeVar("Row")


def write_rows(path: Path, kind: type[Row], rows: Sequence[Row]) -> None:
    """Write a table, all or nothing."""
    text = StringIO()
    names = [f.name for f in fields(kind)]  # pyright: ignore[reportArgumentType]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        values = [getattr(row, name) for name in names]
        writer.writerow([f"{v:.6g}" if isinstance(v, float) else v for v in values])
    sums.write_summed(path, text.getvalue().encode())


def read_rows(path: Path, kind: type[Row]) -> list[Row]:
    """Read a table that `write_rows` wrote; no file is an empty one."""
    content = sums.read_verified(path)
    if not content:
        return []
    kinds = {"int": int, "float": float, "str": str}
    types = {f.name: kinds[str(f.type)] for f in fields(kind)}  # pyright: ignore[reportArgumentType]
    try:
        lines = csv.DictReader(StringIO(content.decode(), newline=""))
        return [kind(**{name: types[name](value) for name, value in row.items()}) for row in lines]
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise FormatError(f"{path}: is not a table of this study ({error}); give another folder.") from None
