"""Arrays in mapped files, as they are beyond the budget."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from selfsort.data.store import allocate_floats, limit_memory


def mapped(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a copy of an array that lies in a mapped file."""
    limit_memory(0)
    try:
        copy = allocate_floats(array.shape, array.dtype.str)
    finally:
        limit_memory(None)
    copy[:] = array
    return copy
