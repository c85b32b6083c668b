"""What runs on a worker of a cluster: a function, once it is sure that the worker computes what the client would."""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from dissonance.compiled import engage, kept
from dissonance.errors import DissonanceError
from dissonance.solvers.exact import precompile
from dissonance.workers.base import Watch

PACKAGES = ("numpy", "scipy", "numba", "torch", "distributed")

Versions = tuple[tuple[str, str], ...]


@lru_cache(1)
def versions() -> Versions:
    """What results depend on here: Python, packages, and the sources of this one."""
    found = [("python", ".".join(platform.python_version_tuple()[:2]))]
    for name in PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            found.append((name, "none"))
    sources = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        sources.update(path.read_bytes())
    return (*found, ("dissonance", f"with sources {sources.hexdigest()[:8]}"))


@lru_cache(1)
def ready(wanted: Versions) -> str:
    """Make this process compute as all others do: compiled code, one thread of torch. The kind of its CPU.

    An error if what is installed here is not what the client has.
    """
    for (name, theirs), (_, mine) in zip(wanted, versions(), strict=True):
        if mine != theirs:
            raise DissonanceError(f"a worker has {name} {mine}, this command {theirs}: install the same on both.")
    engage()
    torch.set_num_threads(1)
    try:
        from llvmlite.binding import get_host_cpu_name
    except ImportError:
        return platform.machine()
    return f"{platform.machine()} {get_host_cpu_name()}"


def compiled_here() -> bool:
    """Whether there is machine code of the solver."""
    return kept()


def compile_here() -> None:
    """Compile the solver, unless it is."""
    precompile()


def leave_quickly() -> None:
    """Make this process end at once when it is told to: torch takes seconds to be cleared away."""
    atexit.register(os._exit, 0)


def call(wanted: Versions, function: Callable[..., Any], *args: Any) -> Any:
    """A task."""
    ready(wanted)
    return function(*args)


def do(wanted: Versions, function: Callable[[Any, Watch], Any], item: Any) -> Any:
    """A piece of work that nobody watches."""
    return call(wanted, function, item, _unwatched)


def _unwatched(part: float) -> None:
    """Nobody is told."""
