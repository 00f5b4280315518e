"""Encoded pictures inside larger files: webdataset shards (tar) and folders written by Hugging Face `datasets`.

Shards are plain tar files, so reading them needs no package. Members are never extracted: their bytes
are read at the place the tar index gives, by any thread. `NAME.cls` beside `NAME.jpg` is its label.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import tarfile
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from selfsort.data.decode import PICTURE_SUFFIXES, Unreadable
from selfsort.data.folder import open_file, printable
from selfsort.data.gallery import Gallery, Item
from selfsort.data.lazy import Lazy
from selfsort.data.tables import damaged
from selfsort.errors import invalid, missing_extra

_MAX_LABEL_BYTES = 1000


class Members(Lazy[Item]):
    """Pictures inside tar files, of which names and places are held."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._names: list[str] = []
        self._shards, self._starts, self._sizes = array("i"), array("q"), array("q")

    def add(self, shard: int, member: tarfile.TarInfo) -> None:
        """Take a member of one of the files."""
        self._names.append(printable(f"{self._paths[shard].name}/{member.name}"))
        self._shards.append(shard)
        self._starts.append(member.offset_data)
        self._sizes.append(member.size)

    def __len__(self) -> int:
        return len(self._names)

    def _at(self, place: int) -> Item:
        path = self._paths[self._shards[place]]
        return Item(self._names[place], partial(_slice, path, self._starts[place], self._sizes[place]))


def open_shards(paths: Sequence[Path]) -> Gallery:
    """List the pictures of tar files, in the order of the files and of their members."""
    items = Members(paths)
    labels: list[str | None] = []
    ignored: Counter[str] = Counter()
    for number, path in enumerate(paths):
        start, classes = len(items), dict[str, str]()
        keys: list[str] = []
        try:
            with tarfile.open(path, "r:") as archive, path.open("rb") as content:
                for member in archive:
                    archive.members.clear()  # type: ignore[attr-defined] # the library keeps a kilobyte for each that it has passed
                    place = PurePosixPath(member.name)
                    if not member.isreg() or place.name.startswith("."):
                        continue
                    key, suffix = _split_key(member.name)
                    if place.suffix.lower() in PICTURE_SUFFIXES:
                        items.add(number, member)
                        keys.append(key)
                    elif suffix == "cls" and member.size <= _MAX_LABEL_BYTES:
                        content.seek(member.offset_data)
                        text = content.read(member.size).decode("utf-8", "surrogateescape")
                        classes[key] = sys.intern(printable(text).strip())
                    else:
                        ignored[printable(place.suffix.lower()) or "(no suffix)"] += 1
                # tarfile takes a file that was cut off for one that ends; the end mark tells them apart.
                content.seek(archive.offset)
                if content.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                    raise damaged(printable(path.name), "no end mark: it was cut off")
        except tarfile.TarError as error:
            raise damaged(printable(path.name), error) from error
        labels.extend(classes.get(key) for key in keys)
        if len(items) == start:
            raise invalid(printable(path.name), "hold pictures", "none", "Check that this is a shard of images.")
    known = [label for label in labels if label is not None]
    return Gallery(
        "webdataset",
        items,
        ignored=dict(ignored),
        labels=known if len(known) == len(items) else None,
        identity=partial(identity_of, paths),
    )


def identity_of(paths: Sequence[Path]) -> str:
    """Digest names, sizes and times of change of some large files."""
    told = [(path.name, (status := path.stat()).st_size, status.st_mtime_ns) for path in paths]
    return sha256(repr(told).encode("utf-8", "surrogateescape")).hexdigest()


def _split_key(name: str) -> tuple[str, str]:
    """Split as webdataset does: the key ends at the first dot of the last part."""
    folder, slash, last = name.rpartition("/")
    stem, _, suffix = last.partition(".")
    return folder + slash + stem, suffix.lower()


def _slice(path: Path, start: int, size: int) -> IO[bytes]:
    return io.BufferedReader(_Slice(path, start, size))


