"""A finished run as something other programs can use: a label file, folders of images."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from PIL import Image

from selfsort.data import Dataset
from selfsort.errors import CannotWrite, InvalidInput
from selfsort.progress import track
from selfsort.reading import Reading
from selfsort.run import LabelTable, RunFolder, label_csv, write_whole
from selfsort.types import U8

_NAME_BYTES = 240
"""File systems allow 255; the rest is for numbering names that occur twice."""


def export_csv(folder: RunFolder, out: Path) -> Path:
    """Write name, cluster, confidence."""
    if out.resolve().parent == folder.path.resolve():
        raise InvalidInput(f"{out} would lie among the files of the run. Expected another place. Choose another --out.")
    table = folder.label_table()
    text = label_csv(table.names, table.labels, table.confidence)
    write_whole(out, lambda file: file.write(text))
    return out


def export_folders(
    folder: RunFolder,
    out: Path,
    *,
    link: bool = False,
    table: LabelTable | None = None,
    folder_names: Mapping[int, str] | None = None,
) -> Path:
    """Put every image into a folder named after its cluster, as a copy or as a link.

    Images that came out of an array file are written as PNG. The tree is built under a temporary name and
    renamed when complete, so a failure leaves nothing behind.

    Args:
        folder: a finished run.
        out: the folder to make.
        link: make links instead of copies.
        table: other labels than those of the run, for the same images.
        folder_names: what the folder of each cluster is called.
    """
    table = table or folder.label_table()
    if out.exists():
        raise InvalidInput(f"the output {out} exists already. Expected a new folder. Choose another --out.")
    dataset = read_images_of(folder, table)
    if link and dataset.paths is None:
        raise InvalidInput("--link needs images that are files, and this run's came from an array. Leave --link out.")
    titles = folder_names or _numbered(table)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
            tree = Path(scratch) / "tree"
            _fill(tree, table, dataset, titles, os.symlink if link else shutil.copyfile)
            tree.rename(out)
    except OSError as error:
        raise CannotWrite(
            f"{out} could not be written ({error.strerror or error}). Expected a writable place with enough space. "
            "Free some space or choose another --out; nothing half-written was left."
        ) from error
    return out


def read_images_of(folder: RunFolder, table: LabelTable) -> Dataset:
    """Read the images of a run from its source again; others than the run's are refused."""
    source, image = folder.field("source", dict), folder.field("image", dict)
    reading = Reading.from_run(source, folder.source_kind, table.names, image)
    dataset = reading.read(min_images=1)
    # Files are known by their names; rows of an array have only their pixels to be known by.
    is_other = dataset.paths is None and dataset.fingerprint != folder.field("fingerprint", str)
    if dataset.names != table.names or is_other:
        raise InvalidInput(
            f"the images in {reading.path} are not those of the run {folder.path}. "
            "Expected the same images. Restore the source, or use --to csv."
        )
    return dataset


def _numbered(table: LabelTable) -> dict[int, str]:
    width = max(2, len(str(int(table.labels.max()))))
    return {label: f"cluster-{label:0{width}d}" for label in set(table.labels.tolist())}


def _fill(
    tree: Path,
    table: LabelTable,
    dataset: Dataset,
    titles: Mapping[int, str],
    place: Callable[[Path, Path], object],
) -> None:
    rows = enumerate(zip(table.names, table.labels, strict=True))
    for row, (name, label) in track(rows, "exporting", len(table.names)):
        cluster = tree / titles[int(label)]
        cluster.mkdir(parents=True, exist_ok=True)
        if dataset.paths is None:
            _save_png(dataset.images.pixels[row], free_path(cluster / f"{safe_name(name)}.png"))
        else:
            place(dataset.paths[row], free_path(cluster / safe_name(dataset.paths[row].name)))


def safe_name(name: str) -> str:
    """Reduce a name from a run folder to one harmless file name.

    >>> safe_name("../../etc/passwd"), safe_name("cats/a b.jpg"), safe_name("..")
    ('passwd', 'a b.jpg', '_')
    """
    last = re.split(r"[/\\]", name.rstrip("/\\"))[-1].replace("\0", "")
    if last in ("", ".", ".."):
        return "_"
    if len(os.fsencode(last)) > _NAME_BYTES:
        suffix = Path(last).suffix[:10]
        return os.fsencode(last)[: _NAME_BYTES - 40].decode("utf-8", "ignore") + suffix
    return last


def free_path(path: Path) -> Path:
    """Number a path that is taken: files of one name may come from several folders."""
    candidate, number = path, 2
    while candidate.exists() or candidate.is_symlink():
        candidate, number = path.with_name(f"{path.stem}-{number}{path.suffix}"), number + 1
    return candidate


def _save_png(pixels: U8, path: Path) -> None:
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(path, format="PNG")
