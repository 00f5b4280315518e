"""How many may be connected, and for how long one waits for them.

Anybody on this machine can connect, also who is then refused everything. So there are only so many connections that
files can still be opened beside them, and one on which nothing is asked is ended.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from selfsort.errors import CannotWrite
from selfsort.explore.guard import App

HOST = "127.0.0.1"
MAX_CONNECTIONS = 256
"""Of which a browser needs six."""
REQUEST_SECONDS = 10.0
"""How long the head of a request may take, from the connection or the answer before."""
IDLE_SECONDS = 5
"""How long a connection is kept on which nothing more is said."""
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
    b"Too many connections. Try again in a moment.\n"
)


def listen(port: int) -> Listener:
    """Open a port on the loopback interface; 0 takes any that is free."""
    listener = Listener(max_connections())
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()  # from here on a browser may come; it waits until the server is up
    except OSError as error:
        listener.close()
        raise CannotWrite(
            f"port {port} could not be opened ({error.strerror}). Expected a port that is free. "
            "Choose another --port, or leave it out."
        ) from error
    return listener


def max_connections() -> int:
    """Return how many connections there may be: at most half of the files that this process may have open."""
    try:
        import resource
    except ImportError:  # Windows counts otherwise
        return MAX_CONNECTIONS
    n_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if n_files == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, n_files // 2)


class Listener(socket.socket):
    """Takes so many connections and turns away the others.

    It is done here, because asyncio takes all that wait before it tells anybody, and when it has run out of files it
    writes a traceback every second.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self._limit = limit
        self._taken: list[socket.socket] = []

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection; one too many is answered, ended and said to be aborted."""
        connection, address = super().accept()
        self._taken = [taken for taken in self._taken if taken.fileno() >= 0]
        if len(self._taken) < self._limit:
            self._taken.append(connection)
            return connection, address
        with connection, suppress(OSError):
            connection.setblocking(False)
            connection.send(FULL)
        raise ConnectionAbortedError


class Protocol(H11Protocol):
    """Ends a connection whose next request does not come; uvicorn waits for ever for the rest of a head."""

    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        if self._end is not None:
            self._end.cancel()

    def _wait(self) -> None:
        if self._end is not None:
            self._end.cancel()
        self._end = self.loop.call_later(REQUEST_SECONDS, self._end_if_waiting)

    def _end_if_waiting(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def configure(app: App) -> uvicorn.Config:
    """Return how the server runs; its loop is the one of Python, which asks the listener for connections."""
    return uvicorn.Config(
        app,
        http=Protocol,
        loop="asyncio",
        ws="none",
        timeout_keep_alive=IDLE_SECONDS,
        limit_concurrency=MAX_CONNECTIONS + 1,  # only met where the listener is not asked, on Windows
        log_level="error",
        access_log=False,
        server_header=False,
    )
