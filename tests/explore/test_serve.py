"""The real server in a process of its own: started, used, killed, started again."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError

import pytest
from tests.conftest import Command
from tests.explore.serving import Visitor, serving

from selfsort.explore.serve import _at_each_line


def test_a_killed_server_loses_no_confirmed_edit(run: Path) -> None:
    labels = (run / "labels.csv").read_bytes()
    with serving(run) as server:
        token = server.token
        for path in ("", "api/clusters", f"open/{token[:-1]}"):
            with pytest.raises(HTTPError, match="403") as refused:
                server.ask(path)
            refused.value.close()
        server.enter()
        server.ask("api/edits", {"kind": "rename", "cluster": 0, "name": "cats"})
        server.ask("api/edits", {"kind": "merge", "clusters": [0, 1], "into": 0})
        server.ask("api/edits", {"kind": "move", "rows": [3], "to": None})
        before = server.ask("api/edits", {"kind": "mark", "rows": [1, 2], "is_wrong": True})["overview"]
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    with serving(run) as server:
        assert len(server.token) >= 43
        assert server.token != token
        server.enter()
        assert server.ask("api/clusters") == before
        assert before["n_edits"] == 4
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait() == 0, "to stop it is no failure"
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""
    assert (run / "labels.csv").read_bytes() == labels


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


class Terminal:
    """The command as it runs in a terminal: typed into, and read from."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._shown = ""

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def links(self, n: int, seconds: float = 60) -> list[str]:
        """Wait for so many links and return all that were printed."""
        end = time.monotonic() + seconds
        while len(self._found()) < n and time.monotonic() < end:
            if select.select([self._master], [], [], 0.1)[0]:
                self._shown += os.read(self._master, 4096).decode()
        return self._found()

    def _found(self) -> list[str]:
        return re.findall(r"explore: (http\S+)\r\n", self._shown)


# Becomes the leader of a session with that terminal, and starts the command in front of it or behind.
IN_SESSION = """
import fcntl, os, signal, subprocess, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
command = subprocess.Popen(sys.argv[2:], process_group=0 if sys.argv[1] == "background" else None)
signal.signal(signal.SIGHUP, lambda *_: command.kill())
command.wait()
"""


@contextmanager
def terminal(run: Path, place: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "selfsort", "explore", str(run), "--no-browser"]
    with subprocess.Popen([sys.executable, "-c", IN_SESSION, place, *command], stdin=slave, stdout=slave, stderr=slave):
        try:
            yield Terminal(master)
        finally:
            os.close(slave)
            os.close(master)  # hangs up


def test_enter_prints_a_fresh_link(run: Path) -> None:
    with terminal(run, "foreground") as shown:
        shown.links(1)
        for keys in ("\n", "abc\n", "\x04"):  # the last is Ctrl-D, which must not end the listening
            shown.type(keys)
        assert len(shown.links(3)) == 3
        time.sleep(0.2)
        shown.type("\n")
        links = shown.links(4)
        assert len(set(links)) == 4
        for dead in links[:3]:
            with pytest.raises(HTTPError, match="403") as refused:
                Visitor().get(dead)
            refused.value.close()
        visitor = Visitor()
        assert b"selfsort" in visitor.get(links[3])
        assert [cookie.name for cookie in visitor.cookies] == [f"selfsort-{links[0].split(':')[2].partition('/')[0]}"]


def test_in_the_background_it_is_not_stopped_for_listening(run: Path) -> None:
    with terminal(run, "background") as shown:
        (link,) = shown.links(1)
        time.sleep(0.5)
        assert b"selfsort" in Visitor().get(link)


def test_without_a_terminal_enter_is_not_offered(run: Path) -> None:
    with serving(run) as server:
        assert server.process.stdout is not None
        said = server.process.stdout.readline()
        assert "once" in said
        assert "Enter" not in said


def test_a_terminal_that_is_gone_keeps_nothing_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[bytes | OSError] = [b"", OSError(5, "gone"), b"\n", b""]
    done: list[str] = []

    def read(terminal: int, n: int) -> bytes:
        if not answers:
            raise SystemExit
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr("os.read", read)
    monkeypatch.setattr("time.sleep", lambda seconds: done.append(f"slept {seconds}"))

    def listen() -> None:  # in a thread, because it changes what may stop the thread
        with suppress(SystemExit):
            _at_each_line(0, lambda: done.append("link"))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert done == ["slept 1", "slept 1", "link", "slept 1"]
