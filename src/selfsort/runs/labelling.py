"""Where every image lies now: the labels of the run with the edits applied, each of which can be taken back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np
import numpy.typing as npt

from selfsort.errors import InvalidInput
from selfsort.runs.edits import Edit, Mark, Merge, Move, Rename, Split
from selfsort.runs.outliers import cluster_name
from selfsort.runs.suggested import still_meant
from selfsort.types import I64

Bools = npt.NDArray[np.bool_]

_NO_ROWS: I64 = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Before:
    """What an edit has overwritten."""

    rows: I64
    labels: I64
    is_wrong: Bools
    names: dict[int, str]
    n_ids: int


@dataclass(eq=False)
class Labelling:
    """The current labels, names and marks."""

    original: I64
    """(N,) labels of the run; never written to."""
    outliers: int | None = None
    """Which of the numbers stands for outliers."""
    suggested: Mapping[int, str] = field(default_factory=dict)
    """Names that the pictures suggest for the clusters of the run."""
    labels: I64 = field(init=False)
    is_wrong: Bools = field(init=False)
    names: dict[int, str] = field(default_factory=dict, init=False)
    n_ids: int = field(init=False)
    """One more than the highest number a cluster has ever had: numbers are not used twice."""
    _meant: dict[int, str] | None = field(default=None, init=False)
    """The suggestions that hold now, once somebody has asked."""

    def __post_init__(self) -> None:
        self.labels = self.original.copy()
        self.is_wrong = np.zeros(len(self.original), np.bool_)
        self.n_ids = max(int(self.original.max()), -1 if self.outliers is None else self.outliers) + 1

    def name(self, cluster: int) -> str:
        """Return what a cluster is called."""
        return self.names.get(cluster) or self.meant().get(cluster) or cluster_name(cluster, self.outliers)

    def meant(self) -> dict[int, str]:
        """Return the suggested names of the clusters that are still what they were."""
        if self._meant is None:
            self._meant = still_meant(self.suggested, self.original, self.labels)
        return self._meant

    def members(self, cluster: int) -> I64:
        """Return the images of a cluster, in their order."""
        return np.flatnonzero(self.labels == cluster)

    def sizes(self) -> I64:
        """Return how many images each number has."""
        return np.bincount(self.labels, minlength=self.n_ids)

    def apply(self, edit: Edit) -> Before:
        """Make an edit and return what it takes to undo it; an edit that does not fit changes nothing."""
        rows = self._rows_of(edit)
        self._meant = None
        before = Before(rows, self.labels[rows], self.is_wrong[rows], dict(self.names), self.n_ids)
        match edit:
            case Rename(cluster, name):
                self.names.pop(cluster, None)
                if name:
                    self.names[cluster] = name
            case Merge(_, into):
                self.labels[rows] = into
            case Split(_, parts):
                for new, part in parts:
                    self.labels[np.array(part, np.int64)] = new
            case Move(_, to):
                self.labels[rows] = to
                self.is_wrong[rows] = False  # it was wrong where it was; now it is elsewhere
            case Mark(_, is_wrong):
                self.is_wrong[rows] = is_wrong
            case _:
                assert_never(edit)
        self.n_ids = max(self.n_ids, *self._ids_of(edit)) if self._ids_of(edit) else self.n_ids
        return before

    def restore(self, before: Before) -> None:
        """Take back the last edit."""
        self._meant = None
        self.labels[before.rows] = before.labels
        self.is_wrong[before.rows] = before.is_wrong
        self.names = dict(before.names)
        self.n_ids = before.n_ids

    def _rows_of(self, edit: Edit) -> I64:
        """Check an edit against the labelling and return the images it touches."""
        match edit:
            case Rename(cluster, _):
                self._require_cluster(cluster)
                return _NO_ROWS
            case Merge(clusters, into):
                for cluster in clusters:
                    self._require_cluster(cluster)
                if len(set(clusters)) < 2 or into not in clusters:
                    raise _refused("a merge", "name two clusters or more, and one of them to keep", list(clusters))
                return np.flatnonzero(np.isin(self.labels, clusters))
            case Split(cluster, parts):
                self._require_cluster(cluster)
                new = [number for number, _ in parts]
                rows = self._checked(tuple(row for _, part in parts for row in part))
                is_inside = bool((self.labels[rows] == cluster).all())
                if new != list(range(self.n_ids, self.n_ids + len(new))) or not new or not is_inside:
                    raise _refused("a split", "take images of one cluster to new clusters", new)
                if len(rows) >= len(self.members(cluster)) or not all(len(part) for _, part in parts):
                    raise _refused("a split", "leave images in every part", new)
                return rows
            case Move(moved, to):
                if to != self.n_ids:
                    self._require_cluster(to)
                return self._checked(moved)
            case Mark(marked, _):
                return self._checked(marked)
            case _:
                assert_never(edit)

    def _ids_of(self, edit: Edit) -> list[int]:
        match edit:
            case Split(_, parts):
                return [number + 1 for number, _ in parts]
            case Move(_, to):
                return [to + 1]
            case _:
                return []

    def _require_cluster(self, cluster: int) -> None:
        if not 0 <= cluster < self.n_ids or not (self.labels == cluster).any():
            raise _refused("the cluster", "be one that has images", cluster)

    def _checked(self, rows: tuple[int, ...]) -> I64:
        found = np.array(rows, np.int64)
        if not len(found) or found.min() < 0 or found.max() >= len(self.labels):
            raise _refused(
                "the images", f"be given by their numbers, below {len(self.labels)}", f"{len(found)} of them"
            )
        if len(np.unique(found)) < len(found):
            raise _refused("the images", "be named once each", f"{len(found)} numbers with repetitions")
        return found


def _refused(name: str, requirement: str, got: object) -> InvalidInput:
    return InvalidInput(f"{name} must {requirement}; got {got}. Reload the page and try again.")
