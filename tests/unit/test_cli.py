"""The command line: what it prints where, and what it exits with."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dissonance import __version__
from dissonance.cli import completion
from dissonance.cli.app import run
from dissonance.io import FORMATS
from dissonance.lir import FLOWS, NAMES
from dissonance.lir.refocus import SWEEP
from dissonance.lir.sweep.run import ORDERS
from dissonance.solvers import SOLVERS
from fresh import python

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.json"))
SMOKING = str(next(p for p in EXAMPLES if p.stem == "smoking"))
COMMAND = [sys.executable, "-m", "dissonance"]
COMMANDS = ("score", "resolve", "convert", "draw", "doctor", "studio", "study")


def refused(capsys: pytest.CaptureFixture[str], *args: str, status: int = 2) -> str:
    """The one line on standard error that a command fails with."""
    assert run(args) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("dissonance: ")
    assert captured.err.count("\n") == 1
    return captured.err


# -- errors ------------------------------------------------------------------------------------------------------------

BAD_USAGE = {
    "no command": ([], "Missing command. Try 'dissonance --help'."),
    "unknown command": (["scor"], "No such command 'scor'"),
    "no model": (["score"], "Missing argument 'MODEL...'. Try 'dissonance score --help'."),
    "two models of one name": (["score", SMOKING, SMOKING], "two sources are named 'smoking'"),
    "unknown option": (["score", "m.json", "--gama", "1"], "--gamma"),
    "unknown unit": (["score", "m.json", "--unit", "dits"], "'dits' is not one of 'nats', 'bits'"),
    "gamma a word": (["score", "m.json", "--gamma", "much"], "Invalid value for '--gamma'"),
    "missing file": (["score", "missing.json"], "missing.json: cannot be read: no such file or directory."),
    "a folder": (["score", "."], ".: cannot be read: is a directory."),
    "negative gamma": (["score", SMOKING, "--gamma", "-1"], "gamma must be a finite number >= 0, found -1.0."),
    "gamma nan": (["score", SMOKING, "--gamma", "nan"], "gamma must be a finite number >= 0, found nan."),
    "unknown solver": (["score", SMOKING, "--solver", "newtn"], "no solver named 'newtn'. Did you mean 'newton'?"),
}


@pytest.mark.parametrize(("args", "message"), BAD_USAGE.values(), ids=BAD_USAGE)
def test_bad_usage_is_one_line_and_status_2(args: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert message in refused(capsys, *args)


def test_an_unexpected_error_is_one_line_and_status_1(capsys, monkeypatch: pytest.MonkeyPatch):
    def broken(*args: object, **options: object) -> None:
        raise ZeroDivisionError("division by\nzero")

    monkeypatch.setattr("dissonance.scored.inconsistency", broken)
    line = refused(capsys, "score", SMOKING, status=1)
    assert line == "dissonance: unexpected ZeroDivisionError: division by zero (--debug shows where)\n"


@pytest.mark.parametrize("how", ["before", "after", "environment"])
def test_debug_shows_the_traceback(how: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    if how == "environment":
        monkeypatch.setenv("DISSONANCE_DEBUG", "1")
    args = {"before": ["--debug", "score", "missing.json"], "after": ["score", "missing.json", "--debug"]}
    assert run(args.get(how, ["score", "missing.json"])) == 2
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_is_one_line_and_status_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dissonance.scored.inconsistency", interrupted)
    assert refused(capsys, "score", SMOKING, "--json", status=130) == "dissonance: interrupted.\n"


# -- what is said ------------------------------------------------------------------------------------------------------


def early(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command whose solver stops early, which is worth a warning."""
    hasty = SOLVERS["newton"](tol=1e-300)
    monkeypatch.setitem(SOLVERS, "newton", lambda: hasty)
    return ["score", SMOKING, "--solver", "newton", "--no-saved", "--json"]


