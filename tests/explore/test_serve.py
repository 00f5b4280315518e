"""The real server in a process of its own: started, used, killed, started again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest
from tests.conftest import Command

from selfsort.errors import CannotWrite
from selfsort.explore.serve import listen

DIRECT = build_opener(ProxyHandler({}))


@dataclass
class Server:
    process: subprocess.Popen[str]
    address: str

    @property
    def token(self) -> str:
        return self.address.split("/")[3]

    def ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.address + path, data=data, headers={"content-type": "application/json"})
        with DIRECT.open(request) as answer:
            return json.load(answer)


@contextmanager
def serving(run: Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "selfsort", "explore", str(run), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("explore: http://127.0.0.1:"), process.communicate()
            yield Server(process, line.split()[1])
        finally:
            process.kill()


def test_a_killed_server_loses_no_confirmed_edit(run: Path) -> None:
    labels = (run / "labels.csv").read_bytes()
    with serving(run) as server:
        token = server.token
        for path in ("", "api/clusters", f"{token[:-1]}/api/clusters"):
            with pytest.raises(HTTPError, match="404") as refused:
                DIRECT.open(server.address.replace(f"{token}/", path))
            refused.value.close()
        server.ask("api/edits", {"kind": "rename", "cluster": 0, "name": "cats"})
        server.ask("api/edits", {"kind": "merge", "clusters": [0, 1], "into": 0})
        server.ask("api/edits", {"kind": "move", "rows": [3], "to": None})
        before = server.ask("api/edits", {"kind": "mark", "rows": [1, 2], "is_wrong": True})["overview"]
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    with serving(run) as server:
        assert len(server.token) >= 43
        assert server.token != token
        assert server.ask("api/clusters") == before
        assert before["n_edits"] == 4
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait() == 0, "to stop it is no failure"
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""
    assert (run / "labels.csv").read_bytes() == labels


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


def test_a_folder_that_is_no_run(selfsort: Command, tmp_path: Path) -> None:
    done = selfsort("explore", tmp_path, "--no-browser")
    assert done.code == 2
    assert "is not a run folder" in done.err


def test_without_the_extra(selfsort: Command, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = selfsort("explore", run, "--no-browser")
    assert done.code == 2
    assert 'pip install "selfsort[explore]"' in done.err
    assert not (run / "edits.sqlite").exists()


def test_the_page_is_opened_in_a_browser_unless_told_otherwise(
    selfsort: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import uvicorn

    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: os.kill(os.getpid(), 0))
    done = selfsort("explore", run)
    assert done.code == 0, done.err
    assert opened == [done.out.split()[1]]
    assert selfsort("explore", run, "--no-browser").code == 0
    assert len(opened) == 1
