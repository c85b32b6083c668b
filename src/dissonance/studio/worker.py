"""The process that computes, one action at a time. It holds no state and may be killed at any moment."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from enum import StrEnum
from multiprocessing.connection import Connection, wait

from dissonance.studio.place import StudioPlace


class Kind(StrEnum):
    """What a message of the worker is: that it is ready; an event of an action; or, last, how the action ended."""

    READY = "ready"
    EVENT = "event"
    RESULT = "result"
    REFUSED = "refused"
    FAILED = "failed"


Message = tuple[Kind, bytes]
LAST = (Kind.RESULT, Kind.REFUSED, Kind.FAILED)

WARM, CANCEL = "(warm)", "(cancel)"
"""Requests beside actions: to use the compiled solver from now on; to stop what is being done, if anything."""


def work(connection: Connection, place: StudioPlace, compile_first: bool) -> None:
    """Do what is asked until the other end is closed.

    A request is (action, body); messages answer it, and the last of them is one of `LAST`. Before that only a cancel
    may be sent. `compile_first`: compile the solver before anything else; else do without it until told.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # nobody listens any more
        from dissonance.studio import warmth

        if compile_first:
            warmth.compile_solver()
        else:
            warmth.get_ready()
        connection.send((Kind.READY, b""))
        while True:
            action, body = connection.recv()
            if action == WARM:
                warmth.use_compiled()
                connection.send((Kind.RESULT, b"{}"))
            elif action != CANCEL:  # a cancel that comes too late
                connection.send(_ended(connection, place, action, body))


def _end_with_parent() -> None:
    """Nobody waits for what this process does once the server is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _ended(connection: Connection, place: StudioPlace, action: str, body: bytes) -> Message:
    """Do one action; how it ended."""
    from dissonance.errors import DissonanceError, one_line
    from dissonance.studio.actions import act

    def emit(event: bytes) -> bool:
        connection.send((Kind.EVENT, event))
        return connection.poll() and bool(connection.recv())

    try:
        return Kind.RESULT, act(place, action, body, emit)
    except DissonanceError as error:
        return Kind.REFUSED, one_line(str(error)).encode()
    except MemoryError:
        return Kind.REFUSED, b"there is not enough memory for this model."
    except (EOFError, OSError) as error:
        if connection.closed:
            raise
        return Kind.FAILED, one_line(f"{type(error).__name__}: {error}").encode()
    except Exception as error:
        return Kind.FAILED, one_line(f"unexpected {type(error).__name__}: {error}").encode()