@pytest.mark.parametrize("word", ["-q", "--quiet"])
@pytest.mark.parametrize("where", ["before", "after"])
def test_quiet_leaves_results_only(word: str, where: str, capsys, monkeypatch: pytest.MonkeyPatch):
    args = early(monkeypatch)
    assert run([word, *args] if where == "before" else [*args, word]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert not json.loads(captured.out)["converged"]
    assert run(args) == 0
    assert "warning" in capsys.readouterr().err


def test_errors_are_not_silenced(capsys: pytest.CaptureFixture[str]):
    assert "missing.json" in refused(capsys, "-q", "score", "missing.json", "--json")


@pytest.mark.parametrize("word", ["-v", "--verbose"])
@pytest.mark.parametrize("where", ["before", "after"])
def test_verbose_shows_the_steps_and_times_of_the_solvers_on_standard_error(word: str, where: str, capsys):
    args = ["score", SMOKING, "--json"]
    assert run([word, *args] if where == "before" else [*args, word]) == 0
    captured = capsys.readouterr()
    assert re.fullmatch(r"(dissonance: newton: \d+ problems?, \d+ steps, bounds \S+ apart, \S+ s\n)+", captured.err)
    assert captured.out.count("\n") == 1
    assert not logging.getLogger("dissonance").handlers


def test_every_command_knows_the_options_for_everywhere(capsys: pytest.CaptureFixture[str]):
    for words in ([], *([c] for c in COMMANDS), ["study", "synthetic"], ["study", "gflownet"]):
        assert run([*words, "--help"]) == 0
        shown = capsys.readouterr().out
        assert all(option in shown for option in ("-q, --quiet", "-v, --verbose", "--debug")), words


ENVIRONMENTS = {
    "terminal": ({"TERM": "xterm-256color"}, True),
    "NO_COLOR": ({"TERM": "xterm-256color", "NO_COLOR": "1"}, False),
    "dumb": ({"TERM": "dumb"}, False),
}


class Terminal(io.StringIO):
    """What is written, by someone who believes that people are watching."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("set_to", "coloured"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_colours_are_for_terminals_that_want_them(
    set_to: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in set_to.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert run(["score", SMOKING]) == 0
    shown = terminal.getvalue()
    assert ("\x1b[" in shown) is coloured
    assert re.sub("\x1b\\[[0-9;]*m", "", shown).startswith("Inconsistency: 0.105247 nats\n")


def test_bars_are_for_terminals_that_are_not_to_be_quiet(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    for args, shown in ((["score", SMOKING], True), (["score", SMOKING, "-q"], False)):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        assert run(args) == 0
        assert ("who is to blame" in terminal.getvalue()) is shown


def test_no_colour_is_forced_into_a_pipe():
    environment = os.environ | {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TERM": "xterm-256color"}
    done = python("-m", "dissonance", "score", SMOKING, env=environment)
    assert done.stdout.startswith("Inconsistency")
    assert "\x1b" not in done.stdout + done.stderr


JSON = {
    "score": ["score", SMOKING],
    "resolve": ["resolve", SMOKING, "--steps", "1", "--out", "{tmp}/r.json"],
    "convert": ["convert", SMOKING, "{tmp}/c.json.gz"],
    "draw": ["draw", SMOKING, "{tmp}/d.svg"],
    "doctor": ["doctor"],
    "study synthetic": [
        "study", "synthetic", "--replicates", "1", "--steps", "1", "--jobs", "1", "--strategies", "uniform",
        "--no-figures", "--out", "{tmp}/study",
    ],
}  # fmt: skip


@pytest.mark.parametrize("args", JSON.values(), ids=JSON)
def test_json_is_one_object_on_standard_output(args: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run([a.replace("{tmp}", str(tmp_path)) for a in args] + ["--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.count("\n") == 1
    record = json.loads(captured.out, parse_constant=pytest.fail)
    assert record["seconds"] > 0
    assert all(Path(record[key]).exists() for key in ("out", "report") if key in record)


# -- completion --------------------------------------------------------------------------------------------------------


def offered(shell: str, line: str) -> list[str]:
    """What the shell is told when Tab is pressed at the end of the line."""
    words = line.split(" ")
    asked = {
        "bash": {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    environment = os.environ | {"_DISSONANCE_COMPLETE": f"complete_{shell}"} | asked
    done = python("-m", "dissonance", env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    if shell == "zsh":
        return re.findall(r'^(?:_arguments .*\(\()?"([^"]*)"', done.stdout, re.MULTILINE)
    return [line.partition("\t")[0] for line in done.stdout.splitlines() if line]


LINES = {
    "commands": ("dissonance dr", ["draw"]),
    "options": ("dissonance score --un", ["--unit"]),
    "values": ("dissonance score --unit ", ["nats", "bits"]),
    "solvers": ("dissonance score --solver c", ["clique-tree", "concave-convex"]),
    "arcs": (f"dissonance resolve {SMOKING} --control c", ["census=", "clinic="]),
    "files": ("dissonance score ", []),  # nothing of ours: the shell offers its files
}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(("line", "expected"), LINES.values(), ids=LINES)
def test_the_shell_completes(shell: str, line: str, expected: list[str]):
    assert offered(shell, line) == expected


def test_the_names_offered_are_those_there_are():
    assert set(completion.SOLVERS) == set(SOLVERS)
    assert set(completion.REFOCUS) == {*NAMES, SWEEP}
    assert set(completion.FLOWS) == set(FLOWS)
    assert set(completion.ORDERS) == set(ORDERS)
    assert set(completion.FORMATS) == set(FORMATS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_the_shell_is_shown(shell: str):
    environment = os.environ | {"_DISSONANCE_COMPLETE": f"source_{shell}"}
    done = python("-m", "dissonance", env=environment)
    assert done.returncode == 0
    assert f"_DISSONANCE_COMPLETE=complete_{shell}" in done.stdout


# -- processes ---------------------------------------------------------------------------------------------------------


def test_the_version_and_the_help_are_printed(capsys: pytest.CaptureFixture[str]):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"dissonance {__version__}\n"
    assert run(["--help"]) == 0
    assert "score" in capsys.readouterr().out
    assert run(["score", "--help"]) == 0
    assert "--gamma" in capsys.readouterr().out


def test_help_imports_nothing_heavy():
    program = (
        "import sys; from dissonance.cli.app import run; run(['--help']); run(['score', '--help']);"
        "sys.exit(str({'torch', 'numpy', 'scipy', 'networkx', 'msgspec', 'rich'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_a_model_is_read_from_standard_input():
    model = Path(SMOKING).read_text()
    done = python("-m", "dissonance", "score", "-", "--json", text=model)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["converged"]


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["people", "json"])
def test_a_reader_that_stops_reading_is_no_drama(form: list[str]):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        args = [*COMMAND, "score", SMOKING, *form]
        done = subprocess.run(args, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_ctrl_c_is_one_line_and_status_130(tmp_path: Path):
    never = tmp_path / "never.json"
    os.mkfifo(never)
    process = subprocess.Popen([*COMMAND, "score", str(never), "--json"], stderr=subprocess.PIPE, text=True)
    writer = _opened(never)  # it reads now, and nothing comes
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    os.close(writer)
    assert (process.returncode, said) == (130, "dissonance: interrupted.\n")


def _opened(path: Path) -> int:
    """The writing end of a pipe, once someone reads it."""
    for _ in range(600):
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.1)
    raise TimeoutError
