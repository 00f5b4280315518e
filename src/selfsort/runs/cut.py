"""`selfsort cut`: another number of clusters as a run of its own, from what a finished run has kept.

Neither the images nor the encoder are asked: labels, assignments, features and tree are in the folder. The new run is
built beside its place and put there when it is complete, with the corrections of the first one.

A cut of a cut is a cut of the run that was trained. So that it can be made, a cut keeps what that run said of the
images, beside its model: `started_from/labels.npy` and `soft.npy`.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from selfsort.errors import InvalidInput
from selfsort.graph.hierarchy import Hierarchy
from selfsort.improve.cut import STAGE, check_number, cut_clustering
from selfsort.metrics.external import scores
from selfsort.runs.beside import describe, embed_whole, put_beside, write_edits
from selfsort.runs.carry import Carried, carry_over
from selfsort.runs.encoder import ENCODER_FILE, FEATURES_FROM
from selfsort.runs.export.folders import scratch_in
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import read_entries
from selfsort.runs.model import STARTED_FROM, embed
from selfsort.runs.seen import WORDS
from selfsort.runs.soft import read_soft, write_soft
from selfsort.runs.stacks import STACKS
from selfsort.runs.suggested import suggest_names
from selfsort.runs.tree import features_of, save_tree, tree_of
from selfsort.types import F32, I64

_LABELS = f"{STARTED_FROM}/labels.npy"
_COPIED = ("ingest.json", "truth.npy", "truth.json", "thumbnails.npz", STACKS, WORDS, ENCODER_FILE)


@dataclass(frozen=True, eq=False)
class CutRun:
    """A cut that is on disk."""

    folder: RunFolder
    carried: Carried
    metrics: dict[str, float] | None


def cut_run(folder: RunFolder, n_clusters: int, out: Path | None = None) -> CutRun:
    """Cut a finished run; without a place, beside it under a name that is free."""
    folder.require_finished()
    table = folder.label_table()
    if table.n_outliers:
        raise InvalidInput(
            f"the run {folder.path} has outliers, which no number of clusters has a place for. Expected one without. "
            "Run selfsort fit again without --outliers, and cut that."
        )
    if out is not None:
        RunFolder.refuse_occupied(out)
    started = time.monotonic()
    tree = tree_of(folder)
    check_number(n_clusters, tree, "--clusters")
    base = Base.of(folder, table.labels)
    features = features_of(folder, len(table.labels))
    result = cut_clustering(base.labels, base.soft, features, base.tree(tree), n_clusters, torch.device("cpu"))
    edits = [entry.edit for entry in read_entries(folder.path) if not entry.is_undone]
    carried = carry_over(edits, table.labels, result.labels)
    with scratch_in((out or folder.path.resolve()).parent) as scratch:
        made = RunFolder.create(
            scratch / "made",
            {**describe(folder, base.folder, STAGE.name, n_clusters), "clusters": {"asked": str(n_clusters)}},
        )
        _fill(made, folder, base)
        save_tree(made, Hierarchy(tree.tree, tree.rows, np.arange(n_clusters)))
        truth = folder.truth()
        metrics = None if truth is None else scores(result.labels, truth)
        if metrics is not None:
            made.write_json("metrics.json", metrics)
        seconds = round(time.monotonic() - started, 3)
        made.append_event({"step": 1, "total": 1, "elapsed": seconds, "clusters": n_clusters, **(metrics or {})})
        made.append_event({"kind": "end", "seconds": seconds, "clusters_found": n_clusters, "warnings": []})
        if (thumbnails := folder.thumbnails()) is not None:
            suggest_names(made, table.names, result.labels, thumbnails)
        made.save_result(result, table.names)
        write_edits(made.path, carried.edits)
        place = put_beside(made.path, out, folder, f"k{n_clusters}")
    return CutRun(RunFolder.open(place), carried, metrics)


@dataclass(frozen=True, eq=False)
class Base:
    """The run that was trained, as a cut of it wants it."""

    folder: RunFolder
    labels: I64
    soft: F32

    def tree(self, of_run: Hierarchy) -> Hierarchy:
        """Return the tree of a run, or of a cut, as that of the run that was trained."""
        return Hierarchy(of_run.tree, of_run.rows, np.unique(self.labels))

    @classmethod
    def of(cls, folder: RunFolder, labels: I64) -> Base:
        """Return a run itself, or what it is a cut of."""
        if not (folder.path / _LABELS).is_file():
            found = cls(folder, labels, read_soft(folder).all())
        else:
            before: I64 = folder.read_array(_LABELS, 1, np.int64)
            inner = RunFolder.open(folder.path / STARTED_FROM)
            found = cls(inner, np.array(before), read_soft(folder, f"{STARTED_FROM}/").all())
        is_whole = len(found.labels) == len(found.soft) == len(labels)
        if not is_whole or not 0 <= int(found.labels.min()) <= int(found.labels.max()) < found.soft.shape[1]:
            raise InvalidInput(
                f"the labels and assignments of {folder.path} do not fit together. Expected a run as selfsort wrote "
                "it. It was changed or damaged: restore it, or run selfsort fit again."
            )
        return found


def _fill(made: RunFolder, folder: RunFolder, base: Base) -> None:
    """Take over what is the same for every cut, and the model that it stands on."""
    for name in _COPIED:
        if (folder.path / name).is_file():
            shutil.copyfile(folder.path / name, made.path / name)
    if (folder.path / FEATURES_FROM).is_dir():
        embed(made, RunFolder.open(folder.path / FEATURES_FROM), FEATURES_FROM)
    embed_whole(made, base.folder)
    made.write_array(_LABELS, base.labels)
    write_soft(made, np.asarray(base.soft), f"{STARTED_FROM}/")
