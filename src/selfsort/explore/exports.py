"""Corrected labels for other programs: a label file, folders of images, images with labels to train on.

Everything goes into `exports/` in the run folder, under a new name each time; nothing there is ever overwritten. An
export gets its number when it is complete, so several may be under way at once.
"""

from __future__ import annotations

import csv
import io
import os
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from selfsort.data.spreadsheet import as_text
from selfsort.errors import InvalidInput
from selfsort.explore.editor import Editor
from selfsort.runs.export.folders import build_folders, put, read_images_of, safe_name, scratch_in
from selfsort.types import I64

FOLDER = "exports"
Kind = Literal["labels", "folders", "model-input"]

_FORMS: dict[Kind, tuple[str, str]] = {
    "labels": ("labels", ".csv"),
    "folders": ("sorted", ""),
    "model-input": ("model-input", ".npz"),
}
_NAMES = re.compile(r"(labels-[0-9]{3,}\.csv|model-input-[0-9]{3,}\.npz)")


def export(editor: Editor, kind: Kind) -> Path:
    """Write an export and return its path."""
    folder = editor.folder.path / FOLDER
    if folder.is_symlink():
        raise InvalidInput(f"{folder} is a link. Expected a plain folder in the run. Remove the link.")
    stem, suffix = _FORMS[kind]
    with scratch_in(folder) as scratch:
        made = scratch / "made"
        if kind == "labels":
            _write(made, lambda file: file.write(labels_csv(editor)))
        elif kind == "folders":
            _build_folders(editor, made)
        else:
            _write_model_input(editor, made)
        place = put(made, (folder / f"{stem}-{number:03d}{suffix}" for number in count(1)))
    assert place is not None  # there is always a higher number
    return place


def find_export(editor: Editor, name: str) -> Path | None:
    """Return an exported file by its name, if it is a plain file that an export wrote."""
    folder = editor.folder.path / FOLDER
    path = folder / name
    is_ours = _NAMES.fullmatch(name) and not folder.is_symlink() and not path.is_symlink() and path.is_file()
    return path if is_ours else None


def labels_csv(editor: Editor) -> bytes:
    """Write every image with its cluster now, its name, and what the method had said; for spreadsheets."""
    labels, is_wrong, names = editor.snapshot()
    stream = io.StringIO(newline="")
    # All texts are quoted: the writer would forget to where a name holds a carriage return.
    writer = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(["name", "cluster", "label", "is_wrong", "original_cluster", "original_confidence"])
    original = zip(editor.table.labels.tolist(), editor.table.confidence.tolist(), strict=True)
    rows = zip(editor.table.names, labels.tolist(), is_wrong.tolist(), original, strict=True)
    for name, cluster, wrong, (was, sure) in rows:
        writer.writerow([as_text(name), cluster, as_text(names[cluster]), int(wrong), was, round(sure, 6)])
    return stream.getvalue().encode("utf-8", "surrogateescape")


def folder_names(names: Mapping[int, str]) -> dict[int, str]:
    r"""Turn names of clusters into different, harmless names of folders.

    >>> folder_names({0: "cats/dogs", 1: "..", 2: "Cats-dogs"})
    {0: 'cats-dogs', 1: '_', 2: 'Cats-dogs-2'}
    """
    found: dict[int, str] = {}
    taken: set[str] = set()
    for cluster, name in sorted(names.items()):
        plain = safe_name(re.sub(r'[/\\:*?"<>|]', "-", name).lstrip("."), for_windows=True)
        candidate, number = plain, 2
        # Some file systems do not tell capitals from small letters.
        while candidate.casefold() in taken:
            candidate, number = f"{plain}-{number}", number + 1
        taken.add(candidate.casefold())
        found[cluster] = candidate
    return found


def _build_folders(editor: Editor, tree: Path) -> None:
    """Images marked wrong go into a folder of their own."""
    labels, is_wrong, names = editor.snapshot()
    wrong = max(names) + 1
    labels[is_wrong] = wrong
    titles = folder_names({**names, wrong: "marked wrong"})
    build_folders(tree, replace(editor.table, labels=labels), read_images_of(editor.folder, editor.table), titles)


def _write_model_input(editor: Editor, target: Path) -> None:
    """Write the pixels that the method saw with the corrected labels; images marked wrong are left out."""
    labels, is_wrong, names = editor.snapshot()
    kept = np.flatnonzero(~is_wrong)
    if not len(kept):
        raise InvalidInput("every image is marked wrong. Expected some that are right. Unmark those you trust.")
    numbers, codes = np.unique(labels[kept], return_inverse=True)
    pixels = read_images_of(editor.folder, editor.table).images.pixels
    parts: dict[str, npt.NDArray[Any]] = {
        "labels": codes.astype(np.int64),
        "names": np.array([names[int(number)] for number in numbers]),  # what the reader of npz calls the classes
        "files": np.array([name.encode("utf-8", "backslashreplace").decode() for name in editor.table.names])[kept],
    }
    _write(target, lambda file: _write_npz(file, pixels, kept, parts))


def _write(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Write a file so that it is on the disk before it gets its name."""
    with path.open("xb") as file:
        fill(file)
        file.flush()
        os.fsync(file.fileno())


def _write_npz(
    file: IO[bytes], pixels: npt.NDArray[np.uint8], kept: I64, parts: Mapping[str, npt.NDArray[Any]]
) -> None:
    """Like `np.savez_compressed`, but the images go through in blocks: they may not fit into memory twice."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("images.npy", "w", force_zip64=True) as member:
            shape = (len(kept), *pixels.shape[1:])
            header = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(member, header)
            for start in range(0, len(kept), 1024):
                member.write(np.ascontiguousarray(pixels[kept[start : start + 1024]]).data)
        for name, array in parts.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
