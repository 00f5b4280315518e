"""What a source is: found by looking inside, not by its name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from selfsort.data import binaries, hdf5, npz, parquet, shards, zipped
from selfsort.data.datasets import ImageSpec
from selfsort.data.decode import is_picture_head
from selfsort.data.folder import expanded, list_files, list_folder, list_recorded, printable, read_list_file
from selfsort.data.gallery import Gallery
from selfsort.data.tables import Table
from selfsort.data.words import kinds_in_words
from selfsort.errors import InvalidInput, MissingData, invalid

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_KNOWN = (
    "a folder or a zip of pictures, a list file, .npz, .npy, HDF5, idx, CIFAR or STL-10 binary, tar shards or Parquet"
)
_SNIFFED_BYTES = 4096
_TAR_MAGIC = slice(257, 262)


def open_source(source: Source) -> Gallery | Table:
    """Recognise a source and open it without reading its pixels."""
    if not isinstance(source, str | os.PathLike):
        return list_files(source, Path.cwd(), "files")
    path = expanded(source).absolute()
    shown = printable(str(source))
    try:
        if path.is_dir():
            return _open_folder(path, shown)
        require_there(source)
        return _open_file(path, shown)
    except PermissionError as error:
        raise MissingData(
            f"The source {shown} may not be read ({error.strerror}). Expected {_KNOWN}. Check the permissions."
        ) from error


def require_there(source: str | os.PathLike[str]) -> None:
    """Raise unless a source is a folder or a file; neither is opened."""
    path, shown = expanded(source).absolute(), printable(str(source))
    try:
        if path.is_dir() or path.is_file():
            return
        what = "is not a regular file" if path.exists() else "is not there"
    except (OSError, ValueError):  # the one who opens it says why
        return
    raise MissingData(f"The source {shown} {what}. Expected {_KNOWN}. Check the path.")


@dataclass(frozen=True)
class Recorded:
    """What a run says about its source, which need not be the person's own."""

    kind: str
    names: Sequence[str]
    """Of the images that could be read, in their order."""
    spec: ImageSpec
    """What they were brought to."""
    moved: Mapping[str, Path] = field(default_factory=dict)
    """Where pictures are that an export has moved, by name."""


def open_recorded(source: str, recorded: Recorded) -> Gallery | Table:
    """Open the source that a run folder names.

    The run may be a stranger's and name any path, so no folder is walked through: pictures are opened by their
    recorded names, and a source of another kind is a file, or lies in the folder itself.
    """
    path, shown = expanded(source).absolute(), printable(source)
    if recorded.kind == "folder" and (path.is_dir() or recorded.moved):
        return list_recorded(path, recorded.names, recorded.moved)
    if recorded.kind == "list":
        return list_files(recorded.names, path.parent, "list", recorded.moved)
    if path.is_dir():
        return _open_folder(path, shown, may_walk=False)
    return open_source(source)


def _open_folder(path: Path, shown: str, *, may_walk: bool = True) -> Gallery | Table:
    if shards.is_datasets_folder(path):
        return shards.open_datasets_folder(path)
    table = binaries.find_binaries(path)
    if table is not None:
        return table
    gallery = list_folder(path) if may_walk else Gallery("folder", [])
    if gallery.items:
        return gallery
    tars = sorted(path.glob("*.tar"))
    if tars:
        return shards.open_shards(tars)
    tables = parquet.find_parquet(path)
    if tables:
        return parquet.open_parquet(tables, path)
    if (path / "batches.meta").is_file() or (path / "meta").is_file():
        remedy = 'Get the "binary version" of the dataset.'
        raise invalid(f"the CIFAR batches in {shown}", "be in the binary version", "pickled files", remedy)
    arrays = sorted(file.name for file in path.iterdir() if file.suffix in (".npz", ".npy"))
    if arrays:
        raise invalid(
            f"the folder {shown}", "hold pictures", f"{printable(arrays[0])}", "Name that file as the source."
        )
    if not gallery.failed:
        seen = kinds_in_words(gallery.ignored) or "nothing"
        raise invalid(f"the folder {shown}", "hold pictures", seen, "Check the path.")
    return gallery


def _open_file(path: Path, shown: str) -> Gallery | Table:
    with path.open("rb") as file:
        head = file.read(_SNIFFED_BYTES)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _open_archive(path)
    if head.startswith(b"\x93NUMPY"):
        return npz.open_npy(path)
    if head.startswith(hdf5.MAGIC):
        return hdf5.open_hdf5(path)
    if head[_TAR_MAGIC] == b"ustar":
        return shards.open_shards([path])
    if head.startswith(parquet.MAGIC):
        return parquet.open_parquet([path], path.parent)
    idx_kind = binaries.idx_kind(path)
    if idx_kind == 3:
        return binaries.open_idx([path])
    if idx_kind == 1:
        raise invalid(shown, "hold images", "idx labels", "Name the images file; its labels are found beside it.")
    if is_picture_head(head):
        raise invalid("the source", f"be {_KNOWN}", f"the single picture {shown}", "Name the folder it is in.")
    if path.suffix == ".bin" and "_X" in path.name:
        return binaries.open_stl10([path])
    if path.suffix == ".bin" and binaries.is_cifar(path):
        return binaries.open_cifar([path])
    if head and b"\0" not in head and path.suffix not in (".npz", ".npy", ".bin", ".gz", ".tar"):
        return read_list_file(path)
    raise _unknown(path, shown, head)


def _open_archive(path: Path) -> Gallery | Table:
    """An .npz is a zip of arrays; any other is one of pictures."""
    members = npz.members_of(path)
    is_of_arrays = any(member.filename.endswith(".npy") for member in members)
    if not is_of_arrays and any(zipped.is_picture_name(member.filename) for member in members):
        return zipped.list_zip(path, members)
    return npz.open_npz(path)


def _unknown(path: Path, shown: str, head: bytes) -> InvalidInput:
    if not head:
        got, remedy = "an empty file", "Get the file again."
    elif head.startswith(b"\x1f\x8b"):
        got, remedy = "a gzip file that is no idx file", "Unpack it first."
    elif path.suffix == ".bin":
        size = path.stat().st_size
        got, remedy = f"{size} bytes, which is no whole number of CIFAR or STL-10 images", "Get the file again."
    else:
        got, remedy = "bytes of no known format", "Check the path, or convert the file."
    return invalid(f"the source {shown}", f"be {_KNOWN}", got, remedy)
