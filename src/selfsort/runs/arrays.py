"""Checks on arrays from a run folder, which may have been written by a later version or by a stranger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from selfsort.errors import InvalidInput
from selfsort.pages import passes, scattered
from selfsort.types import F32, I64

_MOST_NUMBERS, _LEAST_COLUMNS, _MOST_COLUMNS = 2**25, 2**12, 2**16
"""How much of a table is held at a time. No network of ours gives more columns than the least; pixels may."""
_RUN = 1024


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


def read_rows(table: npt.NDArray[Any], rows: I64 | slice) -> F32:
    """Copy rows of a table that is mapped from a file, as float32 in which what is not a number is zero.

    More numbers than may be held at a time are thinned out: runs of columns are taken, evenly spread. Pages that were
    read are given back, so that a pass over a large file takes no more memory than its largest block.
    """
    numbers = np.arange(len(table))[rows]
    most = min(_MOST_COLUMNS, max(_LEAST_COLUMNS, _MOST_NUMBERS // max(len(numbers), 1)))
    columns = np.arange(table.shape[1])
    if len(columns) > most:
        starts = np.linspace(0, len(columns) - _RUN, most // _RUN).astype(np.int64)
        columns = (starts[:, None] + np.arange(_RUN)).ravel()
    found: F32 = np.empty((len(numbers), len(columns)), np.float32)
    is_stretch = isinstance(rows, slice)
    blocks = passes(table[rows]) if is_stretch else (slice(*ends) for ends in scattered(table, len(numbers), 1))
    for block in blocks:
        some = numbers[block]
        found[block] = table[some] if len(columns) == table.shape[1] else table[some[:, None], columns]
    return found if np.isfinite(found).all() else finite(found)


def with_columns(table: npt.NDArray[Any], path: Path) -> npt.NDArray[Any]:
    """Refuse a table without a single column."""
    if not table.shape[1]:
        raise InvalidInput(
            f"{path} has no numbers per image. Expected one or more. "
            "The folder was changed or damaged: restore it, or run selfsort fit again."
        )
    return table


def finite(array: npt.NDArray[Any]) -> F32:
    """Return float32 in which what is not a number is zero."""
    values: F32 = np.nan_to_num(np.asarray(array, dtype=np.float32), posinf=0, neginf=0)
    return values
