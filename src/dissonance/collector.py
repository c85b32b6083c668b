"""Python's garbage collector, switched off while there is nothing for it to find."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Generator


@contextlib.contextmanager
def uncollected() -> Generator[None, None, None]:
    """Without the garbage collector: many new objects, none of them garbage, would have it search again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
