"""Rows computed once and kept: features under the user's cache folder, written as they come.

A kept file is a plain .npy whose rows are appended block by block under another name, so that a process that was
killed leaves whole rows, and the next one goes on behind them. The name is a digest of everything the rows depend on.
Features tell what a picture shows: the folder is for its owner alone.

A cache is a convenience: whatever lies in its folder, and whatever the disk says, features are computed all the same.
Nothing but plain files with names of ours is read, written or removed there.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import stat
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
from selfsort.data.store import allocate_floats
from selfsort.errors import invalid
from selfsort.pages import forget
from selfsort.progress import track
from selfsort.types import Json

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PLACE, LIMIT = "SELFSORT_CACHE", "SELFSORT_CACHE_LIMIT"
"""Environment variables: the folder (empty: keep nothing), and how many bytes it may hold."""

DEFAULT_LIMIT = 10 * 1024**3

_NAME = re.compile(r"features-[0-9a-f]{32}\.(npy|npy\.part|json|json\.part)")
_LONGEST_DESCRIPTION = 1 << 16

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
        try:
            return Path(named).expanduser() if named else None
        except RuntimeError:
            raise invalid(PLACE, "be a folder", repr(named), "There is no such user: write the path in full.") from None
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
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise invalid(LIMIT, "be a whole number of bytes", repr(text), "Set it to for example 10000000000.")
    return int(text)


def list_kept(folder: Path) -> list[Kept]:
    """List what is kept, last used first."""
    found = []
    for path in _own_files(folder):
        if ".npy" in path.name and (status := _plain_status(path)) is not None:
            is_whole = path.suffix == ".npy"
            found.append(Kept(path, status.st_size, status.st_mtime, _about(path), is_whole))
    return sorted(found, key=lambda kept: -kept.used)


def _own_files(folder: Path) -> list[Path]:
    """List what has a name of ours: the folder may be one that holds other things, too."""
    try:
        return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except OSError:
        return []


def _plain_status(path: Path) -> os.stat_result | None:
    """Return what the system says of a plain file; None for links, pipes, devices and folders."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def clear(folder: Path) -> int:
    """Remove everything that is kept; returns the bytes of features."""
    n_bytes = _remove(list_kept(folder))
    for path in _own_files(folder):
        with contextlib.suppress(OSError):
            path.unlink()
    return n_bytes


def _remove(kept: list[Kept]) -> int:
    n_bytes = 0
    for one in kept:
        with contextlib.suppress(OSError):
            one.path.unlink()
            n_bytes += one.n_bytes
        with contextlib.suppress(OSError):
            _description(one.path).unlink()
    return n_bytes


def make_room(folder: Path, wanted: Wanted, limit: int) -> None:
    """Remove what was not used for longest until an array fits."""
    held = wanted.n * wanted.row_bytes
    too_much = []
    for one in list_kept(folder):
        if one.path == _part_of(folder, wanted):  # what is there of it already
            continue
        held += one.n_bytes
        if held > limit:
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
            return _mapped(whole, wanted, wanted.n)
        with _growing(folder, wanted, block) as part:
            if (done := distributed.agree(None if part is None else part.n_done)) is not None:
                blocks = _blocks(done, wanted.n, block, what)
                return _grown(part, _part_of(folder, wanted), wanted, compute, blocks)
    return _filled(_allocated(wanted), compute, _blocks(0, wanted.n, block, what))


def kept_rows(wanted: Wanted, folder: Path) -> Rows | None:
    """Return the array if it is kept and whole; nothing is computed for it."""
    whole = _whole_file(folder, wanted)
    return None if whole is None else _mapped(whole, wanted, wanted.n)


def _blocks(done: int, n: int, block: int, what: str) -> Iterator[tuple[int, int]]:
    blocks = [(first, min(first + block, n)) for first in range(done, n, block)]
    return track(blocks, what, n - done, weigh=lambda span: span[1] - span[0])


def _allocated(wanted: Wanted) -> Rows:
    return allocate_floats((wanted.n, *wanted.row), wanted.dtype)


def _filled(rows: Rows, compute: Callable[[int, int], Rows], blocks: Iterator[tuple[int, int]]) -> Rows:
    for first, last in blocks:
        rows[first:last] = compute(first, last)
        forget(rows)
    return rows


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


# Files


def _file_of(folder: Path, wanted: Wanted) -> Path:
    return folder / f"features-{wanted.key}.npy"


def _part_of(folder: Path, wanted: Wanted) -> Path:
    return folder / f"features-{wanted.key}.npy.part"


def _description(path: Path) -> Path:
    return path.with_name(path.name.split(".")[0] + ".json")


