"""Starting the studio: a port of this machine, a browser that opens the page, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import tempfile
import webbrowser
from collections.abc import Callable, Generator
from html import escape
from pathlib import Path

import uvicorn

from dissonance.errors import DissonanceError
from dissonance.studio.guard import Guard
from dissonance.studio.place import StudioPlace
from dissonance.studio.server import Server

CLOSING = 1
"""Seconds that requests have to come to their end."""


def launch(place: StudioPlace, port: int, *, opens: bool, started: Callable[[Guard], None]) -> None:
    """Serve the studio until it is interrupted; `started` is told the address once it answers."""
    with _bound(port) as listening:
        guard = Guard(listening.getsockname()[1])
        with _redirect(guard.address) as page:
            app = Server(place, guard)

            def answering() -> bool:
                if app.complaint is not None:
                    return False
                started(guard)
                if opens:
                    webbrowser.open(page)
                return True

            config = uvicorn.Config(
                app,
                log_config=None,
                log_level="critical",  # who is impatient and presses Ctrl-C twice is not to see tracebacks
                access_log=False,
                ws="none",
                server_header=False,
                date_header=False,
                lifespan="on",
                timeout_graceful_shutdown=CLOSING,
            )
            _Uvicorn(config, answering).run(sockets=[listening])
            if app.complaint is not None:
                raise DissonanceError(app.complaint)


class _Uvicorn(uvicorn.Server):
    """A server that says when it answers, and ends in order: when it is told so, interrupted, or asked to end."""

    def __init__(self, config: uvicorn.Config, answering: Callable[[], bool]) -> None:
        super().__init__(config)
        self._answering = answering

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and end at once if it is of no use."""
        await super().startup(sockets)
        if self.started and not self._answering():
            asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Ctrl-C is how a studio ends: nothing that has to be passed on."""
        before = {s: signal.signal(s, self.handle_exit) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for s, handler in before.items():
                signal.signal(s, handler)


@contextlib.contextmanager
def _bound(port: int) -> Generator[socket.socket, None, None]:
    """A socket at that port of this machine, which nobody else can reach; 0 is any free one."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise DissonanceError(
                f"--port {port}: {reason}. Give another port, or none for any that is free."
            ) from None
        yield listening


@contextlib.contextmanager
def _redirect(address: str) -> Generator[str, None, None]:
    """A file of which only this user knows that leads to the address: the token would be seen on a command line."""
    with tempfile.TemporaryDirectory(prefix="dissonance-") as folder:
        page = Path(folder) / "studio.html"
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(address)}">\n')
        page.chmod(0o600)
        yield page.as_uri()
