"""The files a study goes on from, with their checksums beside them: what was damaged, edited or lost is noticed.

SHA256SUMS is as `sha256sum -c` reads it. While a file is replaced it names both contents, so that a kill in between
leaves a study that goes on. A folder without it (published results, say) is taken as it is.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from dissonance.errors import FormatError
from dissonance.io import files

NAME = "SHA256SUMS"
LINE = re.compile(r"([0-9a-f]{64})  ([^\n/]+)")


def write_summed(path: Path, content: bytes) -> None:
    """Write a file, all or nothing, and its checksum."""
    before, after = _sum(_held(path)), _sum(content)
    others = [x for x in _lines(path.parent) if x[1] != path.name]
    _write_lines(path.parent, [*others, (before, path.name), (after, path.name)])
    files.write(path, content)
    _write_lines(path.parent, [*others, (after, path.name)])


def read_verified(path: Path) -> bytes:
    """What a file holds, nothing if it is not there; an error if that is not what was written."""
    content = _held(path)
    known = [found for found, name in _lines(path.parent) if name == path.name]
    if known and _sum(content) not in known:
        raise FormatError(
            f"{path}: is not what the study wrote there: it was damaged or edited. Restore it, or delete it and its "
            f"line in {NAME} to have it made again."
        )
    return content


def _held(path: Path) -> bytes:
    return files.read(path)[0] if path.exists() else b""


def _lines(folder: Path) -> list[tuple[str, str]]:
    """Checksum and name, line by line."""
    text = _held(folder / NAME).decode(errors="replace")
    found = [LINE.fullmatch(line) for line in text.splitlines()]
    if None in found:
        raise FormatError(f"{folder / NAME}: is damaged. Delete it to go on without knowing whether the others are.")
    return [(line[1], line[2]) for line in found if line is not None]


def _write_lines(folder: Path, lines: list[tuple[str, str]]) -> None:
    files.write(folder / NAME, "".join(f"{found}  {name}\n" for found, name in lines).encode())


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
