"""K-means on unit-norm pixels: the baseline every paper starts its table with.

Where we differ from the scripts behind JULE's tables: nowhere known. Ten restarts, max(100, N/100) iterations.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch

from selfsort.classic.method import Partition, PixelConfig, classic_method
from selfsort.config import setting
from selfsort.learning.seeds import derive_seed
from selfsort.types import F32, I64


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
    """Lloyd's algorithm from k-means++ starts; labels are those of the final centroids."""
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
