"""How values come to be shown: they ask here, and the drawing layer, which lies above them, answers.

The package names that layer when it is imported; it is loaded when the first picture is asked for.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Protocol

home = ""
"""The module that draws."""


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
    return import_module(home).draw(value, **options)


def html(value: object) -> str:
    """What a notebook shows of the value."""
    return import_module(home).html(value)
