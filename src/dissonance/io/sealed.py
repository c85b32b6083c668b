"""Sealed files: content under a line with its checksum, so that what was damaged is noticed before it is used.

More may be appended, each under a line of its own. If a program is killed while it appends, what is half-written at the
end is left out when the file is read: it holds what it held before.
"""

from __future__ import annotations

import hashlib
import io
import os
from typing import Any

from dissonance.errors import FormatError
from dissonance.io import files

MAGIC = b"dissonance.sealed 2 "
LINE = len(MAGIC) + 64 + 1 + 16 + 1
"""Bytes of the line above a content: its checksum and its length, sixteen digits."""


def seal(path: str | os.PathLike[str], content: bytes) -> int:
    """Write the content under its checksum, all of the file or nothing; how many bytes that are."""
    held = _sealed(content)
    files.write(path, held)
    return len(held)


def extend(path: str | os.PathLike[str], content: bytes) -> int:
    """Add more to a file that `write` wrote; how many bytes that are."""
    held = _sealed(content)
    files.append(path, held)
    return len(held)


def unseal(path: str | os.PathLike[str], what: str) -> list[bytes]:
    """What was written, and all that was appended; `what` it should be, in words, for the message if it is not."""
    held, where = files.read(path, limit=None)
    if not held.startswith(MAGIC):
        raise FormatError(f"{where}: is not {what} of this version of dissonance. Delete it, or name another file.")
    found: list[bytes] = []
    at = 0
    while at < len(held):
        known, _, length = held[at + len(MAGIC) : at + LINE - 1].partition(b" ")
        whole = held[at : at + LINE].startswith(MAGIC) and length.isdigit()
        content = held[at + LINE : at + LINE + int(length)] if whole else b""
        short = at + LINE > len(held) or (whole and len(content) < int(length))
        if short and found:  # killed while it was appended
            break
        if not whole or known != _sum(content):
            raise FormatError(f"{where}: is damaged: it is not what was written. Delete it to start anew.")
        found.append(content)
        at += LINE + len(content)
    return found


def write_state(path: str | os.PathLike[str], state: dict[str, Any]) -> int:
    """Write plain values and tensors; how many bytes that are."""
    return seal(path, _saved(state))


def append_state(path: str | os.PathLike[str], state: dict[str, Any]) -> int:
    """Add more of them to a file that `write_state` wrote; how many bytes that are."""
    return extend(path, _saved(state))


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


def _sealed(content: bytes) -> bytes:
    return b"%s%s %016d\n%s" % (MAGIC, _sum(content), len(content), content)


def _sum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
