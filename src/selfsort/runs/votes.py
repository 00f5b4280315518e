"""Images that lie somewhere vote on where new ones belong: those most like each, by the cosine of their features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from selfsort.errors import InvalidInput
from selfsort.types import F32, I64

_N_VOTERS = 5
_BLOCK = 512


@dataclass(frozen=True, eq=False)
class Voters:
    """Images with the clusters they are in."""

    features: F32
    """(V, D)."""
    clusters: I64
    """(V,)."""

    def vote(self, features: F32) -> tuple[I64, F32]:
        """Return the cluster that most of the nearest voters are in, and their share; of equals, that of the nearest.

        >>> voters = Voters(np.eye(2, dtype=np.float32), np.array([4, 7]))
        >>> clusters, shares = voters.vote(np.array([[0.1, 2]], np.float32))
        >>> clusters.tolist(), shares.tolist()
        ([7], [0.5])
        """
        if features.shape[1] != self.features.shape[1]:
            raise InvalidInput(
                f"features.npy of the run has {self.features.shape[1]} columns, and its model gives "
                f"{features.shape[1]}. Expected as many. The folder was changed or damaged: restore it."
            )
        known, n_near = _unit(self.features), min(_N_VOTERS, len(self.clusters))
        clusters, shares = np.empty(len(features), np.int64), np.empty(len(features), np.float32)
        for start in range(0, len(features), _BLOCK):
            alike = _unit(features[start : start + _BLOCK]) @ known.T
            nearest = np.argsort(-alike, axis=1, kind="stable")[:, :n_near]
            near = self.clusters[nearest]
            votes = (near[:, :, None] == near[:, None, :]).sum(axis=2)
            first = votes.argmax(axis=1)[:, None]
            block = slice(start, start + len(near))
            clusters[block] = np.take_along_axis(near, first, axis=1)[:, 0]
            shares[block] = np.take_along_axis(votes, first, axis=1)[:, 0] / n_near
        return clusters, shares


def _unit(rows: F32) -> F32:
    unit: F32 = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit
