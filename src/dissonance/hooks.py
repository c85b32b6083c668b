"""What values ask of layers above them: to be shown, and graphs of beliefs about events.

The package says which module answers each question when it is imported; that is loaded at the first question.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Protocol

answered_by: dict[str, str] = {}
"""The module that has each function of this one under the same name."""


class Picture(Protocol):
    """What can be shown in a notebook, and saved as .svg, .png or .pdf."""

    def svg(self) -> str:
        """The picture as SVG."""
        ...

    def save(self, path: str | os.PathLike[str], *, dpi: float = 192) -> None:
        """Write it in the format of the path's suffix."""
        ...


def draw(value: object, **options: Any) -> Picture:
    """A picture of the value; `options` are those of `dissonance.draw`."""
    return _answer("draw", value, **options)


def html(value: object) -> str:
    """What a notebook shows of the value."""
    return _answer("html", value)


def graph(beliefs: Any, variables: Any) -> Any:
    """The graph of beliefs about events: see `dissonance.coherence.graph`."""
    return _answer("graph", beliefs, variables)


def _answer(question: str, *given: Any, **options: Any) -> Any:
    return getattr(import_module(answered_by[question]), question)(*given, **options)
