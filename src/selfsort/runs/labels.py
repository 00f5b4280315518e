"""The labels of a finished run as they hold now: those of the method, with what a person has put right since.

Corrections are made in `selfsort explore` and kept beside labels.csv, which is never changed. Whatever scores, shows or
hands on a run asks here, so that a correction holds everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from selfsort.runs.edits import Edit, Merge, Rename
from selfsort.runs.folder import LabelTable, RunFolder
from selfsort.runs.journal import read_entries
from selfsort.runs.labelling import Bools, Labelling
from selfsort.runs.outliers import cluster_name
from selfsort.types import F32, I64, Assignment


@dataclass(frozen=True, eq=False)
class RunLabels:
    """Which cluster every image of a run is in, and what the clusters are called."""

    table: LabelTable
    """Names, clusters as corrected, and how sure the method was of its own labels."""
    original: I64
    """(N,) labels as the method wrote them."""
    is_wrong: Bools
    """(N,) marked by a person as wrong where it is."""
    names: dict[int, str] = field(default_factory=dict)
    """Names given by a person."""
    n_edits: int = 0

    @classmethod
    def of_method(cls, table: LabelTable) -> Self:
        """Return labels that nobody has corrected."""
        return cls(table, table.labels, np.zeros(len(table.labels), np.bool_))

    def name(self, cluster: int) -> str:
        """Return what a cluster is called."""
        return self.names.get(cluster) or cluster_name(cluster, self.table.outliers)


@dataclass(frozen=True, eq=False)
class WholeClusterEdits:
    """What the corrections of a run mean for images that it has never seen."""

    now: I64
    """(K,) the cluster that each of the method's clusters was merged into, or itself."""
    names: dict[int, str]
    n_applied: int
    n_left_out: int
    """Corrections of single images, which say nothing of others."""
    outliers: int | None = None
    """The number of the outliers, which a person may have merged a cluster into."""

    def name(self, cluster: int) -> str:
        """Return what a cluster is called."""
        return self.names.get(cluster) or cluster_name(cluster, self.outliers)

    def labels(self, assignment: Assignment) -> tuple[I64, F32]:
        """Return the corrected cluster of each new image, and how sure the model is of it."""
        labels = self.now[assignment.labels]
        # What was merged is one cluster, so the shares of its parts add up.
        together = assignment.soft * (self.now[None, :] == labels[:, None])
        confidence: F32 = together.sum(axis=1, dtype=np.float32)
        return labels, confidence


def current_labels(folder: RunFolder, *, is_original: bool = False) -> RunLabels:
    """Return the labels of a finished run with all corrections, or as the method wrote them."""
    table = folder.label_table()
    edits = [] if is_original else _edits_of(folder)
    if not edits:
        return RunLabels.of_method(table)
    labelling = Labelling(table.labels, table.outliers)
    for edit in edits:
        labelling.apply(edit)
    return RunLabels(
        replace(table, labels=labelling.labels),
        table.labels,
        labelling.is_wrong,
        dict(labelling.names),
        n_edits=len(edits),
    )


def whole_cluster_edits(folder: RunFolder, n_clusters: int, *, is_original: bool = False) -> WholeClusterEdits:
    """Return the corrections that hold for any image: clusters merged or renamed, but no parts or single images.

    Args:
        folder: a finished run.
        n_clusters: clusters that its model knows.
        is_original: leave all corrections out.
    """
    if is_original:
        return WholeClusterEdits(np.arange(n_clusters), {}, 0, 0)
    edits, now = _edits_of(folder), np.arange(n_clusters)
    whole = [edit for edit in edits if isinstance(edit, Rename | Merge)]
    for edit in whole:
        if isinstance(edit, Merge):
            now[np.isin(now, edit.clusters)] = edit.into
    if not edits:
        return WholeClusterEdits(now, {}, 0, 0)
    current = current_labels(folder)
    return WholeClusterEdits(now, current.names, len(whole), len(edits) - len(whole), current.table.outliers)


def _edits_of(folder: RunFolder) -> list[Edit]:
    """Return the corrections in force, oldest first."""
    return [entry.edit for entry in read_entries(folder.path) if not entry.is_undone]
