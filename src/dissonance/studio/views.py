"""What the file of a model has no room for, in a file beside it: where boxes stand, and what was observed."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from dissonance.errors import DissonanceError, one_line
from dissonance.io import files
from dissonance.pdg import PDG
from dissonance.studio.documents import Evidence, Observation, Position, StudioDocument

FORMAT = "dissonance.view"
SUFFIX = ".studio"
"""What the name of the file has after the name of the model's."""


class StudioView(msgspec.Struct, forbid_unknown_fields=True):
    """Where boxes stand and what was observed, as a file has it."""

    format: str = ""
    positions: dict[str, Position] = {}
    evidence: Evidence = {}


def beside(path: Path) -> Path:
    """The file beside that of a model."""
    return path.with_name(path.name + SUFFIX)


def check_place(path: Path) -> None:
    """Refuse to write where there is something else than a view: before the model is written."""
    place = beside(path)
    if place.is_symlink() or (place.exists() and not place.is_file()):
        raise DissonanceError(f"{place.name!r} is a link or no plain file: the studio does not write through it.")
    if place.exists():
        _read(place)


def write_view(path: Path, document: StudioDocument) -> str | None:
    """Write what the model's file at `path` has no room for; the name of the file, None if nothing is left to keep."""
    place = beside(path)
    if not document.positions and not document.evidence:
        files.remove(place)
        return None
    view = StudioView(FORMAT, document.positions, document.evidence)
    files.write(place, msgspec.json.format(msgspec.json.encode(view), indent=2) + b"\n")
    return place.name


def read_view(path: Path, pdg: PDG) -> StudioView:
    """The view beside a model's file; of what the model, which may have changed since, still has."""
    place = beside(path)
    if place.is_symlink() or not place.is_file():
        return StudioView()
    found, known = _read(place), {v.name: v for v in pdg.variables}
    positions = {n: at for n, at in found.positions.items() if n in known and all(map(math.isfinite, at))}
    values = {n: {str(x) for x in v.finite.labels} for n, v in known.items() if v.is_finite}
    evidence: dict[str, Observation] = {n: o for n, o in found.evidence.items() if o.value in values.get(n, ())}
    return StudioView(FORMAT, positions, evidence)


def _read(place: Path) -> StudioView:
    try:
        found = msgspec.json.decode(files.read(place)[0], type=StudioView)
    except (msgspec.MsgspecError, ValueError) as error:
        raise DissonanceError(
            one_line(f"{place.name}: not a view that the studio has saved ({error}). Remove it to go on without it.")
        ) from None
    if found.format != FORMAT:
        raise DissonanceError(
            f"{place.name}: expected the format {FORMAT!r}, found {found.format!r}. Remove it to go on without it."
        )
    return found
