"""The labels of a finished run as they hold now: those of the method, with what a person has put right since.

Corrections are made in `selfsort explore` and kept beside labels.csv, which is never changed. Whatever scores, shows or
hands on a run asks here, so that a correction holds everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from selfsort.pages import passes
from selfsort.runs.carry import carry_over
from selfsort.runs.edits import Edit, Mark, Merge
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import read_entries
from selfsort.runs.labelling import Bools, Labelling
from selfsort.runs.outliers import cluster_name
from selfsort.runs.suggested import still_meant, suggested_names
from selfsort.runs.table import LabelTable
from selfsort.runs.votes import Voters
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
    suggested: dict[int, str] = field(default_factory=dict)
    """Names that the pictures themselves suggest, of clusters that are still what they were."""

    @classmethod
    def of_method(cls, table: LabelTable, suggested: Mapping[int, str] | None = None) -> Self:
        """Return labels that nobody has corrected."""
        is_wrong = np.zeros(len(table.labels), np.bool_)
        return cls(table, table.labels, is_wrong, suggested=dict(suggested or {}))

    def name(self, cluster: int) -> str:
        """Return what a cluster is called."""
        return self.given_name(cluster) or cluster_name(cluster, self.table.outliers)

    def given_name(self, cluster: int) -> str | None:
        """Return the name a person gave to a cluster, or else a suggested one; None if it has only its number."""
        return self.names.get(cluster) or self.suggested.get(cluster)


@dataclass(frozen=True, eq=False)
class WholeClusterEdits:
    """What the corrections of a run mean for images that it has never seen."""

    now: I64
    """(K,) the cluster that each of the method's clusters was merged into, or itself."""
    names: dict[int, str]
    n_applied: int
    n_left_out: int
    """Images marked wrong, which says nothing of where others belong."""
    outliers: int | None = None
    """The number of the outliers, which a person may have merged a cluster into."""
    divided: Mapping[int, Voters] = field(default_factory=dict)
    """Clusters of the method that were split, or that images were moved out of: its own images vote on each new one."""

    def name(self, cluster: int) -> str:
        """Return what a cluster is called."""
        return self.names.get(cluster) or cluster_name(cluster, self.outliers)

    def labels(self, assignment: Assignment) -> tuple[I64, F32]:
        """Return the corrected cluster of each new image, and how sure the model is of it."""
        found = assignment.labels
        labels = self.now[found]
        confidence: F32 = np.empty(len(labels), np.float32)
        for block in passes(assignment.soft):
            # What was merged is one cluster, so the shares of its parts add up.
            together = assignment.soft[block] * (self.now[None, :] == labels[block, None])
            confidence[block] = together.sum(axis=1, dtype=np.float32)
        for cluster, voters in self.divided.items():
            rows = np.flatnonzero(found == cluster)
            labels[rows], share = voters.vote(assignment.features[rows])
            confidence[rows] *= share
        return labels, confidence


def current_labels(folder: RunFolder, *, is_original: bool = False) -> RunLabels:
    """Return the labels of a finished run with all corrections, or as the method wrote them."""
    return _corrected(folder, folder.label_table(), is_original=is_original)


def labels_to_show(folder: RunFolder, *, is_original: bool = False) -> RunLabels:
    """Return the labels of a run for people who only look: of an unfinished one, those so far."""
    if folder.is_finished:
        return current_labels(folder, is_original=is_original)
    return RunLabels.of_method(folder.table_so_far())


def _corrected(folder: RunFolder, table: LabelTable, *, is_original: bool) -> RunLabels:
    edits, suggested = [] if is_original else _edits_of(folder), suggested_names(folder)
    return _applied(edits, table, suggested) if edits else RunLabels.of_method(table, suggested)


def _applied(edits: Sequence[Edit], table: LabelTable, suggested: Mapping[int, str]) -> RunLabels:
    labelling = Labelling(table.labels, table.outliers)
    for edit in edits:
        labelling.apply(edit)
    return RunLabels(
        replace(table, labels=labelling.labels),
        table.labels,
        labelling.is_wrong,
        dict(labelling.names),
        n_edits=len(edits),
        suggested=still_meant(suggested, table.labels, labelling.labels),
    )


def whole_cluster_edits(folder: RunFolder, n_clusters: int, *, is_original: bool = False) -> WholeClusterEdits:
    """Return what the corrections of a run say of images it has never seen.

    Names and merges hold as they are. Where images of one cluster lie in several by now (splits, moves), a new image
    that the model puts into that cluster goes where those most like it are.

    Args:
        folder: a finished run.
        n_clusters: clusters that its model knows.
        is_original: leave all corrections out.
    """
    edits = [] if is_original else _edits_of(folder)
    if not edits:
        return WholeClusterEdits(np.arange(n_clusters), {}, 0, 0)
    return _of_new_images(edits, current_labels(folder), n_clusters, lambda rows: folder.features()[rows])


def cut_cluster_edits(
    folder: RunFolder, labels: I64, features: F32, n_clusters: int, *, is_original: bool = False
) -> WholeClusterEdits:
    """Return the same for a cut of a run: its corrections are carried over, as `selfsort cut` does.

    Args:
        folder: the run that was cut.
        labels: (N,) clusters of its images in the cut.
        features: (N, D) of its images.
        n_clusters: of the cut.
        is_original: leave all corrections out.
    """
    table = folder.label_table()
    edits = [] if is_original else carry_over(_edits_of(folder), table.labels, labels).edits
    if not edits:
        return WholeClusterEdits(np.arange(n_clusters), {}, 0, 0)
    current = _applied(edits, replace(table, labels=labels), {})
    return _of_new_images(edits, current, n_clusters, lambda rows: features[rows])


def _of_new_images(
    edits: Sequence[Edit], current: RunLabels, n_clusters: int, features_of: Callable[[I64], F32]
) -> WholeClusterEdits:
    now = np.arange(n_clusters)
    for edit in edits:
        if isinstance(edit, Merge):
            now[np.isin(now, edit.clusters)] = edit.into
    n_marks = sum(isinstance(edit, Mark) for edit in edits)
    return WholeClusterEdits(
        now,
        current.names,
        len(edits) - n_marks,
        n_marks,
        current.table.outliers,
        _divided(current, now, features_of),
    )


def _divided(current: RunLabels, now: I64, features_of: Callable[[I64], F32]) -> dict[int, Voters]:
    """Return the images that vote, of every cluster whose images are not all where its merges have led."""
    found: dict[int, Voters] = {}
    strayed = current.original[(current.original < len(now)) & ~current.is_wrong]
    places = current.table.labels[(current.original < len(now)) & ~current.is_wrong]
    for cluster in np.unique(strayed[places != now[strayed]]).tolist():
        rows = np.flatnonzero((current.original == cluster) & ~current.is_wrong)
        found[cluster] = Voters(np.array(features_of(rows), np.float32), current.table.labels[rows])
    return found


def _edits_of(folder: RunFolder) -> list[Edit]:
    """Return the corrections in force, oldest first."""
    return [entry.edit for entry in read_entries(folder.path) if not entry.is_undone]
