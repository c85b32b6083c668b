"""What a page asks again and again: the picture of a model, its score, what follows from evidence."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import torch

from dissonance.arc import Arc
from dissonance.cpds import Table
from dissonance.drawing import draw
from dissonance.drawing.data import data
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus
from dissonance.inconsistency import inconsistency
from dissonance.jsonable import json_number
from dissonance.pdg import PDG
from dissonance.query import network_of
from dissonance.query import query as posterior_of
from dissonance.scored import scored
from dissonance.solvers import Auto
from dissonance.studio.documents import (
    Evidence,
    Model,
    Position,
    labels,
    likelihoods,
    pdg_of,
    read_weights,
    with_observations,
)
from dissonance.studio.place import StudioPlace
from dissonance.variables import label_texts

SOLVER = Auto(seconds=2.0)
"""Where no junction tree fits there is a bracket, and somebody waits for it."""


class LayoutParams(msgspec.Struct, forbid_unknown_fields=True):
    """A model; what colours its arcs, where a person has put its variables, the focus of a step of LIR, which way arcs
    run and the width of the page, as `draw` has them."""

    model: Model
    blame: dict[str, float | str | None] | None = None
    positions: dict[str, Position] = {}
    attention: dict[str, float | str] | None = None
    control: dict[str, float | str] | None = None
    direction: str | None = None
    width: float | None = None


class ScoreParams(msgspec.Struct, forbid_unknown_fields=True):
    """A model and what was observed; `top`: how many cells are listed, all by default."""

    model: Model
    evidence: Evidence = {}
    top: int | None = None
    saved: bool | None = None


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """A model and what was observed."""

    model: Model
    evidence: Evidence = {}


def layout(place: StudioPlace, params: LayoutParams) -> dict[str, Any]:
    """The picture that `dissonance draw` makes, as data.

    With `attention` and `control`, of a step of LIR, lines are as wide as the step attends to them, and what it
    controls is marked; without, this is so of the model's own.
    """
    pdg, given = pdg_of(params.model)
    attention = given.attention if params.attention is None else Attention.only(read_weights(params.attention))
    control = given.control if params.control is None else Control(read_weights(params.control))
    focus = Focus(attention, control) if any(control.chi.values()) else None
    blame = None if params.blame is None else {n: math.nan if x is None else x for n, x in params.blame.items()}
    drawn = draw(
        pdg,
        attention=attention,
        focus=focus,
        blame=None if blame is None else read_weights(blame),
        direction=params.direction,
        width=params.width,
        positions=params.positions or None,
    )
    return data(drawn.scene)


def score(place: StudioPlace, params: ScoreParams) -> dict[str, Any]:
    """What `dissonance score --json` prints, with all cells."""
    pdg, given = pdg_of(params.model)
    everything, focus = with_observations(pdg, given, params.evidence)
    found = scored(everything, focus.attention, solver=SOLVER, top=params.top, saved=params.saved)
    record = found.record()
    if record["marginals"] is not None:
        known = {v.name for v in pdg.variables}
        record["marginals"] = {n: p for n, p in record["marginals"].items() if n in known}
    return record | {"caution": found.result.caution}


@torch.no_grad()
def query(place: StudioPlace, params: Query) -> dict[str, Any]:
    """How probable everything is given what was observed, under the best compromise: what `dissonance query` prints.

    `inconsistency`, `lower` and `upper` are of the model with what was observed as further beliefs.
    """
    pdg, focus = pdg_of(params.model)
    result = inconsistency(pdg, focus.attention, solver=SOLVER)
    if not math.isfinite(result.upper):
        raise DissonanceError("some beliefs contradict each other outright: there is no compromise to ask.")
    compromise, certain = network_of(result.mu), labels(pdg, params.evidence)
    seen = likelihoods(pdg, {n: x for n, x in params.evidence.items() if n not in certain})
    doubtful = [
        Arc(f"observed {n}", (), pdg.variable(n), Table([p / sum(ratios) for p in ratios]))
        for n, ratios in seen.items()
    ]
    posterior = posterior_of(PDG(*compromise.arcs, *doubtful, variables=compromise.variables), certain)
    if posterior.log_partition == -math.inf:
        raise DissonanceError("what was observed has probability 0 under the best compromise.")
    with_evidence, attended = with_observations(pdg, focus, params.evidence)
    together = inconsistency(with_evidence, attended.attention, solver=SOLVER)
    return {
        "marginals": {
            v.name: dict(zip(label_texts(v), posterior[v.name].values(), strict=True))
            for v in pdg.variables
            if v.is_finite
        },
        "probability": math.exp(posterior.log_partition) * math.prod(map(sum, seen.values())),
        "inconsistency": json_number(together.upper),
        "lower": json_number(together.lower),
        "upper": json_number(together.upper),
    }
