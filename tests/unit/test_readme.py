"""The README's commands and what it says they print."""

import re
import shlex
from pathlib import Path

import pytest

from fresh import python

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (python3 -m venv .*)$", README, re.MULTILINE)


EVERYWHERE = {"--help", "--quiet", "--verbose", "--debug"}
"""Options of every command, which the README explains once."""


def words(line: str) -> str:
    """A printed line without its spacing, its rules and the time it took."""
    return " ".join(re.sub(r", \S+ s$|─+", "", line.rstrip()).split())


def test_the_commands_come_first():
    assert len(COMMANDS) == 2
    assert README.index(COMMANDS[1]) < 600
    for command in COMMANDS:
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q -e ")


def printed_by(*arguments: str) -> list[str]:
    """The lines that `dissonance` prints, when all goes well."""
    done = python("-m", "dissonance", *arguments)
    assert done.returncode == 0, done.stderr
    return [words(line) for line in done.stdout.splitlines()]


def shown_after(sentence: str) -> list[str]:
    """The indented block that follows a sentence of the README."""
    found = re.search(re.escape(sentence) + r"\n\n((?:    .*\n|\n)+)", README)
    assert found is not None
    return [words(line) for line in found[1].strip("\n").splitlines()]


def job() -> list[str]:
    """What the first command has `dissonance` do."""
    program, *arguments = shlex.split(COMMANDS[0].rpartition("&& ")[2])
    assert program == ".venv/bin/dissonance"
    return arguments


def numbers(line: str) -> list[float]:
    return [float(x) for x in re.findall(r"-?\d+\.?\d*", line)]


def test_the_first_command_does_its_job_at_a_small_size(tmp_path: Path):
    small = ["--replicates", "1", "--steps", "1", "--jobs", "1", "--no-figures", "--out", str(tmp_path / "study")]
    printed = printed_by(*job(), *small)
    for line in shown_after("It prints"):
        assert any(line.split()[0] in there.split() for there in printed), f"{line!r} has nothing like it in {printed}"
    assert (tmp_path / "study" / "report.md").exists()


@pytest.mark.slow
def test_the_first_command_prints_what_the_readme_shows(tmp_path: Path):
    printed = printed_by(*job(), "--out", str(tmp_path / "study"))
    header, *shown = shown_after("It prints")
    assert header in printed and len(shown) == 6
    for line in shown:
        there = next(x for x in printed if x.split()[:1] == line.split()[:1])
        assert numbers(there) == pytest.approx(numbers(line), rel=0.02, abs=0.02), f"{there!r} is not {line!r}"
    assert len(list((tmp_path / "study" / "figures").iterdir())) >= 12


def test_the_score_is_what_the_readme_shows():
    lines = shown_after("who is to blame:")
    assert len(lines) > 10
    printed = printed_by("score", "examples/smoking.json")
    for line in lines:
        assert line in ("", "...") or line in printed, f"{line!r} is not in {printed}"


def test_the_second_command_is_what_ci_runs():
    assert COMMANDS[1].endswith(".venv/bin/pytest -n 2")
    assert f"\n{COMMANDS[1]} || exit 1\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


OPTION = r"--[a-z][a-z-]*"


@pytest.mark.parametrize("command", ["score", "resolve", "query", "report"])
def test_the_options_the_documents_list_are_those_there_are(command: str):
    there = set(re.findall(OPTION, "\n".join(printed_by(command, "--help")))) - EVERYWHERE
    usage = re.search(rf"^    dissonance {command} MODEL\.\.\. (.*)$", README, re.MULTILINE)
    assert usage is not None and set(re.findall(OPTION, usage[1])) <= there
    page = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    shared = re.search(r"`score`, `resolve`, `query` and `report` take (.*?)\n\n", page, re.DOTALL)
    own = re.search(rf"^\| `{command}` \|.*\|(.*)\|$", page, re.MULTILINE)
    assert shared is not None and own is not None
    assert set(re.findall(OPTION, shared[1] + own[1])) | {"--json"} == there


def test_the_model_the_readme_writes_is_scored_resolved_drawn_and_converted(tmp_path: Path):
    (model,) = re.findall(r"^```json\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^    dissonance (\w+ (?:rain|resolved)\.json.*)$", README, re.MULTILINE)
    assert [c.split()[0] for c in commands] == ["score", "resolve", "score", "draw", "convert"]
    (tmp_path / "rain.json").write_text(model)
    program = "import sys; from dissonance.cli.app import run; sys.exit(max(run(c.split()) for c in sys.argv[1:]))"
    done = python("-c", program, *commands, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first, last = (float(x) for x in re.findall(r"^Inconsistency: (\S+) nats$", done.stdout, re.MULTILINE))
    assert last < 1e-3 * first
    assert {p.name for p in tmp_path.iterdir()} == {"rain.json", "resolved.json", "rain.svg", "rain.json.gz"}


def test_the_readme_is_no_book():
    assert len(README.splitlines()) <= 200
