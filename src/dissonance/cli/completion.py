"""What the shell offers when Tab is pressed; light enough to be asked at every key, so torch stays out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import typer

SOLVERS = (
    "auto", "newton", "clique-tree", "joint", "pinned", "sum-product", "given", "pooled", "concave-convex", "gaussian",
    "gaussian-pool", "paper", "sampled", "bounds", "reduced", "at-points",
)  # fmt: skip
REFOCUS = ("uniform", "partial", "hub", "smooth", "greedy", "surprisal", "learned", "sweep")
NEIGHBOURHOODS = ("edge", "star", "closed", "blocks")
ORDERS = ("colours", "asynchronous")
FLOWS = ("natural", "adam", "sgd", "ode", "dopri5", "lsoda", "rk4", "euler", "step", "full")
FORMATS = ("json", "bif", "xmlbif", "uai", "csv", "npz", "replicate")
THEMES = ("auto", "light", "dark")
DIRECTIONS = ("right", "down")
PICTURES = ("svg", "png", "pdf")


def one_of(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Those that begin like what is typed."""

    def begun(incomplete: str) -> list[str]:
        return [n for n in names if n.startswith(incomplete)]

    return begun


def arcs(ctx: typer.Context, incomplete: str) -> list[str]:
    """The arcs of the models named before, each with the = that a number follows."""
    return [f"{n}=" for n in _arcs(ctx) if f"{n}=".startswith(incomplete)]


def arc_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The arcs of the models named before."""
    return [n for n in _arcs(ctx) if n.startswith(incomplete)]


def _arcs(ctx: typer.Context) -> list[str]:
    """The arcs of JSON files, but for names that would act on the terminal."""
    models = ctx.params.get("models") or ctx.args  # not taken apart while an option has no value yet
    names: list[str] = []
    for model in models:
        try:
            content = json.loads(Path(model).read_text(encoding="utf-8"))
            names += [str(arc["name"]) for arc in content["arcs"]]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return [n for n in names if n.isprintable()]