class _Slice(io.RawIOBase):
    """A part of a file as a file of its own: nothing is read before it is asked for."""

    def __init__(self, path: Path, start: int, size: int) -> None:
        self._file = path.open("rb")
        self._start, self._size, self._place = start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._place = max(0, offset + (0, self._place, self._size)[whence])
        return self._place

    def readinto(self, buffer: Any, /) -> int:
        self._file.seek(self._start + self._place)
        n_read = self._file.readinto(memoryview(buffer)[: max(0, self._size - self._place)])
        self._place += n_read
        return n_read

    def close(self) -> None:
        self._file.close()
        super().close()


def is_datasets_folder(folder: Path) -> bool:
    """Say whether `datasets` wrote this folder with save_to_disk."""
    return (folder / "dataset_dict.json").is_file() or (
        (folder / "dataset_info.json").is_file() and (folder / "state.json").is_file()
    )


def open_datasets_folder(folder: Path) -> Gallery:
    """Open a folder of Hugging Face `datasets`; several splits are read one after the other."""
    try:
        library = importlib.import_module("datasets")
    except ImportError:
        raise missing_extra("datasets", "Reading a Hugging Face datasets folder", "datasets") from None
    try:
        loaded = library.load_from_disk(str(folder))
    except Exception as error:  # a foreign reader on foreign files
        raise damaged(f"the dataset {printable(folder.name)}", error) from error
    splits: dict[str, Any] = dict(loaded) if hasattr(loaded, "keys") else {str(loaded.split or "all"): loaded}
    columns: dict[str, list[Any]] = {"split": []}
    first = next(iter(splits.values()))
    image_column = _column_of_type(first, library.Image)
    label_column = _column_of_type(first, library.ClassLabel)
    if image_column is None:
        held = ", ".join(first.column_names)
        raise invalid(f"the dataset {printable(folder.name)}", "have a column of images", held, "Cast one to Image().")
    kept = [name for name in first.column_names if name != "split" and _is_scalar(first.features[name])]
    parts = []
    for split, rows in splits.items():
        encoded = rows.cast_column(image_column, library.Image(decode=False))
        parts.append((split, len(rows), partial(_fetch, encoded, image_column, threading.Lock())))
        columns["split"] += [split] * len(rows)
        for name in kept:
            columns.setdefault(name, []).extend(rows[name])
    arrays: dict[str, npt.NDArray[Any]] = {name: np.array(values) for name, values in columns.items()}
    labels = None if label_column is None else arrays[label_column].tolist()
    names = None if label_column is None else tuple(first.features[label_column].names)
    # The library marks rows without a label by -1 (usual in test splits).
    items = Rows(parts)
    return Gallery("datasets", items, columns=arrays, labels=labels, unknown_label=-1, label_names=names)


def _column_of_type(rows: Any, kind: type) -> str | None:
    return next((str(name) for name, feature in rows.features.items() if isinstance(feature, kind)), None)


def _is_scalar(feature: Any) -> bool:
    dtype = getattr(feature, "dtype", "")
    return isinstance(dtype, str) and dtype.startswith(("int", "uint", "float", "bool", "string"))


def _fetch(rows: Any, column: str, lock: threading.Lock, row: int) -> IO[bytes]:
    # One reader at a time: the table is shared by all threads, and fetching bytes is quick.
    with lock:
        cell = rows[row][column]
    return stream_of(cell, Path())


class Rows(Lazy[Item]):
    """Pictures in the rows of tables, one after the other."""

    def __init__(self, parts: Sequence[tuple[str, int, Callable[[int], IO[bytes]]]]) -> None:
        """Take the name of each table, its rows, and what opens the picture in one of them."""
        self._parts = parts
        self._ends = np.cumsum([n_rows for _, n_rows, _ in parts])

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def _at(self, place: int) -> Item:
        part = int(np.searchsorted(self._ends, place, side="right"))
        name, n_rows, fetch = self._parts[part]
        row = place - (int(self._ends[part]) - n_rows)
        return Item(f"{name}/{row}", partial(fetch, row))


def stream_of(cell: Any, folder: Path) -> IO[bytes]:
    """Return the picture in a cell as Hugging Face writes it: its bytes, or the path of a file."""
    if cell is None or not isinstance(cell, dict) or (cell.get("bytes") is None and cell.get("path") is None):
        raise Unreadable("there is no picture in this row")
    if cell.get("bytes") is not None:
        return io.BytesIO(cell["bytes"])
    return open_file(folder / cell["path"])
