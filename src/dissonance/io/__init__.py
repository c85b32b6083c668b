"""Reading and writing PDGs: a format is known by its suffix, or else by what the file holds."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from dissonance.errors import DissonanceError, FormatError, one_line
from dissonance.focus import Attention, Focus
from dissonance.io import authors, files, pdg_json, strict
from dissonance.pdg import PDG

Reader = Callable[[bytes, bool], tuple[PDG, Focus]]
Writer = Callable[[PDG, Focus], bytes]


def load(source: files.Source, *, learnable: bool = False) -> tuple[PDG, Focus]:
    """The PDG and the focus that a file describes; "-" is standard input.

    An arc is a fixed `Table`, or a `SoftmaxTable` if the file gives it control; `learnable` makes all of them so.
    Whatever is wrong with the file is a FormatError of one line.
    """
    content, where = files.read(source)
    suffix = Path(source).suffix.lower() if isinstance(source, str | os.PathLike) else ""
    try:
        with _without_collecting():
            return READERS.get(suffix, _read_json)(content, learnable)
    except DissonanceError as error:
        raise FormatError(one_line(f"{where}: {error}")) from None


def save(path: str | os.PathLike[str], pdg: PDG, focus: Focus | None = None) -> None:
    """Write a PDG and a focus (by default: every arc attended with weight 1), all of the file or nothing.

    The suffix says which format; without a known one it is JSON. Every cpd is written as a table.
    """
    writer = WRITERS.get(Path(path).suffix.lower(), pdg_json.write)
    try:
        content = writer(pdg, Focus(Attention.uniform(pdg)) if focus is None else focus)
    except (DissonanceError, UnicodeEncodeError) as error:
        raise FormatError(one_line(f"{path}: cannot be written: {error}")) from None
    files.write(path, content)


def _read_json(content: bytes, learnable: bool) -> tuple[PDG, Focus]:
    content = strict.text(content)
    keys = strict.decode(content, strict.Keys)
    if keys.format is None and keys.graph and keys.cpds:
        return authors.read(content, learnable)
    return pdg_json.read(content, learnable)


READERS: dict[str, Reader] = {}
"""Formats that only the suffix tells; any other file is taken for JSON, and its keys say which."""
WRITERS: dict[str, Writer] = {".json": pdg_json.write}


@contextmanager
def _without_collecting() -> Generator[None, None, None]:
    """Hundreds of thousands of new objects, none of them garbage: looking for some halves the speed of a large load."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
