"""What is like what: exact search by cosine of the features, distance from a cluster's centre, parts of a cluster.

Shape letters: N images, D features, M of the images.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from selfsort.errors import InvalidInput
from selfsort.runs.arrays import finite
from selfsort.types import F32, I64

_BLOCK_ROWS = 8192


class Features:
    """The features of a run, at unit length; what is not a number counts as zero."""

    def __init__(self, features_ND: F32) -> None:
        self._unit_ND: F32 = np.empty(features_ND.shape, np.float32)
        for rows in _blocks(len(features_ND)):
            block = finite(features_ND[rows])
            # Double precision, so that no square of a large number overflows.
            norm = np.linalg.norm(block.astype(np.float64), axis=1, keepdims=True)
            self._unit_ND[rows] = block / np.where(norm > 0, norm, 1)

    def __len__(self) -> int:
        return len(self._unit_ND)

    def nearest(self, rows: I64, count: int) -> tuple[I64, F32]:
        """Return the images most like the mean of some, without them: best first, ties by number, with the cosine."""
        query_D = _unit(self._unit_ND[rows].mean(axis=0))
        scores_N = np.concatenate([self._unit_ND[block] @ query_D for block in _blocks(len(self))])
        scores_N[rows] = -np.inf
        count = min(count, len(self) - len(np.unique(rows)))
        if count <= 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        # Everything as good as the last one that is wanted, so that ties are broken by number and not by chance.
        least = np.partition(scores_N, len(self) - count)[len(self) - count]
        found = np.flatnonzero(scores_N >= least)
        best = found[np.lexsort((found, -scores_N[found]))][:count]
        return best, scores_N[best]

    def closeness(self, rows: I64) -> F32:
        """Return the cosine between each of these images and their common centre."""
        centre_D = _unit(self._unit_ND[rows].mean(axis=0)) if len(rows) else np.zeros(self._unit_ND.shape[1])
        found: F32 = (self._unit_ND[rows] @ centre_D.astype(np.float32)).astype(np.float32)
        return found

    def parts(self, rows: I64, n_parts: int) -> list[I64]:
        """Cluster some images again by k-means; the largest part comes first."""
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning

        if not 2 <= n_parts <= len(rows):
            raise InvalidInput(
                f"the number of parts must be between 2 and the images of the cluster ({len(rows)}); got {n_parts}. "
                "Choose fewer parts."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different images than parts: seen below
            labels = KMeans(n_parts, n_init=4, random_state=0).fit_predict(self._unit_ND[rows])
        parts = [rows[labels == part] for part in range(n_parts)]
        found = sorted((part for part in parts if len(part)), key=lambda part: (-len(part), int(part[0])))
        if len(found) < 2:
            raise InvalidInput(
                "the cluster cannot be split: all its images have the same features. Expected images that differ. "
                "Move some of them by hand."
            )
        return found


def _unit(vector_D: F32) -> F32:
    norm = float(np.linalg.norm(vector_D))
    return vector_D / np.float32(norm) if norm > 0 else vector_D


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK_ROWS) for start in range(0, max(n, 1), _BLOCK_ROWS))
