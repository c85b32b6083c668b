"""The studio in a notebook, by the messages that its page sends: no browser is needed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dissonance import PDG, Arc, Attention, Control, DissonanceError, SoftmaxTable, Variable, inconsistency, load
from dissonance.studio.place import STALE

pytest.importorskip("anywidget")
EXAMPLES = Path(__file__).parents[3] / "examples"
X = Variable("X", ["no", "yes"])
Asked = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def widget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A widget of a small PDG; `widget.sent` is what the page would be sent."""
    monkeypatch.chdir(tmp_path)
    pdg = PDG(Arc("p", (), X, SoftmaxTable([0.9, 0.1])), Arc("q", (), X, [0.2, 0.8]))
    made = pdg.studio(attention=Attention(beta={"p": 2.0}), control=Control({"p": 1.0}), name="two")
    made.given = pdg
    made.sent = []
    monkeypatch.setattr(made, "send", made.sent.append)
    return made


@pytest.fixture
def ask(widget: Any) -> Asked:
    """Sends messages as the page does, and returns what comes back to the last of them, all of it."""

    def ask(action: str, **params: Any) -> list[dict[str, Any]]:
        number = len(widget.sent) + 1000
        widget._handle_custom_msg({"id": number, "action": action, "params": params}, [])
        return answers(widget, number)

    return ask


def answers(widget: Any, number: int) -> list[dict[str, Any]]:
    for _ in range(2400):  # the solver may be compiled first
        mine = [m for m in widget.sent if m["id"] == number]
        if mine and (mine[-1].keys() & {"result", "error"} or mine[-1]["event"]["kind"] in ("done", "error")):
            return mine
        time.sleep(0.05)
    raise AssertionError(f"no answer to {number}: {widget.sent}")


def test_it_shows_what_it_was_given(widget: Any):
    document = widget.document
    assert list(document) == ["name", "model", "positions", "evidence"]
    assert document["name"] == "two"
    assert [(a["beta"], a.get("control")) for a in document["model"]["arcs"]] == [(2.0, 1.0), (1.0, None)]


def test_the_bundle_is_the_one_of_the_page(widget: Any):
    assert "render" in str(widget._esm)
    assert ".dissonance-studio" in str(widget._css)


def test_actions_are_those_of_the_server(widget: Any, ask: Asked):
    (answer,) = ask("score", model=widget.document["model"])
    wanted = inconsistency(widget.given, Attention(beta={"p": 2.0})).upper
    assert answer["result"]["inconsistency"] == pytest.approx(wanted, abs=1e-9)
    (refused,) = ask("score", model={})
    assert "error" in refused and "\n" not in refused["error"]
    (unknown,) = ask("scor")
    assert "Did you mean 'score'" in unknown["error"]


def test_files_are_those_of_the_folder_of_the_notebook(widget: Any, ask: Asked, tmp_path: Path):
    ask("save", document=widget.document, file="kept.json")
    pdg, focus = load(tmp_path / "kept.json")
    assert [a.name for a in pdg.arcs] == ["p", "q"] and focus.attention.beta["p"] == 2.0
    (refused,) = ask("save", document=widget.document, file="../kept.json")
    assert "no plain file name" in refused["error"]


def test_a_run_sends_its_frames_and_can_be_cancelled(widget: Any, ask: Asked):
    sent = ask("run", model=widget.document["model"], steps=3)
    assert [m["event"]["kind"] for m in sent] == ["frame"] * 4 + ["done"]
    widget._handle_custom_msg(
        {"id": 1, "action": "run", "params": {"model": widget.document["model"], "steps": 9_000}}, []
    )
    widget._handle_custom_msg({"id": 1, "cancel": True}, [])
    assert answers(widget, 1)[-1]["event"]["cancelled"]
    widget._handle_custom_msg({"id": 1, "cancel": True}, [])  # too late, and harmless
    *_, last = ask("run", model=widget.document["model"], refocus="unifrom")
    assert last["event"]["kind"] == "error"


def test_of_the_scores_that_wait_only_the_latest_is_made(widget: Any):
    model = widget.document["model"]
    for number in range(6):
        widget._handle_custom_msg({"id": number, "action": "score", "params": {"model": model}}, [])
    assert "result" in answers(widget, 5)[0]
    found = [answers(widget, number)[0] for number in range(5)]
    assert {m["error"] for m in found if "error" in m} <= {STALE}
    assert sum("error" in m for m in found) >= 3


def test_edits_come_back_as_a_pdg(widget: Any):
    assert [a is b for a, b in zip(widget.pdg.arcs, widget.given.arcs, strict=True)] == [True, True]
    document = widget.document
    model = {**document["model"], "gamma": 0.5}
    first = {**model["arcs"][0], "beta": "inf"}
    second = {**model["arcs"][1], "table": [0.4, 0.6]}
    third = {"name": "r", "sources": ["X"], "targets": ["Y"], "table": [[1, 0], [0, 1]]}
    model["arcs"] = [first, second, third]
    model["variables"] = [*model["variables"], {"name": "Y", "size": 2}]
    widget.document = {**document, "model": model}
    pdg, attention = widget.pdg, widget.attention
    assert pdg["p"] is widget.given["p"]
    assert pdg["q"].cpd.table().tolist() == [0.4, 0.6]
    assert [v.name for v in pdg["r"].scope] == ["X", "Y"]
    assert (attention.beta["p"], attention.gamma) == (float("inf"), 0.5)
    assert dict(widget.control.chi) == {"p": 1.0}


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "dissonance.studio.widget", raising=False)
    with pytest.raises(DissonanceError, match=r"pip install 'dissonance\[notebook\]'"):
        PDG(Arc("p", (), X, [0.9, 0.1])).studio()


def test_an_unknown_arc_in_the_attention_is_an_error():
    with pytest.raises(DissonanceError, match="Did you mean 'p'"):
        PDG(Arc("p", (), X, [0.9, 0.1])).studio(control=Control({"pp": 1.0}))
