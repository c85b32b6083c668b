"""`dissonance coherence`: whether forecasts of related events fit together, and what is certain to be gained if not."""

from __future__ import annotations

import csv
import time
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dissonance.cli.cluster import AGAIN, ClusterAddress, ClusterTls, workers
from dissonance.cli.output import log, progress, write_json
from dissonance.jsonable import json_number

if TYPE_CHECKING:
    from dissonance.coherence.beliefs import Belief
    from dissonance.coherence.book import Coherence
    from dissonance.coherence.files import Book


class Score(StrEnum):
    """How forecasts are paid."""

    log = "log"
    brier = "brier"


def coherence(
    forecasts: Annotated[
        list[str],
        typer.Argument(metavar="FORECASTS...", help="Files: CSV, JSON or lines of text; - is standard input."),
    ],
    group: Annotated[
        list[str] | None,
        typer.Option(
            help="The column of what belongs together (set, if there is one); several, with commas between or each "
            "with the option, keep every combination apart.",
            metavar="COLUMN",
        ),
    ] = None,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows without a probability, which are an error otherwise.")
    ] = False,
    score: Annotated[Score, typer.Option(help="How forecasts are paid.")] = Score.log,
    seconds: Annotated[
        float,
        typer.Option(help="How long the bounds of a book are narrowed that no junction tree fits.", metavar="S", min=0),
    ] = 60.0,
    out: Annotated[
        str | None, typer.Option(help="Write the reconciled forecasts there (.csv or .json).", metavar="FILE")
    ] = None,
    cluster: ClusterAddress = None,
    cluster_tls: ClusterTls = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say whether FORECASTS fit together, what is certain to be gained from them, by which bets, and what to change."""
    import_module("numpy")  # before torch, which would swallow an interrupt of this import
    from dissonance.coherence import files

    began = time.perf_counter()
    groups = [name for given in group or ["set"] for name in next(csv.reader([given], skipinitialspace=True), [""])]
    books = files.load_books(forecasts, groups, drop_missing=drop_missing)
    with workers(cluster, cluster_tls, AGAIN) as there, progress("sets of forecasts") as shown:
        results = files.scored_books(books, score.value, shown, seconds, there)
    took = time.perf_counter() - began
    early = sum(not r.converged for r in results)
    if early:
        log.warning("the bounds of %d of %d sets do not meet: more --seconds may narrow them.", early, len(results))
    if out is not None:
        files.save_reconciled(out, books, results)
    if as_json:
        sets = [_record(book, result) for book, result in zip(books, results, strict=True)]
        write_json(
            {"sets": sets, "score": score.value, "unit": "nats" if score is Score.log else "points", "seconds": took}
        )
    else:
        from dissonance.cli import bets

        bets.show_books(books, results, took)


def _probability(belief: Belief) -> dict[str, float | None]:
    if isinstance(belief.p, tuple):
        return {"p": None, "low": belief.low, "high": belief.high}
    return {"p": belief.p}


def _record(book: Book, result: Coherence) -> dict[str, Any]:
    worlds = result.worlds
    found: dict[str, Any] = {
        "set": book.name or None,
        "inconsistency": None if result.is_bracket else json_number(result.upper),
        "lower": json_number(result.lower),
        "upper": json_number(result.upper),
        "converged": result.converged,
        "bracket": result.is_bracket,
        "gain": {
            "least": json_number(result.least),
            "by_outcome": worlds and [{"outcome": w.values, "gain": json_number(w.gain)} for w in worlds],
        },
        "beliefs": [
            {
                "belief": r.belief.event,
                "given": r.belief.given or None,
                **_probability(r.belief),
                "coherent": json_number(r.coherent),
                "contribution": json_number(r.contribution),
                "stake": json_number(r.stake),
                "if_true": json_number(r.if_true),
                "if_false": json_number(r.if_false),
            }
            for r in result.rows
        ],
    }
    if result.before.count:
        found["realised"] = json_number(result.realised)
        found["scores"] = {
            when: {"count": s.count, "log": json_number(s.log), "brier": json_number(s.brier)}
            for when, s in (("before", result.before), ("after", result.after))
        }
    return found
