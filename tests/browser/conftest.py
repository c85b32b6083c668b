"""A real browser before a real studio. Requests off the machine, errors in the console and axe's complaints fail.

Without axe (npm ci in studio/) the tests of accessibility are skipped; with STUDIO_AXE=required they fail.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from browsing import ROOT, Opener, Studio, accessibility, ended, started

EXAMPLES = ("smoking.json", "two-experts.json", "sensors.json", "shoes.json")


def _chromium() -> str:
    found = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine")
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium, without a window."""
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        pytest.skip("the studio's server is not installed: pip install 'dissonance[studio]'")
    sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def studio(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A studio that most tests share, in a folder with the examples."""
    folder = tmp_path_factory.mktemp("studio")
    for name in EXAMPLES:
        shutil.copy(ROOT / "examples" / name, folder)
    found = started(folder, "smoking.json")
    yield found
    ended(found)


@pytest.fixture
def opened(browser: Any) -> Iterator[Opener]:
    """Opens pages; at the end of the test each must have kept to the machine, raised no error, and pass axe."""
    opener = Opener(browser)
    yield opener
    still = [page for page in opener.pages if not page.is_closed()]
    violations = [line for page in still for line in accessibility(page)]
    for page in still:
        page.context.close()
    assert not opener.wrong, "\n".join(opener.wrong)
    assert not violations, "\n".join(violations)


@pytest.fixture
def page(studio: Studio, opened: Opener) -> Any:
    """The shared studio's page, with the smoking example."""
    return opened(studio.address)
