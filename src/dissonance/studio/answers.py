"""What a page asks again and again: the picture of a model, its score, what follows from evidence, counts."""

from __future__ import annotations

from typing import Any

import msgspec

from dissonance.drawing import draw
from dissonance.scored import scored
from dissonance.studio.documents import Evidence, Model, Position, observed, pdg_of
from dissonance.studio.place import Place
from dissonance.studio.scene_data import data


class Layout(msgspec.Struct, forbid_unknown_fields=True):
    """A model; what colours its arcs, and where a person has put its variables."""

    model: Model
    blame: dict[str, float | str] | None = None
    positions: dict[str, Position] = {}
    direction: str = "right"


class Score(msgspec.Struct, forbid_unknown_fields=True):
    """A model and what was observed; `top`: how many cells are listed, all by default."""

    model: Model
    evidence: Evidence = {}
    top: int | None = None
    saved: bool | None = None


def layout(place: Place, params: Layout) -> dict[str, Any]:
    """The picture that `dissonance draw` makes, as data."""
    pdg, focus = pdg_of(params.model)
    blame = None if params.blame is None else {n: float(x) for n, x in params.blame.items()}
    return data(draw(pdg, attention=focus.attention, blame=blame, legend=False).scene)


def score(place: Place, params: Score) -> dict[str, Any]:
    """What `dissonance score --json` prints, with all cells."""
    pdg, focus = observed(*pdg_of(params.model), params.evidence)
    found = scored(pdg, focus.attention, top=params.top, saved=params.saved)
    return found.record() | {"caution": found.result.caution}
