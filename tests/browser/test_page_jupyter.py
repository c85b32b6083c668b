"""The studio as a widget of a real JupyterLab: it shows, and what is edited there comes back as a PDG."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from browsing import NUMBER, PATIENCE, ROOT

SMOKING = ROOT / "examples" / "smoking.json"
SHOWN = """
from dissonance import inconsistency, load
pdg, focus = load("smoking.json")
widget = pdg.studio(attention=focus.attention, name="smoking")
widget"""
ASKED = """
result = inconsistency(widget.pdg, widget.attention)
print(f"beta {widget.attention.beta['survey']:g}, score {result.upper:.6g},",
      f"same {widget.pdg['census'] is pdg['census']}, table {widget.pdg['survey'].cpd.table().tolist()}")"""


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[str]:
    """The address of a notebook in a JupyterLab, with two cells that were not run yet."""
    for module in ("jupyterlab", "ipykernel", "anywidget"):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed: pip install jupyterlab 'dissonance[notebook]'")
    cells = [
        {"cell_type": "code", "id": f"cell{i}", "metadata": {}, "execution_count": None, "outputs": [], "source": code}
        for i, code in enumerate((SHOWN.strip(), ASKED.strip()))
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    content = {"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": cells}
    home = tmp_path / "home"
    home.mkdir()
    (home / "beliefs.ipynb").write_text(json.dumps(content))
    shutil.copy(SMOKING, home)
    options = ["--no-browser", "--ServerApp.port=0", "--ServerApp.ip=127.0.0.1", "--IdentityProvider.token=secret"]
    root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    folders = {f"JUPYTER_{kind}_DIR": str(tmp_path / kind) for kind in ("CONFIG", "RUNTIME", "DATA")}
    environment = os.environ | folders | {"IPYTHONDIR": str(tmp_path / "ipython")}
    command = [sys.executable, "-m", "jupyterlab", *options, *root, f"--ServerApp.root_dir={home}"]
    log = tmp_path / "log.txt"
    with log.open("w") as told:
        process = subprocess.Popen(command, cwd=home, env=environment, stderr=told)
    try:
        deadline, found = time.monotonic() + PATIENCE / 1000, None
        while found is None and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
            found = re.search(r"http://127\.0\.0\.1:(\d+)/lab", log.read_text())
        assert found is not None, log.read_text()
        yield f"http://127.0.0.1:{found.group(1)}/lab/tree/beliefs.ipynb?token=secret"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def _run(page: Any, number: int) -> None:
    """Run a cell; JupyterLab loses what is run while its kernel starts, so once more where nothing happens."""
    cell = page.locator(".jp-CodeCell").nth(number)
    prompt = cell.locator(".jp-InputPrompt").filter(has_text=re.compile(r"[\d*]"))
    for _ in range(6):
        cell.locator(".jp-InputArea-editor").click()
        page.keyboard.press("Shift+Enter")
        page.wait_for_timeout(3000)
        if prompt.count():
            return
    pytest.fail("the cell did not run")


def test_the_studio_shows_in_a_notebook_and_edits_come_back(browser: Any, notebook: str) -> None:
    context = browser.new_context(viewport={"width": 1500, "height": 1020}, color_scheme="light")
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(notebook)
    page.locator(".jp-CodeCell").nth(1).wait_for()
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for(state="attached")
    _run(page, 0)
    page.locator(".embedded .gauge:not(.stale)").wait_for()
    page.locator(".embedded g.variable[data-name=Cancer]").wait_for()
    assert page.text_content(NUMBER) == "0.105247"
    page.click(".blame-row[data-arc=survey]")
    page.get_by_label("β confidence, as a number").fill("2.5")
    page.get_by_label("Probability of current, as a number").fill("0.2")
    page.keyboard.press("Tab")
    page.locator(".embedded .gauge:not(.stale)").wait_for()
    page.wait_for_timeout(1000)  # edits go back when a person rests
    page.locator(".embedded .gauge:not(.stale)").wait_for()
    if figures := os.environ.get("STUDIO_FIGURES"):
        if (news := page.get_by_role("button", name="No", exact=True)).count():
            news.click()
            page.wait_for_timeout(1500)  # it slides away
        page.screenshot(path=str(Path(figures) / "studio_jupyter.png"))
    shown = page.text_content(NUMBER)
    _run(page, 1)
    said = page.locator(".jp-OutputArea-output pre").filter(has_text="beta").text_content()
    assert said.startswith(f"beta 2.5, score {shown}, same True, table [")
    claimed = json.loads(said.partition("table ")[2])
    assert claimed[2] == 0.2 and sum(claimed) == pytest.approx(1)
    assert not wrong
    context.close()
