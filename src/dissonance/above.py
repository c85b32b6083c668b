"""What values ask of the layers above their own: a picture, a table to be read, a graph of beliefs about events.

The package names the modules that answer when it is imported; each is loaded when it is first asked.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Protocol

homes: dict[str, str] = {}
"""By function: the module that has it."""


class Picture(Protocol):
    """What can be shown in a notebook, and saved as .svg, .png or .pdf."""

    def svg(self) -> str:
        """The picture as SVG."""
        ...

    def data(self) -> dict[str, Any]:
        """The picture as numbers and texts that JSON can hold."""
        ...

    def save(self, path: str | os.PathLike[str], *, dpi: float = 192, format: str | None = None) -> None:
        """Write it in the format of the path's suffix, or in that one; "-" is standard output."""
        ...


def ask(function: str, *values: object, **options: Any) -> Any:
    """What a function above says of these values."""
    return getattr(import_module(homes[function]), function)(*values, **options)
