"""How long loops say how far they are and when time is up, without knowing who listens.

A loop passes its items through `track`, and what runs a whole job names its stages with `stage`. By default nothing
happens; whoever wants to show it installs a listener. Libraries stay silent, and no room needs to know about rich.
`until` sets a time after which `track` ends the loop: so long steps end in time, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from selfsort.errors import TimeIsUp

T = TypeVar("T")

_TOLERANCE = 1.05
"""A step that ends this little after the time given is worth waiting for: its work is kept."""
LEAST_SECONDS = 1.0


class Listener(Protocol):
    """Shows tasks; every call must be cheap."""

    def start(self, what: str, total: int) -> int:
        """Open a bar and return its id."""
        ...

    def advance(self, task: int, amount: int) -> None:
        """Move a bar on."""
        ...

    def finish(self, task: int) -> None:
        """Close a bar."""
        ...

    def stage(self, what: str, done: int, total: int) -> None:
        """Say what the whole job is at, and how many of its steps are done; a total of 0 is not known."""
        ...


_listener: ContextVar[Listener | None] = ContextVar("progress_listener", default=None)
_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Install a listener for the duration of a block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def until(seconds: float | None) -> Iterator[None]:
    """Let `track` raise TimeIsUp in a block that takes longer than this; None: as long as it takes.

    Next to no time at all means one step, whose end is awaited as long as a limit around this one allows.
    """
    limit = None
    if seconds is not None:
        limit = time.monotonic() + _TOLERANCE * seconds if seconds >= LEAST_SECONDS else _deadline.get()
    token = _deadline.set(limit)
    try:
        yield
    finally:
        _deadline.reset(token)


def check_time() -> None:
    """Raise TimeIsUp if it is: the door for a long step whose loop does not go through `track`."""
    deadline = _deadline.get()
    if deadline is not None and time.monotonic() > deadline:
        raise TimeIsUp("the time given is up.")


def stage(what: str, done: int = 0, total: int = 0) -> None:
    """Say what the whole job is at now, and how many of the steps of that stage are done."""
    listener = _listener.get()
    if listener is not None:
        listener.stage(what, done, total)


def track(items: Iterable[T], what: str, total: int, weigh: Callable[[T], int] | None = None) -> Iterator[T]:
    """Pass items through, reporting one unit (or `weigh(item)` units) after each, as long as there is time."""
    listener = _listener.get()
    if listener is None:
        for item in items:
            yield item
            check_time()
        return
    task = listener.start(what, total)
    try:
        for item in items:
            yield item
            listener.advance(task, 1 if weigh is None else weigh(item))
            check_time()
    finally:
        listener.finish(task)
