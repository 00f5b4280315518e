"""NumPy files, read as a stream: nothing is unpickled, and no header is believed before the sizes agree.

An .npz holds `images` (or a single array of any name), and may hold `labels`, `names` of the classes, and
further arrays with one value per image for --where. An .npy holds the images.
"""

from __future__ import annotations

import io
import sys
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from selfsort.data.arrays import Array, check_dtype, find_layout, to_uint8
from selfsort.data.folder import printable
from selfsort.data.meter import Metered
from selfsort.data.tables import Part, Table, block_rows, damaged, read_block, require_column
from selfsort.errors import InvalidInput, SelfsortError, invalid
from selfsort.types import U8

_MAX_HEADER = 10_000
_INDEX_BYTES = 1 << 24
_IMAGE_BYTES = 1 << 28
_LONGEST_REASON = 120
_VALUE_BYTES = 4096
"""Of one label or name: what is longer is no label."""
_CLASSES = 1 << 16
"""Names that a file may hold for however few images; more than images and this there cannot be."""


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
            with _archive(path) as archive, archive.open(member) as inner:
                yield inner, archive.getinfo(member).file_size
    except KeyError:
        raise _lacks(path, str(member).removesuffix(".npy")) from None
    except (SelfsortError, FileNotFoundError, PermissionError):
        raise
    except MemoryError as error:
        raise invalid(
            what, "fit the memory of this machine", "an array too large for it", "Save less at once."
        ) from error
    except Exception as error:
        # Foreign bytes make zipfile and its four decompressors raise almost anything.
        if isinstance(error, RuntimeError) and "password" in str(error):
            raise invalid(what, "not be encrypted", "an encrypted archive", "Save it without a password.") from error
        raise damaged(what, _first_line(error)) from error


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive whose index is no longer than it may be."""
    with path.open("rb") as file:
        metered = Metered(file, _INDEX_BYTES)
        with zipfile.ZipFile(cast("IO[bytes]", metered)) as archive:
            metered.allow(sys.maxsize)  # from here on the sizes in the index are checked
            yield archive


def members_of(path: Path) -> list[zipfile.ZipInfo]:
    """List what is in an archive."""
    try:
        with _archive(path) as archive:
            return archive.infolist()
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # as in _opened
        raise damaged(printable(path.name), _first_line(error)) from error


def member_names(path: Path) -> list[str]:
    """List the names of what is in an archive."""
    return [member.filename for member in members_of(path)]


def _first_line(error: Exception) -> str:
    line = next(iter(str(error).splitlines()), type(error).__name__)
    return line if len(line) <= _LONGEST_REASON else line[:_LONGEST_REASON] + "..."


def _what(path: Path, member: str | None) -> str:
    return printable(path.name) + (f" ({printable(member)})" if member else "")


def _lacks(path: Path, name: str) -> InvalidInput:
    held = ", ".join(printable(member.removesuffix(".npy")) for member in member_names(path)) or "nothing"
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers that Python 2 wrote
            shape, is_fortran, dtype = read(piece, max_header_size=_MAX_HEADER)
    except Exception as error:  # NumPy reads the header as Python, and what is none fails in any way
        raise damaged(what, f"a header that cannot be read ({_first_line(error)})") from error
    if dtype.hasobject:
        raise invalid(what, "hold numbers", "pickled Python objects, which are not opened", "Save plain arrays.")
    promised = dtype.itemsize
    for side in shape:
        promised *= side
    present = size - piece.tell()
    if any(side < 0 for side in shape) or promised != present:
        raise damaged(what, f"a header that promises {promised} bytes, and {present} bytes of data")
    return _Header(shape, is_fortran, dtype, head[piece.tell() :], present)


def _blocks(path: Path, member: str | None) -> Iterator[Array]:
    """Yield the array in blocks of rows (in one block if rows are not what is stored)."""
    what = _what(path, member)
    with _opened(path, member) as (stream, size):
        header = _read_header(stream, size, what)
        rest = _Rest(header.start, stream)
        n = header.shape[0] if header.shape else 1
        row_bytes = header.data_bytes // max(1, n)
        is_fortran = header.is_fortran and len(header.shape) > 1
        rows = n if is_fortran else block_rows(row_bytes)
        for start in range(0, n, max(1, rows)):
            count = min(rows, n - start)
            data = read_block(rest, count * row_bytes, what)
            shape = (count, *header.shape[1:]) if header.shape else ()
            yield np.frombuffer(data, header.dtype).reshape(shape, order="F" if is_fortran else "C")
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


def _header_of(path: Path, member: str | None) -> _Header:
    with _opened(path, member) as (stream, size):
        return _read_header(stream, size, _what(path, member))


def stored_shape(path: Path, member: str | None = None) -> tuple[int, ...]:
    """Return the shape of an array without reading it."""
    return _header_of(path, member).shape


def read_rows(path: Path, rows: Sequence[int], member: str | None = None) -> Array:
    """Read some entries of a column: labels, names, values for --where. What lies between them is not kept."""
    header = _header_of(path, member)
    if header.dtype.itemsize > _VALUE_BYTES:
        wanted = f"hold numbers or texts of at most {_VALUE_BYTES} bytes each"
        raise invalid(_what(path, member), wanted, f"{header.dtype.itemsize} bytes", "Shorten the texts.")
    wished = np.asarray(rows, np.int64)
    values = np.empty((len(wished), *header.shape[1:]), header.dtype)
    start = 0
    for block in _blocks(path, member):
        here = (wished >= start) & (wished < start + len(block))
        values[here] = block[wished[here] - start]
        start += len(block)
    return values


def _part(path: Path, member: str | None) -> Part:
    what = _what(path, member)
    header = _header_of(path, member)
    try:
        check_dtype(header.dtype)
        to_nhwc = find_layout(header.shape)
    except InvalidInput as error:
        raise InvalidInput(f"In {what}: {error}") from None
    if header.data_bytes // header.shape[0] > _IMAGE_BYTES:
        got = f"{header.data_bytes // header.shape[0]}"
        raise invalid(f"an image in {what}", f"have at most {_IMAGE_BYTES} bytes", got, "Save smaller images.")
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
    members = [name for name in member_names(path) if name.endswith(".npy")]
    names = [name.removesuffix(".npy") for name in members]
    key = "images" if "images" in names else names[0] if len(names) == 1 else None
    if key is None:
        raise _lacks(path, "images")
    part = _part(path, key + ".npy")
    others = tuple(name for name in names if name != key)

    def column(name: str) -> Array | None:
        if name not in others:
            return None
        require_column(name, stored_shape(path, name + ".npy"), part.rows)
        return read_rows(path, range(part.rows), name + ".npy")

    return Table(
        "npz",
        (part,),
        columns=column,
        column_names=others,
        labels=_read_labels(path, part.rows) if "labels" in others else None,
        label_names=_read_names(path, part.rows) if "names" in others else None,
    )


def _read_labels(path: Path, n_images: int) -> Array:
    shape = stored_shape(path, "labels.npy")
    if shape != (n_images,):
        raise invalid(
            f"labels in {printable(path.name)}",
            f"have one entry per image ({n_images})",
            f"shape {shape}",
            "Save labels and images of the same length.",
        )
    return read_rows(path, range(n_images), "labels.npy")


def _read_names(path: Path, n_images: int) -> tuple[str, ...] | None:
    """Read what the classes are called; an array called names that is no list of texts is something else."""
    header = _header_of(path, "names.npy")
    if len(header.shape) != 1 or header.dtype.kind != "U":
        return None
    most = max(n_images, _CLASSES)
    if header.shape[0] > most:
        got = header.shape[0]
        raise invalid(f"names in {printable(path.name)}", f"name at most {most} classes", got, "Leave names out.")
    return tuple(map(str, read_rows(path, range(header.shape[0]), "names.npy")))
