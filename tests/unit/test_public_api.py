"""The public names and their signatures are those of tests/public_api.txt; a change there is meant.

    python tests/unit/test_public_api.py

writes the file again. Then say in CHANGELOG.md what users have to change.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dissonance

SNAPSHOT = Path(__file__).parents[1] / "public_api.txt"


def signature(function: object) -> str:
    """The parameters with their defaults and types, as the source has them."""
    if isinstance(function, type) and issubclass(function, Exception) and "__init__" not in vars(function):
        return "(...)"  # Python's versions differ
    try:
        found = str(inspect.signature(function))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # of a builtin
        return "(...)"
    return re.sub(r" at 0x[0-9a-f]+", "", found).replace("'", "").replace('"', "")


def members(cls: type) -> Iterator[str]:
    """What a class adds: fields, attributes and methods that do not begin with an underscore."""
    ours = [c for c in cls.__mro__ if c.__module__.startswith("dissonance")]
    fields = {f.name for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
    found = {name: value for c in reversed(ours) for name, value in vars(c).items() if not name.startswith("_")}
    for name, value in sorted(found.items()):
        if name in fields:
            continue
        plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        kind = f"{type(value).__name__} " if isinstance(value, classmethod | staticmethod) else ""
        yield f"{kind}{name}{signature(plain)}" if callable(plain) else name


def public() -> Iterator[str]:
    """A line for each public name, and one for each member of a class."""
    for name in sorted(dissonance.__all__):
        thing = getattr(dissonance, name)
        if not isinstance(thing, type):
            yield f"{name}{signature(thing)}" if callable(thing) else name
            continue
        bases = ", ".join(b.__name__ for b in thing.__bases__ if b is not object)
        yield f"class {name}{signature(thing)}{f' : {bases}' if bases else ''}"
        yield from (f"    {line}" for line in members(thing))


def test_the_public_names_and_signatures_are_those_of_the_snapshot():
    kept, here = SNAPSHOT.read_text(encoding="utf-8").splitlines(), list(public())
    changed = "\n".join(difflib.unified_diff(kept, here, "public_api.txt", "here", n=0, lineterm=""))
    assert not changed, f"{changed}\nIf this is meant: python tests/unit/test_public_api.py"


def test_a_parameter_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dissonance, "lir", lambda pdg, refocus="uniform": None)
    changed = set(SNAPSHOT.read_text(encoding="utf-8").splitlines()) - set(public())
    assert [line.partition("(")[0] for line in changed] == ["lir"]


def test_every_public_name_has_a_docstring():
    assert [n for n in dissonance.__all__ if not (getattr(dissonance, n).__doc__ or "").strip()] == []


def test_what_is_listed_is_what_is_offered():
    assert dissonance.__all__ == sorted(dissonance.__all__, key=lambda n: (not n.isupper(), n[0].islower(), n))
    assert len(set(dissonance.__all__)) == len(dissonance.__all__)


if __name__ == "__main__":
    SNAPSHOT.write_text("".join(f"{line}\n" for line in public()), encoding="utf-8")
