"""What stands between the page and everybody else on this machine and on the web.

A link with a random token opens the page once: it is exchanged for a cookie, and from then on it is dead wherever it
was left (a history, a list of processes, a terminal). Without the cookie nothing is answered. A browser sends its
cookies to every port of a host, so a page of another port could ask in its name: requests that come from another page,
or that name another host (a domain made to point here), are refused whatever they carry. Every answer has a policy
under which nothing foreign can run or be sent to.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "vary": "cookie",  # or a browser would show pictures that it kept of the server which had this port before
}
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
OPEN = "/open/"
"""Where links lead."""
OTHER_PAGE = "This page does not answer to other pages. To open it, copy the link into the address bar."
NO_COOKIE = (
    "This link was used before or is not the newest, or this browser has not opened one. Each link works once. "
    "Press Enter in the terminal where selfsort explore runs, or start it again, and open the link that it prints."
)


def new_token() -> str:
    """Return 256 random bits for an address or a cookie."""
    return secrets.token_urlsafe(32)


class Door:
    """The newest link, which opens once, and the cookie for which it is exchanged."""

    def __init__(self, port: int) -> None:
        self.cookie = f"selfsort-{port}"
        """Cookies know hosts, not ports: by its name those of two servers stay apart."""
        self._secret = new_token()
        self._token: str | None = None
        self._lock = threading.Lock()  # links are asked for in one thread and opened in another

    def new_link(self) -> str:
        """Return the path of a link that opens once; the one before it is dead."""
        with self._lock:
            self._token = new_token()
            return OPEN + self._token

    def open(self, path: str) -> bool:
        """Say whether this is the path of the link, and use it up."""
        with self._lock:
            if self._token is None or not _is_same(path, OPEN + self._token):
                return False
            self._token = None
            return True

    def knows(self, cookies: str) -> bool:
        """Say whether the cookie is among those of a request."""
        pairs = (pair.strip().partition("=") for pair in cookies.split(";"))
        return any(name == self.cookie and _is_same(value, self._secret) for name, _, value in pairs)

    @property
    def set_cookie(self) -> str:
        """What a browser is told, so that it is known from then on. Never Secure: there is no https here."""
        return f"{self.cookie}={self._secret}; Path=/; HttpOnly; SameSite=Strict"


class Guard:
    """Exchanges the link for the cookie, and lets through what has the cookie and comes from here."""

    def __init__(self, app: App, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there are no sockets here to talk through

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                ours = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *ours]
            await send(message)

        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        is_link = scope["method"] == "GET" and scope["path"].startswith(OPEN)
        refusal = _refusal(scope, headers)
        if refusal is not None:
            await _answer(send_guarded, *refusal)
        elif is_link and self._door.open(scope["path"]):
            await _answer(send_guarded, 303, "", {"location": "/", "set-cookie": self._door.set_cookie})
        elif not self._door.knows(headers.get("cookie", "")):
            await _answer(send_guarded, 403, NO_COOKIE)
        elif is_link:  # a dead one, but this browser is in: it may have fetched the link twice
            await _answer(send_guarded, 303, "", {"location": "/"})
        else:
            await self._app(scope, receive, send_guarded)


def _refusal(scope: Message, headers: dict[str, str]) -> tuple[int, str] | None:
    if not _is_loopback(headers.get("host", "")):
        return 421, "This page answers to 127.0.0.1 only."
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return 403, OTHER_PAGE
    origin = headers.get("origin")
    if origin is not None and origin != f"{scope.get('scheme', 'http')}://{headers['host']}":
        return 403, OTHER_PAGE
    return None


def _is_same(given: str, expected: str) -> bool:
    """Compare in a time that does not tell how much was right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _is_loopback(host: str) -> bool:
    name, _, port = host.rpartition(":")
    return host in LOOPBACK or (name in LOOPBACK and port.isdecimal())


async def _answer(send: Send, status: int, text: str, more: Mapping[str, str] | None = None) -> None:
    # The connection ends with the answer: who is not let in cannot keep it busy with the rest of a request.
    ours = {"content-type": "text/plain; charset=utf-8", "cache-control": "no-store", "connection": "close"}
    headers = [(name.encode(), value.encode()) for name, value in {**ours, **(more or {})}.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
