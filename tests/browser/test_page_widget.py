"""The bundle as a widget of notebooks: the same page over messages, whose edits come back."""

from __future__ import annotations

import json

from browsing import NUMBER, ROOT, Opener, Studio

RENDER = """async ([document_, token]) => {
  const listeners = new Map();
  const model = {
    sent: [], kept: document_, saved: 0,
    get: () => model.kept,
    set: (name, value) => { model.kept = value; },
    save_changes: () => { model.saved += 1; },
    on: (name, listener) => listeners.set(name, listener),
    off: (name) => listeners.delete(name),
    async send({id, action, params}) {
      model.sent.push(action);
      const headers = {"Content-Type": "application/json", "X-Dissonance-Token": token};
      const answer = await fetch(`api/${action}`, {method: "POST", headers, body: JSON.stringify(params)});
      const tell = listeners.get("msg:custom");
      if (action !== "run") return tell(answer.ok ? {id, result: await answer.json()} : {id, error: "refused"});
      const lines = (await answer.text()).split("\\n").filter((line) => line.startsWith("data: "));
      for (const line of lines) tell({id, event: JSON.parse(line.slice(6))});
    },
  };
  window.widgetModel = model;
  const {default: widget} = await import("/app.js");
  document.getElementById("dissonance-studio-page").remove();
  const place = document.createElement("main");
  place.append(Object.assign(document.createElement("h1"), {textContent: "A notebook"}));
  document.body.append(place);
  window.endWidget = await widget.render({model, el: place});
}"""


def test_a_widget_scores_runs_and_gives_edits_back(studio: Studio, opened: Opener) -> None:
    page = opened(studio.address)
    model = json.loads((ROOT / "examples" / "two-experts.json").read_text())
    document = {"name": "two experts", "model": model, "positions": {}, "evidence": {}}
    token = studio.address.partition("token=")[2]
    page.evaluate(RENDER, [document, token])
    page.locator(".embedded .blame-row[data-arc=farmer]").wait_for()
    page.locator(".embedded .gauge:not(.stale)").wait_for()
    first = page.text_content(NUMBER)
    page.click(".blame-row[data-arc=farmer]")
    page.get_by_label("β confidence, as a number").fill("4")
    page.locator(".embedded .gauge:not(.stale)").wait_for()
    assert page.text_content(NUMBER) != first
    page.locator(".player summary").click()
    page.get_by_label("steps").fill("2")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".lane-state").filter(has_text="done: 2 steps").wait_for()
    kept = page.evaluate("() => widgetModel.kept")
    assert kept["model"]["arcs"][1]["beta"] == 4
    assert page.evaluate("() => widgetModel.saved") >= 1
    assert "keep" not in page.evaluate("() => widgetModel.sent")  # a notebook keeps its own work
    page.evaluate("() => endWidget()")
