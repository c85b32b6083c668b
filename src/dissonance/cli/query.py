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
    from collections.abc import Container, Hashable, Mapping, Sequence

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
    from dissonance.variables import label_texts

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
    found = {n: dict(zip(label_texts(sources.pdg.variable(n)), posterior[n].values(), strict=True)) for n in asked}
    cells = _joint(result, evidence, asked) if joint else []
    if as_json:
        head = {"given": _told(sources.pdg, evidence), "probability": math.exp(posterior.log_partition)}
        bounds = {"inconsistency": result.upper, "lower": result.lower, "upper": result.upper}
        more = {"joint": [{**labels, _key("p", labels): p} for labels, p in cells]} if joint else {}
        write_json({**head, "marginals": found, **more, **bounds, "seconds": time.perf_counter() - began})
    else:
        _show(found, _told(sources.pdg, evidence), math.exp(posterior.log_partition))
        if joint:
            _show_joint(cells)


def _key(key: str, taken: Container[str]) -> str:
    """The key, with underscores behind it as long as a variable is so called."""
    while key in taken:
        key += "_"
    return key


def _told(pdg: PDG, evidence: Mapping[str, Hashable]) -> dict[str, str]:
    """What was observed, by the texts of its labels."""
    from dissonance.variables import label_texts

    variables = [pdg.variable(n) for n in evidence]
    return {v.name: label_texts(v)[v.finite.index(evidence[v.name])] for v in variables}


MOST_CELLS = 10_000
"""Of a joint distribution that is shown."""


def _joint(result: Inconsistency, given: dict[str, Hashable], asked: list[str]) -> list[tuple[dict[str, str], float]]:
    """The cells of the joint distribution given the evidence, by their labels."""
    from itertools import product

    from dissonance.errors import SizeError
    from dissonance.variables import label_texts

    free = [result.pdg.variable(n) for n in asked if n not in given]
    if math.prod(v.size for v in free) > MOST_CELLS:
        raise SizeError(f"--joint would have more than {MOST_CELLS:,} cells: ask about fewer variables with --of.")
    table = result.mu.conditional([v.name for v in free], given=given)
    labels = product(*map(label_texts, free))
    names = [v.name for v in free]
    return [(dict(zip(names, cell, strict=True)), p) for cell, p in zip(labels, table.ravel().tolist(), strict=True)]


def _show_joint(cells: list[tuple[dict[str, str], float]]) -> None:
    to = console()
    columns = [*(TableColumn(n, number=False) for n in cells[0][0]), TableColumn("probability")]
    to.print(fitted_table(columns, [[*map(str, labels.values()), f"{p:.4f}"] for labels, p in cells], to))


def parsed_evidence(pdg: PDG, words: Sequence[str]) -> dict[str, Hashable]:
    """VARIABLE=VALUE as evidence; values are told by how they read."""
    from dissonance.errors import DissonanceError, suggest
    from dissonance.variables import label_texts

    found: dict[str, Hashable] = {}
    known = {v.name for v in pdg.variables}
    for word in words:
        places = [i for i, c in enumerate(word) if c == "="]
        if not places:
            raise DissonanceError(f"--given {word}: expected VARIABLE=VALUE.")
        named = [i for i in places if word[:i] in known]
        if len(named) > 1:
            raise DissonanceError(f"--given {word}: may be about {word[: named[0]]!r} or {word[: named[1]]!r}.")
        at = (named or places)[0]
        name, value = word[:at], word[at + 1 :]
        v = pdg.variable(name)
        by_text = dict(zip(label_texts(v), v.finite.labels, strict=True))
        if value not in by_text:
            raise DissonanceError(f"--given {word}: {name!r} has no value {value!r}.{suggest(value, by_text)}")
        if name in found:
            raise DissonanceError(f"--given {word}: {name!r} was given already.")
        found[name] = by_text[value]
    return found


def _show(found: dict[str, dict[str, float]], evidence: dict[str, str], probability: float) -> None:
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
