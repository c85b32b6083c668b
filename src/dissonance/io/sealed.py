"""Sealed files: records under a line with their checksum, so that a damaged file is noticed before it is used.

The checksum of a record covers the checksum of the record before it: a record that was removed, doubled or moved breaks
the chain. If a program is killed while it appends a record, the half-written record is left out when the file is read:
the file holds what it held before.
"""

from __future__ import annotations

import hashlib
import io
import os
from typing import Any, NamedTuple

from dissonance.errors import FormatError
from dissonance.io import files

MAGIC = b"dissonance.sealed 3 "
LINE = len(MAGIC) + 64 + 1 + 16 + 1
"""Bytes of the line above a record: its checksum and its length, sixteen digits."""


class Seal(NamedTuple):
    """The checksum of a record that was written, which the next record continues, and the bytes it takes."""

    sum: bytes
    size: int


def seal(path: str | os.PathLike[str], content: bytes) -> Seal:
    """Write a file of one record, all of the file or nothing."""
    held, made = _sealed(b"", content)
    files.write(path, held)
    return made


def extend(path: str | os.PathLike[str], content: bytes, after: Seal) -> Seal:
    """Append a record to a file, after the last one that was written."""
    held, made = _sealed(after.sum, content)
    files.append(path, held)
    return made


def unseal(path: str | os.PathLike[str], what: str) -> list[bytes]:
    """Return the records that were written and appended; `what` the file should be, in words, for the message."""
    held, where = files.read(path, limit=None)
    if not held.startswith(MAGIC):
        raise FormatError(f"{where}: is not {what} of this version of dissonance. Delete it, or name another file.")
    found: list[bytes] = []
    at, before = 0, b""
    while at < len(held):
        known, _, length = held[at + len(MAGIC) : at + LINE - 1].partition(b" ")
        whole = held[at : at + LINE].startswith(MAGIC) and length.isdigit()
        content = held[at + LINE : at + LINE + int(length)] if whole else b""
        short = at + LINE > len(held) or (whole and len(content) < int(length))
        if short and found:  # killed while it was appended
            break
        if not whole or known != _sum(before, content):
            raise FormatError(f"{where}: is damaged: it is not what was written. Delete it to start anew.")
        found.append(content)
        before = known
        at += LINE + len(content)
    return found


def write_state(path: str | os.PathLike[str], state: dict[str, Any]) -> Seal:
    """Write a file of one record: plain values and tensors."""
    return seal(path, _saved(state))


def append_state(path: str | os.PathLike[str], state: dict[str, Any], after: Seal) -> Seal:
    """Append a record of plain values and tensors, after the last one that was written."""
    return extend(path, _saved(state), after)


def read_states(path: str | os.PathLike[str], what: str) -> list[dict[str, Any]]:
    """The plain values and tensors that were written and appended; nothing that such a file holds is ever run."""
    import torch

    found: list[dict[str, Any]] = []
    for content in unseal(path, what):
        try:
            state: Any = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        except Exception:  # sealed, and still not what torch.save writes
            state = None
        if not isinstance(state, dict):
            raise FormatError(f"{path}: is not {what}. Delete it, or name another file.")
        found.append(state)
    return found


def read_state(path: str | os.PathLike[str], what: str) -> dict[str, Any]:
    """The plain values and tensors that `write_state` wrote."""
    return read_states(path, what)[0]


def _saved(state: dict[str, Any]) -> bytes:
    import torch

    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def _sealed(before: bytes, content: bytes) -> tuple[bytes, Seal]:
    """A record as it is written, and its seal."""
    known = _sum(before, content)
    held = b"%s%s %016d\n%s" % (MAGIC, known, len(content), content)
    return held, Seal(known, len(held))


def _sum(before: bytes, content: bytes) -> bytes:
    """The checksum of a record: of the checksum before it and of its content."""
    return hashlib.sha256(before + content).hexdigest().encode()
