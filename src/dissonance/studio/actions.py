"""What a page can ask for: actions by name, each with the parameters it takes, whatever carries them.

An action takes the place of the studio and its parameters and returns what JSON can hold. One that takes long is also
given `emit`, to which it shows what it has so far; that returns True when nobody wants the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec

from dissonance.errors import DissonanceError, one_line, suggest
from dissonance.studio import answers, counts, film, opening, share
from dissonance.studio.place import StudioPlace

ACTIONS: dict[str, Callable[..., Any]] = {
    "hello": opening.hello,
    "open": opening.open_document,
    "save": opening.save_document,
    "keep": opening.keep_document,
    "discard": opening.discard,
    "layout": answers.layout,
    "score": answers.score,
    "query": answers.query,
    "counts": counts.counts,
    "run": film.run_lir,
    "export": share.export,
}


def act(place: StudioPlace, name: str, body: bytes, emit: Callable[[bytes], bool]) -> bytes:
    """Do what is asked: the result as JSON. Whatever is wrong with the request is a DissonanceError of one line."""
    if name not in ACTIONS:
        raise DissonanceError(f"no action named {name!r}.{suggest(name, ACTIONS)}")
    hints = get_type_hints(ACTIONS[name])
    try:
        params = msgspec.json.decode(body or b"{}", type=hints["params"])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise DissonanceError(one_line(f"{name}: {error}.")) from None
    more = (lambda event: emit(msgspec.json.encode(event)),) if "emit" in hints else ()
    return msgspec.json.encode(ACTIONS[name](place, params, *more))
