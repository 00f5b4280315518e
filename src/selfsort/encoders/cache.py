"""Rows computed once and kept: features under the user's cache folder, written as they come.

A kept file is a plain .npy whose rows are appended block by block under another name, so that a process that was
killed leaves whole rows, and the next one goes on behind them. The name is a digest of everything the rows depend on.
Features tell what a picture shows: the folder is for its owner alone.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from selfsort import distributed
from selfsort.data.store import allocate
from selfsort.errors import invalid
from selfsort.progress import track
from selfsort.types import Json

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PLACE, LIMIT = "SELFSORT_CACHE", "SELFSORT_CACHE_LIMIT"
"""Environment variables: the folder (empty: keep nothing), and how many bytes it may hold."""

DEFAULT_LIMIT = 10 * 1024**3

Rows = npt.NDArray[Any]


@dataclass(frozen=True)
class Wanted:
    """An array to be computed by rows: its form, and what its content depends on."""

    n: int
    row: tuple[int, ...]
    dtype: str
    depends_on: Json
    """Everything that decides about the content; also shown to whoever looks into the cache."""

    @property
    def key(self) -> str:
        """The name of the file."""
        text = json.dumps([self.n, self.row, self.dtype, self.depends_on], sort_keys=True)
        return sha256(text.encode()).hexdigest()[:32]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.row) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Kept:
    """One file of the cache."""

    path: Path
    n_bytes: int
    used: float
    """When it was last read or written, in seconds since 1970."""
    about: Json
    is_whole: bool


def cache_folder() -> Path | None:
    """Return where features are kept: what the environment says, else the platform's folder for caches."""
    if (named := os.environ.get(PLACE)) is not None:
        return Path(named).expanduser() if named else None
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        base = home / "Library" / "Caches"
    elif os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "selfsort"


def cache_limit() -> int:
    """Return how many bytes may be kept."""
    text = os.environ.get(LIMIT, "")
    if not text:
        return DEFAULT_LIMIT
    if not text.isdigit():
        raise invalid(LIMIT, "be a whole number of bytes", repr(text), "Set it to for example 10000000000.")
    return int(text)


def list_kept(folder: Path) -> list[Kept]:
    """List what is kept, last used first."""
    found = []
    for path in folder.glob("features-*.npy*"):
        with contextlib.suppress(OSError):
            status = path.stat()
            is_whole = path.suffix == ".npy"
            found.append(Kept(path, status.st_size, status.st_mtime, _about(path), is_whole))
    return sorted(found, key=lambda kept: -kept.used)


def clear(folder: Path) -> int:
    """Remove everything that is kept; returns the bytes."""
    return _remove(list_kept(folder))


def _remove(kept: list[Kept]) -> int:
    n_bytes = 0
    for one in kept:
        with contextlib.suppress(OSError):
            one.path.unlink()
            n_bytes += one.n_bytes
        with contextlib.suppress(OSError):
            _description(one.path).unlink()
    return n_bytes


def make_room(folder: Path, n_bytes: int, limit: int) -> None:
    """Remove what was not used for longest until so many more bytes fit."""
    held = 0
    too_much = []
    for one in list_kept(folder):
        held += one.n_bytes
        if held + n_bytes > limit:
            too_much.append(one)
    _remove(too_much)


def computed_rows(
    wanted: Wanted, compute: Callable[[int, int], Rows], *, folder: Path | None, what: str, block: int
) -> Rows:
    """Return the array, computing only what is not kept: `compute(first, last)` gives the rows between.

    Of several processes each calls this; they compute together (inside `compute`) and the first one writes. Where
    nothing can be kept, the array lives in memory, or beyond the budget in a file without a name.
    """
    folder = folder if folder is not None and distributed.agree(_is_usable(folder, wanted)) else None
    if folder is not None:
        if (whole := distributed.agree(_whole_file(folder, wanted))) is not None:
            return _mapped(whole, wanted)
        with _growing(folder, wanted) as file:
            if distributed.agree(file is not None):
                return _grown(file, folder, wanted, compute, what, block)
    rows = allocate((wanted.n * wanted.row_bytes,), None)[0].view(wanted.dtype).reshape(wanted.n, *wanted.row)
    for first, last in _blocks(0, wanted.n, block, what):
        rows[first:last] = compute(first, last)
    return rows


