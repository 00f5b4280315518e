"""Nearest neighbours from the definition: all distances in float64, sorted by (float32 distance, index)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def nearest(
    features: npt.NDArray[Any], n_neighbours: int, queries: npt.NDArray[Any] | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Return indices and squared distances, one row after the other."""
    rows = features if queries is None else queries
    found_idx, found_dist = [], []
    for i, row in enumerate(rows.astype(np.float64)):
        sq_dist = ((features.astype(np.float64) - row) ** 2).sum(axis=1).astype(np.float32)
        order = sorted(range(len(features)), key=lambda j: (sq_dist[j], j))
        order = [j for j in order if queries is not None or j != i][:n_neighbours]
        found_idx.append(order)
        found_dist.append(sq_dist[order])
    return np.array(found_idx, dtype=np.int64), np.array(found_dist, dtype=np.float32)
