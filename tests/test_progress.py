from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from selfsort.errors import TimeIsUp
from selfsort.progress import check_time, listening, stage, track, until


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

    def stage(self, what: str, done: int, total: int) -> None:
        self.heard.append(("stage", what, done, total))

    def of(self, kind: str) -> list[tuple[object, ...]]:
        """Return what came with one kind of message."""
        return [told[1:] for told in self.heard if told[0] == kind]


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


def test_stages_reach_the_listener() -> None:
    recorder = Recorder()
    stage("nobody hears it")
    with listening(recorder):
        stage("sorting", 3, 7)
    assert recorder.heard == [("stage", "sorting", 3, 7)]


class TestTime:
    @pytest.fixture(autouse=True)
    def _clock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)

    @pytest.mark.parametrize("listener", [None, Recorder()])
    def test_a_loop_ends_when_it_is_up(self, listener: Recorder | None) -> None:
        def count() -> None:
            for _ in track(range(1000), "numbers", 1000):
                self.now += 1

        with listening(listener), until(100), pytest.raises(TimeIsUp):
            count()
        assert 100 < self.now <= 110

    def test_none_is_as_long_as_it_takes(self) -> None:
        with until(100):
            self.now += 1000
            with until(None):
                check_time()
            with pytest.raises(TimeIsUp):
                check_time()
        check_time()

    def test_no_time_at_all_is_one_step(self) -> None:
        with until(0):
            self.now += 1000
            check_time()
        with until(100), until(0):
            self.now += 1000
            with pytest.raises(TimeIsUp):
                check_time()
