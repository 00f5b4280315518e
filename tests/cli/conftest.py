"""What the tests of the command line share: a method that is quick, a run, and what a refusal looks like."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Command
from tests.toy import TOY

from selfsort.methods import registry


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.OWN, "toy", TOY)


@pytest.fixture
def run(selfsort: Command, photos: Path) -> Path:
    done = selfsort("fit", photos, "--clusters", 3, "--method", "kmeans", "--labels-from-folders", "--out", "run")
    assert done.code == 0, done.err
    return Path("run")


def assert_refused(done: Any, *parts: str, code: int = 2) -> None:
    """One line on standard error, no traceback, nothing on standard output."""
    assert (done.code, done.out) == (code, ""), done
    assert done.err.startswith("selfsort: ")
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    for part in parts:
        assert part in done.err


@pytest.fixture
def _ctrl_c_is_heard() -> Iterator[None]:
    """Programs started from a shell's background ignore Ctrl-C, and so would those that a test starts there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
