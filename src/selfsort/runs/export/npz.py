"""The pixels that a method saw with the labels as they are now: something to train on, or a source for another fit."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from selfsort.errors import InvalidInput
from selfsort.runs.export.folders import read_images_of
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import RunLabels
from selfsort.types import I64


def npz_file(folder: RunFolder, labels: RunLabels) -> Callable[[IO[bytes]], object]:
    """Prepare images, labels, the names of the clusters and of the files; images marked wrong are left out."""
    kept = np.flatnonzero(~labels.is_wrong)
    if not len(kept):
        raise InvalidInput("every image is marked wrong. Expected some that are right. Unmark those you trust.")
    numbers, codes = np.unique(labels.table.labels[kept], return_inverse=True)
    pixels = read_images_of(folder, labels.table).images.pixels
    parts: dict[str, npt.NDArray[Any]] = {
        "labels": codes.astype(np.int64),
        "names": np.array([labels.name(int(number)) for number in numbers]),  # the reader of npz calls them classes
        "files": np.array([name.encode("utf-8", "backslashreplace").decode() for name in labels.table.names])[kept],
    }
    return lambda file: _write(file, pixels, kept, parts)


def _write(file: IO[bytes], pixels: npt.NDArray[np.uint8], kept: I64, parts: Mapping[str, npt.NDArray[Any]]) -> None:
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
