"""The server: what it answers, what it refuses, and what becomes of work that is dropped or dies."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from dissonance.studio import lanes, server
from dissonance.studio.guard import HEADERS, Guard
from dissonance.studio.lanes import DIED
from dissonance.studio.place import STALE, StudioPlace
from dissonance.studio.server import Server

EXAMPLES = Path(__file__).parents[3] / "examples"
MODEL = json.loads((EXAMPLES / "smoking.json").read_text())
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


class Page:
    """Asks as the page does."""

    def __init__(self, client: httpx.Client, app: Server) -> None:
        self.client, self.app = client, app
        self.headers = {"origin": str(client.base_url).rstrip("/"), "x-dissonance-token": app.guard.token}

    def post(self, action: str, params: Any = None, **headers: str) -> Any:
        return self.client.post(f"/api/{action}", json=params or {}, headers=self.headers | headers)

    def do(self, action: str, **params: Any) -> Any:
        response = self.post(action, params)
        assert response.status_code == 200, response.text
        return response.json()

    def events(self, action: str, **params: Any) -> Iterator[Any]:
        with self.client.stream("POST", f"/api/{action}", json=params, headers=self.headers) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            for line in response.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page of a studio in a folder of its own."""
    folder = tmp_path_factory.mktemp("studio")
    (folder / "smoking.json").write_text(json.dumps(MODEL))
    listening = socket.create_server(("127.0.0.1", 0))
    guard = Guard(listening.getsockname()[1])
    app = Server(StudioPlace(folder, str(folder / "smoking.json")), guard)
    served = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=served.run, args=([listening],))
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{guard.port}", timeout=150) as client:
            yield Page(client, app)
    finally:
        served.should_exit = True
        thread.join()
        listening.close()


def test_the_page_and_its_files_are_served_to_whoever_has_the_address(page: Page):
    for name in ("/", "/app.js", "/app.css"):
        assert page.client.get(name).status_code == 403
    opened = page.client.get("/", params={"token": page.app.guard.token})
    assert opened.status_code == 200
    assert "<script" in opened.text and page.app.guard.token not in opened.text
    assert "HttpOnly; SameSite=Strict" in opened.headers["set-cookie"]
    for name in ("/", "/app.js", "/app.css"):  # the client keeps the cookie
        assert page.client.get(name).status_code == 200
    for name in ("/index.py", "/..%2fserver.py", "/server.py", "/api", "/page/app.js", "/%2e%2e/guard.py"):
        assert page.client.get(name).status_code in (404, 405), name
    page.client.cookies.clear()


def test_every_response_carries_the_policy(page: Page):
    token = {"token": page.app.guard.token}
    refusals = [
        page.client.get("/"),
        page.client.get("/none", params=token),
        page.client.get("/api/score", params=token),
    ]
    for response in (page.post("hello"), page.client.get("/", params=token), *refusals):
        for name, value in HEADERS:
            assert response.headers.get_list(name.decode()) == [value.decode()], (response.status_code, name)
    page.client.cookies.clear()


@pytest.mark.parametrize(
    "headers",
    [
        {"x-dissonance-token": "wrong"},
        {"host": "evil.example"},
        {"host": "evil.example:80"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ],
    ids=lambda h: "=".join(*h.items()),
)
def test_strangers_are_refused_and_nothing_is_written(page: Page, headers: dict[str, str]):
    params = {"document": {"name": "x", "model": MODEL}, "file": "stolen.json"}
    refused = page.post("save", params, **headers)
    assert refused.status_code == 403
    assert list(refused.json()) == ["error"]
    assert "stolen.json" not in page.do("hello")["files"]


def test_only_json_that_is_posted_is_an_action(page: Page):
    assert page.client.get("/api/hello", headers=page.headers).status_code in (403, 405)
    form = page.client.post("/api/hello", data={"a": "b"}, headers=page.headers)
    assert form.status_code == 415
    text = page.client.post("/api/hello", content=b"{}", headers=page.headers | {"content-type": "text/plain"})
    assert text.status_code == 415


def test_what_is_wrong_is_said_in_one_line(page: Page):
    for action, params in (("score", {"model": {}}), ("open", {"file": "../x.json"}), ("nothing", {})):
        response = page.post(action, params)
        assert response.status_code == 422
        assert list(response.json()) == ["error"]
        assert "\n" not in response.json()["error"]


def test_a_body_that_is_too_large_is_refused_while_it_is_read(page: Page, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server, "MAX_BODY", 10_000)
    headers = page.headers | {"content-type": "application/json"}
    parts = (b" " * 1000 for _ in range(1000))  # of no length that is known beforehand
    assert page.client.post("/api/hello", content=parts, headers=headers).status_code == 413
    assert page.post("hello").status_code == 200


def test_scripts_in_names_stay_text(page: Page):
    model = {
        "format": "dissonance.pdg",
        "version": 1,
        "variables": [{"name": SCRIPT, "values": [SCRIPT, "b"]}],
        "arcs": [
            {"name": SCRIPT, "targets": [SCRIPT], "table": [0.9, 0.1]},
            {"name": "q", "targets": [SCRIPT], "table": [0.2, 0.8]},
        ],
    }
    document = {"name": SCRIPT, "model": model}
    for kind in ("svg", "html"):
        made = page.do("export", document=document, kind=kind)
        assert "<script>alert" not in made["text"] and "<img" not in made["text"], kind
        assert made["filename"] == f"script-alert-1---script--img src-x onerror-alert-1.{kind}"
    answer = page.post("score", {"model": model})
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()["marginals"]) == {SCRIPT}
    named = [g["name"] for g in page.do("layout", model=model)["groups"]]
    assert SCRIPT in named


