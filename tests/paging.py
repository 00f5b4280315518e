"""Arrays in mapped files, as they are beyond the budget."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from selfsort.data.store import allocate_floats, limit_memory

Array = TypeVar("Array", bound=np.ndarray)


def mapped(array: Array) -> Array:
    """Return a copy of an array that lies in a mapped file."""
    limit_memory(0)
    try:
        copy: Array = allocate_floats(array.shape, array.dtype.str)
    finally:
        limit_memory(None)
    copy[:] = array
    return copy
