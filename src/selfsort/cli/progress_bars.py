"""One line on a terminal that says what is being done, how far it is and how long it will take."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from selfsort.overall import Overall


class OneLine:
    """Shows a job as one bar, and takes it away when it ends; estimates stay above it."""

    def __init__(self, overall: Overall) -> None:
        self._overall = overall
        self._progress = Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            transient=True,
            # Results go to standard output, which may be a file while the line is on a terminal: rich must not
            # take them along to standard error.
            redirect_stdout=False,
        )
        self._bar = self._progress.add_task("", total=None, visible=False)

    def __enter__(self) -> OneLine:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # a terminal that was closed needs no cleaning, and says so
            self._progress.stop()

    def tick(self) -> None:
        """Show how far it is now."""
        with suppress(OSError):
            if (news := self._overall.news()) is not None:
                self._progress.console.print(escape(news), highlight=False)
            line, share = self._overall.line(), self._overall.share()
            self._progress.update(
                self._bar,
                description=escape(line),
                visible=bool(line),
                total=None if share is None else 1.0,
                completed=share or 0.0,
            )
