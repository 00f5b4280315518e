"""Shared by many tests: a folder of pictures, and the command line without a new process."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from selfsort.data.synthetic import shapes

_CACHE = tempfile.TemporaryDirectory(prefix="selfsort-tests-")


def pytest_configure() -> None:
    """Wait for no disk: a run asks for each of its files to be brought there, tens of thousands of times in all tests.

    What a loss of power leaves behind is found out by tests/killing.py, in processes of its own. And keep features in a
    folder that goes with the tests, the same for all their processes: those of the person who runs them are not ours.
    """
    setattr(os, "fsync", lambda handle: None)  # noqa: B010 (as a plain assignment it is a type error)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ["SELFSORT_CACHE"] = _CACHE.name


def pytest_unconfigure() -> None:
    """Take the kept features away."""
    _CACHE.cleanup()


def write_photos(folder: Path, n_per_class: int = 6, seed: int = 0) -> Path:
    """Draw colour pictures of three kinds, each kind in a subfolder of its own."""
    images, labels = shapes(n_per_class, size=12, n_classes=3, channels=3, seed=seed)
    for row, (pixels, label) in enumerate(zip(images.pixels, labels, strict=True)):
        path = folder / "abc"[label] / f"{row:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_photos(tmp_path / "photos")


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    images, labels = shapes(6, size=12, n_classes=3)
    path = tmp_path / "shapes.npz"
    np.savez(path, images=images.pixels, labels=labels, split=np.arange(len(labels)) % 2)
    return path


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def selfsort(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Command]:
    """Run the command line in this process, standing in a temporary folder."""
    from selfsort.cli.main import main

    monkeypatch.chdir(tmp_path)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def run(*words: object) -> Done:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["selfsort", *map(str, words)])
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        assert isinstance(code, int)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)
