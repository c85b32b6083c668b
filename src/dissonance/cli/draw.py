"""dissonance draw: a model as a picture."""

from __future__ import annotations

import time
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from dissonance.cli.completion import THEMES, one_of
from dissonance.cli.output import write_json


class Measure(StrEnum):
    """What an arc is blamed for."""

    contribution = "contribution"
    saved = "saved"


def draw_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The file of beliefs; - is standard input.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The picture: a name that ends in .svg, .png or .pdf.")],
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
    legend: Annotated[bool, typer.Option("--legend/--no-legend", help="Explain widths, colours and dashes.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Draw MODEL: merging and splitting arrows, as wide as their beta; two heads where they are deterministic.

    SVG needs no other program; PNG and PDF need matplotlib (pip install 'dissonance[plot]').
    """
    import_module("numpy")  # before torch, which would swallow an interrupt of this import
    import torch

    from dissonance.drawing import draw as drawn
    from dissonance.drawing import suffix_of
    from dissonance.inconsistency import inconsistency
    from dissonance.io import load

    began = time.perf_counter()
    suffix_of(out)
    pdg, given = load(model)
    blamed = None
    if blame:
        with torch.no_grad():
            rows = inconsistency(pdg, given.attention).by_arc(saved=measure is Measure.saved)
        blamed = {r.name: (r.saved_if_dropped or 0.0) if measure is Measure.saved else r.contribution for r in rows}
    shown = given.schedules.foci or (given if any(c for c in given.control.chi.values()) else None) if focus else None
    drawn(pdg, attention=given.attention, focus=shown, blame=blamed, title=title, theme=theme, legend=legend).save(out)
    if as_json:
        size = {"variables": len(pdg.variables), "arcs": len(pdg)}
        write_json({"out": str(out), **size, "blame": blamed, "seconds": time.perf_counter() - began})
