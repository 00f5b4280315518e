"""Keep outliers from being counted among the k clusters: cut the tree early, give small clusters away.

A few images that resemble nothing form tiny clusters with hardly any affinity to the rest. Merging down to k then
glues real clusters together while the tiny ones survive. Cutting the same tree where k clusters are large, and
giving each small cluster to the large one with the nearest centroid, avoids that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from selfsort.graph._kernels import agglomerate as kernels
from selfsort.graph.tree import BY_ABSORPTION, MergeTree
from selfsort.pages import passes
from selfsort.types import F64, I64

# A cluster is large if it holds this share of n / k images.
LARGE_SHARE = 0.05


def find_cut(tree: MergeTree, n_clusters: int) -> tuple[float, int, bool]:
    """Return the size of a large cluster, the merges to keep, and whether the size had to be lowered.

    On the way down from more than k large clusters to k, the cut is as late as can be without two of the k being
    merged. (On the way up, early on, there may be k of them by chance: that moment does not count. Nor does a later
    return to k, when two of the k have been merged and outliers have grown into a new one.) If there are never more
    than k, the cut is at the last moment with k. If there are never k, the size is halved until there are: it ends
    at one image, which all of the last k clusters have.
    """
    n_items = int(tree.sizes[: tree.n_start].sum())
    large_size = usual_size = LARGE_SHARE * n_items / n_clusters
    while True:
        n_large = _count_large(tree, large_size)
        above = np.flatnonzero(n_large > n_clusters)
        equal = np.flatnonzero(n_large == n_clusters)
        if len(above):
            # The count changes by one at a time, so k follows at once; the end has only k clusters in all.
            begin = int(above[-1]) + 1
            below = np.flatnonzero(n_large[begin:] < n_clusters)
            n_kept = begin + int(below[0]) - 1 if len(below) else len(tree.merges)
            return large_size, n_kept, large_size < usual_size
        if len(equal):
            return large_size, int(equal[-1]), large_size < usual_size
        large_size /= 2


def absorb_small(tree: MergeTree, large_size: float, features: npt.NDArray[Any]) -> MergeTree:
    """Append the merges that give every small cluster to the large one with the nearest centroid."""
    roots = tree.roots()
    live = np.unique(roots)
    is_large = tree.sizes[live] >= large_size
    if is_large.all():
        return tree
    final = np.searchsorted(live, roots)[tree.start]
    centroids = member_sums(features, final, len(live)) / tree.sizes[live][:, None]
    large, small = live[is_large], live[~is_large]
    current = {int(c): int(c) for c in large}
    merges, sizes = [], tree.sizes.tolist()
    for c, centroid in zip(small, centroids[~is_large], strict=True):
        target = int(large[np.argmin(((centroids[is_large] - centroid) ** 2).sum(axis=1))])
        merges.append((current[target], int(c)))
        sizes.append(sizes[current[target]] + sizes[int(c)])
        current[target] = len(sizes) - 1
    return replace(
        tree,
        merges=np.concatenate([tree.merges, np.array(merges, dtype=np.int64)]),
        affinity=np.concatenate([tree.affinity, np.zeros(len(merges))]),
        reasons=np.concatenate([tree.reasons, np.full(len(merges), BY_ABSORPTION, dtype=np.int8)]),
        sizes=np.array(sizes, dtype=np.int64),
    )


def _count_large(tree: MergeTree, large_size: float) -> I64:
    """Return the number of large clusters after 0, 1, ... merges."""
    is_large = (tree.sizes >= large_size).astype(np.int64)
    at_start = is_large[: tree.n_start].sum()
    change = is_large[tree.n_start :] - is_large[tree.merges].sum(axis=1)
    counts: I64 = at_start + np.concatenate([[0], np.cumsum(change)])
    return counts


def member_sums(features: npt.NDArray[Any], labels: I64, n_labels: int) -> F64:
    """Return the (n_labels, D) sums of the features of each cluster."""
    sums = np.zeros((n_labels, features.shape[1]))
    for block in passes(features):
        kernels.add_rows(np.ascontiguousarray(features[block]), labels[block], sums)
    return sums
