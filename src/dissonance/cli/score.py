"""dissonance score: how inconsistent a model is, and who is to blame."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from dissonance.cli.cluster import AGAIN, ClusterAddress, ClusterTls, workers
from dissonance.cli.completion import SOLVERS, one_of
from dissonance.cli.output import log, progress, write_json
from dissonance.cli.sources import Attend, Gamma, Models, Pseudocount, Trust, Without, read_models
from dissonance.errors import DissonanceError

if TYPE_CHECKING:
    from dissonance.chance import Chance
    from dissonance.inconsistency import Inconsistency
    from dissonance.scored import ScoredColumns
    from dissonance.solvers import Solver
    from dissonance.workers.cluster import Cluster

TOP = 8
"""How many cells are shown unasked."""


class Unit(StrEnum):
    """What information is measured in."""

    nats = "nats"
    bits = "bits"

    def __init__(self, name: str) -> None:
        self.size = math.log(2) if name == "bits" else 1.0  # in nats


def score(
    models: Models,
    gamma: Gamma = None,
    pseudocount: Pseudocount = None,
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
            help="Compute what dropping each arc would save (by default for up to 100 arcs).",
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
    cluster: ClusterAddress = None,
    cluster_tls: ClusterTls = None,
) -> None:
    """Say how inconsistent the beliefs of MODEL are, of one file or of several, and which are to blame."""
    import_module("numpy")  # before torch, which would swallow an interrupt of this import
    from dissonance.scored import scored, scored_columns

    if chance is None and (cluster or cluster_tls):
        raise DissonanceError("--cluster is for the replicates of --chance.")
    sources = read_models(models, gamma, pseudocount, trust, attend, without)
    chosen = _timed(solver, seconds)
    limit = getattr(chosen, "seconds", None) if solver in ("auto", "bounds") else None
    if limit is not None and (many := scored_columns(sources.pdg, sources.focus.attention, limit)) is not None:
        if saved or chance is not None:
            raise DissonanceError("--saved and --chance are for fewer beliefs: no solver sees the whole of these.")
        _show_columns(many, unit, as_json)
        return
    with progress("who is to blame") as shown:
        found = scored(sources.pdg, sources.focus.attention, solver=chosen, saved=saved, top=top, progress=shown)
    if chance is not None:
        with workers(cluster, cluster_tls, AGAIN) as there:
            found = replace(found, chance=_tested(found.result, chance, there))
    _warn(found.result, unit)
    if as_json:
        write_json(found.record(unit.value, unit.size))
    else:
        from dissonance.cli.scored import show_scored

        show_scored(found, unit)


def _show_columns(found: ScoredColumns, unit: Unit, as_json: bool) -> None:
    """Very many beliefs: a bracket, and who is to blame."""
    gap = f"{100 * found.found.gap:.2g} % apart"
    log.warning("a bracket, not a value: no junction tree fits (%s; more time narrows it).", gap)
    if as_json:
        write_json(found.record(unit.value, unit.size))
    else:
        from dissonance.cli.scored import show_columns

        show_columns(found, unit)


def _timed(name: str, seconds: float | None) -> Solver:
    """The solver of that name, with that much time if it is one that takes as long as it is given."""
    from dissonance.solvers import solver_named

    found = solver_named(name)
    if seconds is None:
        return found
    if not hasattr(found, "seconds"):
        raise DissonanceError(f"--seconds is for the solvers auto, bounds and reduced; {name} ends by itself.")
    return replace(found, seconds=seconds)  # pyright: ignore[reportCallIssue, reportArgumentType]


def _tested(result: Inconsistency, replicates: int, cluster: Cluster | None) -> Chance:
    from dissonance.chance import chance

    with progress("is it chance") as shown:
        return chance(result, replicates=replicates, progress=shown, cluster=cluster)


def _warn(result: Inconsistency, unit: Unit) -> None:
    if not result.converged and not result.is_bracket:
        bounds = f"between {result.lower / unit.size:.9g} and {result.upper / unit.size:.9g} {unit}"
        log.warning("the solver stopped early: the inconsistency is %s.", bounds)
    if result.caution:
        log.warning("%s.", result.caution)
