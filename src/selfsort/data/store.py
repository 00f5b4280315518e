"""Where decoded images live: in memory if they fit the budget, else in a mapped file that cleans up after itself."""

from __future__ import annotations

import errno
import math
import os
import tempfile
from pathlib import Path
from typing import IO, Literal

import numpy as np

from selfsort.errors import InvalidInput, invalid
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


def allocate(shape: tuple[int, ...], memory_bytes: int | None) -> tuple[U8, Stored]:
    """Return a uint8 array to be filled, and where it lives.

    The mapped file has no name on the disk (or is removed on closing, where a system insists on names), so
    nothing is left behind however the process ends. Its space is reserved before it is mapped: a disk that
    is full must be an error here, not a crash while writing.
    """
    budget = default_budget() if memory_bytes is None else memory_bytes
    if budget < 0:
        raise invalid("--memory", "not be negative", budget, "Give a number of bytes, or leave it out.")
    n_bytes = math.prod(shape)
    if n_bytes <= budget:
        try:
            return np.empty(shape, np.uint8), "memory"
        except MemoryError:
            raise _no_room(n_bytes, "memory", f"{budget / 1e9:.1f} GB at most") from None
    folder = scratch_folder()
    if n_bytes > _LARGEST_FILE:
        raise _no_room(n_bytes, f"the disk of {folder}", "no such disk")
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="selfsort-") as file:
            _reserve(file, n_bytes)
            mapped: U8 = np.memmap(file, np.uint8, mode="r+", shape=shape)
            return mapped, "memory-mapped"
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise _no_room(n_bytes, f"the disk of {folder}", os.strerror(error.errno)) from None
        raise invalid(
            f"the folder {folder}", "be writable for decoded images", error.strerror, "Set TMPDIR to another folder."
        ) from error


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


def _no_room(n_bytes: int, place: str, got: str) -> InvalidInput:
    return invalid(
        place,
        f"have room for the decoded images ({n_bytes / 1e9:.2f} GB)",
        got,
        "Choose a smaller --size, free some space, or set TMPDIR to a larger disk.",
    )


def keep_rows(pixels: U8, rows: list[int]) -> U8:
    """Move the rows to keep (in rising order) to the front, in place, and return the view of them."""
    for target, row in enumerate(rows):
        if target != row:
            pixels[target] = pixels[row]
    return pixels[: len(rows)]
