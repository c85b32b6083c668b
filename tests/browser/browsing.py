"""A running studio, a page before it, and what to ask of them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dissonance.cli.app import run

ROOT = Path(__file__).parents[2]
AXE = ROOT / "studio" / "node_modules" / "axe-core" / "axe.min.js"
WIDE = {"width": 1360, "height": 860}
NARROW = {"width": 390, "height": 844}
PATIENCE = 60_000
"""Milliseconds that a test waits for anything: a worker that has to compile the solver takes a minute."""
NUMBER = "[data-testid=inconsistency]"


@dataclass
class Studio:
    """A running `dissonance studio`."""

    process: subprocess.Popen[str]
    address: str
    folder: Path

    @property
    def workers(self) -> list[int]:
        """The processes that compute."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(c) for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]


@dataclass
class Opener:
    """Opens pages and watches them."""

    browser: Any
    pages: list[Any] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __call__(self, address: str, **options: Any) -> Any:
        """A page of its own, once it shows the picture and the score of what is there."""
        defaults = {"viewport": WIDE, "color_scheme": "light", "accept_downloads": True}
        context = self.browser.new_context(**defaults | options)
        context.set_default_timeout(PATIENCE)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        self._watch(page)
        page.goto(address)
        self.pages.append(page)
        settled(page)
        return page

    def forgive(self) -> None:
        """Forget the lines that Chromium writes into its console for an error answer that the test provoked."""
        self.wrong[:] = [line for line in self.wrong if "the server responded with a status of" not in line]

    def _watch(self, page: Any) -> None:
        def heard(message: Any) -> None:
            if message.type in ("error", "warning"):
                self.wrong.append(f"console: {message.text}")

        def asked(request: Any) -> None:
            if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:http://127.0.0.1:")):
                self.wrong.append(f"a request to {request.url}")

        page.on("console", heard)
        page.on("pageerror", lambda error: self.wrong.append(f"uncaught: {error}"))
        page.on("request", asked)


def started(folder: Path, *arguments: str) -> Studio:
    """A studio in a folder, once it says its address."""
    command = [sys.executable, "-m", "dissonance", "studio", *arguments, "--no-open", "--json"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.communicate()
        pytest.fail("the studio did not start")
    return Studio(process, json.loads(line)["address"], folder)


def ended(studio: Studio) -> None:
    """End it as Ctrl-C does."""
    studio.process.send_signal(signal.SIGINT)
    try:
        studio.process.wait(10)
    except subprocess.TimeoutExpired:
        studio.process.kill()
        studio.process.wait()
    assert studio.process.stdout is not None
    studio.process.stdout.close()


def settled(page: Any) -> None:
    """Wait until the picture and the score of what is there are there."""
    page.locator("g.thing").first.wait_for()
    page.locator(".gauge:not(.stale)").wait_for()
    page.locator(".canvas:not(.waiting)").wait_for()


def accessibility(page: Any) -> list[str]:
    """What axe has to complain about, one line each; nothing where it is not installed (see `need_axe`)."""
    if not AXE.is_file():
        return []
    page.evaluate("() => document.querySelector('.dissonance-studio').scrollTo(0, 0)")
    page.evaluate(AXE.read_text())
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [f"{v['id']}: {v['help']}: {n['html'][:160]}" for v in found["violations"] for n in v["nodes"]]


def need_axe() -> None:
    """Skip a test where axe is not installed; fail where it is said to be required."""
    if not AXE.is_file():
        why = "axe is not installed (npm ci in studio/): nothing is said about accessibility"
        pytest.fail(why) if os.environ.get("STUDIO_AXE") == "required" else pytest.skip(why)


def printed(*arguments: str) -> str:
    """What the command line prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert run(list(arguments)) == 0
    return out.getvalue()
