"""Functions that are compiled by Numba once there is work for them; until then they run as they stand.

Starting Numba takes most of a second, and the first time on a machine compiling takes many: more than a small problem
takes interpreted. So `compiled` only makes a note of a function. Whoever is about to do some work says how much it is
(`expect`); when that adds up to more than starting Numba costs, all noted functions are compiled, or loaded from disk,
and put in the place of the interpreted ones. Without Numba they stay interpreted, which is said once.

The few functions that do nearly all of the work are an `Entry` each. Their machine code is kept in one file of its own
(`machine_code.py`), which takes a tenth of Numba's start to load: so it is loaded ten times earlier. It is made by a
process of its own (`object_file.py`), so that something else can be done meanwhile: see `begin_compiling`.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache, wraps
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from dissonance.collector import uncollected
from dissonance.machine_code import load_object, probe, processor
from dissonance.object_file import from_the_start, make_object

Function = TypeVar("Function", bound=Callable[..., Any])

_log = logging.getLogger(__name__)

ENOUGH, LITTLE = 0.6, 0.02
"""Seconds of interpreted work, roughly, that starting Numba costs as well; and that loading the entries does."""

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}  # they are never called from C

FROM_THE_START = "dissonance.solvers.convex"
"""Where no index is ever negative, but for literals: a test watches over it."""

ENTRIES = ("dissonance.solvers.convex", "dissonance.distributions")
"""Modules whose functions entries call."""

ALL_ENTRIES = "dissonance.solvers.convex.entries"
"""Where all entries are defined."""

SOURCES = ("tolerances.py", "machine_code.py", "object_file.py", "solvers/convex/*.py", "distributions/*.py")
"""The files of these modules, and of what makes machine code of them."""

CONSTANTS = ("tolerances", "machine_code", "object_file", "room", "entries")
"""Files without compiled functions of which machine code depends as well."""


class _Interpreting(threading.local):
    """Whether this thread is inside an interpreted function already."""

    now = False


_interpreting = _Interpreting()
_noted: list[Any] = []
_entries: dict[str, Entry] = {}
_lock = threading.RLock()
_set_up = _entered = 0.0  # seconds of work expected so far: of entries, and of all others
_numba: Any = None
_loadable = True
_making: subprocess.Popen[bytes] | None = None
_said = False
_compiling = 0.0  # seconds


class Entry:
    """A function by which Python enters machine code, as it is now: interpreted, loaded, or compiled by Numba.

    A compiled function must not call it, only the function itself.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.now, self.quick = function, False
        self.plain = getattr(function, "__wrapped__", None) or getattr(function, "py_func", function)
        global _loadable
        with _lock:
            _entries[self.plain.__name__] = self
            _loadable = True
            if _numba is not None:
                self.now = self.first

    def __call__(self, *args: Any) -> Any:
        """Whatever it returns."""
        return self.now(*args)

    def first(self, *args: Any) -> Any:
        """The same, after all entries have been loaded or, if they are not kept, made."""
        with _lock:
            if not self.quick and not _load():
                _have_made()
        return self.now(*args)


def compiled(function: Function) -> Function:
    """Note a function for compilation: to machine code that runs without the interpreter's lock, kept on disk.

    Sums are added up in the order in which they are written (no `fastmath`), so that results can be reproduced.
    """
    if _numba is not None:
        return _machine_code(function)

    @wraps(function)
    def interpreted(*args: Any) -> Any:
        if _interpreting.now:
            return function(*args)
        with np.errstate(all="ignore"):  # as machine code does: 1/0 is inf
            _interpreting.now = True
            try:
                return function(*args)
            finally:
                _interpreting.now = False

    _noted.append(interpreted)
    return cast("Function", interpreted)


