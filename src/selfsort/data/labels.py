"""Ground truth for scoring: from the source itself, from a file, or from the names of folders."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from selfsort.data.binaries import idx_kind, read_idx_labels
from selfsort.data.folder import expanded, printable
from selfsort.data.npz import read_whole
from selfsort.errors import MissingData, invalid
from selfsort.types import I64

Array = npt.NDArray[Any]
Labels = tuple[I64, tuple[str, ...] | None]

_HEADER_WORDS = ("label", "labels", "class", "target", "category")


def encode(values: Array | Sequence[str], names: tuple[str, ...] | None = None) -> Labels:
    """Number the classes 0.. in sorted order; keep what they were called, unless they were these numbers.

    >>> encode(["cat", "ant", "cat"])
    (array([1, 0, 1]), ('ant', 'cat'))
    >>> encode(np.array([0, 1, 1]))
    (array([0, 1, 1]), None)
    """
    array = np.asarray(values)
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.floor(array)).all():
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iubUS":
        got = f"{array.dtype} of shape {array.shape}"
        raise invalid("labels", "be a list of whole numbers or texts", got, "Check the labels.")
    classes, codes = np.unique(array, return_inverse=True)
    labels = codes.astype(np.int64)
    if array.dtype.kind in "US":
        return labels, tuple(c.decode("utf-8", "replace") if isinstance(c, bytes) else str(c) for c in classes)
    if names is not None and classes[0] >= 0 and classes[-1] < len(names):
        return labels, tuple(names[int(c)] for c in classes)
    is_plain = np.array_equal(classes, np.arange(len(classes)))
    return labels, None if is_plain else tuple(str(c) for c in classes.tolist())


def encode_known(values: Array | None, unknown: int | None, names: tuple[str, ...] | None) -> Labels | None:
    """Number the classes if every image has one."""
    if values is None or (unknown is not None and bool((values == unknown).any())):
        return None
    return encode(values, names)


def from_folders(names: Sequence[str], source: str) -> Labels:
    """Take the folder that each picture lies in as its class."""
    parents = [PurePosixPath(name).parent.name for name in names]
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

    A csv names its images (`name,label`); any other file lists labels in the order of the source, for all
    images found or for those kept.

    Args:
        path: csv, txt (one label a line), npy, npz (`labels`) or idx.
        names: names of the images kept.
        kept: their places among the images found.
        found: how many images the source has, with those skipped or not selected.
    """
    require_file(path)
    if path.suffix.lower() == ".csv":
        return encode(_from_csv(path, names))
    values = _read_list(path)
    if values.ndim == 1 and len(values) == found:
        return encode(values[np.asarray(kept, np.int64)])
    if values.ndim == 1 and len(values) == len(kept):
        return encode(values)
    counts = f"{found}" if found == len(kept) else f"{found} found or {len(kept)} kept"
    got = f"shape {values.shape} in {printable(path.name)}"
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
        rows, length = [int(name) for name in names], len(_read_list(file))
        if max(rows) < length:
            kept, found = rows, length
    return from_file(file, names, kept, found)[0]


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        wanted = "be a csv, text, npy, npz or idx file"
        raise invalid(f"the labels file {printable(path.name)}", wanted, "other bytes", "Convert it.") from error


def _read_list(path: Path) -> Array:
    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz"):
        return read_whole(path, "labels.npy" if suffix == ".npz" else None)
    if idx_kind(path) == 1:
        return read_idx_labels(path)
    return as_numbers(line.strip() for line in _read_text(path).splitlines() if line.strip())


def as_numbers(texts: Iterable[str | int]) -> Array:
    """Read labels as whole numbers if all of them are, else as texts."""
    values = list(texts)
    try:
        return np.array([int(value) for value in values], np.int64)
    except ValueError:
        return np.array([str(value) for value in values])


def _from_csv(path: Path, names: Sequence[str]) -> Array:
    rows = [row for row in csv.reader(_read_text(path).splitlines(keepends=True)) if row]
    column = 1
    if rows and len(rows[0]) > 1:
        head = [field.strip().lower() for field in rows[0]]
        found = next((word for word in _HEADER_WORDS if word in head[1:]), None)
        if found is not None:
            column, rows = head.index(found, 1), rows[1:]
    if any(len(row) <= column for row in rows):
        bad = next(row for row in rows if len(row) <= column)
        raise invalid(f"every line of {printable(path.name)}", "be name,label", bad, "Add the missing label.")
    by_name = {row[0]: row[column].strip() for row in rows}
    missing = [name for name in names if name not in by_name]
    if missing:
        few = ", ".join(repr(name) for name in missing[:3])
        raise invalid(
            f"the labels in {printable(path.name)}",
            f"name every image ({len(names)})",
            f"none for {len(missing)} of them ({few})",
            "Write each name as it is in the source: its path inside the folder, or its row number.",
        )
    return as_numbers(by_name[name] for name in names)
