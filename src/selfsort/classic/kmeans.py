"""K-means on unit-norm pixels: the baseline every paper starts its table with.

Where we differ from the scripts behind JULE's tables: nowhere known. Ten restarts, max(100, N/100) iterations.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from selfsort.classic.method import Partition, PixelConfig, classic_method, squared_distances
from selfsort.config import setting
from selfsort.data.store import memory_left
from selfsort.learning.seeds import derive_seed, numpy_generator
from selfsort.pages import passes, take
from selfsort.types import F32, I64

_FEWEST_EACH = 20
"""Rows in the sample for each cluster, whatever the memory."""
_COPIES = 3
"""What the library holds of its rows: those it was given, those less their mean, and their squares for a moment."""
_TOLERANCE = 1e-4
"""Centroids that move by less than this part of a column's variance have arrived, as in scikit-learn."""


@dataclass(frozen=True, kw_only=True)
class KMeansConfig(PixelConfig):
    """Settings of k-means."""

    n_restarts: int = setting(10, "independent starts; the one with the smallest inertia wins", "code")
    max_iterations: int = setting(0, "iterations per start; 0 means max(100, N/100)", "code")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("n_restarts", self.n_restarts >= 1, "be at least 1")
        self.require("max_iterations", self.max_iterations >= 0, "be 0 or more")


@dataclass(frozen=True, eq=False)
class KMeansFit:
    """Labels, centroids and inertia of the best start."""

    labels: I64
    centroids: F32
    inertia: float


def kmeans(features: F32, n_clusters: int, *, seed: int, n_restarts: int = 10, max_iterations: int = 300) -> KMeansFit:
    """Lloyd's algorithm from k-means++ starts; labels are those of the final centroids.

    Rows that would not fit the memory in all the copies that the library makes are started from on a sample.
    """
    if _COPIES * features.nbytes > memory_left():
        return _kmeans_in_blocks(features, n_clusters, seed, n_restarts, max_iterations)
    return _kmeans_in_memory(features, n_clusters, seed, n_restarts, max_iterations)


def _kmeans_in_memory(features: F32, n_clusters: int, seed: int, n_restarts: int, max_iterations: int) -> KMeansFit:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Fewer distinct points than clusters: the caller's collapse watch says so in plain words.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = KMeans(
            n_clusters, n_init=n_restarts, max_iter=max_iterations, random_state=derive_seed(seed, "kmeans") % 2**32
        ).fit(features)
    return KMeansFit(
        fitted.labels_.astype(np.int64), fitted.cluster_centers_.astype(np.float32), float(fitted.inertia_)
    )


def _kmeans_in_blocks(features: F32, n_clusters: int, seed: int, n_restarts: int, max_iterations: int) -> KMeansFit:
    """Choose the best of several starts on a sample, then run Lloyd's algorithm over all rows, some at a time."""
    n_rows, row_bytes = len(features), features[:1].nbytes
    n_sample = min(n_rows, max(_FEWEST_EACH * n_clusters, memory_left() // (_COPIES * row_bytes)))
    sample = np.sort(numpy_generator(seed, "kmeans sample").permutation(n_rows)[:n_sample])
    centroids = _kmeans_in_memory(take(features, sample), n_clusters, seed, n_restarts, max_iterations).centroids
    labels = np.full(n_rows, -1, np.int64)
    for _ in range(max_iterations):
        before, (labels, inertia, moved, spread) = labels, _lloyd(features, centroids)
        shift = float(((moved - centroids) ** 2).sum())
        if np.array_equal(before, labels) or shift <= _TOLERANCE * spread:
            break
        centroids = moved
    return KMeansFit(labels, centroids, inertia)


def _lloyd(features: F32, centroids: F32) -> tuple[I64, float, F32, float]:
    """Return the nearest centroid of each row, the inertia, the means of these groups, and the variance of a column."""
    labels = np.empty(len(features), np.int64)
    sums, counts = np.zeros(centroids.shape), np.zeros(len(centroids))
    inertia = squares = 0.0
    for block in passes(features):
        rows = np.asarray(features[block])
        away = squared_distances(rows, centroids)
        labels[block] = nearest = away.argmin(axis=1)
        inertia += float(away[np.arange(len(rows)), nearest].sum(dtype=np.float64))
        squares += float(np.einsum("nd,nd->n", rows, rows).sum(dtype=np.float64))
        members = csr_array((np.ones(len(rows), np.float32), (nearest, np.arange(len(rows)))), (len(counts), len(rows)))
        sums += members @ rows
        counts += np.bincount(nearest, minlength=len(counts))
    mean = sums.sum(axis=0) / len(features)
    spread = max(0.0, squares / len(features) - float(mean @ mean)) / features.shape[1]
    # A group that has lost all its rows stays where it was.
    moved = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centroids).astype(np.float32)
    return labels, inertia, moved, spread


def cluster(features: F32, config: KMeansConfig, *, seed: int, device: torch.device) -> Partition:
    """Run k-means as the table's row does."""
    max_iterations = config.max_iterations or max(100, len(features) // 100)
    fit = kmeans(features, config.n_clusters, seed=seed, n_restarts=config.n_restarts, max_iterations=max_iterations)
    return Partition(fit.labels, centroids=fit.centroids, event={"inertia": fit.inertia})


METHOD = classic_method(
    "kmeans",
    "k-means on unit-norm pixels",
    "MacQueen 1967; Arthur and Vassilvitskii 2007 (k-means++)",
    KMeansConfig,
    cluster,
    is_inductive=True,
)
