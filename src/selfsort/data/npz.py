"""NumPy files, read as a stream: nothing is unpickled, and no header is believed before the sizes agree.

An .npz holds `images` (or a single array of any name), and may hold `labels`, `names` of the classes, and
further arrays with one value per image for --where. An .npy holds the images.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from selfsort.data.arrays import Array, check_dtype, find_layout, to_uint8
from selfsort.data.folder import printable
from selfsort.data.tables import Part, Table, block_rows, damaged, read_block
from selfsort.errors import InvalidInput, invalid
from selfsort.types import U8

_MAX_HEADER = 10_000


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]
    start: bytes
    """Bytes of the data that were read together with the header."""
    data_bytes: int


@contextmanager
def _opened(path: Path, member: str | None) -> Iterator[tuple[IO[bytes], int]]:
    """Open a plain file or a member of an archive; yield the stream and its full size."""
    what = _what(path, member)
    try:
        if member is None:
            with path.open("rb") as stream:
                yield stream, path.stat().st_size
        else:
            with zipfile.ZipFile(path) as archive, archive.open(member) as inner:
                yield inner, archive.getinfo(member).file_size
    except KeyError:
        raise _lacks(path, str(member).removesuffix(".npy")) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise damaged(what, error) from error
    except RuntimeError as error:
        if "password" not in str(error) and "encrypted" not in str(error):
            raise
        raise invalid(what, "not be encrypted", "an encrypted archive", "Save it without a password.") from error


def _what(path: Path, member: str | None) -> str:
    return printable(path.name) + (f" ({printable(member)})" if member else "")


def _lacks(path: Path, name: str) -> InvalidInput:
    with zipfile.ZipFile(path) as archive:
        held = ", ".join(printable(member.removesuffix(".npy")) for member in archive.namelist()) or "nothing"
    remedy = "Save it with numpy.savez(path, images=..., labels=...)."
    return invalid(printable(path.name), f"hold an array called {name}", held, remedy)


def _read_header(stream: IO[bytes], size: int, what: str) -> _Header:
    """Parse the header and check that exactly the data it promises is there."""
    # The header is parsed from a bounded piece: one that claims to be gigabytes long is never read.
    head = stream.read(_MAX_HEADER + 12)
    piece = io.BytesIO(head)
    try:
        version = np.lib.format.read_magic(piece)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"format version {version[0]}.{version[1]}")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(piece, max_header_size=_MAX_HEADER)
    except ValueError as error:
        raise damaged(what, f"a header that cannot be read ({str(error).splitlines()[0]})") from error
    if dtype.hasobject:
        raise invalid(what, "hold numbers", "pickled Python objects, which are not opened", "Save plain arrays.")
    promised = dtype.itemsize
    for side in shape:
        promised *= side
    present = size - piece.tell()
    if any(side < 0 for side in shape) or promised != present:
        raise damaged(what, f"a header that promises {promised} bytes, and {present} bytes of data")
    return _Header(shape, is_fortran, dtype, head[piece.tell() :], present)


def _blocks(path: Path, member: str | None, is_whole: bool = False) -> Iterator[Array]:
    """Yield the array in blocks of rows (in one block if it must be whole)."""
    what = _what(path, member)
    with _opened(path, member) as (stream, size):
        header = _read_header(stream, size, what)
        rest = _Rest(header.start, stream)
        n = header.shape[0] if header.shape else 1
        row_bytes = header.data_bytes // max(1, n)
        rows = n if is_whole or header.is_fortran else block_rows(row_bytes)
        for start in range(0, n, max(1, rows)):
            count = min(rows, n - start)
            data = read_block(rest, count * row_bytes, what)
            shape = (count, *header.shape[1:]) if header.shape else ()
            yield np.frombuffer(data, header.dtype).reshape(shape, order="F" if header.is_fortran else "C")
        if rest.read(1):  # reading to the end also makes zipfile compare its checksum
            raise damaged(what, "data after the end of the array")


class _Rest:
    """A stream with a first piece put back in front."""

    def __init__(self, start: bytes, stream: IO[bytes]) -> None:
        self._start, self._stream = start, stream

    def read(self, size: int, /) -> bytes:
        if self._start:
            piece, self._start = self._start[:size], self._start[size:]
            return piece
        return self._stream.read(size)


def read_whole(path: Path, member: str | None = None) -> Array:
    """Read one array in full; for labels and other columns."""
    blocks = list(_blocks(path, member, is_whole=True))
    if not blocks:
        with _opened(path, member) as (stream, size):
            header = _read_header(stream, size, _what(path, member))
        return np.empty(header.shape, header.dtype)
    return blocks[0]


def _part(path: Path, member: str | None) -> Part:
    what = _what(path, member)
    with _opened(path, member) as (stream, size):
        header = _read_header(stream, size, what)
    try:
        check_dtype(header.dtype)
        to_nhwc = find_layout(header.shape)
    except InvalidInput as error:
        raise InvalidInput(f"In {what}: {error}") from None
    one = to_nhwc(np.broadcast_to(np.uint8(0), (1, *header.shape[1:]))).shape

    def blocks() -> Iterator[U8]:
        for block in _blocks(path, member):
            try:
                yield to_nhwc(to_uint8(block))
            except InvalidInput as error:
                raise InvalidInput(f"In {what}: {error}") from None

    return Part(header.shape[0], (one[1], one[2], one[3]), blocks)


def open_npy(path: Path) -> Table:
    """Open an .npy file of images."""
    return Table("npy", (_part(path, None),))


def open_npz(path: Path) -> Table:
    """Open an .npz file of images and what belongs to them."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [name for name in archive.namelist() if name.endswith(".npy")]
    except zipfile.BadZipFile as error:
        raise damaged(printable(path.name), error) from error
    names = [name.removesuffix(".npy") for name in members]
    key = "images" if "images" in names else names[0] if len(names) == 1 else None
    if key is None:
        raise _lacks(path, "images")
    part = _part(path, key + ".npy")

    def column(name: str) -> Array | None:
        return read_whole(path, name + ".npy") if name in names and name != key else None

    labels = column("labels")
    if labels is not None and labels.shape != (part.rows,):
        raise invalid(
            f"labels in {printable(path.name)}",
            f"have one entry per image ({part.rows})",
            f"shape {labels.shape}",
            "Save labels and images of the same length.",
        )
    class_names = column("names")
    is_name_list = class_names is not None and class_names.ndim == 1 and class_names.dtype.kind == "U"
    return Table(
        "npz",
        (part,),
        columns=column,
        column_names=tuple(name for name in names if name != key),
        labels=labels,
        label_names=tuple(map(str, class_names)) if is_name_list and class_names is not None else None,
    )
