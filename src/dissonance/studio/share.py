"""A document in a form that others can use: a picture, a report, a script, a file."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import torch

from dissonance.drawing import Drawing, draw
from dissonance.drawing.figure import rendered
from dissonance.errors import DissonanceError, suggest
from dissonance.focus import Focus
from dissonance.inconsistency import Inconsistency, inconsistency
from dissonance.io import encode
from dissonance.pdg import PDG
from dissonance.reporting import report
from dissonance.studio.documents import StudioDocument, pdg_of, with_observations
from dissonance.studio.place import StudioPlace
from dissonance.studio.script import script

DPI = 192


class Export(msgspec.Struct, forbid_unknown_fields=True):
    """A document and the kind of file it is to be. Of a picture: `theme` (auto, light, dark), which way arcs run."""

    document: StudioDocument
    kind: str
    theme: str = "auto"
    direction: str | None = None


def export(place: StudioPlace, params: Export) -> dict[str, Any]:
    """The content of a file, as text or as base64, and a name for it. What was observed is part of the model."""
    if params.kind not in KINDS:
        raise DissonanceError(f"no export named {params.kind!r}.{suggest(params.kind, KINDS)}")
    suffix, make = KINDS[params.kind]
    made = make(params, *_model(params))
    content = {"text": made} if isinstance(made, str) else {"base64": base64.b64encode(made).decode()}
    return {"filename": f"{_plain(params.document.name)}{suffix}", **content}


def _model(params: Export) -> tuple[PDG, Focus]:
    """The model of a document; a file holds it without what was observed."""
    pdg, focus = pdg_of(params.document.model)
    return (pdg, focus) if params.kind == "json" else with_observations(pdg, focus, params.document.evidence)


@torch.no_grad()
def _scored(pdg: PDG, focus: Focus) -> Inconsistency:
    return inconsistency(pdg, focus.attention)


def _drawing(params: Export, pdg: PDG, focus: Focus) -> Drawing:
    """The picture as the page shows it: arcs in the colours of blame, boxes where they were put."""
    result = _scored(pdg, focus)
    positions = {n: p for n, p in params.document.positions.items() if any(v.name == n for v in pdg.variables)}
    return draw(
        pdg,
        attention=focus.attention,
        blame=result,
        theme=params.theme,
        direction=params.direction,
        positions=positions or None,
    )


def _svg(params: Export, pdg: PDG, focus: Focus) -> str:
    return _drawing(params, pdg, focus).svg()


def _png(params: Export, pdg: PDG, focus: Focus) -> bytes:
    return rendered(_drawing(params, pdg, focus).scene, "png", params.theme, DPI)


def _html(params: Export, pdg: PDG, focus: Focus) -> str:
    return report(_scored(pdg, focus), title=_title(params), reproduce=_script(params, pdg, focus)).html()


def _markdown(params: Export, pdg: PDG, focus: Focus) -> str:
    return report(_scored(pdg, focus), title=_title(params), reproduce=_script(params, pdg, focus)).markdown()


def _script(params: Export, pdg: PDG, focus: Focus) -> str:
    return script(params.document.name, pdg, focus)


def _json(params: Export, pdg: PDG, focus: Focus) -> str:
    return encode("model.json", pdg, focus).decode()


def _title(params: Export) -> str:
    return f"Do the beliefs of {params.document.name} fit together?"


def _plain(name: str) -> str:
    """A name for a file that is nothing but a name."""
    kept = "".join(c if c.isalnum() or c in "-_ " else "-" for c in name).strip(" -")
    return kept[:80] or "model"


KINDS: dict[str, tuple[str, Callable[[Export, PDG, Focus], str | bytes]]] = {
    "svg": (".svg", _svg),
    "png": (".png", _png),
    "html": (".html", _html),
    "md": (".md", _markdown),
    "python": (".py", _script),
    "json": (".json", _json),
}
"""By name: the suffix of the file, and what makes its content."""
