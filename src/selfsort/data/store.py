"""Where large arrays live: in memory if they fit the budget, else in a mapped file that cleans up after itself.

The budget is that of the process: images, features and assignments share it. How a mapped file is gone over in little
memory, `selfsort.pages` says.
"""

from __future__ import annotations

import errno
import math
import os
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from selfsort.errors import InvalidInput, invalid
from selfsort.pages import passes, take
from selfsort.types import U8

Stored = Literal["memory", "memory-mapped"]

# Where the system does not say how much memory it has, assume a small machine.
_ASSUMED_BYTES = 8 << 30
_LARGEST_FILE = 1 << 62
_BLOCK = bytes(1 << 20)
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def default_budget() -> int:
    """Return half of the memory this process may use, in bytes."""
    return total_memory() // 2


def total_memory() -> int:
    """Return the memory of the machine, or of the container if that is less."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        total = _ASSUMED_BYTES
    for limit in _CONTAINER_LIMITS:
        try:
            text = Path(limit).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total


@dataclass
class _Account:
    """What this process may hold in large arrays, and what it holds."""

    limit: int | None = None
    held: int = 0

    def give_back(self, n_bytes: int) -> None:
        self.held -= n_bytes


_account = _Account()


def limit_memory(n_bytes: int | None) -> None:
    """Say how much the large arrays of this process may take together; None is half of the memory."""
    if n_bytes is not None and n_bytes < 0:
        raise invalid("--memory", "not be negative", n_bytes, "Give a number of bytes, or leave it out.")
    _account.limit = n_bytes


def memory_left() -> int:
    """Return how much of the budget is free."""
    return (default_budget() if _account.limit is None else _account.limit) - _account.held


def allocate(shape: tuple[int, ...], memory_bytes: int | None) -> tuple[U8, Stored]:
    """Return a uint8 array to be filled, and where it lives.

    The mapped file has no name on the disk (or is removed on closing, where a system insists on names), so
    nothing is left behind however the process ends. Its space is reserved before it is mapped: a disk that
    is full must be an error here, not a crash while writing.

    Args:
        shape: of the array.
        memory_bytes: above this it goes to a mapped file; None is what is left of the budget of the process.
    """
    budget = memory_left() if memory_bytes is None else memory_bytes
    if memory_bytes is not None and memory_bytes < 0:
        raise invalid("--memory", "not be negative", budget, "Give a number of bytes, or leave it out.")
    n_bytes = math.prod(shape)
    if n_bytes <= budget:
        try:
            array: U8 = np.empty(shape, np.uint8)
        except MemoryError:
            raise _no_room(n_bytes, "memory", f"{budget / 1e9:.1f} GB at most") from None
        _account.held += n_bytes
        weakref.finalize(array, _account.give_back, n_bytes).atexit = False
        return array, "memory"
    folder = scratch_folder()
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="selfsort-") as file:
            return map_file(file, shape), "memory-mapped"
    except OSError as error:
        raise _unwritable(folder, error) from error


def map_file(file: IO[bytes], shape: tuple[int, ...]) -> U8:
    """Map an open file as an array to be written; its space is reserved first."""
    n_bytes = math.prod(shape)
    if n_bytes > _LARGEST_FILE:
        raise _no_room(n_bytes, f"the disk of {scratch_folder()}", "no such disk")
    try:
        _reserve(file, n_bytes)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise _no_room(n_bytes, f"the disk of {scratch_folder()}", os.strerror(error.errno)) from None
        raise
    mapped: U8 = np.memmap(file, np.uint8, mode="r+", shape=shape)
    return mapped


def allocate_floats(shape: tuple[int, ...], dtype: str = "<f4") -> npt.NDArray[Any]:
    """Return an array of numbers to be filled, within the budget of the process or in a mapped file."""
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    return allocate((n_bytes,), None)[0].view(dtype).reshape(shape)


def gather(array: npt.NDArray[Any], rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Copy many rows, within the budget of the process or to a mapped file."""
    found = allocate_floats((len(rows), *array.shape[1:]), array.dtype.str)
    for block in passes(found):
        found[block] = take(array, rows[block])
    return found


def scratch_folder() -> Path:
    """Return the folder for mapped files: TMPDIR, else /var/tmp, because /tmp is often memory itself."""
    is_chosen = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    roomy = Path("/var/tmp")
    if not is_chosen and os.access(roomy, os.W_OK):
        return roomy
    return Path(tempfile.gettempdir())


def _reserve(file: IO[bytes], n_bytes: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, n_bytes)
        return
    for start in range(0, n_bytes, len(_BLOCK)):
        file.write(_BLOCK[: n_bytes - start])
    file.flush()


def _unwritable(folder: Path, error: OSError) -> InvalidInput:
    return invalid(
        f"the folder {folder}", "be writable for decoded images", error.strerror, "Set TMPDIR to another folder."
    )


def _no_room(n_bytes: int, place: str, got: str) -> InvalidInput:
    return invalid(
        place,
        f"have room for the decoded images ({n_bytes / 1e9:.2f} GB)",
        got,
        "Choose a smaller --size, free some space, or set TMPDIR to a larger disk.",
    )
