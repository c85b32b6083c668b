"""A real browser before a real studio. Requests off the machine, errors in the console and failures of axe fail a test."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dissonance.cli.app import run

pytest.importorskip("starlette", reason="the studio needs dissonance[studio]")
pytest.importorskip("uvicorn", reason="the studio needs dissonance[studio]")
sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")

ROOT = Path(__file__).parents[2]
AXE = ROOT / "studio" / "node_modules" / "axe-core" / "axe.min.js"
WIDE = {"width": 1360, "height": 860}
NARROW = {"width": 390, "height": 844}
SECONDS = 60_000
"""How long a test waits for anything, in milliseconds: a worker that has to compile the solver takes a minute."""


def _chromium() -> str:
    found = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine")
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium, without a window."""
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"])
        yield found
        found.close()


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


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A studio that most tests share, in a folder with the examples."""
    folder = tmp_path_factory.mktemp("studio")
    for name in ("smoking.json", "two-experts.json", "sensors.json", "shoes.json"):
        shutil.copy(ROOT / "examples" / name, folder)
    found = started(folder, "smoking.json")
    yield found
    ended(found)


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages; at the end of the test each must have kept to the machine, raised no error, and pass axe."""
    contexts: list[Any] = []
    pages: list[Any] = []
    wrong: list[str] = []

    def watch(page: Any) -> None:
        page.on("console", lambda m: wrong.append(f"console: {m.text}") if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: wrong.append(f"uncaught: {e}"))
        page.on("request", lambda r: None if _local(r.url) else wrong.append(f"a request to {r.url}"))

    def open_page(address: str, *, ready: bool = True, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": WIDE, "color_scheme": "light", "accept_downloads": True} | options)
        context.set_default_timeout(SECONDS)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        watch(page)
        page.goto(address)
        pages.append(page)
        if ready:
            settled(page)
        return page

    open_page.expected = wrong  # type: ignore[attr-defined]  # a test that provokes an error takes it out of here
    yield open_page
    violations = [v for page in pages if not page.is_closed() for v in accessibility(page)]
    for context in contexts:
        context.close()
    assert not wrong, "\n".join(wrong)
    assert not violations, "\n".join(violations)


@pytest.fixture
def page(studio: Studio, opened: Callable[..., Any]) -> Any:
    """The shared studio's page, with the smoking example."""
    return opened(studio.address)


def _local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:", "blob:http://127.0.0.1:"))


def settled(page: Any) -> None:
    """Wait until the picture and the score of what is there are there."""
    page.locator("g.thing").first.wait_for()
    page.locator(".gauge:not(.stale)").wait_for()
    page.locator(".canvas:not(.waiting)").wait_for()


def accessibility(page: Any) -> list[str]:
    """What axe has to complain about, one line each."""
    if not AXE.is_file():
        return []
    page.evaluate("() => document.querySelector('.dissonance-studio').scrollTo(0, 0)")
    page.evaluate(AXE.read_text())
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [f"{v['id']}: {v['help']}: {n['html'][:160]}" for v in found["violations"] for n in v["nodes"]]


def command(*arguments: str) -> str:
    """What the command line prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert run(list(arguments)) == 0
    return out.getvalue()
