"""dissonance query: what follows from evidence under the best compromise of all beliefs."""

from __future__ import annotations

import math
import time
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from dissonance.cli.completion import SOLVERS, one_of
from dissonance.cli.output import TableColumn, as_text, as_texts, console, fitted_table, write_json
from dissonance.cli.sources import Attend, Gamma, Models, Pseudocount, Trust, Without, read_models

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from dissonance.inconsistency import Inconsistency
    from dissonance.pdg import PDG


def ask_compromise(
    models: Models,
    given: Annotated[
        list[str] | None, typer.Option(help="What was observed. May be given often.", metavar="VARIABLE=VALUE")
    ] = None,
    of: Annotated[
        list[str] | None, typer.Option(help="The variables to ask about (all by default).", metavar="VARIABLE")
    ] = None,
    joint: Annotated[
        bool, typer.Option("--joint", help="Show the joint distribution of the variables asked about, too.")
    ] = False,
    gamma: Gamma = None,
    pseudocount: Pseudocount = None,
    trust: Trust = None,
    attend: Attend = None,
    without: Without = None,
    solver: Annotated[str, typer.Option(help="The solver.", metavar="NAME", autocompletion=one_of(SOLVERS))] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say how probable everything is given what was observed, under the best compromise of the beliefs of MODEL.

    The compromise is mu*, which `score` prints the marginals of; where the beliefs fit together it is what they say.
    """
    import_module("numpy")  # before torch, which would swallow an interrupt of this import
    import torch

    from dissonance.errors import DissonanceError
    from dissonance.inconsistency import inconsistency

    began = time.perf_counter()
    sources = read_models(models, gamma, pseudocount, trust, attend, without)
    evidence = parsed_evidence(sources.pdg, given or ())
    asked = [sources.pdg.variable(n).name for n in of or ()] or [v.name for v in sources.pdg.variables if v.is_finite]
    with torch.no_grad():
        result = inconsistency(sources.pdg, sources.focus.attention, solver=solver)
        if not math.isfinite(result.upper):
            raise DissonanceError("some beliefs contradict each other outright: there is no compromise to ask.")
        posterior = result.query(evidence)
    if posterior.log_partition == -math.inf:
        raise DissonanceError(f"{', '.join(given or ())} has probability 0 under the best compromise.")
    found = {n: {str(label): p for label, p in posterior[n].items()} for n in asked}
    cells = _joint(result, evidence, asked) if joint else []
    if as_json:
        head = {"given": {n: str(x) for n, x in evidence.items()}, "probability": math.exp(posterior.log_partition)}
        bounds = {"inconsistency": result.upper, "lower": result.lower, "upper": result.upper}
        more = {"joint": [{**labels, "p": p} for labels, p in cells]} if joint else {}
        write_json({**head, "marginals": found, **more, **bounds, "seconds": time.perf_counter() - began})
    else:
        _show(found, evidence, math.exp(posterior.log_partition))
        if joint:
            _show_joint(cells)


MOST_CELLS = 10_000
"""Of a joint distribution that is shown."""


def _joint(result: Inconsistency, given: dict[str, Hashable], asked: list[str]) -> list[tuple[dict[str, str], float]]:
    """The cells of the joint distribution given the evidence, by their labels."""
    from itertools import product

    from dissonance.errors import SizeError

    free = [result.pdg.variable(n) for n in asked if n not in given]
    if math.prod(v.size for v in free) > MOST_CELLS:
        raise SizeError(f"--joint would have more than {MOST_CELLS:,} cells: ask about fewer variables with --of.")
    table = result.mu.conditional([v.name for v in free], given=given)
    labels = product(*(map(str, v.finite.labels) for v in free))
    names = [v.name for v in free]
    return [(dict(zip(names, cell, strict=True)), p) for cell, p in zip(labels, table.ravel().tolist(), strict=True)]


def _show_joint(cells: list[tuple[dict[str, str], float]]) -> None:
    to = console()
    columns = [*(TableColumn(n, number=False) for n in cells[0][0]), TableColumn("probability")]
    to.print(fitted_table(columns, [[*map(str, labels.values()), f"{p:.4f}"] for labels, p in cells], to))


def parsed_evidence(pdg: PDG, words: Sequence[str]) -> dict[str, Hashable]:
    """VARIABLE=VALUE as evidence; values are told by how they read."""
    from dissonance.errors import DissonanceError, suggest

    found: dict[str, Hashable] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise DissonanceError(f"--given {word}: expected VARIABLE=VALUE.")
        by_text = {str(x): x for x in pdg.variable(name).finite.labels}
        if value not in by_text:
            raise DissonanceError(f"--given {word}: {name!r} has no value {value!r}.{suggest(value, by_text)}")
        if name in found:
            raise DissonanceError(f"--given {word}: {name!r} was given already.")
        found[name] = by_text[value]
    return found


def _show(found: dict[str, dict[str, float]], evidence: dict[str, Hashable], probability: float) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    to = console()
    if evidence:
        said = ", ".join(f"{n}={x}" for n, x in evidence.items())
        to.print(as_text(f"Given {said} (probability {probability:.4g} under the best compromise)"))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, show_header=False)
    table.add_column("variable", style="bold", overflow="fold")
    table.add_column("values", overflow="fold")
    for name, values in found.items():
        shown, *each = as_texts([name, *(f"{x} {p:.4f}" for x, p in values.items())])
        table.add_row(shown, Text("   ").join(each))
    to.print(table)
