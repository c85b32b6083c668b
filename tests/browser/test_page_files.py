"""Opening, saving, dropping, sharing; what survives a crash; two tabs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from browsing import NUMBER, ROOT, Opener, Studio, ended, settled, started


def _beta(page: Any, arc: str, beta: str) -> str:
    page.click(f".blame-row[data-arc={arc}]")
    page.get_by_label("β confidence, as a number").fill(beta)
    settled(page)
    return page.text_content(NUMBER)


def test_saved_work_is_opened_again(studio: Studio, page: Any) -> None:
    number = _beta(page, "survey", "3")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+s")
    page.get_by_label("File name").fill("three.json")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for(state="detached")
    assert page.locator(".dirty").count() == 0
    page.reload()
    settled(page)
    assert page.text_content(NUMBER) == "0.105247"
    page.get_by_role("button", name="Open", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="three.json").click()
    page.locator(NUMBER, has_text=number).wait_for()  # the page may still show what was open before
    settled(page)
    assert page.text_content(NUMBER) == number


def test_places_and_observations_are_saved_beside_the_model(studio: Studio, page: Any) -> None:
    box = page.locator("g.variable[data-name=Tar] rect").first.bounding_box()
    page.mouse.move(box["x"] + 10, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 40, box["y"] - 40, steps=5)
    page.mouse.up()
    page.locator(".dirty").wait_for()
    page.locator("g.variable[data-name=Cancer]").click()
    page.locator(".side [data-value=yes]").click()
    settled(page)
    number = page.text_content(NUMBER)
    page.keyboard.press("Control+s")
    page.get_by_label("File name").fill("moved.json")
    page.keyboard.press("Enter")
    page.get_by_text("what was observed in moved.json.studio").wait_for()
    kept = json.loads((studio.folder / "moved.json.studio").read_text())
    assert kept["evidence"] == {"Cancer": {"value": "yes", "confidence": "inf"}} and "Tar" in kept["positions"]
    page.reload()
    settled(page)
    page.get_by_role("button", name="Open", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="moved.json").click()
    page.locator(".rim.observed").wait_for(state="attached")
    settled(page)
    assert page.text_content(NUMBER) == number
    assert page.locator(".dirty").count() == 0


def test_a_file_is_replaced_only_when_a_person_says_so(studio: Studio, page: Any, opened: Opener) -> None:
    before = (studio.folder / "two-experts.json").read_text()
    page.get_by_role("button", name="Save", exact=True).click()
    dialog = page.get_by_role("dialog")
    page.get_by_label("File name").fill("two-experts.json")
    dialog.get_by_role("button", name="Save", exact=True).click()
    dialog.get_by_role("button", name="Replace it").wait_for()
    page.get_by_label("File name").fill("../outside.json")
    dialog.get_by_role("button", name="Save", exact=True).click()
    dialog.get_by_text("plain file name").wait_for()
    assert (studio.folder / "two-experts.json").read_text() == before
    assert not (studio.folder.parent / "outside.json").exists()
    page.keyboard.press("Escape")
    opened.forgive()  # Chromium writes answers 422 into its console


def test_a_dropped_file_is_opened(page: Any) -> None:
    text = (ROOT / "examples" / "sensors.json").read_text()
    drop = """([text]) => {
      const data = new DataTransfer();
      data.items.add(new File([text], "sensors.json"));
      const root = document.querySelector(".dissonance-studio");
      for (const kind of ["dragenter", "dragover", "drop"]) {
        root.dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));
      }
    }"""
    page.evaluate(drop, [text])
    page.locator(".blame-row[data-arc=thermometer]").wait_for()
    settled(page)
    assert page.text_content(".file-name span").startswith("sensors")


def test_a_damaged_file_is_a_message_and_the_model_stays(page: Any, opened: Opener) -> None:
    page.get_by_role("button", name="Open", exact=True).click()
    page.locator("input[type=file]").set_input_files(
        [{"name": "bad.json", "mimeType": "application/json", "buffer": b'{"format": 3'}]
    )
    page.locator(".message.error").wait_for()
    assert page.text_content(NUMBER) == "0.105247"
    opened.forgive()  # Chromium writes the answer 422 into its console


@pytest.mark.parametrize(
    ("kind", "name", "begins"),
    [
        ("Picture, SVG", "svg", "<svg"),
        ("Picture, PNG", "png", "\ufffdPNG"),
        ("Report, HTML", "html", "<!doctype html"),
        ("Report, Markdown", "md", "#"),
        ("Model, JSON", "json", "{"),
    ],
)
def test_everything_is_exported(page: Any, tmp_path: Path, kind: str, name: str, begins: str) -> None:
    page.get_by_role("button", name="Share").click()
    with page.expect_download() as waiting:
        page.get_by_role("menuitem", name=kind).click()
    path = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(path)
    assert path.suffix == f".{name}"
    assert path.read_bytes().decode(errors="replace").lower().startswith(begins.lower())


def test_the_copied_script_runs_and_prints_the_number(page: Any, tmp_path: Path) -> None:
    number = _beta(page, "survey", "2.5")
    page.get_by_role("button", name="Share").click()
    page.get_by_role("menuitem", name="Copy as Python").click()
    page.get_by_text("The script is in the clipboard").wait_for()
    script = tmp_path / "model.py"
    script.write_text(page.evaluate("() => navigator.clipboard.readText()"))
    out = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert number[:7] in out


def test_two_tabs_do_not_disturb_each_other(studio: Studio, opened: Opener) -> None:
    one, two = opened(studio.address), opened(studio.address)
    changed = _beta(one, "survey", "5")
    settled(two)
    assert two.text_content(NUMBER) == "0.105247"
    other = _beta(two, "clinic", "7")
    assert one.text_content(NUMBER) == changed != other
    one.keyboard.press("Escape")
    one.keyboard.press("Control+z")
    settled(one)
    assert one.text_content(NUMBER) == "0.105247"
    assert two.text_content(NUMBER) == other


def test_a_killed_worker_is_a_message_and_unsaved_work_is_offered_again(tmp_path: Path, opened: Opener) -> None:
    (tmp_path / "smoking.json").write_text((ROOT / "examples" / "smoking.json").read_text())
    studio = started(tmp_path, "smoking.json")
    try:
        page = opened(studio.address)
        for worker in studio.workers:
            os.kill(worker, signal.SIGKILL)
        page.click(".blame-row[data-arc=survey]")
        page.get_by_label("β confidence, as a number").fill("4")
        settled(page)  # the number, or a message that says what happened
        page.get_by_label("β confidence, as a number").fill("3")
        page.locator(".gauge:not(.stale):not(.failed)").wait_for()
        number = page.text_content(NUMBER)
        assert number != "0.105247"
        page.wait_for_timeout(1200)  # longer than an edit waits to be kept
    finally:
        ended(studio)
    opened.forgive()  # the browser's own lines on answers 500
    page.close()
    studio = started(tmp_path, "smoking.json")
    try:
        page = opened(studio.address)
        page.get_by_role("button", name="Bring it back").click()
        page.locator(".dirty").wait_for()
        settled(page)
        assert page.text_content(NUMBER) == number
        page.wait_for_timeout(100)
    finally:
        page.close()
        ended(studio)
    assert json.loads((tmp_path / "smoking.json").read_text())["arcs"][1].get("beta") is None  # the file is as it was
