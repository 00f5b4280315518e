"""New images into the folders that a run was exported to, or into new ones of the same names. Nothing is replaced."""

from __future__ import annotations

import filecmp
import glob
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from selfsort.data import Dataset
from selfsort.errors import CannotWrite, InvalidInput
from selfsort.progress import track
from selfsort.runs.export.folders import folder_names, folder_titles, free_path, safe_name, save_png
from selfsort.runs.labels import RunLabels
from selfsort.types import I64


def drop_into_folders(out: Path, dataset: Dataset, clusters: I64, labels: RunLabels) -> Counter[str]:
    """Copy every image into the folder of its cluster, and count how many came to each.

    A picture that lies there already, byte for byte, under its own name or one with a number, is not copied again: the
    same command can be given twice. Another one of the same name gets a number.

    Args:
        out: the folder that holds the folders, made if it is not there.
        dataset: the new images.
        clusters: (N,) where they belong.
        labels: the clusters of the run with the names that people gave them.
    """
    if out.exists() and not out.is_dir():
        raise InvalidInput(f"the output {out} is a file. Expected a folder, or nothing yet. Choose another --out.")
    titles = _titles(labels, clusters)
    came: Counter[str] = Counter()
    try:
        for row in track(range(len(clusters)), "sorting into folders", len(clusters)):
            title = titles[int(clusters[row])]
            inside = out / title
            inside.mkdir(parents=True, exist_ok=True)
            if dataset.paths is None:
                pixels, name = dataset.images.pixels[row], f"{safe_name(dataset.names[row])}.png"
                is_new = _add(inside, name, lambda place, pixels=pixels: save_png(pixels, place))  # type: ignore[misc]
            else:
                path = dataset.paths[row]
                is_new = _add(inside, safe_name(path.name), lambda place, path=path: shutil.copyfile(path, place))  # type: ignore[misc]
            came[title] += is_new
    except OSError as error:
        raise CannotWrite(
            f"{out} could not be written ({error.strerror or error}). Expected a writable place with enough space. "
            "Free some space or choose another --out, and give the command again: what is there stays."
        ) from error
    return came


def _titles(labels: RunLabels, clusters: I64) -> dict[int, str]:
    """Call the folders as the export does; a cluster that has no images in the run comes after them."""
    titles = folder_titles(labels)
    further = {cluster: f"cluster-{cluster:02d}" for cluster in np.unique(clusters).tolist() if cluster not in titles}
    return titles | folder_names(further)


def _add(inside: Path, name: str, fill: Callable[[Path], object]) -> bool:
    """Write a file under a temporary name and give it its own, unless the same file lies there already."""
    handle, temporary = tempfile.mkstemp(prefix=".selfsort-", suffix=".part", dir=inside)
    os.close(handle)
    made = Path(temporary)
    try:
        fill(made)
        made.chmod(0o666 & ~_umask())
        place = free_path(inside / name)
        taken = (inside / name, *inside.glob(f"{glob.escape(Path(name).stem)}-*{glob.escape(Path(name).suffix)}"))
        if any(path.is_file() and filecmp.cmp(made, path, shallow=False) for path in taken):
            return False
        made.rename(place)
        return True
    finally:
        with suppress(FileNotFoundError):
            made.unlink()


def _umask() -> int:
    """Return what is taken from the permissions of new files."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
