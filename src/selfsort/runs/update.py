"""`selfsort update RUN SOURCE`: new pictures join the groups of a run, in a new run beside it.

The pictures of the run keep their rows, names, clusters and corrections; the new ones come behind them. Built beside
its place and put there when complete: after a kill at any moment the same command leads to the same run. What an
encoder has seen before it is in the cache, and a run that was complete already is not made twice.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import torch

from selfsort.data import Dataset, ImageSpec, read_source
from selfsort.data.detect import open_source
from selfsort.data.folder import expanded
from selfsort.data.gallery import Gallery
from selfsort.errors import InvalidInput, SelfsortError, invalid
from selfsort.runs.arrivals import Arrived, place
from selfsort.runs.derive import Derived, derive, names_and_marks
from selfsort.runs.folder import RunFolder, Thumbnails
from selfsort.runs.labels import RunLabels, current_labels
from selfsort.runs.loop import shrink
from selfsort.runs.model import STARTED_FROM, apply_in_chunks, load_model
from selfsort.runs.moved import picture_paths
from selfsort.runs.tree import features_of
from selfsort.types import F32, I64, Json

_N_SHOWN = 1500
"""Small copies of new pictures that are kept for the report."""


@dataclass(frozen=True, eq=False)
class Updated:
    """A run that new pictures have joined."""

    folder: RunFolder
    arrived: Arrived
    n_known: int
    """Pictures of the source that the run had already."""
    skipped: list[Json]


def update_run(
    folder: RunFolder,
    source: str,
    out: Path | None = None,
    *,
    device: torch.device,
    encoder: str | None = None,
    max_bad: float = 0.05,
) -> Updated:
    """Add the pictures of a source that a run does not have yet."""
    folder.require_finished()
    if out is not None:
        RunFolder.refuse_occupied(out)
    if folder.source_kind not in ("folder", "list"):
        raise InvalidInput(
            f"the run {folder.path} was made from an array, whose rows have no files to tell old from new. Expected a "
            "run of pictures. Use selfsort predict for new rows."
        )
    current = current_labels(folder)
    known = picture_paths(folder, current.table.names)
    dataset, n_known = _new_pictures(folder, source, {os.path.realpath(path) for path in known}, max_bad)
    features = np.array(features_of(folder, len(known)), np.float32)
    seen = apply_in_chunks(
        load_model(folder, device, encoder), dataset.images, names=dataset.names, fingerprint=dataset.fingerprint
    ).features
    if seen.shape[1] != features.shape[1]:
        raise invalid(
            "the features", f"have {features.shape[1]} columns as in the run", seen.shape[1], "Start a new run."
        )
    arrived = place(features, current.table.written, seen, _first_new(folder, current), device)
    labels = np.concatenate([current.table.written, arrived.labels])
    confidence: F32 = np.concatenate([current.table.confidence, arrived.confidence])
    skipped = list(dataset.ingest.get("skipped", []))
    told: Json = {
        "n_before": len(known),
        "added": len(dataset.names),
        "known": n_known,
        "nowhere": arrived.n_nowhere,
        "doubtful": arrived.n_doubtful,
        "new_groups": list(range(arrived.first_new, arrived.first_new + arrived.n_new)),
        "source": str(expanded(source).absolute()),
        "corrections": current.n_edits,
    }
    names = [*current.table.names, *(str(path) for path in dataset.paths or ())]
    there = None if out is not None else _made_before(folder, told, names, labels)
    if there is not None:
        return Updated(there, arrived, n_known, skipped)
    made = derive(
        folder,
        Derived(
            stage="update",
            names=names,
            labels=labels,
            confidence=confidence,
            features=np.concatenate([features, seen]),
            edits=names_and_marks(current),
            ingest={**dataset.ingest, "kind": "list", "skipped": skipped},
            config={"update": told, "source": _as_list(folder), "fingerprint": dataset.fingerprint},
            thumbnails=_thumbnails(folder, dataset, len(known)),
        ),
        out,
    )
    return Updated(made, arrived, n_known, skipped)


def _made_before(folder: RunFolder, told: Json, names: list[str], labels: I64) -> RunFolder | None:
    """Return the same update, if it stands beside the run: a kill may have come when all was done but said."""
    run = folder.path.resolve()
    for number in count(1):
        place = run.with_name(f"{run.name}-update{'' if number == 1 else f'-{number}'}")
        if not (place / "config.json").is_file():
            return None
        with suppress(SelfsortError):  # a stranger's, or damaged: nothing to go on with
            made = RunFolder.open(place)
            is_same = (
                made.is_finished and made.config.get("update") == told and made.config.get(STARTED_FROM) == str(run)
            )
            table = made.label_table() if is_same else None
            if table is not None and list(table.names) == names and np.array_equal(table.written, labels):
                return made
    return None


def _new_pictures(folder: RunFolder, source: str, known: set[str], max_bad: float) -> tuple[Dataset, int]:
    opened = open_source(source)
    if not isinstance(opened, Gallery) or any(item.path is None for item in opened.items):
        raise invalid("the new pictures", "be files, in a folder or a list", source, "Use selfsort predict for arrays.")
    paths = [item.path for item in opened.items if item.path is not None]
    new = [path for path in paths if os.path.realpath(path) not in known]
    if not new:
        raise InvalidInput(
            f"all {len(paths)} pictures of {source} are in the run {folder.path} already. Expected new ones. "
            "Add pictures, or name another source."
        )
    spec = ImageSpec.from_json(folder.field("image", dict))
    return read_source(new, spec=spec, max_bad=max_bad, min_images=1), len(paths) - len(new)


def _first_new(folder: RunFolder, current: RunLabels) -> int:
    """Return the first number that no cluster has had, by the method or by hand."""
    highest = max([int(current.table.labels.max()), int(current.original.max()), *current.names])
    return max(highest + 1, folder.n_clusters)


def _as_list(folder: RunFolder) -> Json:
    """Say how the pictures of both are read again: by paths, those of the run from where they were."""
    source = dict(folder.field("source", dict))
    if folder.source_kind == "folder":
        source["path"] = str(Path(str(source.get("path"))) / "pictures of an updated run")
    return {**source, "labels": None, "labels_from_folders": False}


def _thumbnails(folder: RunFolder, dataset: Dataset, n_before: int) -> Thumbnails:
    """Keep those of the run, and some of the new pictures."""
    rows = np.unique(np.linspace(0, len(dataset.names) - 1, min(len(dataset.names), _N_SHOWN)).astype(np.int64))
    pixels = shrink(dataset.images.pixels[rows])
    kept = folder.thumbnails()
    if kept is None or kept.pixels.shape[1:] != pixels.shape[1:]:
        return Thumbnails(rows + n_before, pixels)
    return Thumbnails(np.concatenate([kept.rows, rows + n_before]), np.concatenate([kept.pixels, pixels]))
