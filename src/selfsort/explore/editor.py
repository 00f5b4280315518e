"""One run open for editing: its labels with the edits, its features and its journal, behind one lock.

What the editor answers is made of plain dataclasses: the web application hands them to the page as they are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from selfsort.data.lazy import Mapped
from selfsort.errors import InvalidInput
from selfsort.explore.similar import Features
from selfsort.runs.arrays import with_columns
from selfsort.runs.branches import Branches, branches_of, coarser_levels
from selfsort.runs.edits import MAX_NAME, Edit, Mark, Merge, Move, Rename, Split
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import Entry, Journal
from selfsort.runs.labelling import Before, Labelling
from selfsort.runs.labels import RunLabels
from selfsort.runs.stacks import load_stacks
from selfsort.runs.suggested import suggested_names
from selfsort.runs.table import LabelTable
from selfsort.runs.tree import tree_of
from selfsort.text import one_line, plural, printable
from selfsort.types import F32, I64

View = Literal["all", "wrong", "moved", "stacks"]
Order = Literal["typical", "borderline", "unsure", "name"]

_MORE_PARTS, _MOST_PARTS = 20, 300
"""How many more clusters than the run has the tree shows at least, and how many at most."""
_TREE_PICTURES = 5
_FEWEST_FOR_COVER, _MOST_FOR_COVERS = 50, 20_000
"""Images among which the cover of a cluster is looked for, and of all clusters together."""
_NAMED = 3
"""Clusters that a branch which joins several is called by."""


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


@dataclass(frozen=True)
class Listing:
    """The images of a view, in the order asked for; those with a mark are listed again."""

    rows: list[int]
    wrong: list[int]
    moved: list[int]
    clusters: list[int] | None
    """Where each image is, if the view shows images of several clusters."""
    scores: list[float] | None
    """How like each image is, if that was the question."""


@dataclass(frozen=True)
class PictureStack:
    """Pictures that a person would keep one of."""

    rows: list[int]
    """The proposed best first."""
    kinds: list[str]
    """What makes each of the others a duplicate of the best."""


@dataclass(frozen=True)
class TreeNode:
    """Some images that are one cluster at some number of clusters."""

    name: str
    """What people call it: a cluster by its name, what joins several by those of the largest; empty for a part."""
    size: int
    children: list[int]
    pictures: list[int]


@dataclass(frozen=True)
class Tree:
    """The tree of the clusters from `n_parts` parts on: the parts, then what each merge makes, in order."""

    nodes: list[TreeNode]
    n_parts: int
    n_clusters: int
    """How many the run has itself."""
    levels: list[int]
    """Numbers of groups to show above the clusters, fewest first."""


@dataclass(frozen=True)
class ImageFacts:
    """What is known of one image."""

    row: int
    name: str
    cluster: int
    original_cluster: int
    confidence: float
    is_wrong: bool


@dataclass(frozen=True)
class HistoryEntry:
    """One edit in force."""

    number: int
    made_at: str
    text: str


class Editor:
    """A run, open for looking and, once it is finished, for editing. All public methods may be called by any thread."""

    def __init__(self, folder: RunFolder, table: LabelTable, journal: Journal | None) -> None:
        self.folder, self.table = folder, table
        self.names: Sequence[str] = Mapped(self.table.names, printable)
        n_images = len(self.names)
        # Without features every image is as typical as any other: they are listed in their order.
        features = np.zeros((n_images, 1), np.float32) if journal is None else _features_of(folder, n_images)
        self.features = Features(features)
        self._journal = journal
        self._lock = threading.RLock()
        self._labelling = Labelling(
            self.table.labels, self.table.outliers, suggested_names(folder) if journal is not None else {}
        )
        self._done: list[tuple[Entry, Before]] = []
        self._undone: list[Entry] = []
        self._covers: dict[int, tuple[int, int]] = {}
        self._stacks = load_stacks(folder, n_images) or []
        self._tree_lock = threading.Lock()
        self._branches: tuple[Branches, int, list[int]] | None = None
        for entry in [] if journal is None else journal.entries():
            if entry.is_undone:
                self._undone.insert(0, entry)
            else:
                self._done.append((entry, self._labelling.apply(entry.edit)))

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a run and its edits; one that is not finished as far as it is, and only to be looked at."""
        folder = RunFolder.open(path)
        if not folder.is_finished:
            return cls(folder, folder.table_so_far(), None)
        table = folder.label_table()  # before the edits: those of damaged labels would never fit the restored ones
        journal = Journal.open(folder.path)
        try:
            return cls(folder, table, journal)
        except BaseException:
            journal.close()
            raise

    def close(self) -> None:
        """Let go of the edits, so that another server can open them."""
        if self._journal is not None:
            self._journal.close()

    @property
    def is_finished(self) -> bool:
        """Whether the run was finished when it was opened, and can be edited."""
        return self._journal is not None

    def require_finished(self) -> Journal:
        """Raise unless there is a result to work with."""
        if self._journal is None:
            raise InvalidInput(
                "this run is not finished, so it can be looked at and nothing else. Expected a finished run. "
                "Wait for its end, or continue it with selfsort fit --resume."
            )
        return self._journal

    def __len__(self) -> int:
        return len(self.names)

    # --- looking -----------------------------------------------------------------------------------------

    def overview(self) -> Overview:
        """List the clusters that have images, largest first."""
        with self._lock:
            labelling = self._labelling
            sizes = labelling.sizes()
            wrong = np.bincount(labelling.labels[labelling.is_wrong], minlength=len(sizes))
            sure = np.bincount(labelling.labels, self.table.confidence, minlength=len(sizes))
            by_cluster = np.split(np.argsort(labelling.labels, kind="stable"), np.cumsum(sizes)[:-1])
            clusters = [
                Cluster(
                    id=cluster,
                    name=labelling.name(cluster),
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
                n_wrong=int(labelling.is_wrong.sum()),
                n_moved=int((labelling.labels != labelling.original).sum()),
                n_edits=len(self._done),
                undo=self._describe(self._done[-1][0].edit) if self._done else None,
                redo=self._describe(self._undone[-1].edit) if self._undone else None,
            )

    def listing(self, view: int | View, order: Order) -> Listing:
        """Return the images of a cluster, or all that share something; only a cluster has a centre to be typical of."""
        with self._lock:
            labelling = self._labelling
            selected: dict[View, Callable[[], I64]] = {
                "all": lambda: np.arange(len(self), dtype=np.int64),
                "wrong": lambda: np.flatnonzero(labelling.is_wrong),
                "moved": lambda: np.flatnonzero(labelling.labels != labelling.original),
                "stacks": lambda: np.array([row for stack in self._stacks for row in stack.rows], np.int64),
            }
            rows = labelling.members(view) if isinstance(view, int) else selected[view]()
            labels, is_wrong = labelling.labels.copy(), labelling.is_wrong.copy()
        if view == "stacks":
            pass  # pictures of one stack stand beside each other, whatever the order
        elif order == "unsure":
            rows = rows[np.argsort(self.table.confidence[rows], kind="stable")]
        elif order != "name" and isinstance(view, int) and len(rows):
            sign = -1 if order == "typical" else 1
            rows = rows[np.argsort(sign * self.features.closeness(rows), kind="stable")]
        return Listing(
            rows=rows.tolist(),
            wrong=rows[is_wrong[rows]].tolist(),
            moved=rows[(labels != self.table.labels)[rows]].tolist(),
            clusters=None if isinstance(view, int) else labels[rows].tolist(),
            scores=None,
        )

    def similar(self, rows: list[int], count: int) -> Listing:
        """Return the images most like some."""
        self.require_finished()
        found, scores = self.features.nearest(np.array(rows, np.int64), count)
        with self._lock:
            labels, is_wrong = self._labelling.labels[found], self._labelling.is_wrong[found]
        return Listing(
            rows=found.tolist(),
            wrong=found[is_wrong].tolist(),
            moved=found[labels != self.table.labels[found]].tolist(),
            clusters=labels.tolist(),
            scores=[round(score, 4) for score in scores.tolist()],
        )

    def stacks(self) -> list[PictureStack]:
        """Return the stacks of duplicates that the run keeps; none if nobody has looked for any."""
        return [PictureStack(list(stack.rows), [one.kind for one in stack.others]) for stack in self._stacks]

    def image(self, row: int) -> ImageFacts:
        """Return what is known of one image."""
        with self._lock:
            labelling = self._labelling
            return ImageFacts(
                row=row,
                name=self.names[row],
                cluster=int(labelling.labels[row]),
                original_cluster=int(labelling.original[row]),
                confidence=round(float(self.table.confidence[row]), 4),
                is_wrong=bool(labelling.is_wrong[row]),
            )

    def tree(self) -> Tree:
        """Return the tree of the clusters as the method found them; an older run gets its tree now."""
        self.require_finished()
        with self._tree_lock:
            if self._branches is None:
                found = tree_of(self.folder)
                n_parts = min(found.n_leaves, max(3 * found.n_clusters, found.n_clusters + _MORE_PARTS), _MOST_PARTS)
                n_parts = max(n_parts, found.n_clusters)
                shown = branches_of(found, n_parts, self._closeness(found.cut(n_parts)), _TREE_PICTURES)
                self._branches = shown, found.n_clusters, coarser_levels(found)
            shown, n_clusters, levels = self._branches
        with self._lock:
            named = {node: self._labelling.name(shown.nodes[node].cluster or 0) for node in shown.at(n_clusters)}
        nodes = [
            TreeNode(_name_of(shown, i, n_clusters, named), node.size, list(node.children), list(node.pictures))
            for i, node in enumerate(shown.nodes)
        ]
        return Tree(nodes, shown.n_parts, n_clusters, levels)

    def _closeness(self, labels: I64) -> F32:
        """Say of every image how near it is to the centre of its part."""
        found: F32 = np.empty(len(labels), np.float32)
        for rows in np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1]):
            found[rows] = self.features.closeness(rows)
        return found

    def current(self) -> RunLabels:
        """Return the labels as they are now, for an export."""
        self.require_finished()
        with self._lock:
            labelling = self._labelling
            table = replace(self.table, labels=labelling.labels.copy())
            return RunLabels(
                table,
                labelling.original,
                labelling.is_wrong.copy(),
                dict(labelling.names),
                n_edits=len(self._done),
                suggested=dict(labelling.meant()),
            )

    # --- editing -----------------------------------------------------------------------------------------

    def rename(self, cluster: int, name: str) -> None:
        """Call a cluster something; without a name it is called as before anybody named it."""
        self._do(lambda: Rename(cluster, one_line(name, MAX_NAME)))

    def merge(self, clusters: list[int], into: int | None = None) -> int:
        """Put clusters together, into the largest of them unless said otherwise; return which one that is."""
        with self._lock:
            if into is None:
                sizes = self._labelling.sizes()
                inside = [cluster for cluster in clusters if 0 <= cluster < len(sizes)]
                into = max(inside, key=lambda cluster: (sizes[cluster], -cluster), default=0)
            kept = into
            self._do(lambda: Merge(tuple(clusters), kept))
            return kept

    def split(self, cluster: int, n_parts: int) -> list[int]:
        """Cluster the images of a cluster again; return the clusters they are in now."""
        with self._lock:
            self.require_finished()
            parts = self.features.parts(self._members(cluster), n_parts)
            new = list(range(self._labelling.n_ids, self._labelling.n_ids + len(parts) - 1))
            taken = tuple((number, tuple(part.tolist())) for number, part in zip(new, parts[1:], strict=True))
            self._do(lambda: Split(cluster, taken))
            return [cluster, *new]

    def move(self, rows: list[int], to: int | None, name: str = "") -> int:
        """Put images into a cluster, or into a new one, which may have a name at once; return which one that is."""
        with self._lock:
            target = self._labelling.n_ids if to is None else to
            self._do(lambda: Move(tuple(rows), target))
            if to is None and name.strip():
                self.rename(target, name)
            return target

    def mark(self, rows: list[int], is_wrong: bool) -> None:
        """Say that images are wrong where they are, or take that back."""
        self._do(lambda: Mark(tuple(rows), is_wrong))

    def undo(self) -> bool:
        """Take the last edit back; say whether there was one."""
        with self._lock:
            journal = self.require_finished()
            if not self._done:
                return False
            entry, before = self._done[-1]
            journal.mark(entry.number, is_undone=True)
            self._done.pop()
            self._undone.append(entry)
            self._labelling.restore(before)
            return True

    def redo(self) -> bool:
        """Make the last undone edit again; say whether there was one."""
        with self._lock:
            journal = self.require_finished()
            if not self._undone:
                return False
            entry = self._undone[-1]
            journal.mark(entry.number, is_undone=False)
            self._undone.pop()
            self._done.append((entry, self._labelling.apply(entry.edit)))
            return True

    def history(self, limit: int) -> list[HistoryEntry]:
        """Return the latest edits in force with what they did, newest first."""
        with self._lock:
            latest = [entry for entry, _ in reversed(self._done[-limit:])]
            return [HistoryEntry(entry.number, entry.made_at, self._describe(entry.edit)) for entry in latest]

    def _do(self, make: Callable[[], Edit]) -> None:
        """Make an edit, in memory and on the disk or in neither."""
        with self._lock:
            journal = self.require_finished()
            edit = make()
            before = self._labelling.apply(edit)
            try:
                entry = journal.add(edit)
            except BaseException:
                self._labelling.restore(before)
                raise
            self._done.append((entry, before))
            self._undone.clear()

    def _members(self, cluster: int) -> I64:
        rows = self._labelling.members(cluster)
        if not len(rows):
            raise InvalidInput(
                f"the cluster must be one that has images; got {cluster}. Reload the page and try again."
            )
        return rows

    def _cover(self, cluster: int, rows: I64) -> int:
        """Return the most typical image, of very many that of a sample; remembered while the members are the same."""
        key = hash(rows.tobytes())
        if cluster not in self._covers or self._covers[cluster][0] != key:
            most = max(_FEWEST_FOR_COVER, _MOST_FOR_COVERS // self._labelling.n_ids)
            rows = rows[:: max(1, len(rows) // most)]
            self._covers[cluster] = (key, int(rows[int(np.argmax(self.features.closeness(rows)))]))
        return self._covers[cluster][1]

    def _describe(self, edit: Edit) -> str:
        name = self._labelling.name
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


def _name_of(shown: Branches, node: int, n_clusters: int, named: dict[int, str]) -> str:
    """Call a branch by the clusters in it, the largest first."""
    inside = sorted(shown.below(node, n_clusters), key=lambda inner: -shown.nodes[inner].size)
    names = [named[inner] for inner in inside if inner in named]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _features_of(folder: RunFolder, n_images: int) -> npt.NDArray[Any]:
    """Read the features alone: the model and the soft assignments may be larger, and nothing here needs them."""
    features = folder.features()
    if len(features) != n_images:
        raise InvalidInput(
            f"{folder.path / 'features.npy'} speaks of {len(features)} images. Expected the {n_images} of labels.csv. "
            "The folder was changed or damaged: restore it, or run selfsort fit again."
        )
    return with_columns(features, folder.path / "features.npy")
