"""What stands between the page and everybody else on this machine and on the web.

Every address begins with a random token, so only who was given the address can ask anything: another user of the
machine, or a web page open in the same browser, cannot. Requests that name another host (a domain made to point here)
or come from another page are refused as well, and every answer carries a policy under which nothing foreign can run or
be sent to.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
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
}
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def new_token() -> str:
    """Return 256 random bits for an address."""
    return secrets.token_urlsafe(32)


class Guard:
    """Lets through what knows the token and comes from here, and hides where the token is from the app behind it."""

    def __init__(self, app: App, token: str) -> None:
        self._app = app
        self._token = token.encode()

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

        refusal = self._refusal(scope)
        if refusal is not None:
            await _answer(send_guarded, *refusal)
            return
        prefix = f"/{self._token.decode()}"
        inner = {**scope, "root_path": prefix}
        await self._app(inner, receive, send_guarded)

    def _refusal(self, scope: Message) -> tuple[int, str] | None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if not _is_loopback(headers.get("host", "")):
            return 421, "This page answers to 127.0.0.1 only."
        first, slash, _ = scope["path"].encode("utf-8", "replace").lstrip(b"/").partition(b"/")
        if not slash or not hmac.compare_digest(first, self._token):
            return 404, "Nothing here. Use the address that selfsort explore printed."
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "This page does not answer to other pages."
        origin = headers.get("origin")
        if origin is not None and origin != f"{scope.get('scheme', 'http')}://{headers['host']}":
            return 403, "This page does not answer to other pages."
        return None


def _is_loopback(host: str) -> bool:
    name, _, port = host.rpartition(":")
    return host in LOOPBACK or (name in LOOPBACK and port.isdecimal())


async def _answer(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
