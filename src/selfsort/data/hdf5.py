"""HDF5 files, in which JULE's data sets were released: `data` (or `images`) and, maybe, `labels`; an extra.

Floats lie in 0..1 or, as there, in 0..255: whichever holds all of them. Only arrays inside the file are read: links
that lead to other files are not followed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from selfsort.data.arrays import Array, check_dtype, find_layout, to_uint8
from selfsort.data.folder import printable
from selfsort.data.tables import Part, Table, block_rows, damaged, require_column
from selfsort.errors import InvalidInput, SelfsortError, invalid, missing_extra
from selfsort.types import U8

MAGIC = b"\x89HDF\r\n\x1a\n"
_IMAGES = ("images", "data")
_IMAGE_BYTES, _VALUE_BYTES = 1 << 28, 4096
"""Of one image, and of one label: what is longer is none."""


def open_hdf5(path: Path) -> Table:
    """Open a file of images and what belongs to them."""
    what = printable(path.name)
    with _opened(path) as file:
        arrays = {name: file[name] for name in file if _is_array(file, name)}
        key = next((name for name in _IMAGES if name in arrays), next(iter(arrays)) if len(arrays) == 1 else None)
        if key is None:
            held, remedy = ", ".join(map(printable, arrays)) or "nothing", "Save the images under that name."
            raise invalid(what, "hold an array called images or data", held, remedy)
        part = _part(path, key, arrays[key])
        shapes = {name: tuple(found.shape) for name, found in arrays.items() if name != key}

    def column(name: str) -> Array | None:
        if name not in shapes:
            return None
        require_column(name, shapes[name], part.rows)
        return _read(path, name)

    labels = None
    if "labels" in shapes:
        if int(np.prod(shapes["labels"])) != part.rows:
            remedy = "Save labels and images of the same length."
            raise invalid(
                f"labels in {what}", f"have one entry per image ({part.rows})", f"shape {shapes['labels']}", remedy
            )
        labels = _read(path, "labels").reshape(-1)
    return Table("hdf5", (part,), columns=column, column_names=tuple(shapes), labels=labels)


def _is_array(file: Mapping[str, Any], name: str) -> bool:
    """Tell arrays of plain numbers from groups, texts, and links that lead out of the file."""
    library = importlib.import_module("h5py")
    is_inside = isinstance(file.get(name, getlink=True), library.HardLink)  # type: ignore[call-overload]
    return is_inside and isinstance(file[name], library.Dataset) and file[name].dtype.kind in "iufb"


def _part(path: Path, key: str, stored: Any) -> Part:
    what, shape = f"{printable(path.name)} ({printable(key)})", tuple(map(int, stored.shape))
    try:
        check_dtype(stored.dtype)
        to_nhwc = find_layout(shape)
    except InvalidInput as error:
        raise InvalidInput(f"In {what}: {error}") from None
    row_bytes = int(np.prod(shape[1:])) * stored.dtype.itemsize
    if row_bytes > _IMAGE_BYTES:
        raise invalid(f"an image in {what}", f"have at most {_IMAGE_BYTES} bytes", row_bytes, "Save smaller images.")
    one = to_nhwc(np.broadcast_to(np.uint8(0), (1, *shape[1:]))).shape

    def raw() -> Iterator[Array]:
        rows = block_rows(row_bytes)
        with _opened(path) as file:
            for start in range(0, shape[0], rows):
                yield file[key][start : start + rows]

    def blocks() -> Iterator[U8]:
        limits = (0.0, 1.0)
        if stored_kind == "f" and max(float(block.max()) for block in raw()) > 1:
            limits = (0.0, 255.0)
        for block in raw():
            try:
                yield to_nhwc(to_uint8(block, limits))
            except InvalidInput as error:
                raise InvalidInput(f"In {what}: {error}") from None

    stored_kind = stored.dtype.kind
    return Part(shape[0], (one[1], one[2], one[3]), blocks)


def _read(path: Path, name: str) -> Array:
    with _opened(path) as file:
        if file[name].dtype.itemsize > _VALUE_BYTES:
            raise invalid(printable(name), "hold numbers", file[name].dtype, "Leave that array out.")
        values: Array = file[name][:]
        return values


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        library = importlib.import_module("h5py")
    except ImportError:
        raise missing_extra("h5py", "Reading an HDF5 file", "hdf5") from None
    try:
        with library.File(path, "r") as file:
            yield file
    except (SelfsortError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # a foreign reader on foreign bytes
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise damaged(printable(path.name), reason) from error
