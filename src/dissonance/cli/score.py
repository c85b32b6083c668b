"""dissonance score: how inconsistent a model is, and who is to blame."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dissonance.cli.completion import SOLVERS, one_of
from dissonance.cli.output import json_number, log, progress, write_json
from dissonance.cli.sources import Attend, Gamma, Models, Trust, Without, read
from dissonance.errors import DissonanceError

if TYPE_CHECKING:
    from dissonance.inconsistency import BlameRow, Inconsistency
    from dissonance.scores import CellRow
    from dissonance.solvers import Solver
    from dissonance.variables import Variable

Marginals = dict[str, dict[str, Any]]
"""By variable: the probability of each value, or the mean and the covariance of a Euclidean one."""

MAX_ARCS_DROPPED = 100
"""Up to how many arcs `saved_if_dropped` is computed unasked: it takes a solve for each."""


TOP = 8
"""How many cells are shown unasked."""


@dataclass(frozen=True)
class Scored:
    """What `score` has to say: the result, blame by arc and by cell, the compromise, and the verdict."""

    result: Inconsistency
    rows: list[BlameRow]
    cells: list[CellRow]
    marginals: Marginals | None
    verdict: str


class Unit(StrEnum):
    """What information is measured in."""

    nats = "nats"
    bits = "bits"

    @property
    def size(self) -> float:
        """The unit in nats."""
        return math.log(2) if self is Unit.bits else 1.0


def score(
    models: Models,
    gamma: Gamma = None,
    trust: Trust = None,
    attend: Attend = None,
    without: Without = None,
    unit: Annotated[Unit, typer.Option(help="What information is measured in.")] = Unit.nats,
    solver: Annotated[str, typer.Option(help="The solver.", metavar="NAME", autocompletion=one_of(SOLVERS))] = "auto",
    seconds: Annotated[
        float | None,
        typer.Option(help="How long bounds are narrowed where no junction tree fits.", metavar="S", min=0),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    saved: Annotated[
        bool | None,
        typer.Option(
            "--saved/--no-saved",
            help=f"Compute what dropping each arc would save (by default for up to {MAX_ARCS_DROPPED} arcs).",
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(help="How many cells of tables to show, those that cost most first.", metavar="N", min=0)
    ] = TOP,
) -> None:
    """Say how inconsistent the beliefs of MODEL are, of one file or of several, and which are to blame."""
    import_module("numpy")  # before torch, which would swallow an interrupt of this import
    import torch

    from dissonance.inconsistency import inconsistency
    from dissonance.verdict import verdict

    sources = read(models, gamma, trust, attend, without)
    pdg, attention = sources.pdg, sources.focus.attention
    with torch.no_grad(), progress("who is to blame") as shown:
        began = time.perf_counter()
        result = inconsistency(pdg, attention, solver=_timed(solver, seconds))
        took = time.perf_counter() - began
        rows = result.by_arc(saved=len(pdg) <= MAX_ARCS_DROPPED if saved is None else saved, progress=shown)
        best = marginals(result)
        cells = result.by_cell(top) if best is not None and top else []
        said = verdict(result, rows)
    _warn(result, unit)
    if as_json:
        write_json(_record(result, rows, best, unit, took) | {"verdict": said, "cells": _cells(cells, unit)})
    else:
        from dissonance.cli import scored

        scored.show(Scored(result, rows, cells, best, said), unit, took)


def _timed(name: str, seconds: float | None) -> Solver:
    """The solver of that name, with that much time if it is one that takes as long as it is given."""
    from dissonance.solvers import solver_named

    found = solver_named(name)
    if seconds is None:
        return found
    if not hasattr(found, "seconds"):
        raise DissonanceError(f"--seconds is for the solvers auto and bounds; {name} ends by itself.")
    return replace(found, seconds=seconds)  # pyright: ignore[reportCallIssue, reportArgumentType]


def marginals(result: Inconsistency) -> Marginals | None:
    """The marginals of the best compromise for every attended variable; None if there is no compromise."""
    if not math.isfinite(result.upper):
        return None
    attention = result.attention
    attended = {
        v.name
        for a in result.pdg.arcs
        if attention.beta.get(a.name, 0.0) != 0 or attention.gamma * attention.alpha.get(a.name, 0.0) != 0
        for v in a.scope
    }
    shown = [v for v in result.pdg.variables if v.name in attended]
    found = result.mu.marginals([(v.name,) for v in shown]) if shown else []
    return {v.name: _labelled(v, x) if v.is_finite else _moments(x) for v, x in zip(shown, found, strict=True)}


def _labelled(v: Variable, marginal: Any) -> dict[str, Any]:
    return dict(zip(map(str, v.finite.labels), marginal.tolist(), strict=True))


def _moments(marginal: Any) -> dict[str, Any]:
    return {key: getattr(marginal, key).tolist() for key in ("mean", "covariance")}


def _record(
    result: Inconsistency, rows: list[BlameRow], best: Marginals | None, unit: Unit, seconds: float
) -> dict[str, object]:
    return {
        "inconsistency": json_number(float(result.value) / unit.size),
        "lower": json_number(result.lower / unit.size),
        "upper": json_number(result.upper / unit.size),
        "unit": unit.value,
        "gamma": result.gamma,
        "converged": result.converged,
        "solver": result.solver,
        "arcs": [
            {
                "name": r.name,
                "beta": json_number(r.beta),
                "divergence": json_number(r.divergence / unit.size),
                "contribution": json_number(r.contribution / unit.size),
                "saved_if_dropped": None if r.saved_if_dropped is None else json_number(r.saved_if_dropped / unit.size),
            }
            for r in rows
        ],
        "marginals": best,
        "seconds": seconds,
    }


def _cells(cells: list[CellRow], unit: Unit) -> list[dict[str, object]]:
    return [
        {
            "arc": c.arc,
            "given": {n: str(x) for n, x in c.given.items()},
            "value": {n: str(x) for n, x in c.value.items()},
            "claimed": c.claimed,
            "reconciled": c.reconciled,
            "contribution": json_number(c.contribution / unit.size),
        }
        for c in cells
    ]


def _warn(result: Inconsistency, unit: Unit) -> None:
    if not result.converged and not result.is_bracket:
        bounds = f"between {result.lower / unit.size:.9g} and {result.upper / unit.size:.9g} {unit}"
        log.warning("the solver stopped early: the inconsistency is %s.", bounds)
    if result.caution:
        log.warning("%s.", result.caution)
