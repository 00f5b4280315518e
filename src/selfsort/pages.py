"""Rows of an array that may lie in a mapped file: gone over a block at a time, and pages that were read given back.

A system keeps all pages of a mapped file resident that were ever read, as long as it has room. Those that are given
back (`forget`) stay in the file, so that a pass over a file of any size takes the memory of a block. To an array
without a file behind it nothing is done.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

_PASS_BYTES = 1 << 26
"""What a pass over an array holds at a time."""
_HELD_BYTES, _FEWEST_HELD = 1 << 27, 500
"""What a sample of rows may take beside the budget, and how many it has however wide they are."""
_MAPPED_FOR_ONE = 1 << 22
"""What a system may map of a file to read one row of it: large pages, and it may lie across two."""


def forget(array: npt.NDArray[Any]) -> None:
    """Give back the pages of a mapped file that were read or written; what they hold stays in the file."""
    mapping = _mapping(array)
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)


def is_mapped(array: npt.NDArray[Any]) -> bool:
    """Say whether a file stands behind an array, so that its pages can be given back."""
    return _mapping(array) is not None


def _mapping(array: npt.NDArray[Any]) -> mmap.mmap | None:
    """Return what an array, or what it is a view of, is mapped by; of a private mapping the pages are the only copy."""
    seen: Any = array
    while isinstance(seen, np.ndarray):
        found = getattr(seen, "_mmap", None)
        if found is not None:
            return None if getattr(seen, "mode", "c") == "c" else found
        seen = seen.base
    return None


def passes(array: npt.NDArray[Any], multiple: int = 1) -> Iterator[slice]:
    """Walk over the rows of an array in blocks that fit the memory, giving back the pages of each.

    Args:
        array: any, mapped or not.
        multiple: of this many rows is every block but the last.
    """
    row_bytes = max(1, array[:1].nbytes)
    rows = max(1, _PASS_BYTES // row_bytes // multiple) * multiple
    for start in range(0, len(array), rows):
        yield slice(start, min(start + rows, len(array)))
        forget(array)


def scattered(array: npt.NDArray[Any], n_items: int, n_each: int) -> Iterator[tuple[int, int]]:
    """Walk over items, each of which reads so many rows from all over an array, giving back their pages.

    Of an array without a file behind it, or one that a pass holds whole, they are all one block.
    """
    is_large = is_mapped(array) and array.nbytes > _PASS_BYTES
    n_block = max(1, _PASS_BYTES // _MAPPED_FOR_ONE // n_each) if is_large else max(1, n_items)
    for start in range(0, n_items, n_block):
        yield start, min(start + n_block, n_items)
        forget(array)


def n_at_once(array: npt.NDArray[Any]) -> int:
    """Return how many rows of a mapped file a pass holds; of an array in memory, all."""
    return min(len(array), max(1, _PASS_BYTES // max(1, array[:1].nbytes))) if is_mapped(array) else len(array)


def take(array: npt.NDArray[Any], rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Copy some rows, giving back the pages around them."""
    if not is_mapped(array):
        return np.asarray(array[rows])
    found = np.empty((len(rows), *array.shape[1:]), array.dtype)
    for first, last in scattered(array, len(rows), 1):
        found[first:last] = array[rows[first:last]]
    return found


def put(array: npt.NDArray[Any], rows: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
    """Replace some rows, giving back the pages around them."""
    for first, last in scattered(array, len(rows), 1):
        array[rows[first:last]] = values[first:last]
        forget(values)


def fill(array: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
    """Replace all rows by those of another array, of which either may lie in a file."""
    for block in passes(values):
        array[block] = values[block]
        forget(array)


def n_held(array: npt.NDArray[Any], most: int) -> int:
    """Return how many rows a sample of an array may have: so many, or fewer of very wide ones."""
    return min(most, max(_FEWEST_HELD, _HELD_BYTES // max(1, array[:1].nbytes)))


def all_finite(array: npt.NDArray[Any]) -> bool:
    """Say whether all numbers of an array are finite, without an answer for each of them."""
    return all(np.isfinite(array[block]).all() for block in passes(array))
