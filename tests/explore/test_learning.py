from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from selfsort.errors import InvalidInput
from selfsort.explore.desk import Desk
from selfsort.explore.learning import Learner, Lesson


@pytest.fixture
def desk(run: Path) -> Iterator[Desk]:
    opened = Desk.open(run)
    yield opened
    opened.close()


def end_of(learner: Learner) -> Lesson:
    end = time.monotonic() + 60
    while (lesson := learner.lesson()).state == "running" and time.monotonic() < end:
        time.sleep(0.02)
    return lesson


def test_the_desk_shows_the_run_that_has_learned(desk: Desk, run: Path) -> None:
    learner = Learner(desk)
    assert learner.lesson() == Lesson("none", "")
    desk.editor.move([0], None, "mine")
    assert learner.begin().state == "running"
    assert end_of(learner).state == "done"
    assert desk.editor.folder.path == run.with_name("run-corrections")
    assert "mine" in {cluster.name for cluster in desk.editor.overview().clusters}
    desk.editor.rename(2, "can be edited")
    Desk.open(run).close()  # nobody holds the first one any more


def test_without_corrections_there_is_nothing_to_learn(desk: Desk, run: Path) -> None:
    learner = Learner(desk)
    learner.begin()
    lesson = end_of(learner)
    assert lesson.state == "failed"
    assert "no corrections to learn from" in lesson.line
    assert desk.editor.folder.path == run


def test_one_lesson_at_a_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Learner(desk)
    monkeypatch.setattr(threading.Thread, "start", lambda self: None)
    learner.begin()
    with pytest.raises(InvalidInput, match="learning already"):
        learner.begin()


def test_a_fault_is_said_and_not_waited_for(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("selfsort.runs.corrections.learn_corrections", fail)
    learner = Learner(desk)
    learner.begin()
    assert end_of(learner) == Lesson("failed", "This is a fault of selfsort (RuntimeError). The run is as it was.")
