"""`dissonance studio`, the command: it starts, answers, and ends in order."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dissonance.cli.app import run
from dissonance.studio.place import RECOVERY

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts the command in a folder; whatever still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*args: str, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "dissonance", "studio", *args]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, cwd=folder, **pipes, **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def address(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def asked(where: dict[str, Any], action: str, **params: Any) -> Any:
    home, _, token = where["address"].partition("/?token=")
    headers = {"origin": home, "x-dissonance-token": token}
    response = httpx.post(f"{home}/api/{action}", json=params, headers=headers, timeout=120)
    assert response.status_code == 200, response.text
    return response.json()


def alive(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def ended(processes: list[int]) -> bool:
    """Whether all of them end, soon."""
    for _ in range(600):
        if not any(map(alive, processes)):
            return True
        time.sleep(0.1)
    return False


def children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children")
    return [int(x) for x in listed.read_text().split()] if listed.exists() else []


@pytest.mark.parametrize(
    "how", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT] * 3], ids=["Ctrl-C", "asked to end", "Ctrl-C thrice"]
)
def test_it_starts_answers_and_ends_in_order(start: Start, folder: Path, how: list[signal.Signals]):
    process = start("smoking.json", "--no-open", "--json")
    where = address(process)
    assert where["address"] == f"http://127.0.0.1:{where['port']}/?token={where['address'].partition('=')[2]}"
    assert where["folder"] == str(folder.resolve())
    model = asked(where, "open", start=True)["model"]
    assert asked(where, "hello")["file"] == "smoking.json"
    asked(where, "keep", document={"name": "unsaved", "model": model}, tab="a")
    workers = children(process.pid)
    assert workers
    for one in how:
        process.send_signal(one)
        time.sleep(0.05)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "Traceback" not in out + err
    assert err.splitlines()[-1] == f"dissonance: note: the studio is closed; what is not saved is in {RECOVERY}."
    assert ended(workers)
    if how == [signal.SIGINT]:
        again = start("--no-open", "--json")
        assert asked(address(again), "hello")["recovery"]["name"] == "unsaved"


def test_it_listens_to_this_machine_only(start: Start):
    where = address(start("--no-open", "--json"))
    for other in {x[4][0] for x in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}:
        with pytest.raises(OSError), socket.create_connection((other, where["port"]), timeout=2):
            pass


def test_a_model_may_come_through_a_pipe(start: Start, folder: Path):
    with (folder / "smoking.json").open() as model:
        where = address(start("-", "--no-open", "--json", stdin=model))
    assert len(asked(where, "open", start=True)["model"]["arcs"]) == 6


def test_the_address_is_printed_for_people_and_opened_without_its_token_on_a_command_line(start: Start, tmp_path: Path):
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$@" > {opened}.part\ncat "${{1#file://}}" >> {opened}.part\nmv {opened}.part {opened}\n'
    )
    browser.chmod(0o700)
    process = start(env=os.environ | {"BROWSER": str(browser)})
    assert process.stdout is not None and process.stderr is not None
    line = process.stdout.readline().strip()
    assert line.startswith("The studio is at http://127.0.0.1:")
    token = line.partition("token=")[2]
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    command, page = opened.read_text().split("\n", 1)
    assert command.startswith("file:///") and token not in command
    assert token in page
    assert not Path(command.removeprefix("file://")).exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["missing.json"], "missing.json: no such file."),
        (["--port", "99999"], "65535"),
        (["--prt", "1"], "No such option"),
        (["a.json", "b.json"], "unexpected extra argument"),
    ],
)
def test_bad_usage_is_one_line_and_status_2(args: list[str], message: str, capsys, monkeypatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    assert run(["studio", *args]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_cannot_be_read_is_an_error_before_anything_opens(capsys, monkeypatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text("{")
    assert run(["studio", "bad.json", "--no-open"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("dissonance: bad.json")
    assert captured.out == ""


def test_a_port_that_is_taken_is_said(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["studio", "--port", str(port), "--no-open"]) == 2
    assert f"--port {port}: address already in use. Give another port" in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["studio"]) == 2
    assert "pip install 'dissonance[studio]'" in capsys.readouterr().err


def test_the_workers_of_a_studio_that_was_killed_end_too(start: Start):
    process = start("--no-open", "--json")
    asked(address(process), "hello")
    workers = children(process.pid)
    process.kill()
    process.wait()
    assert workers and ended(workers)
