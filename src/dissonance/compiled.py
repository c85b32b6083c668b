"""Functions compiled by Numba, if it is there; else they run as they stand, slowly.

A module with compiled functions is imported only where they are used: importing Numba takes a third of a second. The
machine code is kept on disk, so that it is made once for an installation; making it takes seconds, and is announced.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

_log = logging.getLogger(__name__)

try:
    import numba
    from numba.core import event
except ImportError:
    numba = event = None

AVAILABLE = numba is not None
"""Whether functions are compiled."""


def compiled(function: Function) -> Function:
    """The function as machine code that runs without the interpreter's lock, kept on disk for the next start.

    Sums are added up in the order in which they are written (no `fastmath`), so that results can be reproduced.
    """
    if numba is None:
        return function
    return numba.njit(cache=True, nogil=True, error_model="numpy")(function)


if event is not None:

    class _Announce(event.Listener):
        """Says once that functions are being compiled; they are not when they are found on disk."""

        said = False

        def on_start(self, event: Any) -> None:
            if not _Announce.said:
                _Announce.said = True
                _log.info("compiling the solver, once for this installation: some seconds.")

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", _Announce())
