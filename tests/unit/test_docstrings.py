"""The examples in docstrings: they run, and the front door has one each."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import dissonance

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_print_what_they_show(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    module = importlib.import_module(name)  # sys.modules, not attributes: dissonance.inconsistency is a function
    public = {n: getattr(dissonance, n) for n in dissonance.__all__}
    result = doctest.testmod(module, extraglobs=public)
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize(
    "name", ["Variable", "Arc", "PDG", "Attention", "Focus", "inconsistency", "lir", "load", "save"]
)
def test_the_front_door_has_an_example(name: str):
    assert ">>> " in getattr(dissonance, name).__doc__
