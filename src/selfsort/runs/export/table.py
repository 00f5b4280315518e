"""What a finished run can be turned into: one table for the command line and for the page of `selfsort explore`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

from selfsort.errors import InvalidInput
from selfsort.runs.export.csv import csv_file
from selfsort.runs.export.folders import Mode, build_beside, export_folders
from selfsort.runs.export.layouts import build_fiftyone, build_imagefolder, build_sidecars, coco_file
from selfsort.runs.export.levels import folders_above
from selfsort.runs.export.npz import npz_file
from selfsort.runs.files import write_whole
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import RunLabels

Fill: TypeAlias = Callable[[IO[bytes]], object]


@dataclass(frozen=True)
class Exporter:
    """One form of a run for other programs."""

    ending: str
    """Put after the name of the run where nobody names a place."""
    prepare: Callable[[RunFolder, RunLabels], Fill] | None
    """Does all that can be refused, and returns what fills a file; None for what is not one file."""
    build: Callable[[RunFolder, RunLabels, Path], None] | None = None
    """Fills a new folder."""


def _export_onnx(folder: RunFolder, place: Path) -> None:
    from selfsort.runs.export.onnx import export_onnx  # needs torch, as no other exporter does

    export_onnx(folder, place)


EXPORTERS: dict[str, Exporter] = {
    "csv": Exporter(".csv", csv_file),
    "folders": Exporter("-folders", None),
    "npz": Exporter(".npz", npz_file),
    "onnx": Exporter(".onnx", None),
    "coco": Exporter("-coco.json", coco_file),
    "fiftyone": Exporter("-fiftyone", None, build_fiftyone),
    "imagefolder": Exporter("-imagefolder", None, build_imagefolder),
    "xmp": Exporter("-xmp", None, build_sidecars),
}


def place_of(folder: RunFolder, to: str, out: Path | None) -> Path:
    """Return where an export goes: `out`, or a place here named after the run."""
    return out or Path(f"{folder.path.resolve().name}{EXPORTERS[to].ending}")


def export_run(
    folder: RunFolder, labels: RunLabels, to: str, out: Path | None = None, *, mode: Mode = "copy", n_levels: int = 1
) -> Path:
    """Write one export and return its place: `out`, or one here named after the run."""
    exporter = EXPORTERS[to]
    if to != "folders" and (n_levels > 1 or mode != "copy"):
        option = "--levels is for folders inside folders" if n_levels > 1 else f"--mode {mode} is for folders"
        raise InvalidInput(f"{option}, and --to is {to}. Expected --to folders. Leave it out.")
    place = place_of(folder, to, out)
    if to == "folders":
        above = folders_above(folder, labels, n_levels)
        return export_folders(folder, place, labels, mode=mode, is_numbered=out is None, above=above)
    if folder.holds(place):
        raise InvalidInput(
            f"{place} would lie among the files of the run. Expected another place. Choose another --out."
        )
    if exporter.build is not None:
        build = exporter.build
        return build_beside(place, lambda tree: build(folder, labels, tree), is_numbered=out is None)
    if exporter.prepare is None:
        _export_onnx(folder, place)
    else:
        write_whole(place, exporter.prepare(folder, labels))
    return place
