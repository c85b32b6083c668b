"""A cpd as a table to look at: a row for each source setting, a column for each target setting."""

from __future__ import annotations

from itertools import islice, product

import torch
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dissonance.cpds.base import CPD, Variables
from dissonance.errors import CapabilityError
from dissonance.variables import cells

MAX_ROWS = 20
MAX_COLUMNS = 6


def cpd_table(name: str, sources: Variables, targets: Variables, cpd: CPD) -> RenderableType:
    """A finite cpd as a table, the far end of a large one left out and counted; any other cpd in one line."""
    title = f"{name}: {_names(sources)}-> {', '.join(v.name for v in targets)}"
    try:
        with torch.no_grad():
            p = cpd.table().reshape(cells(sources), cells(targets))
    except CapabilityError:
        domains = ", ".join(f"{v.name} is {v.domain}" for v in (*sources, *targets) if not v.is_finite)
        return Text(f"{title}   {type(cpd).__name__}{f', {domains}' if domains else ''}")
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD)
    for v in sources:
        table.add_column(Text(v.name), style="bold")
    for setting in islice(_settings(targets), MAX_COLUMNS):
        table.add_column(
            Text(", ".join(f"{v.name}={x}" for v, x in zip(targets, setting, strict=True))), justify="right"
        )
    if p.shape[1] > MAX_COLUMNS:
        table.add_column("...")
    for setting, row in zip(islice(_settings(sources), MAX_ROWS), p[:MAX_ROWS, :MAX_COLUMNS].tolist(), strict=True):
        table.add_row(*(Text(str(x)) for x in setting), *(f"{x:.4g}" for x in row))
    table.caption = _left_out(*p.shape)
    table.caption_justify = "left"
    return table


def _names(sources: Variables) -> str:
    return "".join(f"{v.name}, " for v in sources)[:-2] + " " * bool(sources)


def _settings(variables: Variables) -> product[tuple[object, ...]]:
    return product(*(v.finite.labels for v in variables))


def _left_out(rows: int, columns: int) -> str | None:
    """How much of a table of that size is not shown."""
    more = {"row": rows - MAX_ROWS, "column": columns - MAX_COLUMNS}
    parts = [f"{n} more {word}{'s' * (n > 1)}" for word, n in more.items() if n > 0]
    return f"{' and '.join(parts)} not shown" if parts else None
