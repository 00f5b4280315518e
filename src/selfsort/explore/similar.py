"""What is like what: exact search by cosine of the features, distance from a cluster's centre, parts of a cluster.

Shape letters: N images, D features, M of the images.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable

import numpy as np

from selfsort.errors import InvalidInput
from selfsort.runs.arrays import read_rows
from selfsort.types import F32, I64

_BLOCK_ROWS = 8192
_BLOCK_NUMBERS = 2**23
_KEPT_BYTES = 2**29


class Features:
    """The features of a run, at unit length; what is not a number counts as zero.

    They are kept in memory, if they are small enough, from the first search through all of them on; and else read from
    the mapped file whenever they are needed.
    """

    def __init__(self, features_ND: F32) -> None:
        self._features_ND = features_ND
        self._kept_ND: F32 | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._features_ND)

    def _unit(self, rows: I64 | slice) -> F32:
        """Return some images' features at unit length."""
        if self._kept_ND is not None:
            return self._kept_ND[rows]
        block = read_rows(self._features_ND, rows)
        norm = np.sqrt(np.einsum("nd,nd->n", block, block))
        # Double precision where a square is too large or too small for single.
        odd = np.flatnonzero(~((norm > 1e-15) & (norm < 1e15)) & block.any(axis=1))
        if len(odd):
            exact = block[odd].astype(np.float64)
            block[odd], norm[odd] = exact / np.linalg.norm(exact, axis=1, keepdims=True), 1
        block /= np.where(norm > 0, norm, np.float32(1))[:, None]
        return block

    def _keep(self) -> None:
        """Read all features once, if they are small enough to stay."""
        with self._lock:
            if self._kept_ND is None and self._features_ND.nbytes <= _KEPT_BYTES:
                kept: F32 = np.empty(self._features_ND.shape, np.float32)
                for rows in self._all():
                    kept[rows] = self._unit(rows)
                self._kept_ND = kept

    def _slices(self, n: int) -> list[slice]:
        """Cut n rows into blocks, so small that wide ones are thinned out all alike and others not at all."""
        height = max(1, min(_BLOCK_ROWS, _BLOCK_NUMBERS // max(1, self._features_ND.shape[1])))
        return [slice(start, start + height) for start in range(0, max(n, 1), height)]

    def _all(self) -> list[slice]:
        return self._slices(len(self))

    def _some(self, rows: I64) -> list[I64]:
        return [rows[part] for part in self._slices(len(rows))]

    def nearest(self, rows: I64, count: int) -> tuple[I64, F32]:
        """Return the images most like the mean of some, without them: best first, ties by number, with the cosine."""
        self._keep()
        query_D = _direction(map(self._unit, self._some(rows)))
        scores_N = np.concatenate([self._unit(block) @ query_D for block in self._all()])
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
        if not len(rows):
            return np.empty(0, np.float32)
        blocks = self._some(rows)
        kept = [self._unit(rows)] if len(blocks) == 1 else None  # what may be held is read once and not twice
        centre_D = _direction(kept or map(self._unit, blocks))
        found: F32 = np.concatenate([unit_MD @ centre_D for unit_MD in kept or map(self._unit, blocks)])
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
            labels = KMeans(n_parts, n_init=4, random_state=0).fit_predict(self._unit(rows))
        parts = [rows[labels == part] for part in range(n_parts)]
        found = sorted((part for part in parts if len(part)), key=lambda part: (-len(part), int(part[0])))
        if len(found) < 2:
            raise InvalidInput(
                "the cluster cannot be split: all its images have the same features. Expected images that differ. "
                "Move some of them by hand."
            )
        return found


def _direction(blocks: Iterable[F32]) -> F32:
    """Return the mean of many vectors at unit length, if they have one."""
    total_D = np.asarray(sum(block_MD.sum(axis=0, dtype=np.float64) for block_MD in blocks))
    norm = float(np.linalg.norm(total_D))
    return np.asarray(total_D / norm if norm > 0 else total_D, np.float32)
