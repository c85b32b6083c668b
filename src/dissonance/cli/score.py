"""dissonance score: how inconsistent a model is, and who is to blame."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dissonance.cli.completion import SOLVERS, one_of
from dissonance.cli.output import json_number, log, progress, write_json
from dissonance.cli.sources import Attend, Gamma, Models, Pseudocount, Trust, Without, read

if TYPE_CHECKING:
    from dissonance.chance import Chance
    from dissonance.inconsistency import BlameRow, Inconsistency
    from dissonance.scores import CellRow
    from dissonance.variables import Variable

Marginals = dict[str, dict[str, Any]]
"""By variable: the probability of each value, or the mean and the covariance of a Euclidean one."""

MAX_ARCS_DROPPED = 100
"""Up to how many arcs `saved_if_dropped` is computed unasked: it takes a solve for each."""


TOP = 8
"""How many cells are shown unasked."""


@dataclass(frozen=True)
class Scored:
    """What `score` has to say: the result, blame by arc and by cell, the compromise, the verdict, and if it was asked
    for, whether it is chance."""

    result: Inconsistency
    rows: list[BlameRow]
    cells: list[CellRow]
    marginals: Marginals | None
    verdict: str
    chance: Chance | None


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
    pseudocount: Pseudocount = None,
    trust: Trust = None,
    attend: Attend = None,
    without: Without = None,
    unit: Annotated[Unit, typer.Option(help="What information is measured in.")] = Unit.nats,
    solver: Annotated[str, typer.Option(help="The solver.", metavar="NAME", autocompletion=one_of(SOLVERS))] = "auto",
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
    chance: Annotated[
        int | None,
        typer.Option(
            help="Say whether samples (tables of counts) disagree by more than chance, from so many replicates; "
            "1000 is a good number, 0 relies on large samples alone.",
            metavar="REPLICATES",
            min=0,
        ),
    ] = None,
) -> None:
    """Say how inconsistent the beliefs of MODEL are, of one file or of several, and which are to blame."""
    import_module("numpy")  # before torch, which would swallow an interrupt of this import
    import torch

    from dissonance.inconsistency import inconsistency
    from dissonance.verdict import verdict

    sources = read(models, gamma, pseudocount, trust, attend, without)
    pdg, attention = sources.pdg, sources.focus.attention
    with torch.no_grad(), progress("who is to blame") as shown:
        began = time.perf_counter()
        result = inconsistency(pdg, attention, solver=solver)
        seconds = time.perf_counter() - began
        rows = result.by_arc(saved=len(pdg) <= MAX_ARCS_DROPPED if saved is None else saved, progress=shown)
        best = marginals(result)
        cells = result.by_cell(top) if best is not None and top else []
        said = verdict(result, rows)
    tested = None if chance is None else _tested(result, chance)
    _warn(result, unit)
    if as_json:
        more = {"verdict": said, "cells": _cells(cells, unit)}
        more |= {} if tested is None else {"chance": _chance(tested, unit)}
        write_json(_record(result, rows, best, unit, seconds) | more)
    else:
        from dissonance.cli import scored

        scored.show(Scored(result, rows, cells, best, said, tested), unit, seconds)


def _tested(result: Inconsistency, replicates: int) -> Chance:
    from dissonance.chance import chance

    with progress("is it chance") as shown:
        return chance(result, replicates=replicates, progress=shown)


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


def _chance(found: Chance, unit: Unit) -> dict[str, object]:
    return {
        "p_value": found.p_value,
        "method": found.method,
        "statistic": found.statistic,
        "degrees": found.degrees,
        "asymptotic": found.asymptotic,
        "bootstrap": found.bootstrap,
        "replicates": found.replicates,
        "unmet": list(found.unmet),
        "left_out": list(found.left_out),
        "confidence": found.confidence,
        "blame": [
            {
                "name": b.name,
                "contribution": b.contribution / unit.size,
                "low": b.low / unit.size,
                "high": b.high / unit.size,
                "by_chance": b.by_chance / unit.size,
                "most": b.most,
            }
            for b in found.blame
        ],
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
    if not result.converged:
        bounds = f"between {result.lower / unit.size:.9g} and {result.upper / unit.size:.9g} {unit}"
        log.warning("the solver stopped early: the inconsistency is %s.", bounds)
    if result.caution:
        log.warning("%s.", result.caution)
