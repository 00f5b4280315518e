"""A run in the layouts that labelling tools and trainers read: COCO, FiftyOne, the image folders of `datasets`, XMP.

Images marked wrong are left out. A class is a cluster, by the name that people gave it or by its number.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any
from xml.sax.saxutils import escape

import numpy as np

from selfsort import __version__
from selfsort.data import Dataset
from selfsort.data.decode import Unreadable, probe, quiet_pillow
from selfsort.data.folder import open_file
from selfsort.errors import InvalidInput
from selfsort.progress import track
from selfsort.runs.export.folders import folder_names, free_place, read_images_of, safe_name, save_png
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import RunLabels
from selfsort.text import printable
from selfsort.types import I64


@dataclass(frozen=True, eq=False)
class Labelled:
    """The images of a run that are not marked wrong, with their classes."""

    labels: RunLabels
    dataset: Dataset
    rows: I64
    classes: list[int]
    """Clusters in use, in the order of their numbers."""

    @classmethod
    def of(cls, folder: RunFolder, labels: RunLabels) -> Labelled:
        """Read the images of a run."""
        rows = np.flatnonzero(~labels.is_wrong)
        if not len(rows):
            raise InvalidInput("every image is marked wrong. Expected some that are right. Unmark those you trust.")
        return cls(labels, read_images_of(folder, labels.table), rows, np.unique(labels.table.labels[rows]).tolist())

    @property
    def names(self) -> list[str]:
        """The names of the classes, no two alike."""
        return list(folder_names({cluster: self.labels.name(cluster) for cluster in self.classes}).values())

    def cluster(self, row: int) -> int:
        """Return the place of an image's class among those in use."""
        return self.classes.index(int(self.labels.table.labels[row]))

    def confidence(self, row: int) -> float:
        """Return how likely an image is among its own kind; a person who moved it is sure."""
        is_moved = self.labels.table.labels[row] != self.labels.original[row]
        return 1.0 if is_moved else round(float(self.labels.table.confidence[row]), 6)

    def file_name(self, row: int) -> str:
        """Return a harmless name for the file of an image."""
        paths = self.dataset.paths
        return safe_name(f"{self.labels.table.names[row]}.png" if paths is None else paths[row].name)

    def write(self, row: int, place: Path) -> None:
        """Copy an image, or write it if it is no file."""
        place.parent.mkdir(parents=True, exist_ok=True)
        if self.dataset.paths is None:
            save_png(self.dataset.images.pixels[row], place)
        else:
            shutil.copyfile(self.dataset.paths[row], place)

    def size(self, row: int) -> tuple[int, int]:
        """Return width and height, upright."""
        if self.dataset.paths is None:
            height, width, _ = self.dataset.images.shape
            return width, height
        try:
            with open_file(self.dataset.paths[row]) as stream:
                look = probe(stream)
        except (OSError, Unreadable):  # it was read a moment ago
            return 0, 0
        return look.width, look.height


def coco_file(folder: RunFolder, labels: RunLabels) -> Callable[[IO[bytes]], object]:
    """Prepare one COCO file: a category for each cluster, a box around each whole image; names as in the source."""
    some = Labelled.of(folder, labels)
    images: list[dict[str, Any]] = []
    boxes: list[dict[str, Any]] = []
    with quiet_pillow():
        for number, row in enumerate(track(some.rows.tolist(), "exporting", len(some.rows)), start=1):
            width, height = some.size(row)
            images.append(
                {"id": number, "file_name": printable(labels.table.names[row]), "width": width, "height": height}
            )
            boxes.append(
                {
                    "id": number,
                    "image_id": number,
                    "category_id": some.cluster(row) + 1,
                    "bbox": [0, 0, width, height],
                    "area": width * height,
                    "iscrowd": 0,
                    "score": some.confidence(row),
                }
            )
    told = {
        "info": {"description": f"clusters of {folder.path.resolve().name}", "version": __version__},
        "licenses": [],
        "categories": [{"id": i, "name": name, "supercategory": ""} for i, name in enumerate(some.names, start=1)],
        "images": images,
        "annotations": boxes,
    }
    text = json.dumps(told).encode()
    return lambda file: file.write(text)


def build_fiftyone(folder: RunFolder, labels: RunLabels, tree: Path) -> None:
    """Write FiftyOne's own layout of image classification: `data/` with the images, and `labels.json`."""
    some = Labelled.of(folder, labels)
    taken: set[str] = set()
    said: dict[str, Any] = {}
    for row in track(some.rows.tolist(), "exporting", len(some.rows)):
        name = Path(some.file_name(row))
        stem = free_place(Path(name.stem), taken).name  # images are known by their names without the ending
        some.write(row, tree / "data" / f"{stem}{name.suffix}")
        said[stem] = {"label": some.cluster(row), "confidence": some.confidence(row)}
    _write_json(tree / "labels.json", {"classes": some.names, "labels": said})


def build_imagefolder(folder: RunFolder, labels: RunLabels, tree: Path) -> None:
    """Write what `datasets.load_dataset("imagefolder", data_dir=...)` reads: `train/CLASS/FILE`."""
    some = Labelled.of(folder, labels)
    names, taken = some.names, set[str]()
    for row in track(some.rows.tolist(), "exporting", len(some.rows)):
        inside = Path("train", names[some.cluster(row)])
        some.write(row, tree / free_place(inside / some.file_name(row), taken))


def build_sidecars(folder: RunFolder, labels: RunLabels, tree: Path) -> None:
    """Write an XMP file for each picture, `NAME.xmp` in the same subfolders: its cluster is a keyword."""
    some = Labelled.of(folder, labels)
    if some.dataset.paths is None:
        raise InvalidInput(
            "XMP files stand beside picture files, and this run's images came from an array. Expected a run of files. "
            "Use --to csv."
        )
    names, taken = some.names, set[str]()
    for row in track(some.rows.tolist(), "exporting", len(some.rows)):
        parts = PurePosixPath(labels.table.names[row]).parts
        inside = Path(*(safe_name(part) for part in parts[:-1] if part not in ("/", "..", ".")))
        place = tree / free_place(inside / f"{some.file_name(row)}.xmp", taken)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(sidecar(printable(names[some.cluster(row)])), encoding="utf-8")


def sidecar(keyword: str) -> str:
    """Return an XMP packet with one keyword, plain and as a branch of a tree of keywords."""
    word, branch = escape(keyword), escape(f"selfsort|{keyword.replace('|', '-')}")
    return (
        '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>\n'
        '<x:xmpmeta xmlns:x="adobe:ns:meta/">\n'
        ' <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">\n'
        '  <rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"\n'
        '    xmlns:lr="http://ns.adobe.com/lightroom/1.0/">\n'
        f"   <dc:subject><rdf:Bag><rdf:li>{word}</rdf:li></rdf:Bag></dc:subject>\n"
        f"   <lr:hierarchicalSubject><rdf:Bag><rdf:li>{branch}</rdf:li></rdf:Bag></lr:hierarchicalSubject>\n"
        "  </rdf:Description>\n </rdf:RDF>\n</x:xmpmeta>\n"
        '<?xpacket end="w"?>\n'
    )


def _write_json(path: Path, told: dict[str, Any]) -> None:
    path.write_text(json.dumps(told, indent=1), encoding="utf-8")
