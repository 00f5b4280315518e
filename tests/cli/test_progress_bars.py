from __future__ import annotations

import io
import sys

import pytest

from selfsort.cli.progress_bars import OneLine
from selfsort.overall import Overall


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


def test_one_line_shows_the_stage_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = pretend_terminal(monkeypatch)
    overall = Overall()
    with OneLine(overall) as line:
        overall.stage("reading [the] images", 0, 0)
        overall.advance(overall.start("decoding", 4), 3)
        line.tick()
        line._progress.refresh()
        assert len(line._progress.tasks) == 1
    assert "reading [the] images, decoding (3 of 4)" in terminal.getvalue()


def test_estimates_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, now = pretend_terminal(monkeypatch), iter(range(0, 10_000, 60))
    overall = Overall(clock=lambda: float(next(now)))
    with OneLine(overall) as line:
        overall.stage("sorting with jule", 0, 0)
        overall.stage("sorting with jule", 1, 9)
        line.tick()
    assert "Estimate: sorting with jule takes about" in terminal.getvalue()


def test_what_is_printed_meanwhile_stays_on_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = pretend_terminal(monkeypatch)
    with OneLine(Overall()):
        print("the result")
    assert capsys.readouterr().out == "the result\n"
    assert "the result" not in terminal.getvalue()


def test_a_total_that_is_not_known_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = pretend_terminal(monkeypatch)
    overall = Overall()
    with OneLine(overall) as line:
        task = overall.start("searching", 0)
        overall.advance(task, 1)
        line.tick()
        line._progress.refresh()
        overall.finish(task)
    assert "searching" in terminal.getvalue()
