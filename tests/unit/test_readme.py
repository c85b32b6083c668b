"""The README's commands and what it says they print."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (python3 -m venv .*)$", README, re.MULTILINE)


def words(line: str) -> str:
    """A printed line without its spacing, its rules and the time it took."""
    return " ".join(re.sub(r", \S+ s$|─+", "", line.rstrip()).split())


def test_the_commands_come_first():
    assert len(COMMANDS) == 2
    assert README.index(COMMANDS[1]) < 600
    for command in COMMANDS:
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q -e ")


def test_the_first_command_prints_what_the_readme_shows():
    program, *arguments = shlex.split(COMMANDS[0].rpartition("&& ")[2])
    assert program == ".venv/bin/dissonance"
    done = subprocess.run(
        [sys.executable, "-m", "dissonance", *arguments],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = [words(line) for line in done.stdout.splitlines()]
    shown = re.search(r"first command above prints\n\n((?:    .*\n|\n)+)", README)
    assert shown is not None
    lines = [words(line) for line in shown[1].splitlines()]
    assert len(lines) > 10
    for line in lines:
        assert line == "..." or line in printed, f"{line!r} is not in {printed}"


def test_the_second_command_is_what_ci_runs():
    assert COMMANDS[1].endswith(".venv/bin/pytest -n 2")
    assert f"\n{COMMANDS[1]} || exit 1\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_options_the_readme_lists_are_those_there_are():
    usage = re.search(r"^    dissonance score MODEL (.*)$", README, re.MULTILINE)
    assert usage is not None
    done = subprocess.run(
        [sys.executable, "-m", "dissonance", "score", "--help"],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    options = r"--[a-z][a-z-]*"
    assert set(re.findall(options, usage[1])) == set(re.findall(options, done.stdout)) - {"--help"}
