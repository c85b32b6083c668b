"""Confidence is a slider, and the number on the page is the one the command line prints."""

from __future__ import annotations

import json
import re
from typing import Any

from browsing import NUMBER, Studio, printed, settled


def _number(studio: Studio, *options: str) -> str:
    out = printed("score", str(studio.folder / "smoking.json"), *options)
    found = re.search(r"Inconsistency: (\S+)", out)
    assert found is not None
    return found.group(1)


def test_the_page_shows_what_score_prints(studio: Studio, page: Any) -> None:
    out = printed("score", str(studio.folder / "smoking.json"))
    assert page.text_content(NUMBER) == _number(studio)
    assert page.text_content(".verdict") in out.replace("\n", " ")
    names = [row.get_attribute("data-arc") for row in page.locator(".blame-row").all()]
    assert names == re.findall(r"^ (\w+) +(?:\w+(?:, \w+)* )?->", out, re.MULTILINE)
    numbers = page.locator(".blame-number").all_text_contents()
    assert all(n in out for n in numbers)
    page.hover(".gauge-figure")
    tip = page.text_content(".tip")
    assert page.locator(".tip").is_visible()
    assert tip.partition(";")[0] in out


def test_a_slider_of_beta_shows_the_number_that_score_prints_with_that_beta(studio: Studio, page: Any) -> None:
    page.click(".blame-row[data-arc=survey]")
    slider = page.get_by_label("β confidence", exact=True)
    for place in ("130", "70", "0"):
        before = page.text_content(NUMBER)
        slider.fill(place)
        settled(page)
        beta = page.get_by_label("β confidence, as a number").input_value()
        shown = page.text_content(NUMBER)
        assert shown != before
        assert shown == _number(studio, "--attend", f"survey={beta}")


def test_a_slider_moved_by_keys_can_be_undone(page: Any) -> None:
    first = page.text_content(NUMBER)
    page.click(".blame-row[data-arc=clinic]")
    slider = page.get_by_label("β confidence", exact=True)
    slider.focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    settled(page)
    moved = page.text_content(NUMBER)
    assert moved != first
    page.keyboard.press("Control+z")
    settled(page)
    assert page.text_content(NUMBER) == first
    assert page.get_by_label("β confidence, as a number").input_value() == "2"
    page.keyboard.press("Control+Shift+z")
    settled(page)
    assert page.text_content(NUMBER) == moved


def test_ignoring_a_source_is_leaving_it_out(studio: Studio, page: Any) -> None:
    page.click(".blame-row[data-arc=survey]")
    first = page.text_content(NUMBER)
    page.get_by_label("Ignore this source").check()
    settled(page)
    assert page.text_content(NUMBER) == _number(studio, "--without", "survey")
    assert page.text_content(".blame-row[data-arc=survey] .blame-number") == "ignored"
    page.get_by_label("Ignore this source").uncheck()
    settled(page)
    assert page.text_content(NUMBER) == first


def test_gamma_and_alpha_change_the_score(studio: Studio, page: Any) -> None:
    page.get_by_label("\N{GREEK SMALL LETTER GAMMA} structure, as a number").fill("0.5")
    settled(page)
    assert page.text_content(NUMBER) == _number(studio, "--gamma", "0.5")
    page.click(".blame-row[data-arc=lab]")
    page.get_by_label("\N{GREEK SMALL LETTER ALPHA} mechanism, as a number").fill("0.5")
    settled(page)
    model = json.loads((studio.folder / "smoking.json").read_text())
    model["gamma"] = 0.5
    next(a for a in model["arcs"] if a["name"] == "lab")["alpha"] = 0.5
    (studio.folder / "alpha.json").write_text(json.dumps(model))
    out = printed("score", str(studio.folder / "alpha.json"))
    assert f"Inconsistency: {page.text_content(NUMBER)} " in out


def test_a_fact_that_contradicts_another_is_infinite(page: Any) -> None:
    for arc in ("census", "survey"):
        page.click(f".blame-row[data-arc={arc}]")
        page.get_by_label("β confidence, as a number").fill("fact")
    settled(page)
    assert page.text_content(NUMBER) == "inf"
    assert "contradict" in page.text_content(".verdict")


def test_a_number_that_is_not_known_yet_is_greyed_and_its_computation_can_be_cancelled(page: Any) -> None:
    held: list[Any] = []
    page.route("**/api/score", lambda route: held.append(route))
    page.click(".blame-row[data-arc=survey]")
    page.get_by_label("β confidence, as a number").fill("4")
    page.locator(".gauge.stale").wait_for()
    assert page.text_content(NUMBER) == "0.105247"  # the old one, greyed
    assert "computing" in page.text_content(".gauge-state")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("alert").filter(has_text="Stopped").wait_for()
    page.unroute("**/api/score")
    page.get_by_label("β confidence, as a number").fill("1")
    settled(page)
    assert page.text_content(NUMBER) == "0.105247"
    assert page.locator(".gauge.failed").count() == 0
    assert len(held) == 1


def test_only_the_latest_of_many_questions_is_asked(page: Any) -> None:
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.post_data) if r.url.endswith("api/score") else None)
    page.click(".blame-row[data-arc=survey]")
    slider = page.get_by_label("β confidence", exact=True)
    slider.evaluate("""range => {
      for (let place = 100; place <= 160; place++) { range.value = place; range.dispatchEvent(new Event("input")); }
    }""")
    settled(page)
    assert len(asked) <= 2  # of 61
    last = next(a for a in json.loads(asked[-1])["model"]["arcs"] if a["name"] == "survey")["beta"]
    assert str(last) == page.get_by_label("β confidence, as a number").input_value()
