"""How far a whole job is and how long it will take, in words: what one line on a terminal, in a log or on a page says.

Nothing is promised that was not measured. Of a stage whose steps are counted, the steps done tell how long the others
take; otherwise a loop tells how long the rest of it takes, and nothing of what comes after it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Literal, Self, TextIO

_MEASURED_SECONDS = 2.0
"""What was watched for less says nothing."""
_WORTH_SAYING = 20.0
"""Whoever waits for less needs no estimate."""
_LONG_STEP = 20.0
"""A first step that takes so long tells something of the others; a shorter one is not worth a guess."""
LINE_EVERY = 30.0
"""Seconds after which a job that nobody watches says how far it is."""

Scope = Literal["stage", "loop"]


@dataclass
class _Task:
    what: str
    total: int
    started: float
    done: int = 0


@dataclass
class _Stage:
    what: str
    started: float
    first: int
    """Steps that were done before, by a run that was stopped."""
    done: int
    total: int
    ended: float
    """When the last step ended."""
    first_ended: float = 0.0
    """When the first one did, which may have compiled and loaded what the others find ready."""


@dataclass(frozen=True)
class Left:
    """How long it will take from now on."""

    seconds: float
    scope: Scope
    """Whether that is all of the stage, or only the loop it is in."""
    what: str
    whole: float
    """How long it takes from its beginning on."""
    measured: str
    """What it was measured on."""


class Overall:
    """A listener that remembers, and answers in words. May be asked from any thread."""

    def __init__(self, max_seconds: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_seconds, self._clock = max_seconds, clock
        self._begun = clock()
        self._lock = threading.Lock()
        self._tasks: dict[int, _Task] = {}
        self._n_tasks = 0
        self._stage: _Stage | None = None
        self._estimated: set[str] = set()

    # --- what a listener hears ---------------------------------------------------------------------------

    def start(self, what: str, total: int) -> int:
        """Begin a loop."""
        with self._lock:
            self._n_tasks += 1
            self._tasks[self._n_tasks] = _Task(what, total, self._clock())
            return self._n_tasks

    def advance(self, task: int, amount: int) -> None:
        """Go on in a loop."""
        with self._lock:
            self._tasks[task].done += amount

    def finish(self, task: int) -> None:
        """End a loop."""
        with self._lock:
            self._tasks.pop(task, None)

    def stage(self, what: str, done: int, total: int) -> None:
        """Begin a stage, or go on in it."""
        with self._lock:
            now = self._clock()
            if self._stage is None or self._stage.what != what:
                self._stage = _Stage(what, now, done, done, total, now)
            else:
                if self._stage.done == self._stage.first:
                    self._stage.first_ended = now
                self._stage.done, self._stage.total, self._stage.ended = done, total, now

    # --- what it answers ---------------------------------------------------------------------------------

    def left(self) -> Left | None:
        """Return how long the stage, or the step it is in, will take from now on; None if nothing was measured."""
        with self._lock:
            return self._left()

    def _left(self) -> Left | None:
        now, stage = self._clock(), self._stage
        if stage is not None and stage.total > stage.done > stage.first:
            n_done = stage.done - stage.first
            since, n_measured = (stage.started, 1) if n_done == 1 else (stage.first_ended, n_done - 1)
            each = (stage.ended - since) / n_measured
            if stage.ended - stage.started >= _MEASURED_SECONDS and (n_done > 1 or each >= _LONG_STEP):
                seconds = max(0.0, each * (stage.total - stage.done) - (now - stage.ended))
                whole = now - stage.started + seconds
                return Left(seconds, "stage", stage.what, whole, f"{n_done} of {stage.total} steps")
        for task in self._tasks.values():  # the outermost loop first
            taken = now - task.started
            if task.total and task.done and taken >= _MEASURED_SECONDS:
                seconds = taken * max(0.0, task.total / task.done - 1)
                measured = f"the first {task.done:,} of {task.total:,}"
                return Left(seconds, "loop", task.what, taken + seconds, measured)
        return None

    @property
    def current(self) -> str:
        """The stage it is at."""
        with self._lock:
            return "" if self._stage is None else self._stage.what

    def share(self) -> float | None:
        """Return how much of the stage is done, from 0 to 1, if that is known."""
        with self._lock:
            stage = self._stage
            inner = max((task.done / task.total for task in self._tasks.values() if task.total), default=0.0)
            if stage is not None and stage.total:
                return min(1.0, (stage.done + min(inner, 1.0)) / stage.total)
            return min(inner, 1.0) if self._tasks else None

    def line(self) -> str:
        """Say what is being done, how far it is and how long it will take.

        Empty as long as there is nothing to say.
        """
        with self._lock:
            stage, left = self._stage, self._left()
            parts = [] if stage is None else [stage.what]
            if stage is not None and stage.total:
                parts.append(f"step {min(stage.done + 1, stage.total)} of {stage.total}")
            for task in list(self._tasks.values())[:1]:
                counted = f" ({task.done:,} of {task.total:,})" if task.total else ""
                parts.append(f"{task.what}{counted}")
        if left is not None:
            parts.append(f"{in_words(left.seconds)} left" + (" for that" if left.scope == "loop" else ""))
        return ", ".join(parts)

    def news(self) -> str | None:
        """Return an estimate that was not told yet, of what is worth one."""
        with self._lock:
            left = self._left()
            if left is None or left.what in self._estimated or left.whole < _WORTH_SAYING:
                return None
            self._estimated.add(left.what)
            spent = self._clock() - self._begun
        end = datetime.now() + timedelta(seconds=left.seconds)
        said = f"Estimate: {left.what} takes {in_words(left.whole)}, until {end:%H:%M} (measured on {left.measured})."
        return said + self._warning(spent + left.seconds)

    def _warning(self, needed: float) -> str:
        if self._max_seconds is None or needed <= self._max_seconds:
            return ""
        return (
            f" That is more than the {in_words(self._max_seconds, is_rough=False)} of --max-minutes: it will stop in "
            "time, and can be continued."
        )


def in_words(seconds: float, *, is_rough: bool = True) -> str:
    """Write a time as people say it.

    >>> in_words(4), in_words(38), in_words(95), in_words(1500), in_words(9000), in_words(60, is_rough=False)
    ('a few seconds', 'about 40 seconds', 'about 2 minutes', 'about 25 minutes', 'about 2.5 hours', '1 minute')
    """
    if seconds < 8 and is_rough:
        return "a few seconds"
    about = "about " if is_rough else ""
    if seconds < 55:
        return f"{about}{round(seconds, -1) if is_rough else seconds:.0f} seconds"
    for least, unit, name in ((5400, 3600, "hour"), (0, 60, "minute")):
        if seconds >= least:
            number = seconds / unit
            shown = f"{number:.1f}".removesuffix(".0") if name == "hour" or not is_rough else f"{number:.0f}"
            return f"{about}{shown} {name}{'' if shown == '1' else 's'}"
    raise AssertionError("the last one fits")


class Ticker:
    """Does something again and again in a thread of its own, while a block runs."""

    def __init__(self, act: Callable[[], object], every: float) -> None:
        self._act, self._every = act, every
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)

    def _go_on(self) -> None:
        while not self._is_over.wait(self._every):
            self._act()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()


class PlainLines:
    """Says in whole lines how far a job is: estimates once, a line at least every 30 seconds, stages if wanted."""

    def __init__(
        self,
        overall: Overall,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        on_stage: bool = False,
    ) -> None:
        self._overall, self._stream, self._clock = overall, stream, clock
        self._said_at = clock()
        self._is_stage_told = on_stage
        self._stage = ""

    def tick(self) -> None:
        """Say what there is to say."""
        news, stage = self._overall.news(), self._overall.current
        if self._is_stage_told and stage != self._stage:
            self._stage = stage
            self._say(self._overall.line())
        if news is not None:
            self._say(news)
        # A little before it is due: the next look may come a little late.
        elif self._clock() - self._said_at >= LINE_EVERY - 1:
            self._say(self._overall.line())

    def _say(self, text: str) -> None:
        if text:
            with suppress(OSError, ValueError):  # nobody reads any more
                print(text, file=self._stream or sys.stderr, flush=True)
        self._said_at = self._clock()
