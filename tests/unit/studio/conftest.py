"""A studio without a server, and what it is asked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dissonance.studio.actions import act
from dissonance.studio.place import StudioPlace

EXAMPLES = Path(__file__).parents[3] / "examples"
Do = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an example in it."""
    shutil.copy(EXAMPLES / "smoking.json", tmp_path)
    return tmp_path


@pytest.fixture
def do(folder: Path) -> Do:
    """Does an action as a page asks for it, in JSON; `do.events` are what it has shown on the way."""

    def do(action: str, **params: Any) -> Any:
        do.events = []

        def emit(event: bytes) -> bool:
            do.events.append(json.loads(event))
            return len(do.events) == do.stop_after

        return json.loads(act(StudioPlace(folder), action, json.dumps(params).encode(), emit))

    do.events, do.stop_after = [], None  # pyright: ignore[reportFunctionMemberAccess]
    return do


@pytest.fixture
def smoking(do: Do) -> dict[str, Any]:
    """The model of the example, as a page holds it."""
    return do("open", file="smoking.json")["model"]
