"""A run made from a finished one without training: the same model, with a vote behind it, and other labels.

The new run stands beside the first, which stays as it is. Its labels.csv has the clusters as the person saw them, with
their numbers; names and marks go over as corrections of the new run, so that they can be changed there.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np

from selfsort import __version__
from selfsort.errors import InvalidInput, invalid
from selfsort.improve.grow import grow
from selfsort.improve.stages import STAGES
from selfsort.improve.vote import voters
from selfsort.registry import OURS
from selfsort.runs.edits import Edit, Mark, Rename
from selfsort.runs.encoder import ENCODER_FILE, FEATURES_FROM
from selfsort.runs.export.folders import put, scratch_in
from selfsort.runs.folder import RunFolder, Thumbnails, format_of
from selfsort.runs.journal import Journal
from selfsort.runs.labels import RunLabels
from selfsort.runs.loop import versions
from selfsort.runs.model import STARTED_FROM, embed
from selfsort.runs.outliers import numbered
from selfsort.runs.tree import save_tree
from selfsort.types import F32, I64, Clustering, Json

_OF_TRAINING = (
    "format",
    "settings",
    "improve",
    "recipe",
    "clusters",
    "method_from",
    "stack_duplicates",
    "train_on",
    "method_choice",
)


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
        for name in ("truth.json", ENCODER_FILE):
            if (folder.path / name).is_file() and (name != "truth.json" or made.truth is not None):
                shutil.copyfile(folder.path / name, run.path / name)
        if made.truth is not None:
            run.write_array("truth.npy", made.truth)
        if made.thumbnails is not None:
            run.save_thumbnails(made.thumbnails)
        if (folder.path / FEATURES_FROM).is_dir():
            embed(run, RunFolder.open(folder.path / FEATURES_FROM), FEATURES_FROM)
        _embed(run, base_of(folder))
        seen = numbered(made.labels, n_clusters)[0] if is_outlier.any() else made.labels
        save_tree(run, grow(made.features, seen))
        seconds = round(time.monotonic() - started, 3)
        run.append_event({"step": 1, "total": 1, "elapsed": seconds, "clusters": len(np.unique(seen))})
        run.append_event({"kind": "end", "seconds": seconds, "clusters_found": len(np.unique(seen)), "warnings": []})
        state = voters(made.features, made.labels, n_clusters)
        result = Clustering(np.maximum(made.labels, 0), soft, made.features, state)
        run.save_result(result, made.names, made.confidence, is_outlier if is_outlier.any() else None)
        _write_edits(run.path, made.edits)
        return RunFolder.open(_put(run.path, out, folder, made.stage))


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
    kept = {key: value for key, value in folder.config.items() if key not in (*_OF_TRAINING, "outliers")}
    return {
        **kept,
        "selfsort": __version__,
        "method": made.stage,
        "method_from": OURS.to_json(),
        "settings": {"n_clusters": n_clusters},
        "recipe": {"name": "default", "reason": f"{made.stage} has no settings", "source": "ours"},
        "n_images": len(made.labels),
        "versions": versions(),
        **({"outliers": True} if has_outliers else {}),
        STARTED_FROM: str(folder.path.resolve()),
        "refines": base_of(folder).field("method", str),
        **made.config,
    }


def _embed(run: RunFolder, source: RunFolder) -> None:
    """Copy the model that gives the features, and of a stage also the one that it went on from."""
    name = STARTED_FROM
    while True:
        is_stage = source.field("method", str) in STAGES
        left_out = (
            ("format", "outliers", FEATURES_FROM) if is_stage else ("format", "outliers", FEATURES_FROM, STARTED_FROM)
        )
        described = {key: value for key, value in source.config.items() if key not in left_out}
        run.write_state(f"{name}/model.safetensors", source.read_state("model.safetensors"))
        run.write_json(f"{name}/config.json", {"format": format_of(described), **described})
        if not is_stage:
            return
        source, name = RunFolder.open(source.path / STARTED_FROM), f"{name}/{STARTED_FROM}"


def _write_edits(run: Path, edits: Sequence[Edit]) -> None:
    if not edits:
        return
    journal = Journal.open(run)
    try:
        for edit in edits:
            journal.add(edit)
    finally:
        journal.close()


def _put(made: Path, out: Path | None, folder: RunFolder, stage: str) -> Path:
    if out is not None:
        RunFolder.refuse_occupied(out)
        if out.is_dir():
            shutil.rmtree(out)
        place = put(made, [out])
    else:
        run = folder.path.resolve()
        beside = (run.with_name(f"{run.name}-{stage}{'' if number == 1 else f'-{number}'}") for number in count(1))
        place = put(made, beside)
    if place is None:
        raise invalid("--out", "be new", str(out), "Choose another --out.")
    return place