def expect(seconds: float, entry: Entry | None = None) -> None:
    """There is work that would take so long, roughly, if it were interpreted: compile if that is too much in all.

    `entry`: what will do it; its machine code is no reason to start Numba here.
    """
    global _set_up, _entered
    if entry is None and _set_up <= ENOUGH:
        _set_up += seconds
        if _set_up > ENOUGH:
            if _entries:  # what is set up here is mostly solved then
                begin_compiling()
            engage()
    elif entry is not None and _entered <= ENOUGH and not entry.quick:
        _entered += seconds
        if _entered > LITTLE:
            with _lock:
                if not _load() and _entered > ENOUGH:
                    _have_made()


def postpone() -> None:
    """Compile nothing, however much work there is, until `engage` is called."""
    global _set_up, _entered
    _set_up = _entered = -math.inf


def engage() -> None:
    """Compile all that is noted, if Numba is there, and use it from now on."""
    global _numba, _set_up, _entered
    with _lock:
        _set_up = _entered = 2.0 * ENOUGH
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
        _replace({f: _machine_code(f.__wrapped__) for f in _noted})
        if not _load():
            for entry in _entries.values():
                entry.now = entry.first


def _load() -> bool:
    """Put the machine code that is kept in the place of the entries; whether they have it now."""
    global _loadable
    with _lock:
        waiting = {name: e for name, e in _entries.items() if not e.quick}
        if waiting and _loadable:
            _loadable = False
            with contextlib.suppress(ImportError, OSError, ValueError, AttributeError, RuntimeError):
                if find_spec("numba") is not None:
                    found = load_object(_object_file(), {name: e.plain for name, e in waiting.items()})
                    for name, entry in waiting.items():
                        entry.now, entry.quick = found[name], True
                    _loadable = True  # for entries that are made later
        return all(e.quick for e in _entries.values())


def _replace(made: dict[Any, Any]) -> None:
    """Put compiled functions in the place of interpreted ones, wherever those are."""
    for name, module in list(sys.modules.items()):
        if name.startswith("dissonance"):
            for key, value in list(vars(module).items()):
                if isinstance(value, FunctionType) and value in made:
                    setattr(module, key, made[value])


def begin_compiling() -> bool:
    """Have the machine code of the entries made if it is not kept, without waiting for it; whether it is being made."""
    with _lock:
        if find_spec("numba") is not None and not _object_file().exists():
            _start()
        return _making is not None


def finish_compiling() -> None:
    """Wait for what was begun."""
    global _making, _loadable, _compiling
    with _lock:
        if _making is None:
            return
        began = time.perf_counter()
        _, said = _making.communicate()
        if _making.returncode == 0:
            _loadable = True
        else:
            reason = said.decode(errors="replace").strip().rpartition("\n")[2]
            _log.info("the machine code of the solver cannot be loaded without Numba here: %s", reason)
        _making = None
        _compiling += time.perf_counter() - began


