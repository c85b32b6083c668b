"""The commands, and what becomes of their errors: one line on standard error and an exit status.

0 done; 2 bad usage or bad input; 1 anything else; 130 interrupted. Nothing here may import torch before a command
runs: `dissonance --help` answers at once, and in plain text for the same reason.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from dissonance import __version__
from dissonance.cli import coherence, convert, doctor, draw, query, report, resolve, score, studio, study
from dissonance.cli.output import InterruptedRunError, UnresolvedError, log, messages, say
from dissonance.errors import ClusterError, DissonanceError, visible

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 120, "help_option_names": ["-h", "--help"]},
)
app.command()(score.score)
app.command(short_help="Move the beliefs until they fit together, and save them.")(resolve.resolve)
app.command("query", short_help="Ask the best compromise what follows from evidence.")(query.ask_compromise)
app.command("report", short_help="Write a report on who disagrees, where, and what would reconcile them.")(
    report.report_on
)
app.command(short_help="Say whether forecasts fit together, and what is certain to be gained.")(coherence.coherence)
app.command(short_help="Write a model in another format.")(convert.convert)
app.command("draw", short_help="Draw a model.")(draw.draw_model)
app.command(short_help="Say what is installed, and whether all of it works.")(doctor.doctor)
app.command("studio", short_help="Open a page on which beliefs can be seen, moved and resolved.")(studio.studio)
app.add_typer(study.app, name="study")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"dissonance {__version__}")
        raise typer.Exit


def _quiet(asked: bool) -> None:
    if asked:
        log.setLevel(logging.ERROR)


def _verbose(asked: bool) -> None:
    if asked:
        log.setLevel(logging.DEBUG)


EVERYWHERE = ("quiet", "verbose", "debug")
"""The options that may stand before a command or after it."""


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", "-q", callback=_quiet, expose_value=False, help="Say nothing but results and errors; no bars."
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", callback=_verbose, expose_value=False, help="Say what is solved, in which time."
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", expose_value=False, help="Show the traceback of an error (also: DISSONANCE_DEBUG=1)."),
    ] = False,
) -> None:
    """Measure how inconsistent a set of probabilistic beliefs is, say which is to blame, and resolve the conflict."""


def command() -> Any:
    """The whole command line, with the options that may stand anywhere in every command."""
    root: Any = typer.main.get_command(app)
    shared = [p for p in root.params if p.name in EVERYWHERE]
    todo = list(root.commands.values())
    while todo:
        here = todo.pop()
        here.params += shared
        todo += getattr(here, "commands", {}).values()
    return root


def run(args: Sequence[str]) -> int:
    """Run a command; returns the exit status."""
    debug = "--debug" in args or os.environ.get("DISSONANCE_DEBUG", "0") not in ("", "0")
    try:
        with messages():
            status = command().main(list(args), prog_name="dissonance", standalone_mode=False)
        sys.stdout.flush()
        if status == 130:
            raise KeyboardInterrupt
        return status if isinstance(status, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted.")
        return 130
    except InterruptedRunError as stopped:
        say(str(stopped))
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader is gone; do not fail again at exit
        return 1
    except UnresolvedError as failed:
        say(str(failed))
        return 1
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # what can be asked, as --help shows it
            sys.stderr.write(f"{error}\n")
            return 2
        if debug:
            sys.stderr.write("\n".join(map(visible, traceback.format_exc().split("\n"))))
        message, status = _verdict(error)
        say(message)
        return status


def _verdict(error: Exception) -> tuple[str, int]:
    """What to say about an error, and the exit status."""
    if isinstance(error, DissonanceError):
        return _joined(str(error)), 1 if isinstance(error, ClusterError) else 2
    if format_message := getattr(error, "format_message", None):  # bad usage
        context = getattr(error, "ctx", None)
        where = "dissonance" if context is None else context.command_path
        complaint = _joined(format_message())
        return f"{complaint}{'' if complaint.endswith(('.', '?')) else '.'} Try '{where} --help'.", 2
    return f"unexpected {type(error).__name__}: {_joined(str(error))} (--debug shows where)", 1


def _joined(message: str) -> str:
    return " ".join(message.split("\n"))
