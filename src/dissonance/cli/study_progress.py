"""What the studies show while they run, and what they say when they are stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def progress(what: str = "runs") -> Generator[Callable[[float, int], None], None, None]:
    """A callback that draws a bar on standard error, if that is a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def resumable() -> Generator[None, None, None]:
    """Say that the same command goes on, if this is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("dissonance: interrupted; the same command goes on from here.\n")
        raise
