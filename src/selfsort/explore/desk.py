"""What the page shows: a finished run, one that still goes on and is read again now and then, or none yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from selfsort.errors import InvalidInput, SelfsortError
from selfsort.explore.editor import Editor
from selfsort.explore.pictures import Pictures

State = Literal["starting", "running", "stopped", "finished"]

_LOOK_EVERY = 1.0
"""Seconds between two looks at a run that is not finished."""


class Desk:
    """A run on its way to be finished. Every method may be called from any thread."""

    def __init__(self, editor: Editor | None, pictures: Pictures | None, line: Callable[[], str] | None = None) -> None:
        self._editor, self._pictures = editor, pictures
        self._line = line
        self._lock = threading.Lock()
        self._seen = self._sign()
        self._looked_at = time.monotonic()
        self.version = 0
        """Counts how often the run was read again."""

    @classmethod
    def open(cls, run: Path) -> Desk:
        """Open a run, finished or not."""
        editor = Editor.open(run)
        try:
            return cls(editor, Pictures.open(editor.folder, editor.table.names))
        except BaseException:
            editor.close()
            raise

    def show(self, run: Path) -> None:
        """Show a run that has just been begun, or made from the one shown before."""
        opened = Desk.open(run)
        with self._lock:
            if self._editor is not None:
                self._editor.close()
            self._editor, self._pictures, self._seen = opened._editor, opened._pictures, opened._seen
            self.version += 1

    def close(self) -> None:
        """Let go of the edits."""
        if self._editor is not None:
            self._editor.close()

    @property
    def editor(self) -> Editor:
        """The run as it is now."""
        self.look()
        if self._editor is None:
            raise InvalidInput("the images are still being read. Expected a run. Wait a little.")
        return self._editor

    @property
    def pictures(self) -> Pictures:
        """Its pictures."""
        if self._pictures is None:
            raise InvalidInput("the images are still being read. Expected a run. Wait a little.")
        return self._pictures

    @property
    def state(self) -> State:
        """How far the run is."""
        self.look()
        editor = self._editor
        if editor is None:
            return "starting"
        if editor.is_finished:
            return "finished"
        return "running" if self._line is not None or editor.folder.is_worked_on else "stopped"

    @property
    def line(self) -> str:
        """What is being done, in words; empty if nobody here knows."""
        return "" if self._line is None else self._line()

    def look(self) -> None:
        """Read a run that is not finished again, if there is something new."""
        with self._lock:
            editor, now = self._editor, time.monotonic()
            if editor is None or editor.is_finished or now - self._looked_at < _LOOK_EVERY:
                return
            self._looked_at = now
            sign = self._sign()
            if sign == self._seen:
                return
            try:
                opened = Editor.open(editor.folder.path)
            except SelfsortError:  # it is being written, or another server has it: later, or as it was
                return
            self._editor, self._seen = opened, sign
            self.version += 1

    def _sign(self) -> tuple[float, ...]:
        """Return what changes when the run has something new to show."""
        if self._editor is None:
            return ()
        path = self._editor.folder.path
        return tuple(_changed_at(path / name) for name in ("labels.csv", "resume/labels.npy"))


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
