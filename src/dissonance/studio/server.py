"""The server: it sends the page, passes requests on to the workers, and refuses all other requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from dissonance.studio.guard import HEADERS, Guard
from dissonance.studio.lanes import Lane, Request
from dissonance.studio.place import PAGE, REPLACED, STREAMS, StudioPlace
from dissonance.studio.worker import WARM, Kind

FILES = {
    "index.html": "text/html; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "app.js.map": "application/json",
    "app.css": "text/css; charset=utf-8",
    "app.css.map": "application/json",
}
"""The files of the page, all there are."""

MAX_BODY = 1 << 24
"""Bytes of a request."""
SILENCE = 10.0
"""Seconds after which a stream says that it is still there."""

PATIENCE = 1.0
"""Seconds after which a stream says why it has not begun."""
COMPILING = "the solver is being made ready; the first time on a machine that takes about half a minute."

STATUS = {Kind.RESULT: 200, Kind.REFUSED: 422, Kind.FAILED: 500}

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Server:
    """The application: files of the page, actions, and the workers that do them."""

    def __init__(self, place: StudioPlace, guard: Guard) -> None:
        self.place, self.guard = place, guard
        self.complaint: str | None = None  # of the model of the command line
        self.answers, self.runs = Lane(place), Lane(place, compile_first=True)
        routes = [
            Route("/", self.index, methods=["GET"]),
            Route("/{name}", self.file, methods=["GET"]),
            Route("/api/{action}", self.act, methods=["POST"]),
        ]
        self._app = Starlette(routes=routes, lifespan=self._lifespan)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Check every request, and set the headers of every response."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in HEADERS}
                kept = [h for h in message.get("headers", ()) if h[0].lower() not in own]
                message = {**message, "headers": [*kept, *HEADERS]}
            await send(message)

        why = self.guard.refusal(scope)
        if why is not None:
            await _answer(403, {"error": why})(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)

    async def index(self, request: HttpRequest) -> Response:
        """The page itself; whoever has the token may fetch its files from now on."""
        response = _file("index.html")
        response.raw_headers.append((b"set-cookie", self.guard.cookie()))
        return response

    async def file(self, request: HttpRequest) -> Response:
        """A file of the page."""
        return _file(request.path_params["name"])

    async def act(self, http: HttpRequest) -> Response:
        """Do an action."""
        if http.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _answer(415, {"error": "expected application/json."})
        body = await _body(http)
        if body is None:
            return _answer(413, {"error": f"the request has more than {MAX_BODY:,} bytes."})
        action, tab = http.path_params["action"], http.headers.get("x-dissonance-tab")
        replaces = (tab, action) if tab and action in REPLACED else None
        request = Request(action, body, replaces)
        lane = self.runs if action in STREAMS else self.answers
        lane.submit(request)
        if action in STREAMS:
            return _Events(lane, request)
        gone = asyncio.ensure_future(_gone(http.receive))
        answered = asyncio.ensure_future(request.answers.get())
        try:
            await asyncio.wait({gone, answered}, return_when=asyncio.FIRST_COMPLETED)
            if not answered.done():
                return Response(status_code=499)
            kind, found = answered.result()
            return _json(STATUS[kind], found if kind is Kind.RESULT else _error(found))
        finally:
            request.dropped.set()
            gone.cancel()
            answered.cancel()

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncGenerator[None]:
        tasks = [asyncio.ensure_future(x) for x in (self.answers.serve(), self._later())]
        try:
            await self._try_model()
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _try_model(self) -> None:
        """See whether the model of the command line can be opened, before anybody is told the address."""
        if self.place.model is not None:
            request = Request("open", b'{"start": true}')
            self.answers.submit(request)
            kind, found = await request.answers.get()
            if kind is not Kind.RESULT:
                self.complaint = found.decode()

    async def _later(self) -> None:
        """Start the second worker once the first is ready; that one uses the solver which the second has compiled."""
        await self.answers.ready.wait()
        serving = asyncio.ensure_future(self.runs.serve())
        try:
            await self.runs.ready.wait()
            self.answers.compile_first = True  # those that come after the present one
            self.answers.submit(Request(WARM))
            await serving
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


class _Events(Response):
    """The events of a request as they come (text/event-stream); who goes away cancels it."""

    def __init__(self, lane: Lane, request: Request) -> None:
        super().__init__()
        self._lane, self._request = lane, request

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_gone(receive))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        try:
            last, patience = False, PATIENCE
            while not last:
                heard = asyncio.ensure_future(self._request.answers.get())
                await asyncio.wait({gone, heard}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    heard.cancel()
                    return
                if not heard.done():
                    heard.cancel()
                    patience = SILENCE
                    await send(_part(_event(self._waiting()) if not self._request.begun else b": still there\n\n"))
                    continue
                kind, found = heard.result()
                last = kind is not Kind.EVENT
                data = found if kind in (Kind.EVENT, Kind.RESULT) else _error(found, kind="error")
                await send(_part(_event(data)))
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._request.dropped.set()
            gone.cancel()

    def _waiting(self) -> bytes:
        why = "another run is not done yet." if self._lane.ready.is_set() else COMPILING
        return msgspec.json.encode({"kind": "waiting", "why": why})


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _part(body: bytes) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": True}


def _error(message: bytes, **more: str) -> bytes:
    return msgspec.json.encode({**more, "error": message.decode()})


def _answer(status: int, record: dict[str, str]) -> Response:
    return _json(status, msgspec.json.encode(record))


def _json(status: int, content: bytes) -> Response:
    return Response(content, status, media_type="application/json")


def _file(name: str) -> Response:
    if name not in FILES or not (PAGE / name).is_file():
        return _answer(404, {"error": "there is no such file."})
    return FileResponse(PAGE / name, headers={"content-type": FILES[name]})


async def _body(request: HttpRequest) -> bytes | None:
    """What was sent; None if it is too much."""
    parts: list[bytes] = []
    total = 0
    async for part in request.stream():
        total += len(part)
        if total > MAX_BODY:
            return None
        parts.append(part)
    return b"".join(parts)


async def _gone(receive: Receive) -> None:
    """Until whoever asked is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
