"""Where a part of a JSON document stands: the line of a path into it, for the messages about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dissonance.errors import FormatError


class at:  # noqa: N801 - read as a word: with at(content, "arcs", 3)
    """What is refused inside is refused with the line of that part of the document."""

    __slots__ = ("content", "path")

    def __init__(self, content: bytes, *path: str | int) -> None:
        self.content, self.path = content, path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, FormatError) and error.line is None:
            error.line = line_of(self.content, *self.path)


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
