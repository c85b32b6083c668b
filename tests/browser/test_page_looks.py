"""Dark and light, wide and narrow, large networks, names that are markup; the pictures of the documentation."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from browsing import NARROW, NUMBER, ROOT, Opener, Studio, accessibility, need_axe, settled

FIGURES = os.environ.get("STUDIO_FIGURES")
"""Where the pictures of the documentation go: `STUDIO_FIGURES=docs/figures pytest tests/browser -k accessible`."""


def _picture(page: Any, name: str) -> None:
    settled(page)
    page.wait_for_timeout(350)  # transitions
    if FIGURES:
        page.screenshot(path=str(Path(FIGURES) / f"studio_{name}.png"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_every_view_is_accessible(studio: Studio, opened: Opener, scheme: str, size: str) -> None:
    need_axe()
    options = {"viewport": NARROW, "has_touch": True} if size == "narrow" else {}
    page = opened(studio.address, color_scheme=scheme, reduced_motion="reduce", **options)
    assert page.locator(".dissonance-studio").get_attribute("data-theme") == scheme
    found = accessibility(page)
    _picture(page, f"{size}_{scheme}")
    page.click(".blame-row[data-arc=study]")
    found += accessibility(page)
    _picture(page, f"arc_{size}_{scheme}")
    page.locator("g.variable[data-name=Cancer]").click()
    page.locator(".side [data-value=yes]").click()
    settled(page)
    found += accessibility(page)
    _picture(page, f"evidence_{size}_{scheme}")
    page.get_by_role("button", name="Forget observations").click()
    settled(page)
    page.locator(".player summary").click()
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("button", name="Run", exact=True).click()
    for lane in (0, 1):
        page.locator(".lane-state").nth(lane).filter(has_text="done").wait_for()
    page.get_by_label("Step of the run").fill("3")
    found += accessibility(page)
    _picture(page, f"player_{size}_{scheme}")
    page.get_by_role("button", name="Open", exact=True).click()
    found += accessibility(page)
    _picture(page, f"open_{size}_{scheme}")
    assert not found, "\n".join(found)
    wide = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0  # nothing hangs over the edge


def test_the_theme_can_be_chosen(page: Any) -> None:
    page.get_by_role("button", name="Light or dark (T)").click()
    assert page.locator(".dissonance-studio").get_attribute("data-theme") == "dark"
    page.reload()
    settled(page)
    assert page.locator(".dissonance-studio").get_attribute("data-theme") == "dark"


def _network(size: int) -> dict[str, Any]:
    """A random Bayesian network of yes/no variables: one or two of the ten before it are parents; and a conflict."""
    draw = random.Random(size)

    def row() -> list[float]:
        p = round(draw.uniform(0.05, 0.95), 3)
        return [p, 1 - p]

    arcs: list[dict[str, Any]] = []
    for i in range(size):
        parents = sorted(draw.sample(range(max(0, i - 10), i), min(i, draw.choice((1, 1, 2)))))
        table: Any = row()
        for _ in parents:
            table = [table, row() if isinstance(table[0], float) else [row(), row()]]
        arcs.append({"name": f"p{i}", "sources": [f"X{j}" for j in parents], "targets": [f"X{i}"], "table": table})
    arcs.append({"name": "witness", "sources": [], "targets": [f"X{size - 1}"], "table": [0.99, 0.01], "beta": 3})
    variables = [{"name": f"X{i}", "values": ["no", "yes"]} for i in range(size)]
    return {"format": "dissonance.pdg", "version": 1, "variables": variables, "arcs": arcs}


@pytest.mark.parametrize("size", [37, 200])
def test_a_large_network_stays_usable(studio: Studio, page: Any, size: int) -> None:
    name = f"network{size}.json"
    (studio.folder / name).write_text(json.dumps(_network(size)))
    page.get_by_role("button", name="Open", exact=True).click()
    button = page.get_by_role("dialog").get_by_role("button", name=name)
    button.wait_for()
    button.click()
    page.locator(f"g.variable[data-name=X{size - 1}]").wait_for()
    settled(page)
    page.locator(".blame-row[data-arc=witness]").wait_for()
    assert page.locator("g.thing").count() == 2 * size + 1
    page.click(".blame-row[data-arc=witness]")
    page.get_by_label("Find a belief or a variable").fill("witn")
    assert page.locator(".blame-row").count() == 1
    before = page.text_content(NUMBER)
    page.get_by_label("β confidence", exact=True).fill("150")
    settled(page)
    assert page.text_content(NUMBER) != before
    _picture(page, f"network{size}")


@pytest.mark.parametrize(("name", "variables"), [("asia", 8), ("alarm", 37), ("andes", 223)])
def test_a_published_network_is_one_click_away_and_usable(page: Any, name: str, variables: int) -> None:
    page.get_by_role("button", name="Open", exact=True).click()
    listed = page.get_by_role("dialog").locator(".file-list button").filter(has_text=f"{name}, of")
    page.get_by_role("dialog").get_by_role("button", name="smoking.json").first.wait_for()
    if listed.count() == 0:
        pytest.skip("no library with published networks is installed: pip install pgmpy")
    listed.click()
    page.locator(".file-name").filter(has_text=name).wait_for()
    settled(page)
    assert page.locator("g.variable").count() == variables
    assert page.text_content(NUMBER) == "0"
    assert "Nobody disagrees" in page.text_content(".verdict")
    page.locator("g.variable").first.dispatch_event("click")
    page.locator(".side .value-row").first.click()
    settled(page)
    assert page.locator(".rim.observed").count() == 1
    _picture(page, f"network_{name}")


def test_names_that_are_markup_stay_text(studio: Studio, page: Any) -> None:
    evil = "<img src=x onerror=alert(1)>"
    script = "</script><script>alert(2)</script>"
    model = json.loads((ROOT / "examples" / "two-experts.json").read_text())
    model["variables"] = [{"name": evil, "values": [script, "<b>x</b>"]}]
    for arc, name in zip(model["arcs"], (script, '"><svg onload=alert(3)>'), strict=True):
        arc |= {"name": name, "targets": [evil]}
    (studio.folder / "evil.json").write_text(json.dumps(model))
    alarms: list[str] = []
    page.on("dialog", lambda d: (alarms.append(d.message), d.dismiss()))
    page.get_by_role("button", name="Open", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="evil.json").click()
    page.locator(".blame-name").get_by_text(script, exact=True).wait_for()
    settled(page)
    page.locator(".blame-row").first.click()
    page.locator("g.variable").click()
    page.locator(".side .value-row").first.click()
    settled(page)
    page.get_by_role("button", name="Add a belief about it…").click()
    assert not alarms
    assert page.locator("img, .dissonance-studio script, .dissonance-studio b >> text='x'").count() == 0


def test_without_the_token_there_is_a_sentence(studio: Studio, opened: Opener) -> None:
    page = opened(studio.address)
    page.evaluate("() => sessionStorage.clear()")
    page.reload()
    page.get_by_role("alert").wait_for()
    assert "open the address that `dissonance studio`" in page.text_content(".fatal")
    opened.forgive()  # the browser's own line on the answer 403
