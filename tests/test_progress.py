from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from selfsort.progress import listening, track


class Recorder:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def start(self, what: str, total: int) -> int:
        self.heard.append(("start", what, total))
        return 7

    def advance(self, task: int, amount: int) -> None:
        self.heard.append(("advance", task, amount))

    def finish(self, task: int) -> None:
        self.heard.append(("finish", task))


def test_without_a_listener_items_just_pass() -> None:
    assert list(track("abc", "letters", 3)) == ["a", "b", "c"]


def test_a_listener_hears_each_item_once_its_work_is_done() -> None:
    recorder = Recorder()
    with listening(recorder):
        for word in track(["a", "bb"], "words", 3, weigh=len):
            recorder.heard.append(("work", word))
    assert recorder.heard == [
        ("start", "words", 3),
        ("work", "a"),
        ("advance", 7, 1),
        ("work", "bb"),
        ("advance", 7, 2),
        ("finish", 7),
    ]


def test_a_loop_left_early_or_by_an_error_closes_its_bar() -> None:
    recorder = Recorder()

    def failing() -> Iterator[int]:
        yield 1
        raise RuntimeError("the source broke")

    with listening(recorder):
        for _ in track("abc", "letters", 3):
            break
        with pytest.raises(RuntimeError, match="the source broke"):
            list(track(failing(), "numbers", 2))
    assert [what for what, *_ in recorder.heard] == ["start", "finish", "start", "advance", "finish"]


def test_listeners_nest_and_leave_no_trace() -> None:
    outer, inner = Recorder(), Recorder()
    with listening(outer):
        with suppress(KeyError), listening(inner):
            list(track("a", "inner", 1))
            raise KeyError
        with listening(None):
            list(track("a", "silent", 1))
        list(track("a", "outer", 1))
    list(track("a", "nobody", 1))
    assert [entry[1] for entry in inner.heard if entry[0] == "start"] == ["inner"]
    assert [entry[1] for entry in outer.heard if entry[0] == "start"] == ["outer"]
