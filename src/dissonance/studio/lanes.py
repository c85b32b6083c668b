"""Queues of requests: each has a worker process that answers one at a time; a worker that dies is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import threading
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from dissonance.studio.place import STALE, StudioPlace
from dissonance.studio.worker import CANCEL, LAST, Kind, Message, work

GRACE = 2.0
"""Seconds that a worker has to stop what nobody waits for any more; then it is killed."""

DIED = (
    b"the process that computes has died, perhaps for want of memory. There is a new one, and nothing on the page is "
    b"lost."
)
CLOSED = b"the studio is closing."


@dataclass(eq=False)
class Request:
    """An action somebody waits for. Of those in line that `replace` the same thing only the latest stays."""

    action: str
    body: bytes = b"{}"
    replaces: tuple[str, str] | None = None
    answers: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    dropped: asyncio.Event = field(default_factory=asyncio.Event)
    begun: bool = False


class Worker:
    """A worker process and the messages it sends; None: the process has ended."""

    def __init__(self, place: StudioPlace, compile_first: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self.process = context.Process(target=work, args=(other, place, compile_first), daemon=True)
        self.process.start()
        other.close()
        self.messages: asyncio.Queue[Message | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        threading.Thread(target=_listen, args=(self._connection, loop, self.messages), daemon=True).start()

    def ask(self, action: str, body: bytes) -> None:
        """Send a request."""
        with contextlib.suppress(OSError):  # it is dead, and `messages` says so
            self._connection.send((action, body))

    async def last(self) -> None:
        """Wait until it has nothing more to say on the present request."""
        while (message := await self.messages.get()) is not None and message[0] not in LAST:
            pass

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.join(5)


class Lane:
    """A worker and those who wait for it, first come, first served."""

    def __init__(self, place: StudioPlace, compile_first: bool = False) -> None:
        self.place, self.compile_first = place, compile_first
        self.ready = asyncio.Event()
        self._worker: Worker | None = None
        self._line: deque[Request] = deque()
        self._filled = asyncio.Event()

    @property
    def process_id(self) -> int | None:
        """The worker's, while there is one."""
        return None if self._worker is None else self._worker.process.pid

    @property
    def alive(self) -> bool:
        """Whether the worker, while nobody waits for it, is there: all it could have said is that it died."""
        return self._worker is not None and self._worker.messages.empty()

    def submit(self, request: Request) -> None:
        """Queue a request; waiting requests that it replaces are answered as stale."""
        for waiting in [r for r in self._line if request.replaces is not None and r.replaces == request.replaces]:
            self._line.remove(waiting)
            waiting.answers.put_nowait((Kind.REFUSED, STALE.encode()))
        self._line.append(request)
        self._filled.set()

    async def serve(self) -> None:
        """Answer requests until cancelled; the worker ends then."""
        try:
            while True:
                await self._start()
                self._filled.clear()
                while self._line:
                    request = self._line.popleft()
                    if not request.dropped.is_set():
                        await self._answer(request)
                await self._filled.wait()
        finally:
            for request in self._line:
                request.answers.put_nowait((Kind.FAILED, CLOSED))
            self._end()

    async def _start(self) -> None:
        """See to it that there is a worker, and that it is ready; one that died while nobody waited is not missed."""
        if not self.alive:
            self._end()
        if self._worker is None:
            self._worker = Worker(self.place, self.compile_first)
            if await self._worker.messages.get() is None:
                self._end()
            else:
                self.ready.set()

    async def _answer(self, request: Request) -> None:
        await self._start()
        worker = self._worker
        if worker is None:
            request.answers.put_nowait((Kind.FAILED, DIED))
            return
        worker.ask(request.action, request.body)
        request.begun = True
        relayed = asyncio.ensure_future(self._relay(worker, request))
        dropped = asyncio.ensure_future(request.dropped.wait())
        try:
            await asyncio.wait({relayed, dropped}, return_when=asyncio.FIRST_COMPLETED)
            if not relayed.done():
                worker.ask(CANCEL, b"")
                await asyncio.wait({relayed}, timeout=GRACE)
            if not relayed.done() or not relayed.result():
                self._end()
                await self._start()
        finally:
            relayed.cancel()
            dropped.cancel()

    async def _relay(self, worker: Worker, request: Request) -> bool:
        """Hand on what the worker says to whoever waits; returns whether it is still alive at the end."""
        while (message := await worker.messages.get()) is not None:
            request.answers.put_nowait(message)
            if message[0] in LAST:
                return True
        request.answers.put_nowait((Kind.FAILED, DIED))
        return False

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None


def _listen(connection: Connection, loop: asyncio.AbstractEventLoop, heard: asyncio.Queue[Message | None]) -> None:
    """Hand on what comes through a connection, in a thread of its own; None when it is closed."""
    while True:
        try:
            message: Message | None = connection.recv()
        except (EOFError, OSError):
            message = None
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(heard.put_nowait, message)
        if message is None:
            connection.close()  # here, where nobody can be reading from it
            return