def _start() -> None:
    """Start to make the machine code of the entries, in another process that has the modules of this one."""
    global _making
    if _making is None:
        code = "import sys; sys.path[:] = sys.argv[2:]; from dissonance import compiled; compiled.make(sys.argv[1])"
        with contextlib.suppress(OSError):
            _making = subprocess.Popen(
                [sys.executable, "-c", code, str(_object_file()), *map(str, sys.path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            _say()


@atexit.register
def _leave() -> None:
    """What nobody waits for any more is not made."""
    if _making is not None:
        _making.kill()
        _making.communicate()


def _have_made() -> None:
    """Have the machine code of the entries made, wait for it, and use it; where that fails, what Numba makes here."""
    global _loadable
    _loadable = True  # another process may have made it
    if find_spec("numba") is not None and not _load():
        _start()
        finish_compiling()
    if not _load():
        engage()
        for name, entry in _entries.items():
            entry.now, entry.quick = getattr(sys.modules[entry.plain.__module__], name), True


def make(path: str) -> None:
    """Make the machine code of the entries, and keep it if another process can load it: see `_start`."""
    import numba

    import_module(ALL_ENTRIES)
    options: dict[str, Any] = OPTIONS | {"no_cpython_wrapper": True}
    ours = [f for f in _noted if f.__module__.startswith(FROM_THE_START)]
    _replace({f: numba.njit(**options, **from_the_start())(f.__wrapped__) for f in ours})
    made = {name: getattr(sys.modules[e.plain.__module__], name) for name, e in _entries.items()}
    data = make_object(made | {"probe": numba.njit(**options)(probe)})
    trial = Path(f"{path}.{os.getpid()}")
    trial.parent.mkdir(parents=True, exist_ok=True)
    try:
        trial.write_bytes(data)
        subprocess.run([sys.executable, load_object.__code__.co_filename, trial], check=True, capture_output=True)
        trial.replace(path)
    finally:
        trial.unlink(missing_ok=True)


def _machine_code(function: Any) -> Any:
    """A compiled function, kept beside its source or, where that cannot be written, in the user's cache.

    Numba looks for changes in the source of a function only, not in what it calls: so there is a folder for every
    state of all the sources.
    """
    with _lock:
        config, before = _numba.config, _numba.config.CACHE_DIR
        config.CACHE_DIR = str(_folder() if function.__module__.startswith(ENTRIES) else _folder() / _others())
        options = OPTIONS | (from_the_start() if function.__module__.startswith(FROM_THE_START) else {})
        try:
            return _numba.njit(cache=True, **options)(function)
        except (OSError, RuntimeError):  # nowhere to keep it
            return _numba.njit(**options)(function)
        finally:
            config.CACHE_DIR = before


def kept() -> bool:
    """Whether all of the machine code of the present sources is kept; or no Numba, so that there will be none."""
    return find_spec("numba") is None or _object_file().with_suffix(".complete").exists()


def complete() -> None:
    """All that is noted has been compiled: `kept` from now on, if it can be."""
    with contextlib.suppress(OSError):
        _object_file().with_suffix(".complete").touch()


def _object_file() -> Path:
    """Where the machine code of the entries is kept for the processor that is here."""
    return _folder() / f"entries-{hashlib.sha256(processor().encode()).hexdigest()[:8]}.o"


@cache
def _folder() -> Path:
    """Where the machine code of the present sources is kept."""
    package = Path(__file__).parent
    sources = [path for where in SOURCES for path in sorted(package.glob(where))]
    versions = f"{version('numba')} {version('llvmlite')} {np.__version__} {sys.version}"
    name = f"machine-code-{_digest(sources, versions)}"
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


@cache
def _others() -> str:
    """What the compiled sources are known by that no entry depends on: they are read only once Numba is started."""
    return _digest(sorted(Path(__file__).parent.glob("**/*.py")))


def _digest(paths: Sequence[Path], *words: str) -> str:
    """What is known of these words and of the compiled functions in these files."""
    state = hashlib.sha256("".join(words).encode())
    for path in paths:
        source = path.read_bytes()
        if b"@compiled" in source or path.stem in CONSTANTS:
            state.update(source)
    return state.hexdigest()[:16]


def clock() -> float:
    """Seconds by the clock, less those in which Numba compiled: a time limit is for work that is done every time."""
    return time.perf_counter() - _compiling


def _say() -> None:
    """Say once that functions are being compiled."""
    global _said
    if not _said:
        _said = True
        _log.warning("compiling the solver, once for this installation: about a quarter of a minute.")


def _announcer(event: Any) -> Any:
    """Says that functions are being compiled, and counts the seconds; they are not when they are found on disk."""
    begun: list[float] = []  # a function that is called is compiled while the one that calls it is
    meanwhile = contextlib.ExitStack()

    class Announce(event.Listener):
        def on_start(self, event: Any) -> None:
            if not begun:
                meanwhile.enter_context(uncollected())
            begun.append(time.perf_counter())
            _say()

        def on_end(self, event: Any) -> None:
            global _compiling
            seconds = time.perf_counter() - begun.pop()
            if not begun:
                _compiling += seconds
                meanwhile.close()

    return Announce()
