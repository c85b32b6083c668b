"""The public names and their signatures are those of tests/public_api.txt; a change there is meant.

    python tests/unit/test_public_api.py

writes the file again. Then say in CHANGELOG.md what users have to change.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import dissonance
from dissonance import lazy

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


PACKAGES = ["dissonance", *(f"dissonance.{p}" for p in lazy.public("dissonance").packages)]


def offered() -> Iterator[tuple[str, str, object]]:
    """Every public name once, as (package, name, value): at the front door, or else in its package."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in sorted(module.__all__):
            if package == "dissonance" or name not in dissonance.__all__:
                yield package, name, getattr(module, name)


def public() -> Iterator[str]:
    """A line for each public name, and one for each member of a class; a line for the package they are in."""
    last = ""
    for package, name, thing in offered():
        if package != last:
            yield f"from {package}:"
            last = package
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
    documented = [x for x in offered() if isinstance(x[2], type) or inspect.isroutine(x[2])]
    assert [(p, n) for p, n, thing in documented if not (thing.__doc__ or "").strip()] == []


def test_what_is_listed_is_what_is_offered():
    assert dissonance.__all__ == sorted(set(dissonance.__all__)) and len(dissonance.__all__) < 40
    packages = [p.removeprefix("dissonance.") for p in PACKAGES[1:]]
    assert [n for n in dir(dissonance) if not n.startswith("_")] == sorted([*dissonance.__all__, *packages])
    names: dict[str, object] = {}
    exec("from dissonance import *", names)
    assert set(names) - {"__builtins__"} == set(dissonance.__all__)


def test_a_name_is_at_the_front_door_what_it_is_in_its_package():
    homes = [
        (name, p) for p in PACKAGES[1:] for name in importlib.import_module(p).__all__ if name in dissonance.__all__
    ]
    same = [(n, p) for n, p in homes if getattr(importlib.import_module(p), n) is getattr(dissonance, n)]
    assert {n for n, _ in same} >= {"Table", "Attention", "load", "Record", "incompatibility"}
    assert [h for h in homes if h not in same] == []


def test_packages_are_there_without_being_imported():
    code = "import dissonance; print(dissonance.em.em.__module__, dissonance.cpds.Table is dissonance.Table)"
    from fresh import python  # not there when this file is run to write the list

    done = python("-c", code)
    assert done.stdout.split() == ["dissonance.instances.em.instance", "True"]


def test_a_name_that_is_elsewhere_says_where():
    hint = "dissonance.GaussianMixture is in dissonance.estimators: from dissonance.estimators import GaussianMixture"
    with pytest.raises(AttributeError, match=hint):
        _ = dissonance.GaussianMixture
    with pytest.raises(ImportError, match=hint):
        exec("from dissonance import GaussianMixture")
    assert not hasattr(dissonance, "Nothing")
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from dissonance import Nothing")


def test_no_public_name_is_in_two_packages():
    root = lazy.public("dissonance")
    everywhere = [n for p in root.packages for n in lazy.public(f"dissonance.{p}").homes if n not in root.homes]
    assert len(everywhere) > 100
    assert [n for n, count in Counter(everywhere).items() if count > 1] == []


if __name__ == "__main__":
    SNAPSHOT.write_text("".join(f"{line}\n" for line in public()), encoding="utf-8")
