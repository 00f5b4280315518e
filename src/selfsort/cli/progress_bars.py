"""Progress bars on a terminal, with rate and time left."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class _Rate(ProgressColumn):
    """Units per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


class RichListener:
    """Shows each tracked loop as a bar and removes it when it ends."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            # Results go to standard output, which may be a file while the bars are on a terminal: rich must not
            # take them along to standard error.
            redirect_stdout=False,
        )

    def __enter__(self) -> RichListener:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # a terminal that was closed needs no cleaning, and says so
            self._progress.stop()

    def start(self, what: str, total: int) -> int:
        """Open a bar."""
        return self._progress.add_task(what, total=total or None)

    def advance(self, task: int, amount: int) -> None:
        """Move a bar on."""
        self._progress.advance(TaskID(task), amount)

    def finish(self, task: int) -> None:
        """Take a bar away."""
        self._progress.remove_task(TaskID(task))
