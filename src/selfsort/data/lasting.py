"""Decoding that outlives a kill: many pictures are decoded into a file that the next process goes on with.

The file lies in the folder for large temporary files, in a folder of ours that nobody else may enter. A list beside it
says how far it is filled. Both are removed when the process ends by itself. What a kill has left is taken up by the
next process that reads the same pictures to the same size, or removed by any that finds it after a week.
"""

from __future__ import annotations

import json
import os
import stat
import time
import weakref
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import IO

import numpy as np

from selfsort.data.datasets import ImageSpec, Skipped
from selfsort.data.gallery import Decoded, Gallery, Item, decode_all
from selfsort.data.store import Stored, allocate, map_file, memory_left, scratch_folder
from selfsort.types import I64, U8

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows: decoding begins again after a kill
    fcntl = None

_KEPT_SECONDS = 7 * 24 * 3600
_NAMES = 8
"""Processes that may decode the same pictures at the same time, each into a file of its own."""


def decode_lasting(
    gallery: Gallery, items: Sequence[Item], places: I64, spec: ImageSpec, memory_bytes: int | None
) -> tuple[U8, Stored, Decoded]:
    """Decode pictures into an array: in memory, or in a file that a killed process leaves to the next one.

    Args:
        gallery: where the pictures are from.
        items: the pictures.
        places: their places in the gallery.
        spec: what they are brought to.
        memory_bytes: above this they go to a file; None is what is left of the budget of the process.
    """
    shape = (len(items), *spec.shape)
    budget = memory_left() if memory_bytes is None else memory_bytes
    work = None
    if int(np.prod(shape)) > budget >= 0 and gallery.identity is not None and fcntl is not None:
        told = f"{gallery.kind} {gallery.identity()} {spec.to_json()} {shape}"
        work = _open_work(sha256(told.encode() + places.tobytes()).hexdigest()[:32])
    if work is None:
        pixels, stored = allocate(shape, memory_bytes)
        decoded = decode_all(items, spec, pixels)
        return pixels[: decoded.n_rows], stored, decoded
    try:
        pixels = map_file(work.file, shape)
    except BaseException:
        work.remove()
        raise
    try:
        decoded = decode_all(items, spec, pixels, work.before(len(items)), lambda block: work.note(pixels, block))
    except BaseException:
        work.file.close()  # for the next process
        raise
    # Behind the last view of it, or at the end of the process: views know the mapping, not the array.
    weakref.finalize(pixels._mmap, work.remove)  # type: ignore[attr-defined]
    return pixels[: decoded.n_rows], "memory-mapped", decoded


@dataclass(frozen=True, eq=False)
class _Work:
    """A file of pixels and the list of what is in it, in the hands of this process."""

    path: Path
    file: IO[bytes]

    @property
    def listed(self) -> Path:
        return self.path.with_suffix(".jsonl")

    def before(self, n_items: int) -> Decoded:
        """Return what an earlier process has decoded; a list that makes no sense is begun again."""
        found = Decoded()
        try:
            for line in self.listed.read_text(encoding="utf-8").split("\n")[:-1]:
                found = found.joined(_read_block(line, found.n_items))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            found = Decoded()
        if not found.n_items or found.n_items > n_items:
            self.listed.unlink(missing_ok=True)
            return Decoded()
        return found

    def note(self, pixels: U8, block: Decoded) -> None:
        """Bring a block to the disk, then say so: what is listed is there, also after a loss of power."""
        assert isinstance(pixels, np.memmap)
        pixels.flush()
        skipped = [[item, one.name, one.reason] for item, one in block.skipped.items()]
        sizes = [[width, height, count] for (width, height), count in block.sizes.items()]
        line = json.dumps({"items": block.n_items, "skipped": skipped, "sizes": sizes})
        with suppress(OSError), self.listed.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def remove(self) -> None:
        for path in (self.listed, self.path):
            with suppress(OSError):
                path.unlink()
        self.file.close()
        with suppress(OSError):  # others may be at work
            self.path.parent.rmdir()


def _read_block(line: str, first: int) -> Decoded:
    told = json.loads(line)
    skipped = {int(item): Skipped(str(name), str(reason)) for item, name, reason in told["skipped"]}
    sizes = Counter({(int(width), int(height)): int(count) for width, height, count in told["sizes"]})
    n_items = int(told["items"])
    if sum(sizes.values()) + len(skipped) != n_items or not all(first <= item < first + n_items for item in skipped):
        raise ValueError("it does not add up")
    return Decoded(n_items, skipped, sizes)


def _open_work(key: str) -> _Work | None:
    """Open the file of some pictures, new or left by a kill; None if there can be none."""
    folder = scratch_folder() / f"selfsort-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            return None  # somebody else's
        _sweep(folder)
        for number in range(_NAMES):
            path = folder / f"pixels-{key}-{number}.u8"
            file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b")
            if _is_taken(file, path):
                file.close()
                continue
            return _Work(path, file)
    except OSError:
        return None
    return None


def _is_taken(file: IO[bytes], path: Path) -> bool:
    assert fcntl is not None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # One that was removed since it was opened is nobody's.
        return not os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except OSError:
        return True


def _sweep(folder: Path) -> None:
    """Remove what was left long ago."""
    for path in folder.glob("pixels-*.u8"):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > _KEPT_SECONDS:
                with path.open("rb") as file:
                    if not _is_taken(file, path):
                        path.with_suffix(".jsonl").unlink(missing_ok=True)
                        path.unlink()
