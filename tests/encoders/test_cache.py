"""Rows computed once and kept: what is kept, what is not, and what a kill leaves."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from selfsort.encoders import cache
from selfsort.encoders.cache import Rows, Wanted, cache_folder, clear, computed_rows, list_kept

WANTED = Wanted(10, (3,), "<f4", {"pictures": "abc", "encoder": "small"})


class Counting:
    """Computes rows that say where they are, and remembers which it was asked for."""

    def __init__(self, fails_at: int = 99) -> None:
        self.asked: list[tuple[int, int]] = []
        self.fails_at = fails_at

    def __call__(self, first: int, last: int) -> Rows:
        if first >= self.fails_at:
            raise KeyboardInterrupt
        self.asked.append((first, last))
        return np.arange(first, last, dtype=np.float32)[:, None] * np.ones((1, 3), np.float32)


def rows(compute: Counting, folder: Path | None, wanted: Wanted = WANTED) -> Rows:
    return computed_rows(wanted, compute, folder=folder, what="testing", block=4)


EXPECTED = np.arange(10, dtype=np.float32)[:, None] * np.ones((1, 3), np.float32)


def test_rows_are_computed_once(tmp_path: Path) -> None:
    first, second = Counting(), Counting()
    np.testing.assert_array_equal(rows(first, tmp_path), EXPECTED)
    np.testing.assert_array_equal(rows(second, tmp_path), EXPECTED)
    assert first.asked == [(0, 4), (4, 8), (8, 10)]
    assert second.asked == []


def test_anything_that_the_content_depends_on_makes_another_file(tmp_path: Path) -> None:
    rows(Counting(), tmp_path)
    other = Counting()
    rows(other, tmp_path, Wanted(10, (3,), "<f4", {"pictures": "abc", "encoder": "other"}))
    assert len(other.asked) == 3
    assert len(list_kept(tmp_path)) == 2


def test_a_kill_leaves_whole_blocks_to_go_on_from(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        rows(Counting(fails_at=8), tmp_path)
    (part,) = tmp_path.glob("*.part")
    with part.open("ab") as file:
        file.write(b"half a row")
    again = Counting()
    np.testing.assert_array_equal(rows(again, tmp_path), EXPECTED)
    assert again.asked == [(8, 10)]


@pytest.mark.parametrize("damage", [b"\0", b""])
def test_a_damaged_file_is_computed_anew(tmp_path: Path, damage: bytes) -> None:
    rows(Counting(), tmp_path)
    (kept,) = tmp_path.glob("*.npy")
    content = kept.read_bytes()
    kept.write_bytes(content[: -len(damage)] + damage if damage else content[:-5])
    if damage:
        kept.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    again = Counting()
    np.testing.assert_array_equal(rows(again, tmp_path), EXPECTED)
    assert again.asked


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    np.testing.assert_array_equal(rows(Counting(), None), EXPECTED)
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    np.testing.assert_array_equal(rows(Counting(), tmp_path / "file" / "below"), EXPECTED)


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = WANTED.n * WANTED.row_bytes
    monkeypatch.setenv(cache.LIMIT, str(3 * size + 400))
    wanted = [Wanted(10, (3,), "<f4", {"number": number}) for number in range(4)]
    for age, one in enumerate(wanted[:3]):
        rows(Counting(), tmp_path, one)
        os.utime(tmp_path / f"features-{one.key}.npy", (age, age))
    rows(Counting(), tmp_path, wanted[3])
    left = {kept.about["number"] for kept in list_kept(tmp_path)}
    assert 0 not in left
    assert 3 in left


def test_an_array_above_the_limit_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.LIMIT, "100")
    np.testing.assert_array_equal(rows(Counting(), tmp_path), EXPECTED)
    assert list_kept(tmp_path) == []


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    rows(Counting(), tmp_path / "deep" / "cache")
    (kept,) = (tmp_path / "deep" / "cache").glob("*.npy")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_clearing_removes_what_was_kept_and_nothing_else(tmp_path: Path) -> None:
    rows(Counting(), tmp_path)
    (tmp_path / "mine.txt").write_text("keep", encoding="utf-8")
    assert clear(tmp_path) > 0
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_environment_says_where(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.PLACE, str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv(cache.PLACE, "")
    assert cache_folder() is None
    monkeypatch.delenv(cache.PLACE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "selfsort"