def _blocks(done: int, n: int, block: int, what: str) -> Iterator[tuple[int, int]]:
    blocks = [(first, min(first + block, n)) for first in range(done, n, block)]
    return track(blocks, what, n - done, weigh=lambda span: span[1] - span[0])


def _is_usable(folder: Path, wanted: Wanted) -> bool:
    """Whether the array may be kept there: a writable folder that is allowed to hold so much."""
    n_bytes = wanted.n * wanted.row_bytes
    if n_bytes > cache_limit():
        return False
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _file_of(folder: Path, wanted: Wanted) -> Path:
    return folder / f"features-{wanted.key}.npy"


def _description(path: Path) -> Path:
    return path.with_name(path.name.split(".")[0] + ".json")


def _about(path: Path) -> Json:
    try:
        found = json.loads(_description(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _whole_file(folder: Path, wanted: Wanted) -> Path | None:
    """Return the finished file, unless it is missing or not what was written."""
    path = _file_of(folder, wanted)
    try:
        if not path.exists() or path.stat().st_size != len(_header(wanted)) + wanted.n * wanted.row_bytes:
            return None
        if _about(path).get("checksum") != _checksum(path):
            return None
        os.utime(path)  # it was of use: others go first
    except OSError:
        return None
    return path


def _checksum(path: Path) -> int:
    total = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 24):
            total = zlib.crc32(chunk, total)
    return total


def _header(wanted: Wanted) -> bytes:
    stream = BytesIO()
    described = {"descr": np.dtype(wanted.dtype).str, "fortran_order": False, "shape": (wanted.n, *wanted.row)}
    np.lib.format.write_array_header_1_0(stream, described)
    return stream.getvalue()


def _mapped(path: Path, wanted: Wanted) -> Rows:
    rows: Rows = np.load(path, mmap_mode="r")
    return rows


@contextlib.contextmanager
def _growing(folder: Path, wanted: Wanted) -> Iterator[IO[bytes] | None]:
    """Open the file that grows, for the first process; None if another program is at it or the disk refuses."""
    if not distributed.is_main():
        yield None
        return
    file: IO[bytes] | None = None
    try:
        make_room(folder, wanted.n * wanted.row_bytes, cache_limit())
        file = (folder / f"{_file_of(folder, wanted).name}.part").open("a+b")
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        Path(file.name).chmod(0o600)
    except OSError:
        if file is not None:
            file.close()
        file = None
    try:
        yield file
    finally:
        if file is not None:
            file.close()


def _grown(
    file: IO[bytes] | None, folder: Path, wanted: Wanted, compute: Callable[[int, int], Rows], what: str, block: int
) -> Rows:
    """Append what is missing, and give the file its name."""
    header, path = _header(wanted), _file_of(folder, wanted)
    done = 0
    if file is not None:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if file.read(len(header)) != header:
            file.truncate(0)
            file.write(header)
            size = len(header)
        # Blocks, not rows: how images are cut into chunks decides about the last bits.
        done = min((size - len(header)) // (wanted.row_bytes * block) * block, wanted.n)
        file.truncate(len(header) + done * wanted.row_bytes)
        file.seek(0, os.SEEK_END)
    done = distributed.agree(done)
    for first, last in _blocks(done, wanted.n, block, what):
        rows = np.ascontiguousarray(compute(first, last), dtype=wanted.dtype)
        if file is not None:
            file.write(rows.data)
            file.flush()
    if file is not None:
        about = {**wanted.depends_on, "images": wanted.n, "made": time.strftime("%Y-%m-%d")}
        about["checksum"] = _checksum(Path(file.name))
        _description(path).write_text(json.dumps(about), encoding="utf-8")
        Path(file.name).replace(path)
    distributed.agree(None)  # the others wait for the name
    return _mapped(path, wanted)
