"""A run is played, stepped, compared and kept; it is the run of `dissonance resolve`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from browsing import NUMBER, Studio, printed, settled


def _run(page: Any, lane: int = 0) -> Any:
    page.locator(".player summary").click()
    page.get_by_role("button", name="Run", exact=True).click()
    return page.locator(".lane-state").nth(lane).filter(has_text="done")


def test_the_last_frame_and_the_kept_model_are_those_of_resolve(studio: Studio, page: Any, tmp_path: Path) -> None:
    page.locator(".player summary").click()
    page.get_by_label("refocus").select_option("partial")
    page.get_by_label("steps").fill("12")
    page.get_by_label("seed").fill("7")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".lane-state").filter(has_text="done: 12 steps").wait_for()
    out = tmp_path / "resolved.json"
    options = ["--refocus", "partial", "--steps", "12", "--seed", "7", "--out", str(out), "--json"]
    record = json.loads(printed("resolve", str(studio.folder / "smoking.json"), *options))
    assert page.text_content(".step-label") == "step 12 of 12"
    assert page.text_content(NUMBER) == f"{record['final']['inconsistency']:.6g}"
    assert f"moved by {record['distortion_tv']:.4f} in total variation" in page.text_content(".lane-state")
    page.get_by_role("button", name="Keep the result").click()
    settled(page)
    assert page.text_content(".file-name span") == "smoking-resolved.json"
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("dialog").wait_for(state="detached")
    assert json.loads((studio.folder / "smoking-resolved.json").read_text()) == json.loads(out.read_text())
    page.keyboard.press("Control+z")
    settled(page)
    assert page.text_content(NUMBER) == "0.105247"


def test_a_run_is_stepped_and_scrubbed_and_the_picture_follows(page: Any) -> None:
    _run(page).wait_for()
    page.get_by_label("Step of the run").fill("0")
    assert page.text_content(NUMBER) == "0.105247"
    assert page.text_content(".gauge-state") == "step 0"
    first = page.text_content(".reading.global b")
    page.get_by_role("button", name="One step on (L)").click()
    page.keyboard.press("l")
    assert page.text_content(".step-label") == "step 2 of 20"
    assert page.text_content(".reading.global b") != first
    page.locator("g.arc path[stroke-dasharray]").first.wait_for(state="attached")  # what the step controls is dashed
    page.click(".blame-row[data-arc=survey]")
    assert page.locator(".table.in-run").count() == 1
    page.keyboard.press("j")
    assert page.text_content(".step-label") == "step 1 of 20"
    page.get_by_role("button", name="Back to the model").click()
    assert page.text_content(NUMBER) == "0.105247"
    assert page.text_content(".gauge-state") == ""


def test_play_goes_on_until_the_end_or_a_pause(page: Any) -> None:
    page.locator(".player summary").click()
    page.get_by_label("steps").fill("3")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".lane-state").filter(has_text="done").wait_for()
    page.get_by_role("button", name="Play (K)").click()
    page.get_by_role("button", name="Pause (K)").wait_for()
    page.get_by_role("button", name="Play (K)").wait_for()  # it stops by itself
    assert page.text_content(".step-label") == "step 3 of 3"


def test_two_strategies_are_compared_side_by_side(page: Any) -> None:
    page.locator(".player summary").click()
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("button", name="Run", exact=True).click()
    for lane in (0, 1):
        page.locator(".lane-state").nth(lane).filter(has_text="done").wait_for()
        page.locator(".reading.global b").nth(lane).filter(has_text=".").wait_for()  # filled in a moment later
    left, right = page.locator(".reading.global b").all_text_contents()
    assert left != right
    page.get_by_label("The picture shows").select_option("1")
    assert page.text_content(NUMBER) == right


def test_a_run_is_cancelled(page: Any) -> None:
    page.locator(".player summary").click()
    page.get_by_label("refocus").select_option("greedy")
    page.get_by_label("steps").fill("1000")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".lane-state").filter(has_text="running: step").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.locator(".lane-state").filter(has_text="stopped after").wait_for()
    page.get_by_role("button", name="Run", exact=True).wait_for()
    page.get_by_role("button", name="Back to the model").click()


def test_control_says_which_beliefs_move(page: Any) -> None:
    page.click(".blame-row[data-arc=survey]")
    page.get_by_label("χ control, as a number").fill("1")
    settled(page)
    _run(page).wait_for()
    assert "May move: survey." in page.text_content(".player")
    survey = page.get_by_label("Probability of current, as a number").input_value()
    assert survey != "0.12"
    page.click(".blame-row[data-arc=census]")
    assert page.get_by_label("Probability of current, as a number").input_value() == "0.28"
