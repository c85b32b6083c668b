"""Nobody but the page that the server has sent is answered."""

from __future__ import annotations

from typing import Any

import pytest

from dissonance.studio.guard import POLICY, Guard

GUARD = Guard(8123)
HOME = "http://127.0.0.1:8123"


def refused(path: str, *, query: str = "", **headers: str | None) -> str | None:
    """Why the guard refuses a request of the page with these headers in place of its own; None drops one."""
    own = {"host": "127.0.0.1:8123", "origin": HOME, "x-dissonance-token": GUARD.token, "sec-fetch-site": "same-origin"}
    sent = own | {name.replace("_", "-"): value for name, value in headers.items()}
    listed = [(name.encode(), value.encode("latin-1")) for name, value in sent.items() if value is not None]
    return GUARD.refusal({"path": path, "query_string": query.encode(), "headers": listed})


def test_the_page_is_answered():
    assert refused("/api/score") is None
    assert refused("/api/score", host="localhost:8123", origin="http://localhost:8123") is None


WRONG = {
    "empty": "", "wrong": "wrong", "none": None, "shorter": GUARD.token[:-1], "longer": GUARD.token + "x",
    "not ASCII": "ü", "not ASCII, as long": "é" * 43,
}  # fmt: skip


@pytest.mark.parametrize("token", WRONG.values(), ids=WRONG)
def test_a_wrong_token_is_refused(token: str | None):
    assert "token" in (refused("/api/score", x_dissonance_token=token) or "")
    query = "" if token is None else f"token={token}"
    assert "token" in (refused("/", query=query, x_dissonance_token=None) or "")


def test_an_action_needs_the_token_in_its_header():
    cookie = GUARD.cookie().decode().partition(";")[0]
    assert refused("/app.js", cookie=cookie, x_dissonance_token=None) is None
    why = refused("/api/score", query=f"token={GUARD.token}", cookie=cookie, x_dissonance_token=None)
    assert "token" in (why or "")


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "evil.example:8123",
        "127.0.0.1",
        "127.0.0.1:8124",
        "127.0.0.1:8123.evil.example",
        "127.0.0.1:8123@evil.example",
        "0.0.0.0:8123",
        "[::1]:8123",
        "LOCALHOST:8123 ",
    ],
)
def test_another_host_is_refused(host: str | None):
    for path in ("/", "/app.js", "/api/hello"):
        assert "Host" in (refused(path, host=host) or ""), path


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        "https://127.0.0.1:8123",
        "http://127.0.0.1",
        "http://127.0.0.1:80",
        "http://127.0.0.1:8123.evil.example",
        "http://evil.example/http://127.0.0.1:8123",
        "file://",
        "",
    ],
)
def test_another_origin_is_refused(origin: str):
    for path in ("/", "/app.js", "/api/hello"):
        assert "Origin" in (refused(path, origin=origin) or ""), path


def test_an_action_needs_an_origin():
    assert "Origin" in (refused("/api/hello", origin=None) or "")
    assert refused("/", query=f"token={GUARD.token}", origin=None, x_dissonance_token=None) is None


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_an_action_of_another_site_is_refused(site: str):
    assert "Sec-Fetch-Site" in (refused("/api/hello", sec_fetch_site=site) or "")


def test_what_is_sent_twice_is_refused():
    def twice(name: bytes, *values: bytes) -> str | None:
        own: dict[bytes, tuple[bytes, ...]] = {
            b"host": (b"127.0.0.1:8123",),
            b"origin": (HOME.encode(),),
            b"x-dissonance-token": (GUARD.token.encode(),),
        }
        sent = [(n, v) for n, vs in (own | {name: values}).items() for v in vs]
        scope: dict[str, Any] = {"path": "/api/hello", "query_string": b"", "headers": sent}
        return GUARD.refusal(scope)

    assert twice(b"host", b"127.0.0.1:8123") is None
    assert twice(b"host", b"127.0.0.1:8123", b"evil.example") is not None
    assert twice(b"origin", HOME.encode(), b"http://evil.example") is not None
    assert twice(b"x-dissonance-token", GUARD.token.encode(), b"wrong") is not None


def test_every_server_has_a_token_of_its_own():
    tokens = {Guard(8123).token for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 43
    assert GUARD.token not in repr(GUARD)


def test_the_policy_lets_nothing_in_but_files_of_the_server():
    rules = dict(rule.split(" ", 1) for rule in POLICY.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert not any(word in POLICY for word in ("unsafe", "*", "http:", "https:"))
