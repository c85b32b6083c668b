"""What goes where: results to standard output, all that is said about them to standard error.

Messages go through the logger "dissonance": warnings and notes by default, none with --quiet, with --verbose also what
the solvers do. A bar is drawn where messages are wanted and standard error is a terminal.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from dissonance.errors import one_line, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

WIDTH = 120
"""Columns when the output is not a terminal."""

log = logging.getLogger("dissonance")


class InterruptedRunError(Exception):
    """Ctrl-C stopped a command that can go on later; the message says how."""


class UnresolvedError(Exception):
    """The command was understood and did what it could, which was nothing; the message says why."""


class _Messages(logging.Handler):
    """One line on standard error for each record."""

    _BEFORE = ((logging.WARNING, "warning: "), (logging.INFO, "note: "))

    def emit(self, record: logging.LogRecord) -> None:
        before = next((word for level, word in self._BEFORE if record.levelno >= level), "")
        say(f"{before}{record.getMessage()}")


@contextmanager
def messages() -> Generator[None, None, None]:
    """Show what is logged, down to notes unless an option says otherwise."""
    handler, level = _Messages(), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def say(message: str) -> None:
    """One line on standard error."""
    sys.stderr.write(one_line(f"dissonance: {message}") + "\n")


def write_json(record: Mapping[str, object]) -> None:
    """The result as one JSON object on one line of standard output."""
    sys.stdout.write(json.dumps(record, allow_nan=False) + "\n")


def console(*, stderr: bool = False) -> Console:
    """A console that writes plain text unless it is a terminal that takes colours."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(
        stderr=stderr,
        highlight=False,
        color_system="auto" if _coloured(stream) else None,
        width=None if stream.isatty() else WIDTH,
    )


def as_texts(texts: Sequence[str]) -> list[Text]:
    """Text to be printed as it is: what looks like markup in a name is not obeyed, and what cannot be seen is shown."""
    from rich.text import Text

    return [Text(text) for text in [visible(text) for text in texts]]


def as_text(text: str) -> Text:
    """One of them."""
    return as_texts([text])[0]


@dataclass(frozen=True)
class TableColumn:
    """A column of a table: numbers are never cut; what can be done without is left out where it would not fit."""

    title: str
    number: bool = True
    needed: bool = True


def fitted_table(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], to: Console) -> Table:
    """A table that fits a console: the first column is bold; the last column that is not needed goes first."""
    from rich import box
    from rich.measure import Measurement
    from rich.table import Table

    kept = list(range(len(columns)))
    texts = as_texts([cell for row in rows for cell in row])
    cells = [texts[k : k + len(columns)] for k in range(0, len(texts), len(columns))]
    while True:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False)
        for i in kept:
            c = columns[i]
            style = "bold" if i == 0 else None
            justify = "right" if c.number else "left"
            table.add_column(c.title, style=style, justify=justify, no_wrap=c.number, overflow="fold")
        for row in cells:
            table.add_row(*[row[i] for i in kept])
        spare = [i for i in kept if not columns[i].needed]
        if not spare or Measurement.get(to, to.options.update(max_width=10_000), table).minimum <= to.width:
            return table
        kept.remove(spare[-1])


def _coloured(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@contextmanager
def progress(what: str) -> Generator[Callable[[float, float], None], None, None]:
    """A callback (done, total) that draws a bar on standard error, if that is a terminal and not to be quiet."""
    if not (sys.stderr.isatty() and log.isEnabledFor(logging.WARNING)):
        yield lambda done, total: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, *times, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def resumable() -> Generator[None, None, None]:
    """Say that the same command goes on, if this is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError("interrupted; the same command goes on from here.") from None
