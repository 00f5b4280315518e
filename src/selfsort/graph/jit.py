"""The one decorator behind every compiled function of this room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a function of flat arrays.

    No fastmath: sums keep the order they are written in, so answers do not change between machines. Division
    follows NumPy (no exceptions inside a kernel). Kernels let go of the interpreter lock. A name with a leading
    underscore means that only kernels call it: it gets no entry from Python, which halves the time to compile.
    """
    is_inner = function.__name__.startswith("_")
    # As a dictionary, because Numba's type information does not know the last two.
    options: dict[str, Any] = {
        "cache": True,
        "fastmath": False,
        "nogil": True,
        "error_model": "numpy",
        "no_cpython_wrapper": is_inner,
        "no_cfunc_wrapper": True,
    }
    return cast(F, numba.njit(**options)(function))
