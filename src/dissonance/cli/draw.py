"""dissonance draw: a model as a picture."""

from __future__ import annotations

import time
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from dissonance.cli.completion import DIRECTIONS, PICTURES, THEMES, one_of
from dissonance.cli.output import write_json


class Measure(StrEnum):
    """What an arc is blamed for."""

    contribution = "contribution"
    saved = "saved"


def draw_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The file of beliefs; - is standard input.")],
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="The picture: .svg, .png or .pdf by its suffix; - is standard output."),
    ],
    blame: Annotated[bool, typer.Option("--blame", help="Solve, and colour each arc by its blame.")] = False,
    measure: Annotated[
        Measure, typer.Option(help="Blame is what an arc contributes, or what dropping it would have saved.")
    ] = Measure.contribution,
    focus: Annotated[
        bool,
        typer.Option(
            "--focus/--no-focus", help="Show the foci of the file, or which arcs it gives control of, in colour."
        ),
    ] = True,
    title: Annotated[str, typer.Option(help="A line above the picture.", metavar="TEXT")] = "",
    theme: Annotated[
        str,
        typer.Option(
            help="auto (svg follows the reader), light or dark.",
            metavar="NAME",
            autocompletion=one_of(THEMES),
        ),
    ] = "auto",
    direction: Annotated[
        str | None,
        typer.Option(
            help="Which way arcs run: right or down (else right, or down where that is wider than --width).",
            metavar="NAME",
            autocompletion=one_of(DIRECTIONS),
        ),
    ] = None,
    width: Annotated[
        float | None, typer.Option(help="The widest the picture may be, in pixels (96 an inch).", metavar="PIXELS")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="The format of OUT: svg, png or pdf (else by suffix).",
            metavar="NAME",
            autocompletion=one_of(PICTURES),
        ),
    ] = None,
    legend: Annotated[bool, typer.Option("--legend/--no-legend", help="Explain widths, colours and dashes.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Draw MODEL: merging and splitting arrows, as wide as their beta; two heads where they are deterministic.

    SVG needs no other program; PNG and PDF need matplotlib (pip install 'dissonance[plot]').
    """
    import_module("numpy")  # before torch, which would swallow an interrupt of this import
    import torch

    from dissonance.drawing import draw as drawn
    from dissonance.drawing import format_of
    from dissonance.errors import DissonanceError
    from dissonance.inconsistency import inconsistency
    from dissonance.io import load

    if as_json and str(out) == "-":
        raise DissonanceError("OUT - and --json both want standard output: give a file, or leave --json out.")
    began = time.perf_counter()
    format_of(out, to)
    pdg, given = load(model)
    blamed = None
    if blame:
        with torch.no_grad():
            rows = inconsistency(pdg, given.attention).by_arc(saved=measure is Measure.saved)
        blamed = {r.name: (r.saved_if_dropped or 0.0) if measure is Measure.saved else r.contribution for r in rows}
    shown = given.schedules.foci or (given if any(c for c in given.control.chi.values()) else None) if focus else None
    picture = drawn(
        pdg,
        attention=given.attention,
        focus=shown,
        blame=blamed,
        title=title,
        theme=theme,
        legend=legend,
        direction=direction,
        width=width,
    )
    picture.save(out, format=to)
    if as_json:
        size = {"variables": len(pdg.variables), "arcs": len(pdg)}
        write_json({"out": str(out), **size, "blame": blamed, "seconds": time.perf_counter() - began})
