"""The site: every public name is in the API reference, and every page can be reached from the first one."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import dissonance

DOCS = Path(__file__).parents[2] / "docs"


def test_every_public_name_is_in_the_api_reference_once():
    listed = re.findall(r"~dissonance\.(\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(dissonance.__all__)


def test_every_page_is_in_the_table_of_contents():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix("").as_posix()
        if name != "index" and "_build" not in page.parts:
            assert f"\n{name}\n" in index, name


def docstrings() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docstrings", DOCS / "docstrings.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_docstrings_become_restructured_text():
    lines = [
        "The *sum* |x| of `beta` and x_:",
        "    a * b",
        "It holds",
        "- one `thing`",
        "  that goes on;",
        "- another.",
    ]
    docstrings().as_restructured_text(lines)
    assert lines == [
        r"The \*sum\* \|x\| of ``beta`` and x\_:",
        "",
        "::",
        "",
        "    a * b",
        "",
        "It holds",
        "",
        "- one ``thing``",
        "  that goes on;",
        "- another.",
        "",
    ]
