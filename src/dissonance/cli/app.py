"""The commands, and what becomes of their errors: one line on standard error and an exit status.

0 done; 2 bad usage or bad input; 1 anything else; 130 interrupted. Nothing here may import torch before a command
runs: `dissonance --help` answers at once, and in plain text for the same reason.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from dissonance import __version__
from dissonance.cli import convert, draw, resolve, score, study
from dissonance.errors import DissonanceError, one_line

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 120},
)
app.command()(score.score)
app.command()(resolve.resolve)
app.command()(convert.convert)
app.command()(draw.draw)
app.add_typer(study.app, name="study")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"dissonance {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error (also: DISSONANCE_DEBUG=1).")
    ] = False,
) -> None:
    """Measure how inconsistent a set of probabilistic beliefs is, say which is to blame, and resolve the conflict."""


def run(args: Sequence[str]) -> int:
    """Run a command; returns the exit status. `--debug` may stand anywhere."""
    debug = "--debug" in args or os.environ.get("DISSONANCE_DEBUG", "0") not in ("", "0")
    words = [a for a in args if a != "--debug"]
    try:
        status = typer.main.get_command(app).main(words, prog_name="dissonance", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on; nor shall the exit complain
        return 1
    except Exception as error:
        if debug:
            traceback.print_exc()
        message, status = _verdict(error)
        sys.stderr.write(one_line(f"dissonance: {message}") + "\n")
        return status


def _verdict(error: Exception) -> tuple[str, int]:
    """What to say about an error, and the exit status."""
    if isinstance(error, DissonanceError):
        return _joined(str(error)), 2
    if format_message := getattr(error, "format_message", None):  # bad usage
        context = getattr(error, "ctx", None)
        command = "dissonance" if context is None else context.command_path
        complaint = _joined(format_message())
        return f"{complaint}{'' if complaint.endswith(('.', '?')) else '.'} Try '{command} --help'.", 2
    return f"unexpected {type(error).__name__}: {_joined(str(error))} (--debug shows where)", 1


def _joined(message: str) -> str:
    return " ".join(message.split("\n"))
