from __future__ import annotations

from pathlib import Path

from tests.conftest import Command, write_photos


def test_help_and_a_run_that_is_not_there(selfsort: Command, tmp_path: Path) -> None:
    assert "New pictures" in selfsort("update", "--help").out
    done = selfsort("update", tmp_path / "none", tmp_path)
    assert done.code == 2
    assert "not a run folder" in done.err


def test_unreadable_files_are_named(selfsort: Command, photos: Path, tmp_path: Path) -> None:
    words = ("--method", "kmeans", "--clusters", 3, "--encoder", "none", "--out", "run")
    assert selfsort("fit", photos, *words).code == 0
    more = write_photos(tmp_path / "more", seed=1)
    (more / "torn.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert selfsort("update", "run", more, "--max-bad", 0).code == 2
    assert not Path("run-update").exists()
    done = selfsort("update", "run", more, "--max-bad", 0.5)
    assert done.code == 0, done.err
    assert "torn.png" in done.out
    assert "18 pictures added" in done.out
