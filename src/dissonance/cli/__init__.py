"""The command line: reads files, asks the library, prints what it says."""

from __future__ import annotations

import contextlib
import sys


def main() -> None:
    """Run the command line of this process; an interrupt is one line from the first import on."""
    try:
        from dissonance.cli.app import run

        with contextlib.suppress(AttributeError, ValueError):
            sys.stdout.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue]
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.stderr.write("dissonance: interrupted.\n")
        sys.exit(130)
