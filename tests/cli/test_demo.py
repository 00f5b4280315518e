from __future__ import annotations

from pathlib import Path

from selfsort.cli.demo import write_digits
from selfsort.data import read_source


def test_the_digits_are_a_source_like_any_other_and_stay(tmp_path: Path) -> None:
    path = write_digits(tmp_path / "new" / "folder")
    dataset = read_source(path)
    assert dataset.images.pixels.shape == (1797, 8, 8, 1)
    assert dataset.images.pixels.max() == 255
    assert dataset.labels is not None
    assert sorted(set(dataset.labels.tolist())) == list(range(10))
    before = path.stat().st_mtime_ns
    assert write_digits(path.parent) == path
    assert path.stat().st_mtime_ns == before
