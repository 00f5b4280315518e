"""The one decorator behind every compiled function of this room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a function of flat arrays.

    No fastmath: sums keep the order they are written in, so answers do not change between machines. Division
    follows NumPy (no exceptions inside a kernel).
    """
    compiled = numba.njit(cache=True, fastmath=False, nogil=True, error_model="numpy")(function)
    return cast(F, compiled)
