from __future__ import annotations

import io
import sys

import pytest

from selfsort.cli.progress_bars import RichListener
from selfsort.progress import listening, track


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def pretend_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Not a fixture: pytest puts its own standard error in place between setup and test."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return screen


def test_a_bar_shows_its_name_and_count_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = pretend_terminal(monkeypatch)
    with RichListener() as listener, listening(listener):
        for _ in track(range(4), "decoding", 4):
            listener._progress.refresh()
        assert not listener._progress.tasks
    shown = terminal.getvalue()
    assert "decoding" in shown
    assert "3/4" in shown
    assert "/s" in shown


def test_what_is_printed_meanwhile_stays_on_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = pretend_terminal(monkeypatch)
    with RichListener():
        print("the result")
    assert capsys.readouterr().out == "the result\n"
    assert "the result" not in terminal.getvalue()


def test_a_total_that_is_not_known_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = pretend_terminal(monkeypatch)
    with RichListener() as listener:
        task = listener.start("searching", 0)
        listener.advance(task, 1)
        listener._progress.refresh()
        listener.finish(task)
    assert "searching" in terminal.getvalue()
