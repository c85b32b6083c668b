"""How much a file may ask for: a few bytes can promise more than a machine has, so it is counted while it is read."""

from __future__ import annotations

import numpy as np

from dissonance.errors import FormatError

MAX_PARTS = 1 << 24
"""Numbers, names and brackets of a text."""
MAX_OBJECTS = 1 << 18
"""Variables and arcs, counted apart."""
MAX_ELEMENTS = 1 << 21
"""Elements of an XML document."""
MAX_LABELS = 1 << 22
"""Values of all variables that have names."""
MAX_LINES = 1 << 23
MAX_VALUES = 1_000_000
"""What sizes that are not spelled out may add up to."""
MAX_FILLED = 1 << 20
"""Entries of all tables that a file does not spell out."""
MAX_UNPACKED = 1 << 30
"""Bytes of all arrays of a .npz file."""

_APART, _OPENS = 1, 2
_KINDS = np.zeros(256, dtype=np.uint8)
_KINDS[np.frombuffer(b" \t\n\r\x0b\x0c,;:|()[]{}<>\"'=", dtype=np.uint8)] = _APART
_KINDS[np.frombuffer(b"[{(<", dtype=np.uint8)] = _OPENS
_SMALL = 1 << 20
_AT_ONCE = 1 << 24


def check_parts(content: bytes) -> None:
    """Refuse a text that would be too many numbers, names, lists or elements once it is taken apart."""
    if len(content) <= _SMALL:
        return
    if content.count(b"\n") > MAX_LINES:
        raise FormatError(f"has more than {MAX_LINES} lines: too much for a model.")
    total = 0
    for at in range(0, len(content), _AT_ONCE):
        kinds = _KINDS[np.frombuffer(content, dtype=np.uint8, offset=at, count=min(_AT_ONCE, len(content) - at))]
        total += int(np.count_nonzero(kinds == _OPENS)) + int(np.count_nonzero((kinds[1:] == 0) & (kinds[:-1] != 0)))
        if total > MAX_PARTS:
            raise FormatError(f"has more than {MAX_PARTS} numbers, names and brackets: too much for a model.")


def check_count(count: int, what: str, line: int | None = None, most: int = MAX_OBJECTS) -> None:
    """Refuse more variables or arcs than a model may have."""
    if count > most:
        raise FormatError(f"has more than {most} {what}: too many for a model.", line)
