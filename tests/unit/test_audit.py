"""The audit names commands: each of them must exist, and each test selection must select something."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AUDIT = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"`((?:pytest|python|dissonance) [^`]+)`", AUDIT)))


def named_tests(path: Path) -> set[str]:
    """Names of the test functions in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")}


def selection(command: str) -> tuple[list[Path], list[str]]:
    words = shlex.split(command)[1:]
    wanted = words[words.index("-k") + 1].split(" or ") if "-k" in words else []
    return [ROOT / w for w in words if w.endswith(".py")], wanted


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("pytest ")])
def test_a_test_selection_of_the_audit_selects_tests(command: str):
    files, wanted = selection(command)
    assert files and all(f.is_file() for f in files)
    for file in files:
        found = {w for w in wanted for name in named_tests(file) if w in name}
        assert named_tests(file) and (found or not wanted), file.name
    assert all(any(w in n for f in files for n in named_tests(f)) for w in wanted)
    parts = [part for f in files for part in f.relative_to(ROOT).parts]
    assert not [w for w in wanted if any(w in part for part in parts)]  # such a word selects the whole file


def test_every_claim_that_is_no_proposition_is_looked_at():
    claims = (
        "universal loss, out of view, hybrid, how often, set F, from component, Runge-Kutta, limit of normals, "
        "by its length, inputs as the network, without e, real-valued"
    )
    for claim in claims.split(", "):
        assert re.search(rf"^\|[^|]*\|[^|]*{claim}", AUDIT, re.MULTILINE), claim


@pytest.mark.parametrize("command", [c for c in COMMANDS if not c.startswith("pytest ")])
def test_any_other_command_of_the_audit_has_its_options(command: str):
    words = shlex.split(command)
    if words[0] == "python":
        source = (ROOT / words[1]).read_text(encoding="utf-8")
    else:
        source = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "src" / "dissonance" / "cli").rglob("*.py"))
        assert words[1] == "study" and words[2] in ("synthetic", "gflownet")
    for option in (w for w in words if w.startswith("--")):
        assert f'"{option}' in source or f"def {option[2:]}" in source or f"{option[2:].replace('-', '_')}:" in source


def test_every_erratum_and_every_proposition_has_its_row():
    rows = [int(n) for n in re.findall(r"^\| (\d+)(?: \*\*S\*\*)? \|", AUDIT, re.MULTILINE)]
    assert rows == list(range(1, 28))
    assert all(f"| Prop. {n}" in AUDIT for n in range(1, 8))


def test_every_table_and_figure_has_a_row_with_a_verdict_and_a_command():
    body = AUDIT.split("## Errata")[0]
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in body.splitlines() if line[:2] == "| "]
    claims = [row for row in rows if len(row) == 5 and row[0] != "where"]
    verdicts = ("reproduced", "not reproduced", "repaired", "refuted", "answered")
    assert len(claims) > 80
    for where, _, verdict, evidence, command in claims:
        assert verdict.startswith(verdicts) and evidence and command.startswith("`"), where
    places = " ".join(row[0] for row in claims)
    assert all(f"Figure {n}" in places for n in range(1, 8)) and all(f"Table {n}" in places for n in range(1, 4))
    assert "Algorithm 1" in places and "Definition 1" in places
