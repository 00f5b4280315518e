"""Progress of long steps, shown by whoever is listening.

Any room may wrap a loop in `track`; nothing is printed unless the command line has installed a listener
(it does so only on a terminal). Libraries stay silent, and no room needs to know about rich.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

T = TypeVar("T")


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


_listener: ContextVar[Listener | None] = ContextVar("progress_listener", default=None)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Install a listener for the duration of a block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def track(items: Iterable[T], what: str, total: int, weigh: Callable[[T], int] | None = None) -> Iterator[T]:
    """Pass items through, reporting one unit (or `weigh(item)` units) after each."""
    listener = _listener.get()
    if listener is None:
        yield from items
        return
    task = listener.start(what, total)
    try:
        for item in items:
            yield item
            listener.advance(task, 1 if weigh is None else weigh(item))
    finally:
        listener.finish(task)
