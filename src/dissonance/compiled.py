"""Functions that are compiled by Numba once there is work for them; until then they run as they stand.

Starting Numba takes most of a second, and the first time on a machine compiling takes many: more than a small problem
takes interpreted. So `compiled` only makes a note of a function. Whoever is about to do some work says how much it is
(`expect`); when that adds up to more than starting Numba costs, all noted functions are compiled, or loaded from disk,
and put in the place of the interpreted ones. Without Numba they stay interpreted, which is said once.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from functools import cache, wraps
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

_log = logging.getLogger(__name__)

ENOUGH = 0.6
"""Seconds of interpreted work, roughly, that starting Numba costs as well."""

ALL = "all"
"""The file beside machine code that says that all of it is there."""

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


def postpone() -> None:
    """Compile nothing, however much work there is, until `engage` is called."""
    global _expected
    _expected = -math.inf


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
    """A compiled function, kept beside its source or, where that cannot be written, in the user's cache.

    Numba looks for changes in the source of a function only, not in what it calls: so there is a folder for every
    state of all the sources.
    """
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}  # they are never called from C
    with _lock:
        config, before = _numba.config, _numba.config.CACHE_DIR
        config.CACHE_DIR = str(_folder())
        try:
            return _numba.njit(cache=True, **options)(function)
        except (OSError, RuntimeError):  # nowhere to keep it
            return _numba.njit(**options)(function)
        finally:
            config.CACHE_DIR = before


def kept() -> bool:
    """Whether all machine code of the present sources is on disk; or there is no Numba, so that there will be none."""
    return find_spec("numba") is None or (_folder() / ALL).is_file()


def note_kept() -> None:
    """All that is worth compiling beforehand has been compiled: `kept` is true from now on."""
    with contextlib.suppress(OSError):  # nowhere to keep it
        (_folder() / ALL).touch()


@cache
def _folder() -> Path:
    """Where the machine code of the present sources is kept."""
    package = Path(__file__).parent
    state = hashlib.sha256(f"{version('numba')} {np.__version__}".encode())
    for where in ("solvers/convex", "distributions"):
        for path in sorted((package / where).glob("*.py")):
            state.update(path.read_bytes())
    name = f"machine-code-{state.hexdigest()[:16]}"
    beside = package / "__pycache__"
    with contextlib.suppress(OSError):
        beside.mkdir(exist_ok=True)
        for old in beside.glob("machine-code-*"):
            if old.name != name and time.time() - old.stat().st_mtime > 86400:
                shutil.rmtree(old, ignore_errors=True)
        (beside / name).mkdir(exist_ok=True)
        if os.access(beside / name, os.W_OK):
            return beside / name
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dissonance" / name


def _announcer(event: Any) -> Any:
    """Says once that functions are being compiled; they are not when they are found on disk."""
    said: list[bool] = []

    class Announce(event.Listener):
        def on_start(self, event: Any) -> None:
            if not said:
                said.append(True)
                _log.warning("compiling the solver, once for this installation: about a minute.")

        def on_end(self, event: Any) -> None:
            pass

    return Announce()
