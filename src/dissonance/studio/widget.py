"""The studio in a notebook: the page as a widget, whose edits come back as a PDG.

The page sends {id, action, params} and is sent {id, result} or {id, error}; an action that takes long also sends {id,
event}, its last event being its result, until the page sends {id, cancel}.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from dissonance.arc import Arc
from dissonance.errors import CapabilityError, DissonanceError, one_line
from dissonance.focus import Attention, Control, Focus
from dissonance.pdg import PDG
from dissonance.studio.actions import act
from dissonance.studio.documents import pdg_of, written
from dissonance.studio.place import PAGE, REPLACED, STALE, STREAMS, StudioPlace

try:
    import anywidget
    import traitlets
except ImportError:
    raise CapabilityError("the studio in a notebook needs anywidget: pip install 'dissonance[notebook]'.") from None


class StudioWidget(anywidget.AnyWidget):
    """A set of beliefs as a picture one can touch: `pdg`, `attention` and `control` are what it shows now."""

    _esm = PAGE / "app.js"
    _css = PAGE / "app.css"
    document = traitlets.Dict().tag(sync=True)
    """What the page holds: name, model, positions, evidence."""

    def __init__(self, pdg: PDG, focus: Focus | None = None, name: str = "model") -> None:
        """Show these beliefs; without a focus all are attended to as their arcs say."""
        focus = Focus(Attention.of(None, pdg)) if focus is None else focus
        model = msgspec.json.decode(written(pdg, focus))
        self._given = {a.name: (record, a) for record, a in zip(model["arcs"], pdg.arcs, strict=True)}
        self._place = StudioPlace(Path.cwd())
        self._answering, self._running = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._latest: dict[str, tuple[int, Future[None]]] = {}
        self._cancelled: dict[int, threading.Event] = {}
        super().__init__(document={"name": name, "model": model, "positions": {}, "evidence": {}})
        self.on_msg(self._hear)

    @property
    def pdg(self) -> PDG:
        """The beliefs as they are now; arcs that were not edited are those that were given, cpds and all."""
        read, _ = self._read()
        records = {a["name"]: a for a in self.document["model"]["arcs"]}
        return PDG(*(self._unedited(a, records[a.name]) or a for a in read.arcs), variables=read.variables)

    @property
    def attention(self) -> Attention:
        """How much each belief is attended to now."""
        return self._read()[1].attention

    @property
    def control(self) -> Control:
        """How freely each belief may move now."""
        return self._read()[1].control

    def _read(self) -> tuple[PDG, Focus]:
        return pdg_of(msgspec.Raw(msgspec.json.encode(self.document["model"])))

    def _unedited(self, arc: Arc, record: Mapping[str, Any]) -> Arc | None:
        before, given = self._given.get(arc.name, ({}, arc))
        same = all(before.get(key) == record.get(key) for key in ("table", "factor", "linear_gaussian"))
        return given if same and (given.sources, given.targets) == (arc.sources, arc.targets) else None

    def _hear(self, _: Any, message: Mapping[str, Any], buffers: Any) -> None:
        """A message of the page: work is done in threads, so that the notebook goes on meanwhile."""
        number = message["id"]
        if message.get("cancel"):
            if number in self._cancelled:
                self._cancelled[number].set()
            return
        action, body = message["action"], msgspec.json.encode(message.get("params") or {})
        if action in STREAMS:
            self._cancelled[number] = threading.Event()
            self._running.submit(self._stream, number, action, body)
            return
        if action in self._latest:
            before, waiting = self._latest[action]
            if waiting.cancel():
                self.send({"id": before, "error": STALE})
        future = self._answering.submit(self._answer, number, action, body)
        if action in REPLACED:
            self._latest[action] = number, future

    def _answer(self, number: int, action: str, body: bytes) -> None:
        with self._reported(lambda error: {"id": number, "error": error}):
            result = act(self._place, action, body, lambda event: False)
            self.send({"id": number, "result": msgspec.json.decode(result)})

    def _stream(self, number: int, action: str, body: bytes) -> None:
        def emit(event: bytes) -> bool:
            self.send({"id": number, "event": msgspec.json.decode(event)})
            return self._cancelled[number].is_set()

        with self._reported(lambda error: {"id": number, "event": {"kind": "error", "error": error}}):
            result = act(self._place, action, body, emit)
            self.send({"id": number, "event": msgspec.json.decode(result)})
        del self._cancelled[number]

    @contextlib.contextmanager
    def _reported(self, record: Callable[[str], dict[str, Any]]) -> Any:
        """Send what goes wrong."""
        try:
            yield
        except DissonanceError as error:
            self.send(record(one_line(str(error))))
        except Exception as error:
            self.send(record(one_line(f"unexpected {type(error).__name__}: {error}")))


def studio_widget(
    pdg: PDG, *, attention: Attention | None = None, control: Control | None = None, name: str = "model"
) -> StudioWidget:
    """The studio of these beliefs, for a notebook to show."""
    focus = Focus(Attention.of(attention, pdg), control or Control({}))
    focus.check(pdg)
    return StudioWidget(pdg, focus, name)