def test_a_run_is_streamed_and_ends_with_the_model(page: Page):
    events = [e for e in page.events("run", model=MODEL, steps=3, seed=5) if e["kind"] != "waiting"]
    assert [e["kind"] for e in events] == ["frame"] * 4 + ["done"]
    assert [e["step"] for e in events[:-1]] == [0, 1, 2, 3]


def test_a_run_that_cannot_be_is_an_event_of_its_stream(page: Page):
    *_, last = page.events("run", model=MODEL, refocus="unifrom")
    assert last["kind"] == "error"
    assert "Did you mean 'uniform'" in last["error"]


def test_a_killed_worker_is_a_message_and_a_new_worker(page: Page, monkeypatch: pytest.MonkeyPatch):
    assert page.do("score", model=MODEL)
    first = page.app.answers.process_id
    assert first is not None
    os.kill(first, signal.SIGSTOP)  # so that it is at work when it dies

    submit, submitted = page.app.answers.submit, list[Any]()
    monkeypatch.setattr(page.app.answers, "submit", lambda r: (submit(r), submitted.append(r)))

    def kill() -> None:
        while not submitted or not submitted[0].begun:
            time.sleep(0.01)
        os.kill(first, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    died = page.post("score", {"model": MODEL})
    killer.join()
    assert died.status_code == 500
    assert died.json() == {"error": DIED.decode()}
    assert page.do("score", model=MODEL)["inconsistency"] == pytest.approx(0.1052467401)
    assert page.app.answers.process_id not in (None, first)


def test_a_worker_that_dies_while_nobody_waits_is_not_missed(page: Page):
    page.do("score", model=MODEL)
    first = page.app.answers.process_id
    assert first is not None
    os.kill(first, signal.SIGKILL)
    while page.app.answers.alive:
        time.sleep(0.01)
    assert page.do("score", model=MODEL)["converged"]
    assert page.app.answers.process_id != first


def test_two_pages_are_answered_side_by_side(page: Page):
    wanted = page.do("score", model=MODEL)["inconsistency"]
    other = MODEL | {"arcs": MODEL["arcs"][:2]}
    found: dict[int, Any] = {}

    def ask(i: int) -> None:
        found[i] = page.do("score", model=MODEL if i % 2 else other)["inconsistency"]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    run = [e["kind"] for e in page.events("run", model=MODEL, steps=2)]
    for t in threads:
        t.join()
    assert run[-1] == "done"
    assert {found[i] for i in (1, 3, 5, 7)} == {wanted}
    assert len({found[i] for i in (0, 2, 4, 6)}) == 1 and found[0] != wanted


def in_line(page: Page, monkeypatch: pytest.MonkeyPatch, count: int, **headers: str) -> list[Any]:
    """Answers to scores that stand in line one after the other while the worker does not move."""
    worker, submit = page.app.answers.process_id, page.app.answers.submit
    assert worker is not None
    os.kill(worker, signal.SIGSTOP)
    found: list[Any] = [None] * count
    submitted: list[Any] = []
    monkeypatch.setattr(page.app.answers, "submit", lambda r: (submit(r), submitted.append(r)))

    def ask(i: int) -> None:
        found[i] = page.post("score", {"model": MODEL | {"gamma": 0.01 * i}}, **headers)

    threads: list[threading.Thread] = []
    for i in range(count):
        threads.append(threading.Thread(target=ask, args=(i,)))
        threads[-1].start()
        while len(submitted) <= i or not submitted[0].begun:
            time.sleep(0.01)
    os.kill(worker, signal.SIGCONT)
    for t in threads:
        t.join()
    return found


def test_of_the_scores_of_a_tab_that_wait_only_the_latest_is_made(page: Page, monkeypatch: pytest.MonkeyPatch):
    page.do("score", model=MODEL)
    found = in_line(page, monkeypatch, 4, **{"x-dissonance-tab": "1"})
    assert [r.status_code for r in found] == [200, 422, 422, 200]
    assert found[1].json() == {"error": STALE}
    assert found[3].json()["gamma"] == 0.03
    assert [r.status_code for r in in_line(page, monkeypatch, 3)] == [200, 200, 200]


def test_a_run_that_is_closed_makes_room_for_the_next(page: Page):
    events = page.events("run", model=MODEL, steps=10_000, refocus="partial", seed=1)
    assert any(e["kind"] == "frame" for e in events)
    before = page.app.runs.process_id
    events.close()  # pyright: ignore[reportAttributeAccessIssue]
    kinds = [e["kind"] for e in page.events("run", model=MODEL, steps=1)]
    assert kinds[-1] == "done"
    assert page.app.runs.process_id == before  # it was asked to stop, and did


def test_work_that_does_not_stop_is_killed_when_nobody_waits_for_it(page: Page, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lanes, "GRACE", 0.2)
    page.do("score", model=MODEL)
    stuck = page.app.answers.process_id
    assert stuck is not None
    os.kill(stuck, signal.SIGSTOP)
    with pytest.raises(httpx.ReadTimeout):
        page.client.post("/api/score", json={"model": MODEL}, headers=page.headers, timeout=httpx.Timeout(60, read=0.5))
    assert page.do("score", model=MODEL)["converged"]
    assert page.app.answers.process_id not in (None, stuck)


def test_a_model_of_too_many_cells_is_refused_and_the_worker_lives(page: Page):
    page.do("score", model=MODEL)
    before = page.app.answers.process_id
    variables = [{"name": n, "size": 10**6} for n in "XY"]
    huge = {"format": "dissonance.pdg", "version": 1, "variables": variables}
    refused = page.post("score", {"model": huge | {"arcs": [{"name": "p", "targets": ["X", "Y"], "table": []}]}})
    assert refused.status_code == 422
    assert "1,000,000,000,000 cells" in refused.json()["error"]
    assert page.app.answers.process_id == before
