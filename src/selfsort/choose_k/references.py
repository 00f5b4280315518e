"""Criteria of the textbooks, for comparison: the silhouette, and a ratio of densities."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import silhouette_score
from sklearn.metrics.pairwise import euclidean_distances

from selfsort.choose_k.evidence import Criterion
from selfsort.graph.neighbours import Neighbours
from selfsort.graph.tree import MergeTree
from selfsort.types import F32, F64, I64


def silhouette(tree: MergeTree, features: F32, ks: I64, *, n_most: int = 1000, seed: int = 0) -> Criterion:
    """Return the mean silhouette on at most so many images (Rousseeuw 1987)."""
    rows = np.sort(np.random.default_rng(seed).permutation(len(features))[:n_most])
    apart = euclidean_distances(features[rows].astype(np.float64))
    np.fill_diagonal(apart, 0)
    values = np.zeros(len(ks))
    for place, k in enumerate(ks):
        labels = tree.cut(int(k))[rows]
        if 2 <= len(np.unique(labels)) < len(rows):
            values[place] = silhouette_score(apart, labels, metric="precomputed")
    return Criterion("silhouette", ks, values, int(ks[values.argmax()]) if len(ks) else 1)


def density(tree: MergeTree, neighbours: Neighbours, ks: I64) -> Criterion:
    """Return how sparse the borders are: one minus the density across them over the density inside.

    The density at a tie is the inverse of its length; a border is made of the ties between clusters. The mean over
    clusters of each one's densest border, as in density-based validation (Moulavi et al. 2014), from neighbours alone.
    """
    is_there = neighbours.idx >= 0
    rows, places = np.nonzero(is_there)
    others = neighbours.idx[rows, places]
    lengths = np.sqrt(neighbours.sq_dist[rows, places].astype(np.float64))
    dense: F64 = 1 / np.maximum(lengths, 1e-6 * max(float(lengths.mean()), 1e-30))
    values = np.array([_sparseness(tree.cut(int(k)), rows, others, dense, int(k)) for k in ks])
    return Criterion("density", ks, values, int(ks[values.argmax()]) if len(ks) else 1)


def _sparseness(labels: I64, rows: I64, others: I64, dense: F64, k: int) -> float:
    pair = labels[rows] * k + labels[others]
    total = np.bincount(pair, dense, minlength=k * k).reshape(k, k)
    count = np.bincount(pair, minlength=k * k).reshape(k, k)
    mean = total / np.maximum(count, 1)
    inside = np.diag(mean)
    # A border of one or two ties is an accident: it is weighed by the share of the ties that cross it.
    crossing = mean * count / np.maximum(count.sum(axis=1, keepdims=True), 1)
    np.fill_diagonal(crossing, 0)
    return float(np.mean(1 - crossing.max(axis=1) / np.maximum(inside, 1e-30)))
