"""`selfsort explore`: open a run, listen on this machine alone, open the page, wait until stopped."""

from __future__ import annotations

import socket
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from selfsort.errors import CannotWrite, missing_extra

HOST = "127.0.0.1"


def serve(run: Path, *, port: int, is_browser_wanted: bool, say: Callable[[str], None]) -> None:
    """Serve the page of one run until the process is asked to stop."""
    try:
        import fastapi  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise missing_extra("fastapi and uvicorn", "selfsort explore", "explore") from error
    from selfsort.explore.app import create_app
    from selfsort.explore.editor import Desk
    from selfsort.explore.guard import Guard, new_token
    from selfsort.explore.pictures import Pictures

    desk = Desk.open(run)
    try:
        pictures = Pictures.open(desk.folder, desk.table.names)
        token = new_token()
        guarded = Guard(create_app(desk, pictures), token)
        with listen(port) as listener:
            address = f"http://{HOST}:{listener.getsockname()[1]}/{token}/"
            config = uvicorn.Config(guarded, log_level="error", access_log=False, server_header=False, ws="none")
            if pictures.note is not None:
                say(pictures.note)
            say(f"explore: {address}")
            say("Only who has this address can see the page. Edits are kept at once; stop with Ctrl-C.")
            if is_browser_wanted:
                webbrowser.open(address)
            with suppress(KeyboardInterrupt):  # how this command is meant to end
                uvicorn.Server(config).run(sockets=[listener])
    finally:
        desk.close()


def listen(port: int) -> socket.socket:
    """Open a port on the loopback interface; 0 takes any that is free."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
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
