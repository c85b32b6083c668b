"""benchmarks/house.py: it counts what it says, and prints every count of the present tree."""

import ast
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from fresh import python

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "house.py"


@pytest.fixture(scope="module")
def house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("walks", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_every_count_is_printed(
    house: ModuleType, walks: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    started = house.python

    def forked(checkout: Path, *words: str) -> str:
        if words[0] == "-c":
            return started(checkout, *words)
        done = python(*words, cwd=checkout)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    monkeypatch.setattr(house, "python", forked)
    monkeypatch.setattr(house, "WALKS", house.WALKS[:walks])
    monkeypatch.setattr(sys, "argv", [str(SCRIPT)])
    house.main()
    out = capsys.readouterr().out
    printed = [re.sub(r"[\d,]*\d", "#", " ".join(line.split())) for line in out.splitlines()]
    assert (
        printed
        == [
            "# files",
            "# lines",
            "# classes",
            "# files, # lines, # classes: solvers/",
            "# files, # lines, # classes: solvers/convex/",
            "# files, # lines, # classes: the rest of solvers/",
            "# files, # lines, # classes: bounds/",
            "# files, # lines, # classes: reduced/",
            "# files, # lines, # classes: gaussians/",
            "# files, # lines, # classes: sampling/",
            "# files, # lines, # classes: answer.py",
            "# files, # lines, # classes: timed.py",
            "# files, # lines, # classes: all that solves",
            "# public names",
            "# names at the root",
            "# names defined at least twice, # of them for different things",
            "# isinstance checks on types of what solves and of cpds/",
            "# isinstance checks on types of lir/",
            "# modules, # switches (#, # compiled): score examples/smoking.json",
            "# modules, # switches (#, # compiled): five steps of lir",
            "# modules, # switches (#, # compiled): one EM iteration",
        ][: 18 + walks]
    )
    counts = [int(x.replace(",", "")) for x in re.findall(r"^ *([\d,]+) ", out, re.MULTILINE)]
    assert counts[0] == len(list((ROOT / "src" / "dissonance").rglob("*.py")))
    assert counts[3] == sum(counts[4:6]) == len(list((ROOT / "src" / "dissonance" / "solvers").rglob("*.py")))
    assert counts[12] == counts[3] + sum(counts[6:12])
    assert all(5 < count < counts[0] for count in counts[-walks:])


def test_checks_on_types_are_found_by_where_the_type_is_from(house: ModuleType):
    source = """
from dissonance.cpds import Table as T
from dissonance.distributions import Joint

class Own: ...

def f(x, T2):
    isinstance(x, int | T)
    isinstance(x, Joint)
    type(x) is Own
    match x:
        case T(): pass
"""
    modules = {"lir/a.py": ast.parse(source), "io/a.py": ast.parse(source)}
    assert house.type_checks(modules, "solvers", "cpds") == ["lir/a.py:8 T", "lir/a.py:12 T"]
    assert house.type_checks(modules, "lir") == ["lir/a.py:10 Own"]


def test_a_name_is_defined_twice_if_two_modules_define_it_in_public(house: ModuleType):
    one, other = (
        "class A: ...\ndef f(): ...\ndef _g(): ...\nB = 1",
        "def A(): ...\ndef _g(): ...\ndef h(): f = 1\nB = 1",
    )
    modules = {"a.py": ast.parse(one), "b.py": ast.parse(other)}
    assert house.defined_twice(modules) == {"A": ["a.py", "b.py"]}


def test_commands_actions_formats_and_functions_that_pass_on_are_no_second_thing(house: ModuleType):
    sources = {
        "cli/app.py": "app.command()(score.score)\napp.command('ask')(score.asked)",
        "cli/score.py": "def score(): ...\ndef asked(): ...\ndef shown(): ...",
        "studio/actions.py": "ACTIONS = {'query': answers.query, 'run': answers.shown}",
        "studio/answers.py": "def query(): ...\ndef shown(): ...",
        "query.py": "def query(): ...\ndef score(): ...",
        "io/a.py": "def from_bytes(): ...\ndef cells(): ...",
        "io/b.py": "def from_bytes(): ...\ndef cells(): ...",
        "solvers/a.py": "def select():\n    from dissonance.solvers.b import select\n    return select()",
        "solvers/b.py": "def select(): ...",
    }
    found = house.for_different_things({path: ast.parse(source) for path, source in sources.items()})
    assert found == {"shown": ["cli/score.py", "studio/answers.py"], "cells": ["io/a.py", "io/b.py"]}


def test_no_name_of_the_tree_is_defined_twice_for_different_things(house: ModuleType):
    assert house.for_different_things(house.parsed(ROOT / "src" / "dissonance")) == {}


def test_switches_are_changes_of_the_module_that_is_called(house: ModuleType, tmp_path: Path):
    def function(name: str, source: str, **known: object) -> Callable[[], None]:
        scope: dict[str, Callable[[], None]] = {}
        exec(compile(source, os.fspath(tmp_path / name), "exec"), dict(known), scope)
        return scope["f"]

    leaf = function("b.py", "def f(): pass")
    wrapper = function("compiled.py", "def interpreted():\n    leaf()\nf = interpreted", leaf=leaf)
    top = function("a.py", "def f():\n    leaf()\n    leaf()\n    wrapper()", leaf=leaf, wrapper=wrapper)
    found: list[tuple[set[str], int]] = []
    for walk in (house.Walk(tmp_path), house.CompiledWalk(tmp_path)):
        sys.setprofile(walk)
        try:
            top()
        finally:
            sys.setprofile(None)
        found.append(({Path(m).name for m in walk.modules}, walk.switches))
    assert found == [({"a.py", "b.py", "compiled.py"}, 3), ({"a.py", "b.py"}, 1)]
