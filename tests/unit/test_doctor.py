"""dissonance doctor: what it says when all is well, and when something is not."""

from __future__ import annotations

import json
import re
import sys
import time
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from dissonance import __version__
from dissonance.cli import checkup
from dissonance.cli.app import run
from dissonance.io import FORMATS
from dissonance.solvers import SOLVERS, Newton
from fresh import python

PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def examined(capsys: pytest.CaptureFixture[str], status: int = 0) -> dict[str, Any]:
    assert run(["doctor", "--json"]) == status
    return json.loads(capsys.readouterr().out)


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=\[]", r)[0] for r in requirements} - {"dissonance"}


def test_all_is_well_here(capsys: pytest.CaptureFixture[str]):
    record = examined(capsys)
    assert record["dissonance"] == __version__
    assert record["problems"] == []
    assert set(record["solvers"]) == set(SOLVERS)
    assert set(record["formats"]) == set(FORMATS)
    assert all(c["ok"] for c in [*record["solvers"].values(), *record["formats"].values()])
    assert record["libraries"]["torch"] == metadata.version("torch")
    assert record["device"]["cores"] >= 1
    assert "natural" in record["flows"] and "uniform" in record["refocus"]


def test_people_see_the_same(capsys: pytest.CaptureFixture[str]):
    assert run(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"dissonance {__version__}, Python {sys.version_info.major}.")
    assert all(name in shown for name in (*SOLVERS, *FORMATS, *checkup.ESSENTIAL, *checkup.OPTIONAL))
    assert "All is well" in shown


def test_the_solvers_are_compared_with_closed_forms(capsys, monkeypatch: pytest.MonkeyPatch):
    known = checkup._known
    monkeypatch.setattr(checkup, "_known", lambda name: (*known(name)[:2], known(name)[2] + 1e-3))
    record = examined(capsys, status=1)
    wrong = {name for name, c in record["solvers"].items() if not c["ok"]}
    assert wrong == set(SOLVERS) - {"paper"}  # whose bounds are far apart, and hold both


def test_a_solver_that_breaks_is_named_and_the_rest_is_examined(capsys, monkeypatch: pytest.MonkeyPatch):
    def broken(self: Newton, *args: object, **options: object) -> None:
        raise RuntimeError("out of [order]")

    monkeypatch.setattr(Newton, "solve", broken)
    record = examined(capsys, status=1)
    assert "newton: RuntimeError: out of [order]" in record["problems"]
    assert record["solvers"]["gaussian"]["ok"]
    assert run(["doctor"]) == 1
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "newton: RuntimeError: out of [order]" in captured.out


@pytest.mark.parametrize("missing", ["torch", "numpy"])
def test_an_essential_library_that_cannot_be_imported_is_no_traceback(missing: str):
    program = (
        f"import sys; sys.modules[{missing!r}] = None; from dissonance.cli.app import run; "
        "sys.exit(run(['doctor', '--json']))"
    )
    done = python("-c", program)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert any(missing in p for p in json.loads(done.stdout)["problems"])


def test_what_is_missing_comes_with_the_command_that_installs_it(capsys, monkeypatch: pytest.MonkeyPatch):
    there = checkup._version
    monkeypatch.setattr(checkup, "_version", lambda n: None if n in ("matplotlib", "triton") else there(n))
    assert run(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "pip install 'dissonance[plot]'" in shown
    assert "pip install triton" in shown


def test_a_version_out_of_range_is_a_problem(capsys, monkeypatch: pytest.MonkeyPatch):
    there = checkup._version
    monkeypatch.setattr(checkup, "_version", lambda n: "2.3.1+cu121" if n == "torch" else there(n))
    monkeypatch.setattr(checkup.metadata, "requires", lambda _: ["torch<2.14,>=2.4", "torchdiffeq>=0.2.4"])
    assert "torch needs torch<2.14,>=2.4" in examined(capsys, status=1)["problems"]


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("2.4", ">=2.4,<2.14", True), ("2.4.0", ">=2.4", True), ("2.13.0+cpu", ">=2.4,<2.14", True),
        ("2.14.0", ">=2.4,<2.14", False),
        ("2.3.9", ">=2.4,<2.14", False), ("1.26", "", True), ("13.7.1", ">=13.7", True),
    ],
)  # fmt: skip
def test_versions_are_compared_number_by_number(version: str, wanted: str, fits: bool):
    assert checkup._within(version, wanted) is fits


def test_the_libraries_are_those_of_the_package():
    assert set(checkup.ESSENTIAL) == names(PYPROJECT["dependencies"])
    extras = {extra: names(needed) for extra, needed in PYPROJECT["optional-dependencies"].items()}
    for name, (extra, _) in checkup.OPTIONAL.items():
        assert not extra or name in extras[extra], name
    for extra in ("plot", "pandas", "example", "gflownet", "torchgfn"):
        assert extras[extra] <= set(checkup.OPTIONAL), extra


def test_it_takes_little_time():
    began = time.process_time()
    assert run(["doctor", "--json"]) == 0
    assert time.process_time() - began < 3
