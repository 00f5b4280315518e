"""`selfsort refine RUN --stage corrections`: a new run that has learned from what a person put right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from selfsort.errors import InvalidInput
from selfsort.improve.corrections import Said, learn
from selfsort.metrics.external import scores
from selfsort.runs.derive import Derived, derive, names_and_marks
from selfsort.runs.edits import Edit, Mark, Move, Split
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import read_entries
from selfsort.runs.labels import RunLabels, current_labels
from selfsort.runs.tree import features_of
from selfsort.types import F32, Json


@dataclass(frozen=True, eq=False)
class Learned:
    """A run that has learned from corrections."""

    folder: RunFolder
    n_confirmed: int
    """Images whose cluster a person has decided."""
    n_changed: int
    """Further images that went elsewhere."""
    metrics: dict[str, float] | None


def learn_corrections(folder: RunFolder, out: Path | None = None) -> Learned:
    """Let the corrections of a finished run teach the images that nobody has looked at."""
    folder.require_finished()
    if out is not None:
        RunFolder.refuse_occupied(out)
    edits = [entry.edit for entry in read_entries(folder.path) if not entry.is_undone]
    if not edits:
        raise InvalidInput(
            f"the run {folder.path} has no corrections to learn from. Expected some. Make them with selfsort explore "
            f"{folder.path}: move pictures, merge or split groups, mark what is wrong."
        )
    current = current_labels(folder)
    said = said_by(edits, current)
    table = current.table
    features = np.array(features_of(folder, len(table.labels)), np.float32)
    # Outliers neither teach nor learn: they are what fits nowhere.
    inside = (
        np.flatnonzero(table.labels != table.outliers) if table.outliers is not None else np.arange(len(table.labels))
    )
    place = np.full(len(table.labels), -1)
    place[inside] = np.arange(len(inside))
    kept = place[said.rows] >= 0
    wrong = said.wrong[place[said.wrong] >= 0]
    n_ids = int(table.labels.max()) + 1
    labels = table.written.copy()
    labels[inside] = learn(
        features[inside], table.labels[inside], Said(place[said.rows[kept]], said.labels[kept], place[wrong]), n_ids
    )
    n_changed = int((labels != table.written).sum())
    confidence: F32 = table.confidence.copy()
    confidence[said.rows] = 1
    truth = folder.truth()
    ingest: Json = folder.read_json("ingest.json") if (folder.path / "ingest.json").is_file() else {}
    unmarked = RunLabels(table, current.original, current.is_wrong & (labels == table.written), current.names)
    made = derive(
        folder,
        Derived(
            stage="corrections",
            names=table.names,
            labels=labels,
            confidence=confidence,
            features=features,
            edits=names_and_marks(unmarked),
            ingest=ingest,
            config={"corrections": {"confirmed": len(said.rows), "wrong": len(said.wrong), "changed": n_changed}},
            thumbnails=folder.thumbnails(),
            truth=truth,
        ),
        out,
    )
    return Learned(made, len(said.rows), n_changed, None if truth is None else scores(labels, truth, outliers=-1))


def said_by(edits: list[Edit], current: RunLabels) -> Said:
    """Return what corrections say of single images; merged clusters are one in the labels already."""
    confirmed: set[int] = set()
    for edit in edits:
        match edit:
            case Move(rows, _):
                confirmed |= set(rows)
            case Split(_, parts):
                confirmed |= {row for _, rows in parts for row in rows}
            case Mark(rows, is_wrong):
                confirmed -= set(rows) if is_wrong else set()
            case _:
                pass
    wrong = np.flatnonzero(current.is_wrong)
    decided = np.array(sorted(confirmed - set(wrong.tolist())), np.int64)
    return Said(decided, current.table.labels[decided], wrong)
