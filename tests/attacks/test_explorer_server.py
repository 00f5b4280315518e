"""Whoever can connect to the explorer: slow, many, with a link or a cookie that is not theirs, under another name."""

from __future__ import annotations

import json
import resource
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.error import HTTPError

import pytest
from tests.conftest import write_photos
from tests.explore.runs import fitted
from tests.explore.serving import Server, Visitor, answering, serving

from selfsort.explore import connections
from selfsort.explore.guard import Door, Guard, Message, Receive, Send

N_FILES = 256
N_CONNECTIONS = 1000
PATIENCE = 0.5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("attacked")
    return fitted(write_photos(home / "photos"), home / "run").path


async def hello(scope: Message, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server with little patience that lets everybody in."""
    monkeypatch.setattr(connections, "REQUEST_SECONDS", PATIENCE)
    with answering(hello) as found:
        yield found


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as found:
        yield found


def until_ended(connection: socket.socket) -> bytes:
    """Return what still comes until the server ends the connection."""
    received = b""
    try:
        while block := connection.recv(65536):
            received += block
    except ConnectionResetError:
        pass
    return received


def sent_until_ended(connection: socket.socket, block: bytes, pause: float) -> int:
    """Return how often something could be sent until the server ended the connection."""
    for n_sent in range(400):
        try:
            connection.sendall(block)
        except (ConnectionResetError, BrokenPipeError):
            return n_sent
        time.sleep(pause)
    pytest.fail("the server takes whatever comes")


def status(answer: bytes) -> int:
    return int(answer.split()[1])


def asked(port: int, head: str) -> bytes:
    """Send the head of a request that is the last one of its connection."""
    with connected(port) as connection:
        connection.sendall(f"{head}connection: close\r\n\r\n".encode("latin-1"))
        return until_ended(connection)


class TestSlow:
    @pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n"])
    def test_a_head_that_does_not_end(self, port: int, said: bytes) -> None:
        with connected(port) as connection:
            connection.sendall(said)
            start = time.monotonic()
            assert until_ended(connection) == b""
            assert time.monotonic() - start > 0.8 * PATIENCE

    def test_a_head_of_which_there_is_always_a_little_more(self, port: int) -> None:
        with connected(port) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nx: ")
            assert sent_until_ended(connection, b"y", 0.05) > 1

    def test_the_head_of_a_second_request(self, port: int) -> None:
        with connected(port) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            while not connection.recv(65536).endswith(b"hello"):
                pass
            connection.sendall(b"GET / HT")
            assert until_ended(connection) == b""

    def test_a_body_that_nobody_waits_for(self, port: int) -> None:
        """After the answer, one more byte of the body made uvicorn forget how long it had waited."""
        with connected(port) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000000\r\n\r\n")
            while not connection.recv(65536).endswith(b"hello"):
                pass
            connection.sendall(b"y")
            assert until_ended(connection) == b""

    def test_others_are_answered_meanwhile(self, port: int) -> None:
        with ExitStack() as stack:
            for _ in range(50):
                stack.enter_context(connected(port)).sendall(b"GET / HTTP/1.1\r\n")
            assert asked(port, "GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n").endswith(b"hello")

    def test_who_asks_again_in_time_is_not_cut_off(self, port: int) -> None:
        with connected(port) as connection:
            for _ in range(4):
                time.sleep(0.6 * PATIENCE)
                connection.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
                while block := connection.recv(65536):
                    if block.endswith(b"hello"):
                        break
                assert block, "still connected"


def test_a_head_without_end_is_not_kept(port: int) -> None:
    with connected(port) as connection:
        sent_until_ended(connection, b"x" * 65536, 0)


def test_a_stranger_keeps_no_connection_with_a_body() -> None:
    with answering(Guard(hello, Door(80))) as port, connected(port) as connection:
        start = time.monotonic()
        connection.sendall(b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000000\r\n\r\nyyy")
        assert status(until_ended(connection)) == 403
        assert time.monotonic() - start < connections.IDLE_SECONDS


@pytest.fixture
def _many_files() -> Iterator[None]:
    """Allow this process to open the other ends of all connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = N_CONNECTIONS + 500
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("_many_files")
def test_a_thousand_connections_to_a_process_with_few_files(run: Path) -> None:
    few_files = ["sh", "-c", f'ulimit -n {N_FILES} && exec "$@"', "sh"]
    with serving(run, before=few_files) as server:
        server.enter()
        (cookie,) = server.visitor.cookies
        page = HTTPConnection("127.0.0.1", server.port, timeout=30)
        page.connect()
        page.auto_open = 0  # the same connection all the time, as of a page that is open

        def look() -> int:
            page.request("GET", "/api/clusters", headers={"cookie": f"{cookie.name}={cookie.value}"})
            with page.getresponse() as answer:
                answer.read()
                return answer.status

        flood = ExitStack()
        for i in range(N_CONNECTIONS):
            last = flood.enter_context(connected(server.port))
            assert i % 100 or look() == 200
        assert status(until_ended(last)) == 503
        with pytest.raises(HTTPError, match="503") as refused:
            server.ask("api/clusters")
        refused.value.close()
        assert look() == 200
        page.close()

        flood.close()
        assert server.ask("api/clusters")["clusters"]
        again = ExitStack()
        for _ in range(N_CONNECTIONS):
            again.enter_context(connected(server.port))
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=60) == 0
        again.close()
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, run: Path) -> Iterator[tuple[Server, Server]]:
    """Two servers of one user, who has opened the page of the first."""
    home = tmp_path_factory.mktemp("other")
    other = fitted(write_photos(home / "photos"), home / "run").path
    with serving(run) as first, serving(other) as second:
        first.enter()
        yield first, second


