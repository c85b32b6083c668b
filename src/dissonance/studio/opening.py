"""Opening and saving models, and keeping what is not saved."""

from __future__ import annotations

import base64
import binascii
import io
from pathlib import Path
from typing import Any

import msgspec

from dissonance import __version__
from dissonance.errors import DissonanceError
from dissonance.io import encode, files, load, source_name
from dissonance.lir import FLOWS, NAMES
from dissonance.studio import examples, views
from dissonance.studio.documents import StudioDocument, check_cells, pdg_of, written
from dissonance.studio.folder import READ, WRITTEN, Folder
from dissonance.studio.place import StudioPlace
from dissonance.studio.recovery import Recovery


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters."""


class Open(msgspec.Struct, forbid_unknown_fields=True):
    """One of: a file of the folder, an example, the model of the command line, or a file that was dropped."""

    file: str | None = None
    example: str | None = None
    start: bool = False
    filename: str | None = None
    text: str | None = None
    base64: str | None = None


class Save(msgspec.Struct, forbid_unknown_fields=True):
    """A document and the name of the file it goes to."""

    document: StudioDocument
    file: str
    overwrite: bool = False


class Keep(msgspec.Struct, forbid_unknown_fields=True):
    """A document that is not saved yet, and the tab that holds it."""

    document: StudioDocument
    tab: str = ""


class Discard(msgspec.Struct, forbid_unknown_fields=True):
    """The tab whose work need not be kept; or `recovered`, what was offered at the start."""

    tab: str = ""
    recovered: bool = False


def hello(place: StudioPlace, params: Nothing) -> dict[str, Any]:
    """What there is to open, and the names that the page needs."""
    return {
        "version": __version__,
        "folder": str(place.folder),
        "files": Folder(place.folder).listed(),
        "start": place.model is not None,
        "file": _in_folder(place),
        "examples": examples.listed(),
        "networks": examples.published_networks(),
        "recovery": Recovery(place.folder, place.process).offered(),
        "refocus": list(NAMES),
        "flows": list(FLOWS),
        "formats": list(READ),
        "written": list(WRITTEN),
    }


def open_document(place: StudioPlace, params: Open) -> StudioDocument:
    """The document of a file."""
    asked = [params.file, params.example, params.filename, params.start or None]
    if sum(x is not None for x in asked) != 1:
        raise DissonanceError("open: name a file, an example, or a file name with its content.")
    if params.file is not None:
        return _loaded(Folder(place.folder).to_read(params.file), params.file, viewed=True)
    if params.example is not None:
        return _loaded(examples.path_of(params.example), params.example)
    if params.filename is not None:
        return _loaded(_dropped(params), params.filename)
    if place.model is None:
        raise DissonanceError("open: the studio was started without a model.")
    if place.piped is not None:
        return _loaded(io.BytesIO(place.piped), place.model)
    return _loaded(Path(place.model), place.model, viewed=_in_folder(place) is not None)


def save_document(place: StudioPlace, params: Save) -> dict[str, str | None]:
    """Write the model of a document to a file of the folder, and where boxes stand and what was observed beside it."""
    path = Folder(place.folder).to_write(params.file, params.overwrite)
    pdg, focus = pdg_of(params.document.model)
    content = encode(path.name, pdg, focus)
    views.check_place(path)
    files.write(path, content)
    return {"file": params.file, "view": views.write_view(path, params.document)}


def keep_document(place: StudioPlace, params: Keep) -> dict[str, str]:
    """Keep a document until it is saved."""
    Recovery(place.folder, place.process).keep(params.tab, params.document)
    return {}


def discard(place: StudioPlace, params: Discard) -> dict[str, str]:
    """Forget what was kept."""
    recovery = Recovery(place.folder, place.process)
    if params.recovered:
        recovery.discard_offered()
    else:
        recovery.discard(params.tab)
    return {}


def _in_folder(place: StudioPlace) -> str | None:
    """The name of the model of the command line, if it is a file of the folder."""
    if place.model is None or place.piped is not None:
        return None
    path = Path(place.model)
    return path.name if path.name in Folder(place.folder).listed() and path.resolve().parent == place.folder else None


def _dropped(params: Open) -> io.BytesIO:
    if (params.text is None) is (params.base64 is None):
        raise DissonanceError(f"open: {params.filename!r} needs its content, as text or as base64.")
    if params.text is not None:
        return io.BytesIO(params.text.encode())
    try:
        return io.BytesIO(base64.b64decode(params.base64 or "", validate=True))
    except (binascii.Error, ValueError):
        raise DissonanceError(f"open: the content of {params.filename!r} is not base64.") from None


def _loaded(source: Path | io.BytesIO, name: str, viewed: bool = False) -> StudioDocument:
    """The document of a model; `viewed`: with the view that is beside its file."""
    if isinstance(source, io.BytesIO):
        source.name = name
    pdg, focus = load(source)
    check_cells(pdg)
    view = views.read_view(source, pdg) if viewed and isinstance(source, Path) else views.StudioView()
    return StudioDocument(source_name(name), written(pdg, focus), view.positions, view.evidence)
