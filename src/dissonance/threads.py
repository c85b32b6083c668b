"""Work over threads: how many there may be, and things done side by side.

Compiled functions run without the interpreter's lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

_own = threading.local()
_lock = threading.Lock()
_limited: list[Any] = []


@lru_cache(maxsize=1)
def allowed() -> int:
    """How many threads there may be: OMP_NUM_THREADS, or the cores this process may use."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free() -> int:
    """How many threads the caller may use: one if it is itself one of many."""
    return 1 if getattr(_own, "busy", False) else allowed()


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(allowed(), thread_name_prefix="dissonance")


def side_by_side(work: Sequence[Callable[[], None]]) -> None:
    """Do all of it, side by side where there is more than one thing to do and more than one core."""
    if len(work) < 2 or free() < 2:
        for one in work:
            one()
    else:
        for done in [_pool().submit(_busy, one) for one in work]:
            done.result()


def _busy(work: Callable[[], None]) -> None:
    _own.busy = True
    try:
        work()
    finally:
        _own.busy = False


@contextmanager
def without_blas_threads() -> Generator[None, None, None]:
    """The matrix products of clusters use no threads of their own: the cores are taken, and results would differ."""
    from threadpoolctl import ThreadpoolController

    with _lock:  # the first one in sets the limit, the last one out removes it
        _limited.append(None if _limited else ThreadpoolController().select(user_api="blas").limit(limits=1))
    try:
        yield
    finally:
        with _lock:
            if len(_limited) == 1:
                _limited[0].restore_original_limits()
            _limited.pop()
