"""Which requests are answered: only those of the page that this server has sent, in the browser of its user.

Every request must name this server as its host (another name for 127.0.0.1 is an attack, DNS rebinding), must not come
from a page of another site (its Origin), and must carry the token that was in the address. A page is told by headers
that it may load nothing from elsewhere and run no script but its own file.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

Scope = Mapping[str, Any]

HEADER = b"x-dissonance-token"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-embedder-policy", b"require-corp"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"cache-control", b"no-store"),
)
"""Of every response."""


@dataclass(frozen=True)
class Guard:
    """The port of the server, and the token of whoever started it."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names that a browser may have for this server in its Host header."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    def cookie(self) -> bytes:
        """What lets the browser that has opened the address fetch the files of the page."""
        return f"{self._cookie_name}={self.token}; HttpOnly; SameSite=Strict; Path=/".encode()

    def refusal(self, scope: Scope) -> str | None:
        """Why a request is refused; None if it is not."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        named = [value for name, value in headers if name == b"host"]
        if len(named) != 1 or named[0].decode("latin-1") not in self.hosts:
            return "this server is not what the request takes it for (Host)."
        asks = scope["path"].startswith("/api/")
        origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
        allowed = [f"http://{host}" for host in self.hosts]
        if any(o not in allowed for o in origins) or (asks and len(origins) != 1):
            return "requests of other sites are not answered (Origin)."
        site = [value for name, value in headers if name == b"sec-fetch-site"]
        if asks and any(s != b"same-origin" for s in site):
            return "requests of other sites are not answered (Sec-Fetch-Site)."
        given = self._in_header(headers) if asks else self._in_address(scope) or self._in_cookie(headers)
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return "the token is missing or wrong: open the address that `dissonance studio` has printed."
        return None

    @property
    def _cookie_name(self) -> str:
        return f"dissonance-{self.port}"  # cookies do not keep ports apart

    def _in_header(self, headers: list[tuple[bytes, bytes]]) -> str:
        found = [value.decode("latin-1") for name, value in headers if name == HEADER]
        return found[0] if len(found) == 1 else ""

    def _in_address(self, scope: Scope) -> str:
        found = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        return found[0] if len(found) == 1 else ""

    def _in_cookie(self, headers: list[tuple[bytes, bytes]]) -> str:
        pairs = [p for name, value in headers if name == b"cookie" for p in value.decode("latin-1").split(";")]
        found = [
            value.strip() for name, _, value in (p.partition("=") for p in pairs) if name.strip() == self._cookie_name
        ]
        return found[0] if len(found) == 1 else ""
