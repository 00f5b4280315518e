"""`Learn from my corrections`: the stage `corrections` in a thread of its own, and then the run that it has made."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

from selfsort.errors import InvalidInput, SelfsortError
from selfsort.explore.desk import Desk
from selfsort.overall import Overall
from selfsort.progress import listening
from selfsort.runs.folder import RunFolder
from selfsort.text import plural

Progress = Literal["none", "running", "failed", "done"]


@dataclass(frozen=True)
class Lesson:
    """How far the learning is."""

    state: Progress
    line: str
    """What is being done, why it failed, or what has changed, in words."""


class Learner:
    """Makes one run after the other from the one on the desk. Every method may be called from any thread."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._lock = desk, threading.Lock()
        self._lesson = Lesson("none", "")
        self._overall = Overall()

    def begin(self) -> Lesson:
        """Start to learn; the run on the desk can be looked at meanwhile."""
        editor = self._desk.editor
        editor.require_finished()
        with self._lock:
            if self._lesson.state == "running":
                raise InvalidInput("it is learning already. Expected one lesson at a time. Wait for its end.")
            self._lesson, self._overall = Lesson("running", ""), Overall()
        threading.Thread(target=self._learn, args=(editor.folder,), daemon=True).start()
        return self.lesson()

    def lesson(self) -> Lesson:
        """Say how far it is."""
        with self._lock:
            lesson = self._lesson
            return Lesson("running", self._overall.line()) if lesson.state == "running" else lesson

    def _learn(self, folder: RunFolder) -> None:
        from selfsort.runs.corrections import learn_corrections  # needs torch, as nothing else here does

        try:
            with listening(self._overall):
                made = learn_corrections(folder)
            self._desk.show(made.folder.path)
            text = (
                f"{plural(made.n_changed, 'further picture')} went with what you put right. This is {made.folder.path}."
            )
            found = Lesson("done", text)
        except SelfsortError as error:
            found = Lesson("failed", str(error))
        except Exception as error:  # a thread that dies in silence would be waited for
            found = Lesson("failed", f"This is a fault of selfsort ({type(error).__name__}). The run is as it was.")
        with self._lock:
            self._lesson = found
