"""Folders inside folders: above the clusters of a run, the groups that its tree joins them to."""

from __future__ import annotations

import numpy as np

from selfsort.errors import invalid
from selfsort.runs.export.folders import WRONG_TITLE, folder_names
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import RunLabels
from selfsort.runs.tree import tree_of
from selfsort.text import shorten
from selfsort.types import I64

_LONGEST = 60


def folders_above(folder: RunFolder, labels: RunLabels, n_levels: int) -> dict[int, tuple[str, ...]]:
    """Return the names of the folders above each cluster, outermost first.

    A cluster goes where most of its images belong. A group is called by the names that its clusters were given or that
    are suggested for them, those of the most images first, or by its number.

    Args:
        folder: a finished run.
        labels: its clusters, corrected or not.
        n_levels: folders inside each other, those of the clusters counted.
    """
    if n_levels == 1:
        return {}
    tree = tree_of(folder)
    numbers = tree.coarser(n_levels - 1)
    if len(numbers) < n_levels - 1:
        most = max(tree.n_clusters - 1, 1)
        raise invalid(
            "--levels", f"be at most {most} for the {tree.n_clusters} clusters of this run", n_levels, "Lower it."
        )
    finest = tree.cut(numbers[-1])
    clusters = np.unique(labels.table.labels)
    sizes = np.bincount(labels.table.labels)
    group = {int(c): int(np.bincount(finest[labels.table.labels == c]).argmax()) for c in clusters}
    above: dict[int, tuple[str, ...]] = {cluster: () for cluster in group}
    for number in numbers:
        coarse = _coarse_of(tree.cut(number), finest)
        inside: dict[int, list[int]] = {}
        for cluster in sorted(group, key=lambda c: -int(sizes[c])):
            inside.setdefault(int(coarse[group[cluster]]), []).append(cluster)
        # The first to be named is the folder of images marked wrong, which lies beside the groups.
        titles = folder_names({-1: WRONG_TITLE} | {g: _title(g, members, labels) for g, members in inside.items()})
        for g, members in inside.items():
            for cluster in members:
                above[cluster] += (titles[g],)
    return above


def _coarse_of(coarse: I64, fine: I64) -> I64:
    """Return the coarse group of each fine one: they are nested."""
    _, first = np.unique(fine, return_index=True)
    found: I64 = coarse[first]
    return found


def _title(group: int, clusters: list[int], labels: RunLabels) -> str:
    names = [name for cluster in clusters if (name := labels.given_name(cluster))]
    return shorten(", ".join(names), _LONGEST) if names else f"group-{group:02d}"
