"""`selfsort refine RUN --stage corrections`: a new run that has learned from what a person put right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from selfsort.encoders.cache import cache_folder
from selfsort.encoders.pictures import Pictures
from selfsort.errors import InvalidInput, SelfsortError
from selfsort.improve.corrections import Said, learn
from selfsort.improve.pairs import can_be_taught, teach
from selfsort.learning.device import choose_device
from selfsort.learning.encode import apply_in_blocks
from selfsort.metrics.external import scores
from selfsort.runs.derive import Derived, base_of, derive, names_and_marks
from selfsort.runs.edits import Edit, Mark, Move, Split
from selfsort.runs.encoder import has_encoder, stored_encoder
from selfsort.runs.export.folders import read_images_of
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import read_entries
from selfsort.runs.labels import RunLabels, current_labels
from selfsort.runs.model import load_own_model
from selfsort.runs.tree import features_of
from selfsort.types import F32, I64, Inputs, Json, NetworkModel, State


@dataclass(frozen=True, eq=False)
class Learned:
    """A run that has learned from corrections."""

    folder: RunFolder
    n_confirmed: int
    """Images whose cluster a person has decided."""
    n_changed: int
    """Further images that went elsewhere."""
    metrics: dict[str, float] | None
    is_taught: bool = False
    """Whether its network was trained further, and not only labels spread."""


def learn_corrections(folder: RunFolder, out: Path | None = None, *, device: str = "auto") -> Learned:
    """Let the corrections of a finished run teach the images that nobody has looked at.

    A run that labels by a network has it trained on pairs, if its images can still be read. In every other, labels
    spread over the neighbours.
    """
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
    taught = None
    if len(said.rows) or len(said.wrong):
        taught = _taught(folder, current, said, choose_device(device))
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
    if taught is not None:
        features, labels[inside] = taught.features, taught.labels[inside]
        labels[said.rows[kept]] = said.labels[kept]
    else:
        confirmed = Said(place[said.rows[kept]], said.labels[kept], place[wrong])
        labels[inside] = learn(features[inside], table.labels[inside], confirmed, n_ids)
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
            model=None if taught is None else taught.state,
        ),
        out,
    )
    metrics = None if truth is None else scores(labels, truth, outliers=-1)
    return Learned(made, len(said.rows), n_changed, metrics, taught is not None)


@dataclass(frozen=True, eq=False)
class Taught:
    """A network that has learned from corrections."""

    state: State
    features: F32
    labels: I64
    """(N,) clusters as corrected, or what the network says where it has changed its mind."""


def _taught(folder: RunFolder, current: RunLabels, said: Said, device: torch.device) -> Taught | None:
    """Teach the network of a run; None if it has none, or its images are gone."""
    try:
        return teach_run(folder, current, said, lambda: inputs_of(folder, current, device), device)
    except SelfsortError:  # the source is another one by now: what the run keeps still teaches its labels
        return None


def teach_run(
    folder: RunFolder, current: RunLabels, said: Said, read: Callable[[], Inputs], device: torch.device
) -> Taught | None:
    """Train the network that gives a run its features, on images as it takes them; None if there is none."""
    base = base_of(folder)
    model, state = load_own_model(base, device), base.read_state("model.safetensors")
    if not isinstance(model, NetworkModel) or not can_be_taught(model, state):
        return None
    inputs = read()
    before = apply_in_blocks(model, inputs).labels
    table = current.table
    labels = np.where(table.labels == table.outliers, -1, table.labels) if table.outliers is not None else table.labels
    state = teach(model, state, inputs, labels, said, device=device, seed=folder.field("seed", int))
    after = apply_in_blocks(model, inputs)
    # An output of the network stands for the cluster that most of its images are in, as corrected.
    usual = np.full(after.soft.shape[1], -1)
    for output in np.unique(before):
        usual[output] = np.bincount(table.labels[before == output]).argmax()
    # Where a picture marked wrong belongs nobody has said, but not where it is.
    soft = np.where(usual[None, :] == -1, -1.0, after.soft)
    soft[said.wrong] = np.where(usual[None, :] == table.labels[said.wrong][:, None], -1.0, soft[said.wrong])
    now = usual[soft.argmax(axis=1)]
    is_new = before != after.labels
    is_new[said.wrong] = True
    return Taught(state, after.features, np.where(is_new, now, table.labels))


def inputs_of(folder: RunFolder, current: RunLabels, device: torch.device) -> Inputs:
    """Read the images of a run again, as its network takes them."""
    dataset = read_images_of(folder, current.table)
    if not has_encoder(folder):
        return dataset.images
    pictures = Pictures(dataset.images, dataset.names, dataset.fingerprint)
    return stored_encoder(folder, device).encode(pictures, folder=cache_folder())


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
