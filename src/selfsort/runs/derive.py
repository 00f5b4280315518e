"""A run made from a finished one without training: the same model, with a vote behind it, and other labels.

The new run stands beside the first, which stays as it is. Its labels.csv has the clusters as the person saw them, with
their numbers; names and marks go over as corrections of the new run, so that they can be changed there.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from selfsort.errors import InvalidInput
from selfsort.improve.grow import grow
from selfsort.improve.vote import voters
from selfsort.runs.beside import describe, embed_whole, put_beside, write_edits
from selfsort.runs.edits import Edit, Mark, Rename
from selfsort.runs.encoder import ENCODER_FILE, FEATURES_FROM
from selfsort.runs.export.folders import scratch_in
from selfsort.runs.folder import RunFolder, Thumbnails
from selfsort.runs.labels import RunLabels
from selfsort.runs.model import STARTED_FROM, embed
from selfsort.runs.outliers import numbered
from selfsort.runs.seen import WORDS
from selfsort.runs.suggested import suggest_names
from selfsort.runs.tree import save_tree
from selfsort.types import F32, I64, Clustering, Json, State


@dataclass(frozen=True, eq=False, kw_only=True)
class Derived:
    """What a new run is to hold."""

    stage: str
    names: Sequence[str]
    labels: I64
    """(N,) -1 for outliers."""
    confidence: F32
    features: F32
    edits: Sequence[Edit]
    ingest: Json
    config: Json = field(default_factory=dict)
    """What config.json says otherwise than that of the first run."""
    thumbnails: Thumbnails | None = None
    truth: I64 | None = None
    model: State | None = None
    """What gives the features, where it was taught further; None: the model of the first run as it is."""


def derive(folder: RunFolder, made: Derived, out: Path | None) -> RunFolder:
    """Write the new run; without a place, beside the first under a name that is free."""
    started = time.monotonic()
    n_clusters = int(made.labels.max()) + 1
    if n_clusters < 1:
        raise InvalidInput("no image is left in any cluster. Expected some. Move outliers into clusters first.")
    soft: F32 = np.zeros((len(made.labels), n_clusters), np.float32)
    rows = np.arange(len(made.labels))
    soft[rows, np.maximum(made.labels, 0)] = 1
    is_outlier = made.labels < 0
    with scratch_in((out or folder.path.resolve()).parent) as scratch:
        run = RunFolder.create(scratch / "made", _config(folder, made, n_clusters, has_outliers=bool(is_outlier.any())))
        run.write_json("ingest.json", made.ingest)
        for name in ("truth.json", WORDS, ENCODER_FILE):
            if (folder.path / name).is_file() and (name != "truth.json" or made.truth is not None):
                shutil.copyfile(folder.path / name, run.path / name)
        if made.truth is not None:
            run.write_array("truth.npy", made.truth)
        if made.thumbnails is not None:
            run.save_thumbnails(made.thumbnails)
        if (folder.path / FEATURES_FROM).is_dir():
            embed(run, RunFolder.open(folder.path / FEATURES_FROM), FEATURES_FROM)
        embed_whole(run, base_of(folder))
        if made.model is not None:
            run.write_state(f"{STARTED_FROM}/model.safetensors", made.model)
        seen = numbered(made.labels, n_clusters)[0] if is_outlier.any() else made.labels
        save_tree(run, grow(made.features, seen))
        seconds = round(time.monotonic() - started, 3)
        run.append_event({"step": 1, "total": 1, "elapsed": seconds, "clusters": len(np.unique(seen))})
        run.append_event({"kind": "end", "seconds": seconds, "clusters_found": len(np.unique(seen)), "warnings": []})
        state = voters(made.features, made.labels, n_clusters)
        result = Clustering(np.maximum(made.labels, 0), soft, made.features, state)
        if made.thumbnails is not None:
            suggest_names(run, made.names, made.labels, made.thumbnails)
        run.save_result(result, made.names, made.confidence, is_outlier if is_outlier.any() else None)
        write_edits(run.path, made.edits)
        return RunFolder.open(put_beside(run.path, out, folder, made.stage))


def names_and_marks(current: RunLabels) -> list[Edit]:
    """Say the names and the marks of a run again, for one whose labels are corrected already."""
    used = set(current.table.labels.tolist())
    edits: list[Edit] = [Rename(cluster, name) for cluster, name in sorted(current.names.items()) if cluster in used]
    wrong = np.flatnonzero(current.is_wrong)
    return [*edits, Mark(tuple(wrong.tolist()), True)] if len(wrong) else edits


def base_of(folder: RunFolder) -> RunFolder:
    """Return the run whose model gives the features: a vote behind a vote would ask the same."""
    made_by_vote = folder.field("method", str) in ("update", "corrections")
    return RunFolder.open(folder.path / STARTED_FROM) if made_by_vote else folder


def _config(folder: RunFolder, made: Derived, n_clusters: int, *, has_outliers: bool) -> Json:
    described = describe(folder, base_of(folder), made.stage, n_clusters)
    described.pop("stack_duplicates", None)  # its images are others than those that were stacked
    described |= {"n_images": len(made.labels)} | ({"outliers": True} if has_outliers else {})
    return {**described, **made.config}
