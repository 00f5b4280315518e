"""Stability under augmentation: the mutual information of the labels of two views of the same images.

The quantity that IIC (Ji, Henriques, Vedaldi, ICCV 2019) trains for, here as a measure. Where clusters follow what
images have in common, two random views of an image get the same label, and where all clusters are in use that label
says much. It is at most log K, for K equal clusters that always survive, and 0 if all images share one. No true label
is needed.
"""

from __future__ import annotations

import numpy as np

from selfsort.metrics.information import mutual_information
from selfsort.types import I64


def count_pairs(first: I64, second: I64, n_clusters: int) -> I64:
    """Count how often each label of the first views (rows) meets each label of the second ones: (K, K)."""
    counts: I64 = np.bincount(first * n_clusters + second, minlength=n_clusters**2).reshape(n_clusters, n_clusters)
    return counts


def stability(first: I64, second: I64, n_clusters: int) -> float:
    """Return the stability of clusters, given the labels (N,) of two views of the same images.

    >>> round(stability(np.array([0, 1, 2, 3]), np.array([0, 1, 2, 3]), 4), 4)  # log 4
    1.3863
    """
    return mutual_information(count_pairs(first, second, n_clusters))
