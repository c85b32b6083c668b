"""Evidence by a click; variables, values and beliefs added, renamed and removed; boxes moved."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browsing import NUMBER, Studio, printed, settled


def _beliefs(page: Any, variable: str) -> dict[str, str]:
    rows = page.locator(f".left [data-variable={variable}] .value-row").all()
    return {r.locator(".value-label").text_content(): r.locator(".value-p").text_content() for r in rows}


def test_an_observed_value_gives_the_posteriors_that_query_prints(studio: Studio, page: Any) -> None:
    page.click(".left [data-variable=Cancer] [data-value=yes]")
    settled(page)
    record = json.loads(printed("query", str(studio.folder / "smoking.json"), "--given", "Cancer=yes", "--json"))
    expected = record["marginals"] if "marginals" in record else record["posterior"]
    for variable in ("Smokes", "Tar"):
        assert _beliefs(page, variable) == {x: f"{p:.4f}" for x, p in expected[variable].items()}
    assert page.locator(".rim.observed").count() == 1
    page.get_by_role("button", name="Forget observations").click()
    settled(page)
    assert page.text_content(NUMBER) == "0.105247"


def test_an_observation_with_a_confidence_lies_in_between(page: Any) -> None:
    def cancer() -> float:
        return float(_beliefs(page, "Cancer")["yes"])

    before = cancer()
    page.locator("g.variable[data-name=Cancer]").click()
    page.locator(".side [data-value=yes]").click()
    page.get_by_label("Confidence, as a number").fill("2")
    settled(page)
    odds = before / (1 - before) * 7.38905609893065
    assert cancer() == pytest.approx(odds / (1 + odds), abs=2e-3)


def test_a_model_is_built_from_nothing(page: Any) -> None:
    page.get_by_role("button", name="Open", exact=True).click()
    page.get_by_role("button", name="An empty model").click()
    for name, values in (("Rain", "dry, wet"), ("Grass", "brown, green")):
        page.get_by_role("button", name="Add a variable").click()
        page.get_by_label("Name", exact=True).fill(name)
        page.get_by_label("Values, separated by commas").fill(values)
        page.get_by_role("button", name="Add", exact=True).click()
        page.keyboard.press("Escape")
    page.get_by_role("button", name="Add a belief").click()
    page.get_by_label("Name: who says it").fill("farmer")
    page.get_by_label("The part of Rain").select_option("source")
    page.get_by_label("The part of Grass").select_option("target")
    page.get_by_role("button", name="Add", exact=True).click()
    settled(page)
    page.get_by_label("Probability of green given wet, as a number").fill("0.9")
    page.keyboard.press("Enter")
    settled(page)
    assert page.text_content(NUMBER) == "0"
    assert page.locator("g.variable").count() == 2
    assert page.locator("g.arc").count() == 1
    assert "Nobody disagrees" in page.text_content(".verdict")


def test_names_and_values_change_everywhere_and_back(page: Any) -> None:
    page.locator("g.variable[data-name=Tar]").click()
    page.get_by_label("Name of the variable").fill("Residue")
    page.keyboard.press("Enter")
    settled(page)
    page.locator("g.variable[data-name=Residue]").wait_for()
    assert "Smokes, Residue → Cancer" in page.locator(".blame-belief").all_text_contents()
    page.get_by_role("button", name="Add a value").click()
    settled(page)
    assert page.text_content(NUMBER) == "0.105247"  # an impossible value changes nothing
    page.get_by_role("button", name="Remove the value low").click()
    settled(page)
    page.get_by_label("Value 1").fill("lots")
    page.keyboard.press("Enter")
    settled(page)
    assert list(_beliefs(page, "Residue")) == ["lots", "value 3"]
    page.click("body", position={"x": 700, "y": 700})
    for _ in range(4):
        page.keyboard.press("Control+z")
    settled(page)
    assert list(_beliefs(page, "Tar")) == ["low", "high"]
    assert page.text_content(NUMBER) == "0.105247"
    assert page.locator(".dirty").count() == 0


def test_a_belief_and_a_variable_are_removed(studio: Studio, page: Any) -> None:
    page.click(".blame-row[data-arc=survey]")
    page.get_by_role("button", name="Remove this arc").click()
    settled(page)
    out = printed("score", str(studio.folder / "smoking.json"), "--without", "survey")
    assert f"Inconsistency: {page.text_content(NUMBER)} " in out
    page.locator("g.variable[data-name=Tar]").click()
    page.get_by_role("button", name="Remove this variable").click()
    settled(page)
    assert [r.get_attribute("data-arc") for r in page.locator(".blame-row").all()].count("study") == 0
    assert page.locator("g.variable").count() == 2


def test_arcs_run_downwards_and_to_the_right_again(page: Any) -> None:
    def spread() -> tuple[float, float]:
        boxes = [page.locator(f"g.variable[data-name={n}] rect").first.bounding_box() for n in ("Smokes", "Cancer")]
        return tuple(abs(boxes[0][k] - boxes[1][k]) for k in ("x", "y"))

    assert spread()[0] > spread()[1]
    button = page.get_by_role("button", name="Lay out the other way: to the right or downwards")
    button.click()
    settled(page)
    page.wait_for_timeout(400)
    assert spread()[0] < spread()[1]
    button.click()
    settled(page)
    page.wait_for_timeout(400)
    assert spread()[0] > spread()[1]


def test_a_box_is_dragged_and_comes_back(page: Any) -> None:
    def place() -> dict[str, float]:
        return page.locator("g.variable[data-name=Tar] rect").first.bounding_box()

    before = place()
    page.mouse.move(before["x"] + 10, before["y"] + 10)
    page.mouse.down()
    page.mouse.move(before["x"] + 50, before["y"] - 40, steps=5)
    page.mouse.up()
    page.locator(".dirty").wait_for()
    settled(page)
    after = place()
    assert after["y"] - before["y"] == pytest.approx(-50, abs=4)
    assert after["x"] - before["x"] == pytest.approx(40, abs=4)
    assert page.text_content(NUMBER) == "0.105247"
    page.keyboard.press("Control+z")
    page.locator(".dirty").wait_for(state="detached")
    settled(page)


def test_the_picture_is_zoomed_by_buttons_and_by_the_wheel_and_fitted_again(page: Any) -> None:
    def until(test: str, than: float) -> float:
        """How wide a box is, once it is as wide as that."""
        wide = "document.querySelector('g.variable[data-name=Tar] rect').getBoundingClientRect().width"
        page.wait_for_function(f"than => {test.format(wide)}", arg=than)
        return page.evaluate(f"() => {wide}")

    fitted = until("{} > than", 0)
    page.get_by_role("button", name="Zoom in").click()
    closer = until("{} > than", 1.2 * fitted)
    page.locator("svg.graph").hover()
    page.mouse.wheel(0, 400)
    until("{} < than", 0.9 * closer)
    page.get_by_role("button", name="Fit the picture").click()
    until("Math.abs({} - than) < 1", fitted)


def test_the_picture_is_walked_by_keys(page: Any) -> None:
    page.locator("g.thing[tabindex='0']").focus()
    seen = set()
    for key in ("ArrowLeft", "ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
        seen.add(page.evaluate("() => document.activeElement.getAttribute('data-name')"))
    assert len(seen) >= 3
    name = page.evaluate("() => document.activeElement.getAttribute('data-name')")
    page.keyboard.press("Enter")
    assert page.locator(".side .name-field").input_value() == name
    page.keyboard.press("Escape")
    assert page.locator(".side .panel-title").text_content() == "Model"
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()


def test_real_vectors_have_means_and_no_cells(studio: Studio, page: Any) -> None:
    page.get_by_role("button", name="Open", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="shoes.json").first.click()
    page.locator(".blame-row[data-arc=rule]").wait_for()
    settled(page)
    out = printed("score", str(studio.folder / "shoes.json"))
    assert f"Inconsistency: {page.text_content(NUMBER)} " in out
    assert [m.replace("±", "+-") in out for m in page.locator(".left .moments").all_text_contents()] == [True, True]
    assert not page.get_by_role("heading", name="Where").is_visible()
    page.click(".blame-row[data-arc=rule]")
    assert "linear Gaussian" in page.text_content(".side")
