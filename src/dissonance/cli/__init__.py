"""The command line: reads files, asks the library, prints what it says."""

from dissonance.cli.app import main, run

__all__ = ["main", "run"]
