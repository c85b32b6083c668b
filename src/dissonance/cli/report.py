"""dissonance report: one file that says who disagrees, where, by how much, and what would reconcile them."""

from __future__ import annotations

import math
import shlex
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from dissonance.cli.completion import SOLVERS, one_of
from dissonance.cli.output import UnresolvedError, as_text, console, write_json
from dissonance.cli.sources import (
    Attend,
    Control,
    Gamma,
    Keep,
    Models,
    Move,
    Pseudocount,
    Trust,
    Without,
    controlled,
    read_models,
)


def report_on(
    models: Models,
    out: Annotated[Path, typer.Option(help="Where the report goes: a name that ends in .html or .md.", metavar="FILE")],
    title: Annotated[str, typer.Option(help="The title of the report.", metavar="TEXT")] = "",
    gamma: Gamma = None,
    pseudocount: Pseudocount = None,
    trust: Trust = None,
    attend: Attend = None,
    without: Without = None,
    control: Control = None,
    keep: Keep = None,
    move: Move = None,
    solver: Annotated[str, typer.Option(help="The solver.", metavar="NAME", autocompletion=one_of(SOLVERS))] = "auto",
    top: Annotated[int, typer.Option(help="How many cells of tables are listed.", metavar="N", min=0)] = 12,
    steps: Annotated[
        int, typer.Option(help="How many steps reconcile the tables; 0 leaves them out.", metavar="N", min=0)
    ] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a report on the beliefs of MODEL: verdict, picture, blame, reconciled tables, bounds, how to reproduce.

    An HTML file holds everything; beside Markdown goes the picture, as .svg.
    """
    import_module("numpy")  # before torch, which would swallow an interrupt of this import
    import torch

    from dissonance.inconsistency import inconsistency
    from dissonance.reporting import check_suffix, report
    from dissonance.verdict import verdict

    began = time.perf_counter()
    check_suffix(out)
    sources = read_models(models, gamma, pseudocount, trust, attend, without)
    focus = controlled(sources, control, keep, move)
    with torch.no_grad():
        result = inconsistency(sources.pdg, sources.focus.attention, solver=solver)
    heading = title or f"Do {_listed(list(sources.arcs))} fit together?"
    command = shlex.join(["dissonance", *sys.argv[1:]])
    made = report(result, title=heading, top=top, steps=steps, reproduce=command, control=focus.control)
    made.save(out)
    contradiction = verdict(result) if result.upper == math.inf and not result.is_bracket else ""
    if steps and (contradiction := contradiction or (made.resolved.contradiction if made.resolved else "")):
        raise UnresolvedError(f"the report in {out} reconciles nothing: {contradiction}")
    if as_json:
        bounds = {"inconsistency": result.upper, "lower": result.lower, "upper": result.upper}
        reconciled = None if made.resolved is None else made.resolved.record["final"]
        seconds = time.perf_counter() - began
        write_json(
            {"out": str(out), "verdict": verdict(result), **bounds, "reconciled": reconciled, "seconds": seconds}
        )
    else:
        console().print(as_text(verdict(result)))
        console().print(as_text(f"The report is in {out}."))


def _listed(names: list[str]) -> str:
    if len(names) == 1:
        return f"the beliefs of {names[0]}"
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) <= 5 else f"{len(names)} sources"