class TestStolen:
    """Somebody has what was theirs."""

    def refused(self, address: str, visitor: Visitor) -> str:
        with pytest.raises(HTTPError, match="403") as refusal:
            visitor.get(address)
        with refusal.value as answer:
            assert answer.headers["set-cookie"] is None
            text: str = answer.read().decode()
            return text

    def test_a_link_that_was_used(self, servers: tuple[Server, Server]) -> None:
        first, _ = servers
        for _ in range(3):
            assert "Press Enter" in self.refused(first.link, Visitor())
        assert first.ask("api/clusters"), "who has used it is not put out"

    def test_a_link_of_another_port(self, servers: tuple[Server, Server]) -> None:
        first, second = servers
        self.refused(f"{first.home}/open/{second.token}", Visitor())
        self.refused(f"{second.home}/open/{first.token}", Visitor())

    def test_cookies_of_another_port(self, servers: tuple[Server, Server]) -> None:
        first, second = servers
        # A browser sends them: they belong to the host.
        self.refused(f"{second.home}/api/clusters", first.visitor)
        (cookie,) = first.visitor.cookies
        renamed = f"{cookie.name}={cookie.value}; selfsort-{second.port}={cookie.value}"
        head = f"GET /api/clusters HTTP/1.1\r\nhost: 127.0.0.1:{second.port}\r\ncookie: {renamed}\r\n"
        assert status(asked(second.port, head)) == 403

    @pytest.mark.parametrize(
        "host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "0.0.0.0", "2130706433", ""]
    )
    def test_a_domain_that_was_made_to_point_here(self, servers: tuple[Server, Server], host: str) -> None:
        first, second = servers
        (cookie,) = first.visitor.cookies
        named = f"host: {host}:{first.port}\r\ncookie: {cookie.name}={cookie.value}\r\n"
        answer = asked(first.port, f"GET /api/names?row=0 HTTP/1.1\r\n{named}")
        assert status(answer) == 421
        assert b".png" not in answer
        assert status(asked(second.port, f"GET /open/{second.token} HTTP/1.1\r\nhost: {host}\r\n")) == 421

    @pytest.mark.parametrize("header", ["origin: http://127.0.0.1:9", "sec-fetch-site: same-site", "origin: null"])
    def test_a_page_of_another_port(self, servers: tuple[Server, Server], header: str) -> None:
        first, _ = servers
        (cookie,) = first.visitor.cookies
        body = json.dumps({"kind": "rename", "cluster": 0, "name": "stolen"})
        head = (
            f"POST /api/edits HTTP/1.1\r\nhost: 127.0.0.1:{first.port}\r\ncookie: {cookie.name}={cookie.value}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n{header}\r\n"
        )
        with connected(first.port) as connection:
            connection.sendall(f"{head}\r\n{body}".encode())
            assert status(until_ended(connection)) == 403
        assert first.ask("api/history") == []
