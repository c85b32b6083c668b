"""Tables on paper: rows as CSV or as Markdown."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any


def csv_table(rows: Iterable[dict[str, Any]]) -> bytes:
    """Rows of the same columns as CSV, numbers to ten digits; what is undefined is empty."""
    text = io.StringIO(newline="")
    writer: csv.DictWriter[str] | None = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(text, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow({k: _written(v) for k, v in row.items()})
    return text.getvalue().encode()


def _written(value: Any) -> Any:
    return ("" if math.isnan(value) else f"{value:.10g}") if isinstance(value, float) else value


def markdown_table(rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """Rows of cells as Markdown, a head first; the columns after the first `words` are numbers."""
    head, *body = rows
    line = "|".join([*["---"] * words, *["---:"] * (len(head) - words)])
    return "\n".join([f"| {' | '.join(head)} |", f"|{line}|", *(f"| {' | '.join(r)} |" for r in body)])
