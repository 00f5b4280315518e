"""One finished run per session and a fresh copy of it for every test that edits."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import write_photos
from tests.explore.runs import fitted

from selfsort.explore.editor import Editor


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `photos` and a `run` over them."""
    home = tmp_path_factory.mktemp("explore")
    fitted(write_photos(home / "photos"), home / "run")
    return home


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A run whose source is the shared folder."""
    shutil.copytree(finished / "run", tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def editor(run: Path) -> Iterator[Editor]:
    opened = Editor.open(run)
    yield opened
    opened.close()
