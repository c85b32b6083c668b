"""dissonance convert: the same model in another format."""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from dissonance.cli.completion import FORMATS, one_of
from dissonance.cli.output import log, write_json


def convert(
    model: Annotated[str, typer.Argument(metavar="IN", help="The file of beliefs; - is standard input.")],
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="Where it goes; the suffix says in which format; - is standard output."),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            help="The format of OUT: json, bif, xmlbif, uai, replicate (else by suffix).",
            metavar="NAME",
            autocompletion=one_of(FORMATS),
        ),
    ] = None,
    evidence: Annotated[
        Path | None, typer.Option(help="UAI evidence to add: a hard arc for each observation.", metavar="FILE")
    ] = None,
    without_weights: Annotated[
        bool, typer.Option("--without-weights", help="Leave out gamma, alpha, beta and control.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write the model IN as OUT; formats by suffix: .json .bif .xmlbif .uai, each also with .gz.

    Nothing is lost, or nothing is written: what OUT cannot hold is an error. UAI alone drops names, and says so.
    """
    import_module("numpy")  # before torch, which would swallow an interrupt of this import
    from dissonance.errors import DissonanceError
    from dissonance.io import load, load_evidence, save, uai

    if as_json and str(out) == "-":
        raise DissonanceError("OUT - and --json both want standard output: give a file, or leave --json out.")
    began = time.perf_counter()
    pdg, focus = load(model)
    if evidence is not None:
        pdg, focus = uai.observed(pdg, focus, load_evidence(evidence, pdg))
    save(out, pdg, None if without_weights else focus, format=to)
    if (to or _inner(out)) == "uai" and any(v.name != f"x{i}" for i, v in enumerate(pdg.variables)):
        log.info("UAI has no names: variables and values are numbered in their order.")
    if as_json:
        size = {"variables": len(pdg.variables), "arcs": len(pdg)}
        write_json({"out": str(out), **size, "seconds": time.perf_counter() - began})


def _inner(path: Path) -> str:
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower().removeprefix(".")
