"""What speaks for and against a clustering, without labels.

Everything is taken from the features a run started from, not from those it learned: a network that has joined two
classes has features that say so too. Second opinions are k-means and communities with the same number of clusters;
whichever method made the clusters, at least one of the two works in another way. Of a large data set a sample stands
for all, and every other image asks its nearest in the sample.

Shape letters: N images, K clusters, D features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from selfsort.choose_k.search import WIDTHS, smallest_start, width_for
from selfsort.choose_k.separation import leaks_between, separation_tree
from selfsort.classic.kmeans import kmeans
from selfsort.graph.communities import find_n_communities, symmetric_affinities
from selfsort.graph.knn import Neighbours, nearest_neighbours
from selfsort.learning.seeds import derive_seed, numpy_generator
from selfsort.pages import forget, n_held, take
from selfsort.progress import listening, stage
from selfsort.types import F32, F64, I64

STAGE = "judging the clusters"
"""What a job is at meanwhile."""
N_NEAR = 20
"""Neighbours that are asked which cluster they are in."""
N_FAR = 10
"""How far an image is from the others is how far its neighbour of this number is."""
MOST_JUDGES = 4000
FEWEST_IMAGES = 30
_N_RESTARTS = 5
_FEWEST_AT_ONCE, _BLOCK_BYTES = 256, 1 << 25
"""Images that ask at a time."""
_SMALLEST_PART = 0.2
"""A cluster is parted only into halves of at least this share."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was seen; of each image, and of each cluster."""

    same: F64
    """(N,) share of the nearest images that are in the same cluster."""
    least: F64
    """(N,) overlap of its cluster with that of a second opinion, of the one that agrees less: common over all."""
    most: F64
    """(N,) the same, of the one that agrees more."""
    between: F64
    """(K, K) leak of each two clusters into each other; zero on the diagonal."""
    width: int
    """Neighbours in the graph the leaks are from."""
    parts: dict[int, tuple[float, I64]]
    """Of clusters that fall into halves: the leak of the halves into each other, and which images of the data set are
    in the smaller half, as far as they were looked at."""
    distance: F64
    """(N,) distance to the tenth nearest image."""
    around: I64
    """(N,) the cluster that most of the nearest images are in."""
    vouched: F64
    """(N,) share of the nearest images that are in the same cluster and have this one among their own nearest."""

    @property
    def leak(self) -> F64:
        """(K,) the largest leak of each cluster."""
        largest: F64 = self.between.max(axis=1, initial=0.0)
        return largest


