"""`selfsort explore`: open a run, listen on this machine alone, open the page, wait until stopped."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from selfsort.errors import missing_extra

if TYPE_CHECKING:
    import uvicorn

    from selfsort.explore.desk import Desk


def serve(run: Path, *, port: int, is_browser_wanted: bool, say: Callable[[str], None]) -> None:
    """Serve the page of one run until the process is asked to stop."""
    require_extra("selfsort explore")
    from selfsort.explore.desk import Desk

    desk = Desk.open(run)
    try:
        if desk.pictures.note is not None:
            say(desk.pictures.note)
        if desk.state != "finished":
            say("This run is not finished: it can be looked at as far as it is, and not changed.")
        with listening_at(desk, port, say) as (server, listener, address):
            is_terminal = sys.stdin is not None and sys.stdin.isatty()
            more = "; press Enter here for another" if is_terminal else ""
            opened = address()
            say(f"The link opens the page in one browser, once{more}. Edits are kept at once; stop with Ctrl-C.")
            if is_terminal:
                Thread(target=_at_each_line, args=(sys.stdin.fileno(), address), daemon=True).start()
            if is_browser_wanted:
                webbrowser.open(opened)
            with suppress(KeyboardInterrupt):  # how this command is meant to end
                server.run(sockets=[listener])
    finally:
        desk.close()


def require_extra(purpose: str) -> None:
    """Raise if what the page needs is not installed."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise missing_extra("fastapi and uvicorn", purpose, "explore") from error


@contextmanager
def listening_at(
    desk: Desk, port: int, say: Callable[[str], None]
) -> Iterator[tuple[uvicorn.Server, socket.socket, Callable[[], str]]]:
    """Take a port, and give a server for it that does not run yet and what makes and says an address."""
    import uvicorn

    from selfsort.explore.app import create_app
    from selfsort.explore.connections import HOST, configure, listen
    from selfsort.explore.guard import Door, Guard

    with listen(port) as listener:
        taken = listener.getsockname()[1]
        door = Door(taken)

        def new_address() -> str:
            address = f"http://{HOST}:{taken}{door.new_link()}"
            say(f"explore: {address}")
            return address

        yield uvicorn.Server(configure(Guard(create_app(desk), door))), listener, new_address


@contextmanager
def beside(desk: Desk, say: Callable[[str], None], *, is_browser_wanted: bool) -> Iterator[None]:
    """Serve a page from a thread of its own while a block runs."""
    with listening_at(desk, 0, say) as (server, listener, address):
        thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        opened = address()
        if not (is_browser_wanted and webbrowser.open(opened)):
            say("Open this link in a browser to watch, and to name and correct the groups afterwards.")
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(timeout=10)
            desk.close()


def _at_each_line(terminal: int, act: Callable[[], object]) -> None:
    """Do something whenever Enter is pressed in a terminal, as long as the process lives."""
    if sys.platform != "win32":  # a job in the background that reads is refused then; otherwise it would be stopped
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTIN})
    while True:
        try:
            typed = os.read(terminal, 1024)  # not through sys.stdin, which must not be waited for at the end
        except OSError:
            typed = b""
        if typed:
            act()
        else:  # in the background, Ctrl-D, or the terminal is gone
            time.sleep(1)
