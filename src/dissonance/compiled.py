"""Functions that are compiled by Numba once there is work for them; until then they run as they stand.

Starting Numba takes most of a second, and the first time on a machine compiling takes many: more than a small problem
takes interpreted. So `compiled` only makes a note of a function. Whoever is about to do some work says how much it is
(`expect`); when that adds up to more than starting Numba costs, all noted functions are compiled, or loaded from disk,
and put in the place of the interpreted ones. Without Numba they stay interpreted, which is said once.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

_log = logging.getLogger(__name__)

ENOUGH = 0.6
"""Seconds of interpreted work, roughly, that starting Numba costs as well."""

_noted: list[Any] = []
_lock = threading.RLock()
_expected = 0.0
_numba: Any = None


def compiled(function: Function) -> Function:
    """Note a function for compilation: to machine code that runs without the interpreter's lock, kept on disk.

    Sums are added up in the order in which they are written (no `fastmath`), so that results can be reproduced.
    """
    if _numba is not None:
        return _machine_code(function)

    @wraps(function)
    def interpreted(*args: Any) -> Any:
        with np.errstate(all="ignore"):  # as machine code does: 1/0 is inf
            return function(*args)

    _noted.append(interpreted)
    return cast("Function", interpreted)


def expect(seconds: float) -> None:
    """There is work that would take so long, roughly, if it were interpreted: compile if that is too much in all."""
    global _expected
    if _expected <= ENOUGH:
        _expected += seconds
        if _expected > ENOUGH:
            engage()


def engage() -> None:
    """Compile all that is noted, if Numba is there, and use it from now on."""
    global _numba, _expected
    with _lock:
        _expected = ENOUGH + 1.0
        if _numba is not None:
            return
        try:
            import numba
            from numba.core import event
        except ImportError:
            _log.warning("Numba is not installed: large problems take a hundred times longer. pip install numba")
            return
        event.register("numba:compile", _announcer(event))
        _numba = numba
        made = {f: _machine_code(f.__wrapped__) for f in _noted}
        for name, module in list(sys.modules.items()):
            if name.startswith("dissonance"):
                for key, value in list(vars(module).items()):
                    if isinstance(value, FunctionType) and value in made:
                        setattr(module, key, made[value])


def _machine_code(function: Any) -> Any:
    try:
        return _numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # nowhere to keep it
        return _numba.njit(nogil=True, error_model="numpy")(function)


def _announcer(event: Any) -> Any:
    """Says once that functions are being compiled; they are not when they are found on disk."""
    said: list[bool] = []

    class Announce(event.Listener):
        def on_start(self, event: Any) -> None:
            if not said:
                said.append(True)
                _log.info("compiling the solver, once for this installation: about a minute.")

        def on_end(self, event: Any) -> None:
            pass

    return Announce()
