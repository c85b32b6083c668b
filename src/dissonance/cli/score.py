"""dissonance score: how inconsistent a model is, and who is to blame."""

from __future__ import annotations

import math
import time
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dissonance.cli.completion import SOLVERS, one_of
from dissonance.cli.output import json_number, log, progress, write_json

if TYPE_CHECKING:
    from dissonance.inconsistency import BlameRow, Inconsistency

Marginals = dict[str, list[float] | dict[str, list[Any]]]
"""By variable: the probabilities of its values, or the mean and the covariance of a Euclidean one."""

MAX_ARCS_DROPPED = 100
"""Up to how many arcs `saved_if_dropped` is computed unasked: it takes a solve for each."""


class Unit(StrEnum):
    """What information is measured in."""

    nats = "nats"
    bits = "bits"

    @property
    def size(self) -> float:
        """The unit in nats."""
        return math.log(2) if self is Unit.bits else 1.0


def score(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The file of beliefs; - is standard input.")],
    gamma: Annotated[
        float | None, typer.Option(help="The weight of structure, in place of the file's.", metavar="G")
    ] = None,
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
) -> None:
    """Say how inconsistent MODEL is, and which beliefs are to blame."""
    import_module("numpy")  # before torch, which would swallow an interrupt of this import
    import torch

    from dissonance.inconsistency import inconsistency
    from dissonance.io import load

    pdg, focus = load(model)
    attention = focus.attention if gamma is None else focus.attention.replace(gamma=gamma)
    with torch.no_grad(), progress("who is to blame") as shown:
        began = time.perf_counter()
        result = inconsistency(pdg, attention, solver=solver)
        seconds = time.perf_counter() - began
        rows = result.by_arc(saved=len(pdg) <= MAX_ARCS_DROPPED if saved is None else saved, progress=shown)
        best = marginals(result)
    _warn(result, unit)
    if as_json:
        write_json(_record(result, rows, best, unit, seconds))
    else:
        from dissonance.cli import report

        report.show(result, rows, best, unit, seconds)


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
    return {v.name: x.tolist() if v.is_finite else _moments(x) for v, x in zip(shown, found, strict=True)}


def _moments(marginal: Any) -> dict[str, list[Any]]:
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


def _warn(result: Inconsistency, unit: Unit) -> None:
    if not result.converged:
        bounds = f"between {result.lower / unit.size:.9g} and {result.upper / unit.size:.9g} {unit}"
        log.warning("the solver stopped early: the inconsistency is %s.", bounds)
    if result.caution:
        log.warning("%s.", result.caution)
