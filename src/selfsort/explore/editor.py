"""One run on the desk: its labels with the edits, its features and its journal, behind one lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

import numpy as np

from selfsort.errors import InvalidInput
from selfsort.explore.similar import Features
from selfsort.report.arrays import with_columns
from selfsort.report.html import printable
from selfsort.runs.edits import MAX_NAME, Edit, Mark, Merge, Move, Rename, Split
from selfsort.runs.folder import LabelTable, RunFolder
from selfsort.runs.journal import Entry, Journal
from selfsort.runs.labelling import Before, Board, Bools
from selfsort.runs.labels import RunLabels
from selfsort.text import plural
from selfsort.types import F32, I64

View = Literal["all", "wrong", "moved"]
Order = Literal["typical", "borderline", "unsure", "name"]


@dataclass(frozen=True)
class Cluster:
    """One line of the list of clusters."""

    id: int
    name: str
    size: int
    n_wrong: int
    confidence: float
    """Mean confidence of the method in its own labels."""
    cover: int
    """The image nearest to the centre."""


@dataclass(frozen=True)
class Overview:
    """What the page shows beside the images."""

    clusters: list[Cluster]
    n_wrong: int
    n_moved: int
    n_edits: int
    undo: str | None
    """What undoing would take back."""
    redo: str | None


@dataclass(frozen=True, eq=False)
class Listing:
    """The images of a view, in the order asked for."""

    rows: I64
    clusters: I64
    """Where each of them is."""
    is_wrong: Bools
    is_moved: Bools


class Desk:
    """A finished run, open for looking and editing. Every public method may be called from any thread."""

    def __init__(self, folder: RunFolder, journal: Journal) -> None:
        self.folder = folder
        self.table: LabelTable = folder.label_table()
        self.names = tuple(printable(name) for name in self.table.names)
        self.features = Features(_features_of(folder, len(self.names)))
        self._journal = journal
        self._lock = threading.RLock()
        self._board = Board(self.table.labels)
        self._done: list[tuple[Entry, Before]] = []
        self._undone: list[Entry] = []
        self._covers: dict[int, tuple[int, int]] = {}
        for entry in journal.entries():
            if entry.is_undone:
                self._undone.insert(0, entry)
            else:
                self._done.append((entry, self._board.apply(entry.edit)))

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a finished run and its edits."""
        folder = RunFolder.open(path)
        folder.label_table()
        journal = Journal.open(folder.path)
        try:
            return cls(folder, journal)
        except BaseException:
            journal.close()
            raise

    def close(self) -> None:
        """Let go of the edits, so that another server can open them."""
        self._journal.close()

    def __len__(self) -> int:
        return len(self.names)

    # --- looking -----------------------------------------------------------------------------------------

    def overview(self) -> Overview:
        """List the clusters that have images, largest first."""
        with self._lock:
            board = self._board
            sizes = board.sizes()
            wrong = np.bincount(board.labels[board.is_wrong], minlength=len(sizes))
            sure = np.bincount(board.labels, self.table.confidence, minlength=len(sizes))
            by_cluster = np.split(np.argsort(board.labels, kind="stable"), np.cumsum(sizes)[:-1])
            clusters = [
                Cluster(
                    id=cluster,
                    name=board.name(cluster),
                    size=int(sizes[cluster]),
                    n_wrong=int(wrong[cluster]),
                    confidence=round(float(sure[cluster] / sizes[cluster]), 4),
                    cover=self._cover(cluster, by_cluster[cluster]),
                )
                for cluster in np.argsort(-sizes, kind="stable").tolist()
                if sizes[cluster]
            ]
            return Overview(
                clusters,
                n_wrong=int(board.is_wrong.sum()),
                n_moved=int((board.labels != board.original).sum()),
                n_edits=len(self._done),
                undo=self._describe(self._done[-1][0].edit) if self._done else None,
                redo=self._describe(self._undone[-1].edit) if self._undone else None,
            )

    def listing(self, view: int | View, order: Order) -> Listing:
        """Return the images of a cluster, or all that share something; only a cluster has a centre to be typical of."""
        with self._lock:
            board = self._board
            selected: dict[View, Callable[[], I64]] = {
                "all": lambda: np.arange(len(self), dtype=np.int64),
                "wrong": lambda: np.flatnonzero(board.is_wrong),
                "moved": lambda: np.flatnonzero(board.labels != board.original),
            }
            rows = board.members(view) if isinstance(view, int) else selected[view]()
            labels, is_wrong = board.labels.copy(), board.is_wrong.copy()
        if order == "unsure":
            rows = rows[np.argsort(self.table.confidence[rows], kind="stable")]
        elif order != "name" and isinstance(view, int) and len(rows):
            sign = -1 if order == "typical" else 1
            rows = rows[np.argsort(sign * self.features.closeness(rows), kind="stable")]
        return Listing(rows, labels[rows], is_wrong[rows], (labels != self.table.labels)[rows])

    def similar(self, rows: list[int], count: int) -> tuple[Listing, F32]:
        """Return the images most like some."""
        found, scores = self.features.nearest(np.array(rows, np.int64), count)
        with self._lock:
            labels, is_wrong = self._board.labels[found], self._board.is_wrong[found]
        return Listing(found, labels, is_wrong, labels != self.table.labels[found]), scores

    def place_of(self, row: int) -> tuple[int, int, bool]:
        """Return the cluster an image is in, the one it came from, and whether it is marked wrong."""
        with self._lock:
            board = self._board
            return int(board.labels[row]), int(board.original[row]), bool(board.is_wrong[row])

    def current(self) -> RunLabels:
        """Return the labels as they are now, for an export."""
        with self._lock:
            board = self._board
            table = replace(self.table, labels=board.labels.copy())
            return RunLabels(table, board.original, board.is_wrong.copy(), dict(board.names), n_edits=len(self._done))

    # --- editing -----------------------------------------------------------------------------------------

    def rename(self, cluster: int, name: str) -> None:
        """Call a cluster something; without a name it is called by its number again."""
        plain = " ".join(printable(name).split())
        self._do(lambda: Rename(cluster, "".join(c for c in plain if c.isprintable())[:MAX_NAME]))

    def merge(self, clusters: list[int], into: int | None = None) -> int:
        """Put clusters together, into the largest of them unless said otherwise; return which one that is."""
        with self._lock:
            if into is None:
                sizes = self._board.sizes()
                inside = [cluster for cluster in clusters if 0 <= cluster < len(sizes)]
                into = max(inside, key=lambda cluster: (sizes[cluster], -cluster), default=0)
            kept = into
            self._do(lambda: Merge(tuple(clusters), kept))
            return kept

    def split(self, cluster: int, n_parts: int) -> list[int]:
        """Cluster the images of a cluster again; return the clusters they are in now."""
        with self._lock:
            parts = self.features.parts(self._members(cluster), n_parts)
            new = list(range(self._board.n_ids, self._board.n_ids + len(parts) - 1))
            taken = tuple((number, tuple(part.tolist())) for number, part in zip(new, parts[1:], strict=True))
            self._do(lambda: Split(cluster, taken))
            return [cluster, *new]

    def move(self, rows: list[int], to: int | None) -> int:
        """Put images into a cluster, or into a new one; return which one that is."""
        with self._lock:
            target = self._board.n_ids if to is None else to
            self._do(lambda: Move(tuple(rows), target))
            return target

    def mark(self, rows: list[int], is_wrong: bool) -> None:
        """Say that images are wrong where they are, or take that back."""
        self._do(lambda: Mark(tuple(rows), is_wrong))

    def undo(self) -> bool:
        """Take the last edit back; say whether there was one."""
        with self._lock:
            if not self._done:
                return False
            entry, before = self._done[-1]
            self._journal.mark(entry.number, is_undone=True)
            self._done.pop()
            self._undone.append(entry)
            self._board.restore(before)
            return True

    def redo(self) -> bool:
        """Make the last undone edit again; say whether there was one."""
        with self._lock:
            if not self._undone:
                return False
            entry = self._undone[-1]
            self._journal.mark(entry.number, is_undone=False)
            self._undone.pop()
            self._done.append((entry, self._board.apply(entry.edit)))
            return True

    def history(self) -> list[tuple[Entry, str]]:
        """Return the edits in force with what they did, newest first."""
        with self._lock:
            return [(entry, self._describe(entry.edit)) for entry, _ in reversed(self._done)]

    def _do(self, make: Callable[[], Edit]) -> None:
        """Make an edit, on the board and on the disk or on neither."""
        with self._lock:
            edit = make()
            before = self._board.apply(edit)
            try:
                entry = self._journal.add(edit)
            except BaseException:
                self._board.restore(before)
                raise
            self._done.append((entry, before))
            self._undone.clear()

    def _members(self, cluster: int) -> I64:
        rows = self._board.members(cluster)
        if not len(rows):
            raise InvalidInput(
                f"the cluster must be one that has images; got {cluster}. Reload the page and try again."
            )
        return rows

    def _cover(self, cluster: int, rows: I64) -> int:
        """Return the most typical image; remembered as long as the members stay the same."""
        key = hash(rows.tobytes())
        if cluster not in self._covers or self._covers[cluster][0] != key:
            self._covers[cluster] = (key, int(rows[int(np.argmax(self.features.closeness(rows)))]))
        return self._covers[cluster][1]

    def _describe(self, edit: Edit) -> str:
        name = self._board.name
        match edit:
            case Rename(cluster, new):
                return f"rename cluster {cluster} to {new}" if new else f"take the name of cluster {cluster} away"
            case Merge(clusters, into):
                return f"merge {plural(len(set(clusters)), 'cluster')} into {name(into)}"
            case Split(cluster, parts):
                return f"split {name(cluster)} into {plural(len(parts) + 1, 'part')}"
            case Move(rows, to):
                return f"move {plural(len(rows), 'image')} to {name(to)}"
            case Mark(rows, is_wrong):
                return f"{'mark' if is_wrong else 'unmark'} {plural(len(rows), 'image')}"


def _features_of(folder: RunFolder, n_images: int) -> F32:
    """Read the features alone: the model and the soft assignments may be larger, and nothing here needs them."""
    features: F32 = folder.read_array("features.npy", 2, np.float32)
    if len(features) != n_images:
        raise InvalidInput(
            f"{folder.path / 'features.npy'} speaks of {len(features)} images. Expected the {n_images} of labels.csv. "
            "The folder was changed or damaged: restore it, or run selfsort fit again."
        )
    return with_columns(features, folder.path / "features.npy")
