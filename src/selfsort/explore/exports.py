"""Corrected labels for other programs: a label file, folders of images, images with labels to train on.

Everything goes into `exports/` in the run folder, under a new name each time; nothing there is ever overwritten. An
export gets its number when it is complete, so several may be under way at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import IO, Literal

from selfsort.errors import InvalidInput
from selfsort.explore.editor import Editor
from selfsort.runs.export.folders import build_folders, put, read_images_of, scratch_in
from selfsort.runs.export.table import EXPORTERS

FOLDER = "exports"
Kind = Literal["labels", "folders", "model-input"]

_FORMS: dict[Kind, tuple[str, str, str]] = {
    "labels": ("csv", "labels", ".csv"),
    "folders": ("folders", "sorted", ""),
    "model-input": ("npz", "model-input", ".npz"),
}
"""What the page offers: an exporter, and the name of what it writes."""
_NAMES = re.compile(r"(labels-[0-9]{3,}\.csv|model-input-[0-9]{3,}\.npz)")


def export(editor: Editor, kind: Kind) -> Path:
    """Write an export and return its path."""
    folder = editor.folder.path / FOLDER
    if folder.is_symlink():
        raise InvalidInput(f"{folder} is a link. Expected a plain folder in the run. Remove the link.")
    exporter, stem, suffix = _FORMS[kind]
    labels, prepare = editor.current(), EXPORTERS[exporter].prepare
    with scratch_in(folder) as scratch:
        made = scratch / "made"
        if prepare is None:
            build_folders(made, labels, read_images_of(editor.folder, labels.table))
        else:
            _write(made, prepare(editor.folder, labels))
        place = put(made, (folder / f"{stem}-{number:03d}{suffix}" for number in count(1)))
    assert place is not None  # there is always a higher number
    return place


def find_export(editor: Editor, name: str) -> Path | None:
    """Return an exported file by its name, if it is a plain file that an export wrote."""
    folder = editor.folder.path / FOLDER
    path = folder / name
    is_ours = _NAMES.fullmatch(name) and not folder.is_symlink() and not path.is_symlink() and path.is_file()
    return path if is_ours else None


def _write(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Write a file so that it is on the disk before it gets its name."""
    with path.open("xb") as file:
        fill(file)
        file.flush()
        os.fsync(file.fileno())
