from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from selfsort import pages
from selfsort.runs.arrays import as_counts, as_rows, as_table, finite, read_rows


@pytest.mark.parametrize(
    "array",
    [
        None,
        np.array([], dtype=np.int64),
        np.array([0, 5]),
        np.array([-1, 0]),
        np.array([0.0, 1.0]),
        np.array([[0, 1]]),
        np.array([2**63], dtype=np.uint64),
    ],
)
def test_what_cannot_number_five_images_is_passed_over(array: np.ndarray | None) -> None:
    assert as_rows(array, 5) is None


def test_rows_of_any_integer_type_are_taken() -> None:
    rows = as_rows(np.array([4, 0], dtype=np.int32), 5)
    assert rows is not None
    assert rows.dtype == np.int64
    assert rows.tolist() == [4, 0]


def test_counts_must_have_the_length_asked_for() -> None:
    assert as_counts(np.array([1, 2, 3]), 2) is None
    assert as_counts(np.array([1, 2]), 2) is not None


def test_tables_need_a_row_per_image() -> None:
    assert as_table(np.ones((3, 2), dtype=np.float32), 2) is None
    assert as_table(np.ones((2, 0), dtype=np.float32), 2) is None
    assert as_table(np.ones((2, 2), dtype=np.int64), 2) is None
    assert as_table(np.ones((2, 2)), 2) is not None


def test_what_is_not_a_number_becomes_zero() -> None:
    assert finite(np.array([np.nan, np.inf, -np.inf, 2.0])).tolist() == [0, 0, 0, 2]


@pytest.mark.parametrize("rows", [slice(1, 3), np.array([2, 0])])
def test_rows_are_copied_from_a_mapped_table_and_made_finite(rows: slice | np.ndarray, tmp_path: Path) -> None:
    table = np.array([[1, np.nan], [2, np.inf], [3, 4]], np.float32)
    np.save(tmp_path / "table.npy", table)
    mapped = np.load(tmp_path / "table.npy", mmap_mode="r")
    found = read_rows(mapped, rows)
    assert found.tolist() == np.nan_to_num(table, posinf=0)[rows].tolist()
    found += 1  # a copy, which may be changed in place
    assert np.array_equal(np.load(tmp_path / "table.npy"), table, equal_nan=True)


def test_scattered_rows_are_read_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "table.npy", np.arange(200.0).reshape(100, 2))
    mapped = np.load(tmp_path / "table.npy", mmap_mode="r")
    forgotten: list[int] = []
    monkeypatch.setattr(pages, "forget", lambda array: forgotten.append(len(array)))
    monkeypatch.setattr(pages, "_PASS_BYTES", 160)
    monkeypatch.setattr(pages, "_MAPPED_FOR_ONE", 16)
    rows = np.arange(0, 100, 2)
    assert read_rows(mapped, rows)[:, 0].tolist() == (2 * rows).tolist()
    assert len(forgotten) == 5