def _about(path: Path) -> Json:
    described = _description(path)
    try:
        status = _plain_status(described)
        if status is None or status.st_size > _LONGEST_DESCRIPTION:
            return {}
        found = json.loads(described.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _whole_file(folder: Path, wanted: Wanted) -> Path | None:
    """Return the finished file, unless it is missing or not what was written."""
    path, header = _file_of(folder, wanted), _header(wanted)
    status = _plain_status(path)
    if status is None or status.st_size != len(header) + wanted.n * wanted.row_bytes:
        return None
    try:
        with path.open("rb") as file:
            if file.read(len(header)) != header or _about(path).get("checksum") != _checksum(path):
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


def _mapped(file: Path | IO[bytes], wanted: Wanted, n: int) -> Rows:
    """Return the first n rows of a file of ours."""
    rows: Rows = np.memmap(file, wanted.dtype, mode="r", offset=len(_header(wanted)), shape=(n, *wanted.row))
    return rows


def _opened(path: Path, mode: str) -> IO[bytes]:
    """Open a file for its owner alone, never through a link, and without a buffer that could fail later."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o600)

    file: IO[bytes] = open(path, mode, buffering=0, opener=opener)  # noqa: SIM115 (Path.open takes no opener)
    return file


class _Part:
    """The file that grows: a header and whole blocks of rows, in the hands of this process alone."""

    def __init__(self, file: IO[bytes], path: Path, wanted: Wanted, block: int) -> None:
        """Take an open file.

        Raises:
            OSError: another process has it, or the disk refuses.
        """
        self.file, self.path, self.wanted = file, path, wanted
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever had it a moment ago may have given it its name: then it is no longer ours to change.
        if not os.path.samestat(os.fstat(file.fileno()), path.lstat()) or _plain_status(path) is None:
            raise FileNotFoundError(path)
        header = _header(wanted)
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if file.read(len(header)) != header:
            file.truncate(0)
            self.write(header)
            size = len(header)
        # Blocks, not rows: how images are cut into chunks decides about the last bits.
        self.n_done = min((size - len(header)) // (wanted.row_bytes * block) * block, wanted.n)
        file.truncate(len(header) + self.n_done * wanted.row_bytes)

    def write(self, content: bytes | memoryview) -> None:
        """Append bytes, all of them."""
        left = memoryview(content).cast("B")
        while left:
            left = left[self.file.write(left) :]

    def takes(self, rows: Rows) -> bool:
        """Append rows; False if the disk refuses."""
        try:
            self.write(np.ascontiguousarray(rows, dtype=self.wanted.dtype).data)
        except OSError:
            return False
        return True

    def finished(self) -> Path:
        """Give the file its name and its description; returns where it is then."""
        path = _file_of(self.path.parent, self.wanted)
        described = _description(path)
        draft = described.with_name(described.name + ".part")
        about = {**self.wanted.depends_on, "images": self.wanted.n, "made": time.strftime("%Y-%m-%d")}
        try:
            about["checksum"] = _checksum(self.path)
            with _opened(draft, "wb") as file:
                file.write(json.dumps(about).encode())
            draft.replace(described)
            if fcntl is None:  # on Windows, an open file cannot be renamed
                self.file.close()
            self.path.replace(path)
        except OSError:
            return self.path
        return path


@contextlib.contextmanager
def _growing(folder: Path, wanted: Wanted, block: int) -> Iterator[_Part | None]:
    """Open the file that grows, for the first process; None if another program is at it or the disk refuses."""
    part: _Part | None = None
    with contextlib.ExitStack() as stack:
        if distributed.is_main():
            with contextlib.suppress(OSError):
                make_room(folder, wanted, cache_limit())
                path = _part_of(folder, wanted)
                part = _Part(stack.enter_context(_opened(path, "a+b")), path, wanted, block)
        yield part


def _grown(
    part: _Part | None,
    path: Path,
    wanted: Wanted,
    compute: Callable[[int, int], Rows],
    blocks: Iterator[tuple[int, int]],
) -> Rows:
    """Append what is missing, and give the file its name; on a disk that has become full, go on in memory."""
    for first, last in blocks:
        rows = compute(first, last)
        if distributed.agree(part is None or part.takes(rows)):
            continue
        held = _allocated(wanted)
        if first:
            held[:first] = _mapped(path if part is None else part.file, wanted, first)
        held[first:last] = rows
        distributed.agree(None)  # all have read it
        if part is not None:
            with contextlib.suppress(OSError):
                path.unlink()  # what is left of the disk is for the run
        return _filled(held, compute, blocks)
    named = distributed.agree(None if part is None else part.finished())  # the others wait for the name
    # By the open file where there is one: somebody may have cleared the folder meanwhile.
    return _mapped(named if part is None or part.file.closed else part.file, wanted, wanted.n)