def gather(rows: F32, labels: I64, n_clusters: int, *, seed: int, device: torch.device) -> Evidence:
    """Look at a clustering from outside.

    Args:
        rows: (N, D) features of the images before the method.
        labels: (N,) clusters 0..K-1.
        n_clusters: K.
        seed: decides the sample and the second opinions.
        device: where neighbours are searched.
    """
    draw = numpy_generator(seed, "judges")
    judges = np.sort(draw.permutation(len(rows))[: n_held(rows, MOST_JUDGES)]).astype(np.int64)
    own = take(rows, judges)
    near = nearest_neighbours(own, max(WIDTHS), device=device)
    width = width_for(len(own), n_clusters)
    graph = symmetric_affinities(near, width)
    member = labels[judges]
    communities = find_n_communities(graph, n_clusters, own, seed=derive_seed(seed, "second opinion"))[0].labels
    centroids = kmeans(own, n_clusters, seed=seed, n_restarts=_N_RESTARTS)
    parts = _parts(graph, own, judges, member, n_clusters, width, seed)
    reach = near.sq_dist[:, :N_NEAR][:, -1]  # of the judges
    is_all = len(judges) == len(rows)  # then nobody has to ask
    by_communities = _overlaps(member, communities, n_clusters)
    by_centroids = _overlaps(member, centroids.labels, n_clusters)
    same, least, most, distance, vouched = np.empty((5, len(rows)))
    around = np.empty(len(rows), np.int64)
    n_block = len(rows) if is_all else max(_FEWEST_AT_ONCE, _BLOCK_BYTES // rows[:1].nbytes)
    starts = range(0, len(rows), n_block)
    for number, start in enumerate(starts):
        if not is_all:
            stage(STAGE, number, len(starts))
        some = slice(start, start + n_block)
        asked, sq_dist = near.idx[:, :N_NEAR], near.sq_dist[:, :N_NEAR]
        if not is_all:
            asked, sq_dist = _from_judges(rows[some], own, judges, start, device)
            forget(rows)
        mine = labels[some]
        is_same = member[asked] == mine[:, None]
        others = (communities, centroids.labels)
        if not is_all:
            others = (_by_vote(communities, asked), _nearest_centroid(rows[some], centroids.centroids))
        overlaps = by_communities[mine, others[0]], by_centroids[mine, others[1]]
        same[some], least[some], most[some] = is_same.mean(axis=1), np.minimum(*overlaps), np.maximum(*overlaps)
        distance[some] = np.sqrt(sq_dist[:, N_FAR - 1].astype(np.float64))
        around[some], vouched[some] = _by_vote(member, asked), (is_same & (sq_dist <= reach[asked])).mean(axis=1)
    between = leaks_between(graph, member, n_clusters)
    return Evidence(same, least, most, between, width, parts, distance, around, vouched)


def _from_judges(rows: F32, own: F32, judges: I64, first: int, device: torch.device) -> tuple[I64, F32]:
    """Return the nearest judges of some images that follow each other, and their squared distances."""
    with listening(None):  # how many of them are done is said above
        found = nearest_neighbours(own, N_NEAR + 1, queries=rows, device=device)
    inside = np.flatnonzero((judges >= first) & (judges < first + len(rows)))
    return _without_self(found, judges[inside] - first, inside)


def _without_self(found: Neighbours, places: I64, judges: I64) -> tuple[I64, F32]:
    """Drop the judges, which are at some places, each from its own list, or the last one from the lists of others."""
    position = np.full(len(found), -1)
    position[places] = judges
    is_self = found.idx == position[:, None]
    order = np.argsort(is_self, axis=1, kind="stable")[:, :-1]
    return np.take_along_axis(found.idx, order, axis=1), np.take_along_axis(found.sq_dist, order, axis=1)


def _overlaps(labels: I64, others: I64, n_clusters: int) -> F64:
    """Return what each two clusters have in common, over what either has; a rare one may have no judge at all."""
    shape = (n_clusters, max(n_clusters, int(others.max()) + 1))
    common = np.bincount(labels * shape[1] + others, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
    either = common.sum(axis=1)[:, None] + common.sum(axis=0) - common
    overlap: F64 = common / np.maximum(either, 1)
    return overlap


def _by_vote(labels: I64, asked: I64) -> I64:
    """Return the most frequent cluster in each list; ties go to the lowest number."""
    n_clusters = int(labels.max()) + 1
    cells = np.arange(len(asked))[:, None] * n_clusters + labels[asked]
    counts = np.bincount(cells.ravel(), minlength=len(asked) * n_clusters).reshape(len(asked), n_clusters)
    winner: I64 = counts.argmax(axis=1)
    return winner


def _nearest_centroid(rows: F32, centroids: F32) -> I64:
    nearest: I64 = (rows @ centroids.T - (centroids**2).sum(axis=1) / 2).argmax(axis=1)
    return nearest


def _parts(
    graph: csr_array, own: F32, judges: I64, member: I64, n_clusters: int, width: int, seed: int
) -> dict[int, tuple[float, I64]]:
    """Part each cluster along its widest gap, where both halves are large."""
    found = {}
    smallest = smallest_start(width)
    for cluster in range(n_clusters):
        inside = np.flatnonzero(member == cluster)
        if len(inside) < 4 * smallest:
            continue
        part = csr_array(graph[inside][:, inside])
        tree = separation_tree(part, own[inside], smallest=smallest, seed=derive_seed(seed, f"part {cluster}"))
        if tree.n_start < 2:
            continue
        half = tree.cut(2)
        sizes = np.bincount(half, minlength=2)
        if sizes.min() >= _SMALLEST_PART * len(inside):
            found[cluster] = (float(tree.affinity[-1]), judges[inside[half == sizes.argmin()]])
    return found
