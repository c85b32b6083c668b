"""Errors: what can go wrong, each with a sentence that says what was found, what was needed and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["CapabilityError", "ClusterError", "DissonanceError", "FormatError", "SizeError"]

MAX_LINE = 600


class DissonanceError(ValueError):
    """Base of every error the library raises on purpose; names in it cannot act on a terminal."""

    def __init__(self, message: str = "") -> None:
        super().__init__("\n".join(map(visible, message.split("\n"))))


class CapabilityError(DissonanceError):
    """A solver asked an arc for something its cpd cannot do."""


class FormatError(DissonanceError):
    """A file is not what its format promises; `line` is where, counted from 1, if that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class SizeError(DissonanceError):
    """The problem would not fit: raised before anything is allocated."""


class ClusterError(DissonanceError):
    """Workers, or their scheduler, were lost before the work was done."""


def suggest(name: str, known: Iterable[str]) -> str:
    """A hint to append to an unknown-name error: the nearest known name, or all of them if they are few."""
    names = [str(k) for k in known]
    close = get_close_matches(str(name), names, n=1)
    if close:
        return f" Did you mean {close[0]!r}?"
    return f" Known: {', '.join(names)}." if 0 < len(names) <= 12 else ""


def visible(text: str) -> str:
    """The text with everything escaped that is not to be seen: control characters, bidirectional marks, line breaks."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def one_line(message: str) -> str:
    """The message without line breaks or control characters, and not too long to read."""
    line = visible(message)
    half = MAX_LINE // 2 - 3
    return line if len(line) <= MAX_LINE else f"{line[:half]} ... {line[-half:]}"
