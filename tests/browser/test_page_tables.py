"""A table is edited by typing, dragging, keys or pasting, and its rows always sum to 1."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browsing import NUMBER, Opener, Studio, printed, settled


def _row(page: Any, values: tuple[str, ...], given: str = "") -> list[float]:
    labels = [f"Probability of {v}{f' given {given}' if given else ''}, as a number" for v in values]
    return [float(page.get_by_label(label, exact=True).input_value()) for label in labels]


def _saved(page: Any, studio: Studio, name: str) -> dict[str, Any]:
    """The model of the page, through Save."""
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_label("File name").fill(name)
    page.get_by_role("dialog").get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("dialog").wait_for(state="detached")
    return json.loads((studio.folder / name).read_text())


def test_a_typed_probability_moves_the_others_and_the_score(studio: Studio, page: Any) -> None:
    page.click(".blame-row[data-arc=survey]")
    page.get_by_label("Probability of current, as a number").fill("0.3")
    page.keyboard.press("Enter")
    settled(page)
    never, former, current = _row(page, ("never", "former", "current"))
    assert current == 0.3
    assert never + former + current == pytest.approx(1, abs=2e-6)
    assert never / former == pytest.approx(0.62 / 0.26, rel=1e-4)  # in their proportions
    saved = _saved(page, studio, "typed.json")
    table = next(a for a in saved["arcs"] if a["name"] == "survey")["table"]
    assert sum(table) == pytest.approx(1, abs=1e-15)
    out = printed("score", str(studio.folder / "typed.json"))
    assert f"Inconsistency: {page.text_content(NUMBER)} " in out
    assert all(n in out for n in page.locator(".blame-number").all_text_contents())


def test_a_bar_is_dragged_and_moved_by_keys(page: Any) -> None:
    page.click(".blame-row[data-arc=lab]")
    bar = page.get_by_role("slider", name="Probability of high given former")
    box = bar.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.35 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], middle, steps=4)
    page.mouse.move(box["x"] + 0.8 * box["width"], middle, steps=4)
    page.mouse.up()
    settled(page)
    low, high = _row(page, ("low", "high"), "former")
    assert high == pytest.approx(0.8, abs=0.011)
    assert low + high == pytest.approx(1, abs=1e-6)
    page.keyboard.press("Control+z")
    settled(page)
    assert _row(page, ("low", "high"), "former") == [0.65, 0.35]  # one drag, one undo
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowRight")
    assert _row(page, ("low", "high"), "former")[1] == pytest.approx(0.44, abs=1e-6)
    settled(page)


def test_nonsense_is_refused_and_changes_nothing(page: Any) -> None:
    page.click(".blame-row[data-arc=survey]")
    field = page.get_by_label("Probability of never, as a number")
    for nonsense in ("1.5", "-0.1", "many", ""):
        field.fill(nonsense)
        page.keyboard.press("Enter")
        assert field.input_value() == "0.62"
    assert page.locator(".dirty").count() == 0


def test_a_table_is_pasted_from_a_spreadsheet(page: Any) -> None:
    page.click(".blame-row[data-arc=lab]")
    page.get_by_label("Probability of low given never, as a number").focus()
    text = "\tlow\thigh\nnever\t0.9\t0.1\nformer\t0.6\t0.4\ncurrent\t0.2\t0.8"
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    page.keyboard.press("Control+v")
    page.get_by_role("button", name="Use it").click()
    page.get_by_role("dialog").wait_for(state="detached")
    settled(page)
    assert [_row(page, ("low", "high"), g) for g in ("never", "former", "current")] == [
        [0.9, 0.1],
        [0.6, 0.4],
        [0.2, 0.8],
    ]


def test_counts_become_a_table_and_a_confidence(page: Any, opened: Opener) -> None:
    page.click(".blame-row[data-arc=survey]")
    page.get_by_role("button", name="Paste or count…").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("50 30")
    page.get_by_role("button", name="Use it").click()
    page.get_by_role("dialog").get_by_text("needs 1 rows of 3 numbers").wait_for()
    opened.forgive()  # Chromium writes the answer 422 into its console
    page.get_by_role("dialog").get_by_role("textbox").fill("50 30 20")
    page.get_by_label("They are", exact=True).select_option("counts")
    page.get_by_role("button", name="Use it").click()
    page.get_by_role("dialog").wait_for(state="detached")
    settled(page)
    assert _row(page, ("never", "former", "current")) == [0.5, 0.3, 0.2]
    assert page.get_by_label("β confidence, as a number").input_value() == "100"


def test_rows_can_be_listed_by_disagreement(page: Any) -> None:
    page.click(".blame-row[data-arc=study]")
    assert page.locator(".given").first.text_content() == "Smokes=never, Tar=low"
    page.get_by_label("Order of the rows").select_option("gap")
    assert page.locator(".given").first.text_content() == "Smokes=current, Tar=high"
