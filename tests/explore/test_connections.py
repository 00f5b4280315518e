from __future__ import annotations

import resource
import socket
from contextlib import ExitStack

import pytest

from selfsort.errors import CannotWrite
from selfsort.explore.connections import Listener, listen, max_connections


def test_only_this_machine_can_connect() -> None:
    with listen(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_a_port_that_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(CannotWrite, match=rf"port {port} could not be opened .+ Choose another --port"):
            listen(port)


@pytest.mark.parametrize(
    ("n_files", "expected"), [(64, 32), (256, 128), (1024, 256), (10**6, 256), (resource.RLIM_INFINITY, 256)]
)
def test_connections_leave_room_for_files(n_files: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (n_files, resource.RLIM_INFINITY))
    assert max_connections() == expected


def test_where_files_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "resource", None)
    assert max_connections() == 256


def test_one_too_many_is_told_so_and_makes_no_place() -> None:
    with Listener(2) as listener, ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection(listener.getsockname()))

        visitors = [connect() for _ in range(3)]
        first, second = listener.accept()[0], stack.enter_context(listener.accept()[0])
        with pytest.raises(ConnectionAbortedError):
            listener.accept()
        assert visitors[2].recv(1000).startswith(b"HTTP/1.1 503 ")
        assert visitors[2].recv(1000) == b"", "and ended"
        first.close()
        connect()
        again = stack.enter_context(listener.accept()[0])
        assert {again.fileno(), second.fileno()} == {s.fileno() for s in listener._taken}
