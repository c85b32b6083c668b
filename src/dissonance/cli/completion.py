"""What the shell offers when Tab is pressed; light enough to be asked at every key, so torch stays out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import typer

SOLVERS = (
    "auto", "newton", "clique-tree", "joint", "pinned", "sum-product", "given", "pooled", "concave-convex", "gaussian",
    "paper", "sampled", "at-points",
)  # fmt: skip
REFOCUS = ("uniform", "partial", "hub", "smooth", "greedy", "surprisal", "learned")
FLOWS = ("natural", "adam", "sgd", "ode", "dopri5", "lsoda", "rk4", "euler", "step", "full")
FORMATS = ("json", "bif", "xmlbif", "uai", "replicate")
THEMES = ("auto", "light", "dark")


def one_of(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Those that begin like what is typed."""

    def begun(incomplete: str) -> list[str]:
        return [n for n in names if n.startswith(incomplete)]

    return begun


def arcs(ctx: typer.Context, incomplete: str) -> list[str]:
    """The arcs of the model named before, each with the = that a number follows; none if it is no JSON file.

    A name that would act on the terminal is left out.
    """
    model = ctx.params.get("model") or next(iter(ctx.args), "")  # not taken apart while an option has no value yet
    try:
        content = json.loads(Path(model).read_text(encoding="utf-8"))
        names = [str(arc["name"]) for arc in content["arcs"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return [f"{n}=" for n in names if f"{n}=".startswith(incomplete) and n.isprintable()]
