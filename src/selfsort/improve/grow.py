"""Grow the tree of a clustering from its features and labels, whatever method made them.

Above the clusters: the two with most weight between them in the neighbour graph, against what chance would give by
their degrees, are merged, again and again (Bonald, Charpentier, Galland, Hollocou, "Hierarchical graph clustering using
node pair sampling", MLG 2018); those that no neighbours connect, by their centroids. Inside a cluster its communities
are merged by their leak (`choose_k.separation`), and inside a community single images by average linkage. So with one
cluster more, the cluster falls apart whose parts leak least.

Of many images some stand for all, so that the search for neighbours costs no more than of ten thousand; the others
go where the nearest of these in their own cluster goes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from scipy.cluster.hierarchy import linkage

from selfsort.choose_k.separation import separation_tree
from selfsort.graph.absorb import member_sums
from selfsort.graph.communities import symmetric_affinities
from selfsort.graph.hierarchy import Hierarchy, Part, join_parts
from selfsort.graph.knn import nearest_neighbours
from selfsort.graph.tree import MergeTree
from selfsort.pages import n_held, take
from selfsort.progress import listening, track
from selfsort.types import F32, F64, I64

N_NEIGHBOURS = 10
_SMALLEST = 5
"""Images in the smallest community; a cluster of fewer than two of them has none."""
_MOST_LEAVES, _FEWEST_LEAVES, _PRODUCTS = 10_000, 2_000, 1e11
"""Images that stand for all: as many as can be compared with so many multiplications, between these."""
_FEWEST_AT_ONCE, _BLOCK_BYTES = 256, 1 << 25
"""Images that look for the leaf nearest to them at a time."""
_LEAVES_EACH = 20
"""Of every cluster at least so many stand for it, if it has them."""


def grow(features: F32, labels: I64, device: torch.device | str = "cpu") -> Hierarchy:
    """Return the tree of a clustering.

    Args:
        features: (N, D) finite.
        labels: (N,) clusters, some numbers may be unused.
        device: where distances are computed.
    """
    rows = _standing_for_all(labels, n_held(features, _most_leaves(features.shape[1])))
    start = _leaf_of_each(features, labels, rows, device)
    chosen, of_leaf = take(features, rows), labels[rows]
    clusters, first = np.unique(of_leaf, return_index=True)
    fine: list[Part] = []
    middle: list[Part] = []
    for begin, end in zip(first, [*first[1:], len(rows)], strict=True):
        members = np.arange(begin, end)
        communities = _communities(chosen[begin:end], device)
        pieces = [members] if communities is None else _pieces(members, communities.start)
        fine += [_linked(piece, chosen) for piece in pieces]
        if communities is not None:
            leading = np.array([piece[0] for piece in pieces])
            middle.append(Part(leading, communities.merges, np.minimum.accumulate(communities.affinity)))
    whole = _merged(chosen, np.searchsorted(clusters, of_leaf), first, device)
    return Hierarchy(join_parts(start, [fine, middle, [whole]]), rows, clusters)


def _most_leaves(width: int) -> int:
    return int(np.clip(math.sqrt(_PRODUCTS / width), _FEWEST_LEAVES, _MOST_LEAVES))


def _standing_for_all(labels: I64, most: int) -> I64:
    """Choose images evenly from every cluster; return them by cluster and number."""
    by_cluster = np.argsort(labels, kind="stable")
    if len(labels) <= most:
        return by_cluster
    share = most / len(labels)
    groups = np.split(by_cluster, np.flatnonzero(np.diff(labels[by_cluster])) + 1)
    counts = [min(len(group), max(round(share * len(group)), _LEAVES_EACH)) for group in groups]
    picked = [group[np.linspace(0, len(group) - 1, n).astype(int)] for group, n in zip(groups, counts, strict=True)]
    return np.concatenate(picked)


def _leaf_of_each(features: F32, labels: I64, rows: I64, device: torch.device | str) -> I64:
    """Give every image the leaf of itself, or of the nearest image with a leaf in its cluster."""
    start = np.full(len(labels), -1, dtype=np.int64)
    start[rows] = np.arange(len(rows))
    others = np.flatnonzero(start < 0)
    n_block = max(_FEWEST_AT_ONCE, _BLOCK_BYTES // features[:1].nbytes)

    def blocks() -> Iterator[tuple[I64, F32, I64]]:
        for cluster in np.unique(labels[others]):
            members = others[labels[others] == cluster]
            leaves = np.flatnonzero(labels[rows] == cluster)
            own = take(features, rows[leaves])
            for block in np.split(members, range(n_block, len(members), n_block)):
                yield leaves, own, block

    for leaves, own, block in track(blocks(), "finding their places", len(others), weigh=lambda found: len(found[2])):
        with listening(None):  # how many of them are done is said above
            near = nearest_neighbours(own, 1, queries=take(features, block), device=device)
        start[block] = leaves[near.idx[:, 0]]
    return start


def _communities(features: F32, device: torch.device | str) -> MergeTree | None:
    if len(features) < 2 * _SMALLEST:
        return None
    graph = symmetric_affinities(nearest_neighbours(features, N_NEIGHBOURS, device=device))
    tree = separation_tree(graph, features, smallest=_SMALLEST)
    return tree if len(tree.merges) else None


def _pieces(members: I64, labels: I64) -> list[I64]:
    return [members[labels == piece] for piece in range(int(labels.max()) + 1)]


def _linked(leaves: I64, features: F32) -> Part:
    """Link single images by the average distance."""
    if len(leaves) == 1:
        return Part(leaves, np.empty((0, 2), np.int64), np.empty(0))
    found = linkage(features[leaves], method="average")
    return Part(leaves, found[:, :2].astype(np.int64), -np.maximum.accumulate(found[:, 2]))


def _merged(features: F32, labels: I64, first: I64, device: torch.device | str) -> Part:
    """Merge whole clusters by the graph, or by their centroids where it says nothing."""
    n_clusters = len(first)
    if n_clusters == 1:
        return Part(first, np.empty((0, 2), np.int64), np.empty(0))
    graph = symmetric_affinities(nearest_neighbours(features, N_NEIGHBOURS, device=device)).tocoo()
    ties = np.zeros((n_clusters, n_clusters))
    np.add.at(ties, (labels[graph.row], labels[graph.col]), graph.data)
    sums, sizes = member_sums(features, labels, n_clusters), np.bincount(labels).astype(np.float64)
    number, merges, strength = np.arange(n_clusters), list[tuple[int, int]](), list[float]()
    scores = np.stack([_scores(ties, sums, sizes, i) for i in range(n_clusters)])
    for m in range(n_clusters - 1):
        i, j = sorted(int(place) for place in np.unravel_index(int(scores.argmax()), scores.shape))
        merges.append((int(number[i]), int(number[j])))
        strength.append(max(float(scores[i, j]), 0.0))
        number[i] = n_clusters + m
        for table in (ties, ties.T, sums, sizes):
            table[i] += table[j]
            table[j] = 0
        scores[j] = scores[:, j] = -np.inf
        scores[i] = scores[:, i] = np.where(np.isinf(scores[i]), -np.inf, _scores(ties, sums, sizes, i))
    return Part(first, np.array(merges), np.minimum.accumulate(strength))


def _scores(ties: F64, sums: F64, sizes: F64, i: int) -> F64:
    """Say how much cluster i and every other belong together: by their ties, or below zero by their distance.

    Ties count as multiples of what chance would give by the degrees of the two.
    """
    degrees = ties.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = ties[i] * degrees.sum() / (degrees[i] * degrees)
        away = ((sums / sizes[:, None] - sums[i] / sizes[i]) ** 2).sum(axis=1)
    found: F64 = np.where(ratio > 0, ratio, -away)
    found[i] = -np.inf
    return found
