"""What a person has put right in a run, said again for another clustering of the same images.

A cluster is followed to its heir: the new cluster that has most of its images. A name goes to the heir; where several
names come to one, that of the most images stays. An image that was moved is moved to the heir of where it was put;
clusters that were made by hand are made again. A correction inside what is one cluster now has nothing left to say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from selfsort.runs.edits import Edit, Mark, Merge, Move, Rename, Split
from selfsort.runs.labelling import Labelling
from selfsort.text import plural, shorten
from selfsort.types import I64


@dataclass(frozen=True)
class Carried:
    """Corrections for the new clustering, and what became of the old ones."""

    edits: tuple[Edit, ...]
    n_names: int
    n_moved: int
    lost_names: tuple[str, ...]
    n_pointless: int
    """Images moved, and clusters merged, within what is one cluster now."""

    def __str__(self) -> str:
        """Say it in one line; nothing if there were no corrections."""
        kept = [f"{plural(n, what)}" for n, what in ((self.n_names, "name"), (self.n_moved, "moved image")) if n]
        lost = []
        if self.lost_names:
            named = ", ".join(repr(shorten(name, 40)) for name in self.lost_names[:5])
            lost.append(f"{plural(len(self.lost_names), 'name')} ({named}), of clusters that are part of others now")
        if self.n_pointless:
            lost.append(f"{plural(self.n_pointless, 'correction')} inside what is one cluster now")
        told = [f"carried over: {', '.join(kept)}"] if kept else []
        told += [f"not carried over: {'; '.join(lost)}"] if lost else []
        return "; ".join(told)


def carry_over(edits: list[Edit], before: I64, after: I64) -> Carried:
    """Say edits again.

    Args:
        edits: those in force, oldest first.
        before: (N,) labels they were made on.
        after: (N,) labels of the new clustering.
    """
    old, new = Labelling(before), Labelling(after)
    heirs = {int(cluster): _heir(after, before == cluster) for cluster in np.unique(before)}
    said: list[Edit] = []
    moved: set[int] = set()
    n_pointless = 0
    for edit in edits:
        old.apply(edit)
        match edit:
            case Rename():
                continue  # at the end, when it is known who is there to be named
            case Merge(clusters, into):
                wanted = sorted({heirs[cluster] for cluster in clusters if _has_images(new, heirs[cluster])})
                heirs |= dict.fromkeys(clusters, heirs[into])
                if len(wanted) < 2 or heirs[into] not in wanted:
                    n_pointless += 1
                    continue
                again: list[Edit] = [Merge(tuple(wanted), heirs[into])]
            case Split(_, parts):
                again = []
                for number, rows in parts:
                    heirs[number] = new.n_ids + len(again)
                    again.append(Move(rows, heirs[number]))
            case Move(rows, to):
                heirs.setdefault(to, new.n_ids)
                target = heirs[to]
                elsewhere = tuple(row for row in rows if new.labels[row] != target)
                n_pointless += len(rows) - len(elsewhere)
                if not elsewhere:
                    continue
                if not _has_images(new, target):  # all its images have gone elsewhere since
                    target = heirs[to] = new.n_ids
                again = [Move(elsewhere, target)]
            case Mark():
                again = [edit]
        for one in again:
            new.apply(one)
            if isinstance(one, Move):
                moved |= set(one.rows)
        said += again
    names, lost = _names(old, new, heirs)
    return Carried((*said, *names), len(names), len(moved), lost, n_pointless)


def _names(old: Labelling, new: Labelling, heirs: dict[int, int]) -> tuple[list[Edit], tuple[str, ...]]:
    """Give every name to the heir of its cluster; the one of most images first."""
    found: dict[int, str] = {}
    lost = []
    for cluster in sorted(old.names, key=lambda cluster: (-len(old.members(cluster)), cluster)):
        rows = old.members(cluster)
        heir = _heir(new.labels, rows) if len(rows) else heirs.get(cluster, -1)
        if heir in found or not _has_images(new, heir):
            lost.append(old.names[cluster])
        else:
            found[heir] = old.names[cluster]
    return [Rename(heir, name) for heir, name in sorted(found.items())], tuple(lost)


def _heir(labels: I64, rows: I64 | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    return int(np.bincount(labels[rows]).argmax())


def _has_images(labelling: Labelling, cluster: int) -> bool:
    return bool((labelling.labels == cluster).any())
