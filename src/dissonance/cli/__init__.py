"""The command line: reads files, asks the library, prints what it says."""

from __future__ import annotations

import contextlib
import gc
import sys


def main() -> None:
    """Run the command line of this process; an interrupt is one line from the first import on."""
    gc.set_threshold(500_000)  # what is imported is no garbage, and looking for some takes half a second
    try:
        from dissonance.cli.app import run

        with contextlib.suppress(AttributeError, ValueError):
            sys.stdout.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue]
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.stderr.write("dissonance: interrupted.\n")
        sys.exit(130)
