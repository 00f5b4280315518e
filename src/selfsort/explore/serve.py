"""`selfsort explore`: open a run, listen on this machine alone, open the page, wait until stopped."""

from __future__ import annotations

import os
import signal
import sys
import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread

from selfsort.errors import missing_extra


def serve(run: Path, *, port: int, is_browser_wanted: bool, say: Callable[[str], None]) -> None:
    """Serve the page of one run until the process is asked to stop."""
    try:
        import fastapi  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise missing_extra("fastapi and uvicorn", "selfsort explore", "explore") from error
    from selfsort.explore.app import create_app
    from selfsort.explore.connections import HOST, configure, listen
    from selfsort.explore.editor import Editor
    from selfsort.explore.guard import Door, Guard
    from selfsort.explore.pictures import Pictures

    editor = Editor.open(run)
    try:
        pictures = Pictures.open(editor.folder, editor.table.names)
        with listen(port) as listener:
            port = listener.getsockname()[1]
            door = Door(port)
            config = configure(Guard(create_app(editor, pictures), door))

            def new_address() -> str:
                address = f"http://{HOST}:{port}{door.new_link()}"
                say(f"explore: {address}")
                return address

            if pictures.note is not None:
                say(pictures.note)
            address = new_address()
            is_terminal = sys.stdin is not None and sys.stdin.isatty()
            more = "; press Enter here for another" if is_terminal else ""
            say(f"The link opens the page in one browser, once{more}. Edits are kept at once; stop with Ctrl-C.")
            if is_terminal:
                Thread(target=_at_each_line, args=(sys.stdin.fileno(), new_address), daemon=True).start()
            if is_browser_wanted:
                webbrowser.open(address)
            with suppress(KeyboardInterrupt):  # how this command is meant to end
                uvicorn.Server(config).run(sockets=[listener])
    finally:
        editor.close()


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
