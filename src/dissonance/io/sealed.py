"""Sealed files: content under a line with its checksum, so that what was damaged is noticed before it is used."""

from __future__ import annotations

import hashlib
import io
import os
from typing import Any

from dissonance.errors import FormatError
from dissonance.io import files

MAGIC = b"dissonance.sealed 1 "


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Write the content under its checksum, all of the file or nothing."""
    files.write(path, MAGIC + _sum(content) + b"\n" + content)


def read(path: str | os.PathLike[str], what: str) -> bytes:
    """The content of a file that `write` wrote; `what` it should be, in words, for the message if it is not."""
    held, where = files.read(path, limit=None)
    head, _, content = held.partition(b"\n")
    if not head.startswith(MAGIC):
        raise FormatError(f"{where}: is not {what} of this version of dissonance. Delete it, or name another file.")
    if head.removeprefix(MAGIC) != _sum(content):
        raise FormatError(f"{where}: is damaged: it is not what was written. Delete it to start anew.")
    return content


def write_state(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write plain values and tensors."""
    import torch

    buffer = io.BytesIO()
    torch.save(state, buffer)
    write(path, buffer.getvalue())


def read_state(path: str | os.PathLike[str], what: str) -> dict[str, Any]:
    """The plain values and tensors that `write_state` wrote; nothing that such a file holds is ever run."""
    import torch

    content = read(path, what)
    try:
        state: Any = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception:  # sealed, and still not what torch.save writes
        state = None
    if not isinstance(state, dict):
        raise FormatError(f"{path}: is not {what}. Delete it, or name another file.")
    return state


def _sum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
