"""Ground truth for scoring: from the source itself, from a file, or from the names of folders."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from selfsort.data.binaries import idx_kind, idx_length, read_idx_labels
from selfsort.data.folder import expanded, printable
from selfsort.data.npz import read_rows, stored_shape
from selfsort.data.spreadsheet import from_text, is_as_text
from selfsort.errors import InvalidInput, MissingData, invalid
from selfsort.types import I64

Array = npt.NDArray[Any]
Labels = tuple[I64, tuple[str, ...] | None]

_LONGEST_LINE = 1 << 20
_HEADER_WORDS = ("label", "labels", "class", "target", "category")


def encode(values: Array | Sequence[str], names: tuple[str, ...] | None = None) -> Labels:
    """Number the classes 0.. in sorted order; keep what they were called, unless they were these numbers.

    >>> encode(["cat", "ant", "cat"])
    (array([1, 0, 1]), ('ant', 'cat'))
    >>> encode(np.array([0, 1, 1]))
    (array([0, 1, 1]), None)
    """
    array = np.asarray(values)
    if array.dtype.kind == "f" and (np.abs(array) < 2.0**63).all() and (array == np.floor(array)).all():
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iubUS":
        got = f"{array.dtype} of shape {array.shape}"
        raise invalid("labels", "be a list of whole numbers or texts", got, "Check the labels.")
    classes, codes = np.unique(array, return_inverse=True)
    labels = codes.astype(np.int64)
    if array.dtype.kind in "US":
        return labels, tuple(printable(os.fsdecode(c)) if isinstance(c, bytes) else str(c) for c in classes)
    if names is not None and classes[0] >= 0 and classes[-1] < len(names):
        return labels, tuple(names[int(c)] for c in classes)
    is_plain = np.array_equal(classes, np.arange(len(classes)))
    return labels, None if is_plain else tuple(str(c) for c in classes.tolist())


def encode_known(values: Array | None, unknown: int | None, names: tuple[str, ...] | None) -> Labels | None:
    """Number the classes if every image has one."""
    if values is None or (unknown is not None and bool((values == unknown).any())):
        return None
    return encode(values, names)


def class_folder(name: str) -> str:
    """Return the folder that a picture lies in, or the one above a folder that is only called images.

    >>> class_folder("train/n02056570/images/n02056570_0.JPEG"), class_folder("cats/1.png")
    ('n02056570', 'cats')
    """
    parent = PurePosixPath(name).parent
    return parent.parent.name if parent.name == "images" and parent.parent.name else parent.name


def from_folders(names: Sequence[str], source: str) -> Labels:
    """Take the folder that each picture lies in as its class."""
    parents = [class_folder(name) for name in names]
    if len(set(parents)) < 2:
        remedy = "Put the pictures of each class in a folder of its own, or leave --labels-from-folders out."
        raise invalid("--labels-from-folders", f"find at least two folders in {source}", len(set(parents)), remedy)
    return encode(parents)


def require_file(path: Path) -> None:
    """Refuse a path where no file is."""
    if not path.is_file():
        raise MissingData(f"The labels file {printable(str(path))} is not there. Expected a file. Check the path.")


def from_file(path: Path, names: Sequence[str], kept: Sequence[int], found: int) -> Labels:
    """Read labels from a file.

    A csv names its images (`name,label`), plainly or as exported for spreadsheets; any other file lists labels in
    the order of the source, for all images found or for those kept.

    Args:
        path: csv, txt (one label a line), npy, npz (`labels`) or idx.
        names: names of the images kept.
        kept: their places among the images found.
        found: how many images the source has, with those skipped or not selected.
    """
    require_file(path)
    try:
        if path.suffix.lower() == ".csv":
            return encode(_from_csv(path, names))
        length = _length(path)
        if length == found:
            return encode(_read_entries(path, kept, found))
        if length == len(kept):
            return encode(_read_entries(path, range(length), length))
    except PermissionError as error:
        shown = printable(str(path))
        raise MissingData(
            f"The labels file {shown} may not be read ({error.strerror}). Expected a file. Check the permissions."
        ) from error
    counts = f"{found}" if found == len(kept) else f"{found} found or {len(kept)} kept"
    got = f"{length} in {printable(path.name)}"
    raise invalid("labels", f"have one entry per image ({counts})", got, "Check that labels and source match.")


def read_labels(path: str | os.PathLike[str], names: Sequence[str]) -> I64:
    """Read the labels of images that were read before, known by their names; for scoring a finished run.

    Images named by row number that are a selection of their source (--where) may have labels for all of it.
    """
    file = expanded(path)
    kept, found = list(range(len(names))), len(names)
    is_selection = all(name.isdecimal() for name in names) and list(names) != list(map(str, kept))
    if is_selection and file.suffix.lower() != ".csv":
        require_file(file)
        rows, length = [int(name) for name in names], _length(file)
        if max(rows) < length:
            kept, found = rows, length
    return from_file(file, names, kept, found)[0]


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, ends included; what is no text or has no lines is refused early."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            while line := file.readline(_LONGEST_LINE):
                if len(line) == _LONGEST_LINE or "\0" in line:
                    raise _no_text(path)
                yield line
    except UnicodeDecodeError as error:
        raise _no_text(path) from error


def _no_text(path: Path) -> InvalidInput:
    wanted = "be a csv, text, npy, npz or idx file"
    return invalid(f"the labels file {printable(path.name)}", wanted, "other bytes", "Convert it.")


def _member(path: Path) -> str | None:
    """Return which array of a NumPy file holds the labels."""
    return "labels.npy" if path.suffix.lower() == ".npz" else None


def _is_numpy(path: Path) -> bool:
    return path.suffix.lower() in (".npy", ".npz")


def _texts(path: Path) -> Iterator[str]:
    return (line.strip() for line in _lines(path) if line.strip())


def _length(path: Path) -> int:
    """Return how many labels a file lists, without keeping them."""
    if _is_numpy(path):
        shape = stored_shape(path, _member(path))
        if len(shape) != 1:
            got = f"shape {shape} in {printable(path.name)}"
            raise invalid("labels", "have one entry per image", got, "Check that labels and source match.")
        return shape[0]
    if idx_kind(path) == 1:
        return idx_length(path)
    return sum(1 for _ in _texts(path))


def _read_entries(path: Path, rows: Sequence[int], length: int) -> Array:
    if _is_numpy(path):
        return read_rows(path, rows, _member(path))
    if idx_kind(path) == 1:
        return read_idx_labels(path, length)[np.asarray(rows, np.int64)]
    return as_numbers(_texts(path))[np.asarray(rows, np.int64)]


def as_numbers(texts: Iterable[str | int]) -> Array:
    """Read labels as whole numbers if all of them are (and fit 64 bits), else as texts."""
    values = list(texts)
    try:
        return np.array([int(value) for value in values], np.int64)
    except (ValueError, OverflowError):
        return np.array([str(value) for value in values])


def _from_csv(path: Path, names: Sequence[str]) -> Array:
    wished = set(names)
    labels: dict[str, str] = {}
    exported: dict[str, str] = {}
    slashed: dict[str, str] = {}
    is_exported, column = True, 1
    try:
        for number, row in enumerate(filter(None, csv.reader(_lines(path)))):
            if number == 0 and len(row) > 1:
                head = [field.strip().lower() for field in row]
                found = next((word for word in _HEADER_WORDS if word in head[1:]), None)
                if found is not None:
                    column = head.index(found, 1)
                    continue
            if len(row) <= column:
                wanted, remedy = "be name,label", "Add the missing label."
                raise invalid(f"every line of {printable(path.name)}", wanted, _few(row), remedy)
            name, label = row[0], row[column].strip()
            # A table made on Windows separates folders by backslashes, our names never do.
            for found_in, as_named, value in (
                (labels, name, label),
                (exported, from_text(name), from_text(label)),
                (slashed, name.replace("\\", "/"), label),
            ):
                if as_named in wished:
                    found_in[as_named] = value
            is_exported = is_exported and is_as_text(name) and is_as_text(label)
    except csv.Error as error:
        raise invalid(f"the labels file {printable(path.name)}", "be a csv file", error, "Repair it.") from error
    labels = slashed | labels
    # A file that only looks exported, because a name in it begins with an apostrophe, does not know that name.
    if is_exported and all(name in exported for name in names):
        labels = exported
    missing = [name for name in names if name not in labels]
    if missing:
        few = ", ".join(repr(name) for name in missing[:3])
        raise invalid(
            f"the labels in {printable(path.name)}",
            f"name every image ({len(names)})",
            f"none for {len(missing)} of them ({few})",
            "Write each name as it is in the source: its path inside the folder, or its row number.",
        )
    return as_numbers(labels[name] for name in names)


def _few(row: list[str]) -> str:
    text = str(row)
    return text if len(text) <= 200 else text[:197] + "..."
