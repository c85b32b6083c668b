"""Where a part of a JSON document stands: the line of a path into it, for the messages about it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from dissonance.errors import FormatError


@contextmanager
def at(content: bytes, *path: str | int) -> Generator[None, None, None]:
    """What is refused inside is refused with the line of that part of the document."""
    try:
        yield
    except FormatError as error:
        if error.line is None:
            error.line = line_of(content, *path)
        raise


def line_of(content: bytes, *path: str | int) -> int:
    """The line on which the part starts that keys and positions lead to, or what is there of the parts around it."""
    start, part = 0, content
    for step in path:
        found = next((x for x in _parts(content, start, part) if x[0] == step), None)
        if found is None:
            break
        _, start, part = found
    return content.count(b"\n", 0, start) + 1


def _parts(content: bytes, start: int, part: bytes) -> Iterator[tuple[str | int, int, bytes]]:
    """The parts of an object or a list that starts there: the key or position of each, where it starts, what it is."""
    kind: Any = dict[str, msgspec.Raw] if part.lstrip().startswith(b"{") else list[msgspec.Raw]
    try:
        inside = msgspec.json.decode(part, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return
    for key, raw in inside.items() if isinstance(inside, dict) else enumerate(inside):
        if isinstance(key, str):  # a number may also be found in a key, so move on past this one first
            start = max(start, content.find(msgspec.json.encode(key), start))
        start = max(start, content.find(bytes(raw), start))
        yield key, start, bytes(raw)
        start += len(raw)
