"""Checks on arrays from a run folder, which may have been written by a later version or by a stranger."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from selfsort.types import F32, I64


def as_rows(array: npt.NDArray[Any] | None, n_images: int) -> I64 | None:
    """Return image numbers, or None if these are not."""
    found = as_counts(array)
    return found if found is not None and len(found) and int(found.max()) < n_images else None


def as_counts(array: npt.NDArray[Any] | None, length: int | None = None) -> I64 | None:
    """Return a row of whole numbers from zero on, or None if it is not one."""
    if array is None or array.ndim != 1 or array.dtype.kind not in "iu" or length not in (None, len(array)):
        return None
    counts: I64 = array.astype(np.int64)  # the largest unsigned numbers turn negative here
    return None if len(counts) and int(counts.min()) < 0 else counts


def as_table(array: npt.NDArray[Any] | None, n_rows: int) -> F32 | None:
    """Return a table of numbers with a row per image, or None if it is not one."""
    if array is None or array.ndim != 2 or array.dtype.kind != "f" or len(array) != n_rows or not array.size:
        return None
    return finite(array)


def finite(array: npt.NDArray[Any]) -> F32:
    """Return float32 in which what is not a number is zero."""
    values: F32 = np.nan_to_num(np.asarray(array, dtype=np.float32), posinf=0, neginf=0)
    return values
