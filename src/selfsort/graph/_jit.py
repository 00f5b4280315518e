"""The one decorator behind every compiled function of this room, and where compiled code is kept."""

# Numba ships no type information.
# mypy: allow-untyped-calls

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

import numba
from numba.core import dispatcher
from numba.core.caching import FunctionCache, NullCache
from numba.np.ufunc import ufuncbuilder

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
    with forgiving_caches():
        return cast(F, numba.njit(**options)(function))


@contextmanager
def forgiving_caches() -> Iterator[None]:
    """Let functions decorated in this block, ours or of others, do without a cache where Numba's own would raise.

    Numba raises while decorating if no folder is writable, and on the first call if a file was cut short.
    """
    users: list[Any] = [dispatcher, ufuncbuilder]  # the modules that make caches
    for module in users:
        module.FunctionCache = _cache_for
    try:
        yield
    finally:
        for module in users:
            module.FunctionCache = FunctionCache


def _cache_for(function: Callable[..., Any]) -> Any:
    try:
        return _Cache(function)
    except RuntimeError:  # no folder to keep anything in
        return _NoCache()


class _Cache(FunctionCache):
    """Numba's files of machine code; one that cannot be read or written ends no run."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was kept for a signature, or None: Numba then compiles."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # cut short by a kill or a full disk: pickle raises almost anything on such a file
            with suppress(OSError):
                self.flush()  # else saving would stumble over the same index
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the machine code for a signature."""
        try:
            super().save_overload(sig, data)
        except Exception:  # a full disk, or a folder that has become read-only since
            _say_nothing_is_kept()


class _NoCache(NullCache):
    """Keeps nothing."""

    def save_overload(self, sig: Any, data: Any) -> None:
        """Say so."""
        _say_nothing_is_kept()


@functools.cache
def _say_nothing_is_kept() -> None:
    """Tell the user once, and only if something had to be compiled."""
    logging.getLogger("selfsort").warning(
        "selfsort: compiled code could not be kept, because no folder for it can be written. "
        "Every start will compile again, which takes some seconds. "
        "Set NUMBA_CACHE_DIR to a folder that you may write to."
    )
