"""Whatever bytes a file holds, it is read or refused in one line; nothing else happens."""

from __future__ import annotations

import copy
import io
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissonance.cli.app import run
from dissonance.errors import FormatError
from dissonance.io import load

DOCUMENT: dict[str, Any] = {
    "format": "dissonance.pdg",
    "version": 1,
    "gamma": 0.0,
    "variables": [{"name": "Smokes", "values": ["no", "yes"]}, {"name": "Cancer", "size": 2}],
    "arcs": [
        {"name": "prior", "sources": [], "targets": ["Smokes"], "beta": "inf", "table": [0.8, 0.2]},
        {"name": "study", "sources": ["Smokes"], "targets": ["Cancer"], "alpha": 1.0, "beta": 1.0, "control": 0.0,
         "table": [[0.99, 0.01], [0.90, 0.10]]},
    ],
}  # fmt: skip
TEXT = json.dumps(DOCUMENT, indent=1).encode()

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["inf", "-inf"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def read_or_refused(content: bytes) -> bool:
    """Whether the content is read; fails if it is refused in any way but a FormatError of one line."""
    try:
        load(io.BytesIO(content))
    except FormatError as error:
        assert len(str(error).splitlines()) == 1
        assert re.match(r"the input:(?:\d+:)? ", str(error))
        return False
    return True


def places(part: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every part of a document."""
    inner = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    return [path, *(p for k, x in inner for p in places(x, (*path, k)))]


PLACES = places(DOCUMENT)[1:]


def replaced(path: tuple[Any, ...], value: object) -> dict[str, Any]:
    """The document with another value at that place."""
    document = copy.deepcopy(DOCUMENT)
    part: Any = document
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return document


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused(content: bytes):
    assert not read_or_refused(content)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, len(TEXT) - 1), st.integers(0, 255)), min_size=1, max_size=3))
def test_flipped_bytes_are_read_or_refused(flips: list[tuple[int, int]]):
    content = bytearray(TEXT)
    for where, value in flips:
        content[where] = value
    read_or_refused(bytes(content))


def test_every_truncation_is_refused():
    assert not any(read_or_refused(TEXT[:length]) for length in range(len(TEXT)))


@settings(max_examples=400)
@given(st.sampled_from(PLACES), anything)
def test_any_value_anywhere_is_read_or_refused(path: tuple[Any, ...], value: object):
    read_or_refused(json.dumps(replaced(path, value)).encode())


@pytest.mark.parametrize("value", [None, True, "?", -1, 0.5, 10**40, [], {}, [[]], [[[0.5]]]], ids=repr)
def test_every_type_at_every_place_is_read_or_refused(value: object):
    for path in PLACES:
        read_or_refused(json.dumps(replaced(path, value)).encode())


@pytest.mark.parametrize("path", [p for p in PLACES if isinstance(p[-1], str)], ids=str)
def test_only_weights_and_empty_sources_may_be_left_out_and_no_key_misspelt(path: tuple[Any, ...]):
    document = copy.deepcopy(DOCUMENT)
    part: Any = document
    for step in path[:-1]:
        part = part[step]
    value = part.pop(path[-1])
    optional = path[-1] in ("gamma", "alpha", "beta", "control") or value == []
    assert read_or_refused(json.dumps(document).encode()) == optional
    part[path[-1] + "_"] = value
    assert not read_or_refused(json.dumps(document).encode())


@settings(max_examples=40)
@given(st.sampled_from(PLACES), anything)
def test_the_command_line_says_one_line_and_exits_with_2(
    tmp_path_factory: pytest.TempPathFactory, path: tuple[Any, ...], value: object
):
    folder = tmp_path_factory.mktemp("fuzz")
    file = folder / "model.json"
    content = json.dumps(replaced(path, value)).encode()
    if read_or_refused(content):
        return
    file.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        out, err = io.StringIO(), io.StringIO()
        patch.setattr("sys.stdout", out)
        patch.setattr("sys.stderr", err)
        assert run(["score", str(file)]) == 2
    assert out.getvalue() == ""
    assert len(err.getvalue().splitlines()) == 1
    assert str(file) in err.getvalue()
    assert "Traceback" not in err.getvalue()
    assert list(folder.iterdir()) == [file]
