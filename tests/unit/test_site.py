"""The site: every public name is in the API reference, and every page can be reached from the first one."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

import dissonance
from dissonance.cli.app import command, run

DOCS = Path(__file__).parents[2] / "docs"


def test_the_api_reference_lists_every_public_name_of_every_package():
    api, text = loaded("api"), (DOCS / "api.md").read_text(encoding="utf-8")
    assert re.findall(r"^## `(.*)`$", text, re.MULTILINE) == api.packages()
    assert api.page(text) == text, "if names have changed: python docs/api.py"
    assert all(f"~dissonance.{n}\n" in text for n in dissonance.__all__)


def test_every_page_is_in_the_table_of_contents():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix("").as_posix()
        if name != "index" and "_build" not in page.parts:
            assert f"\n{name}\n" in index, name


def test_the_page_of_the_command_line_has_every_command_and_option_and_every_key_of_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    page = (DOCS / "command_line.md").read_text(encoding="utf-8")
    root = command()
    for name, one in root.commands.items():
        assert f"| `{name}` |" in page
        for option in [o for p in one.params for o in (*p.opts, *p.secondary_opts) if o.startswith("--")]:
            assert f"`{option}`" in page, f"{name} {option}"
    model = str(DOCS.parent / "examples" / "two-experts.json")
    for args in (
        ["score", model],
        ["resolve", model, "--out", str(tmp_path / "r.json"), "--steps", "1"],
        ["query", model],
        ["report", model, "--out", str(tmp_path / "r.md")],
        ["convert", model, str(tmp_path / "c.json")],
        ["draw", model, str(tmp_path / "d.svg")],
        ["doctor"],
    ):
        assert run([*args, "--json"]) == 0
        keys = list(json.loads(capsys.readouterr().out))
        listed = re.findall(rf"^\| `{args[0]}` \| (.*) \|$", page, re.MULTILINE)[-1]
        outermost = re.sub(r"\([^)]*\)", "", listed)
        assert re.findall(r"`(\w+)`", outermost) == keys


def loaded(name: str) -> ModuleType:
    """A script of the site as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
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
    loaded("docstrings").as_restructured_text(lines)
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
