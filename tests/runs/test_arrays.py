from __future__ import annotations

import numpy as np
import pytest

from selfsort.runs.arrays import as_counts, as_rows, as_table, finite


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
