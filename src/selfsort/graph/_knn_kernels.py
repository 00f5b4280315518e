"""Compiled parts of the neighbour search: exact distances of a few candidates per row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from selfsort.graph._jit import kernel
from selfsort.types import F32, F64, I64

Bools = npt.NDArray[np.bool_]


@kernel
def squared_distance(a: F32, b: F32) -> np.float32:
    """Return the squared distance, summed in float64 and rounded once."""
    # Four running sums let the processor overlap the additions; their order is fixed, so is the result.
    s0 = s1 = s2 = s3 = 0.0
    n_whole = len(a) - len(a) % 4
    for t in range(0, n_whole, 4):
        d0 = np.float64(a[t]) - np.float64(b[t])
        d1 = np.float64(a[t + 1]) - np.float64(b[t + 1])
        d2 = np.float64(a[t + 2]) - np.float64(b[t + 2])
        d3 = np.float64(a[t + 3]) - np.float64(b[t + 3])
        s0 += d0 * d0
        s1 += d1 * d1
        s2 += d2 * d2
        s3 += d3 * d3
    for t in range(n_whole, len(a)):
        d0 = np.float64(a[t]) - np.float64(b[t])
        s0 += d0 * d0
    return np.float32((s0 + s1) + (s2 + s3))


@kernel
def _insert(idx: I64, sq_dist: F32, n_found: int, j: int, dist: np.float32) -> int:
    """Insert item j into a row sorted by (distance, index), dropping the worst if it is full."""
    n_slots = len(idx)
    if n_found == n_slots:
        last = n_slots - 1
        if dist > sq_dist[last] or (dist == sq_dist[last] and j > idx[last]):
            return n_found
        place = last
    else:
        place = n_found
        n_found += 1
    while place > 0 and (sq_dist[place - 1] > dist or (sq_dist[place - 1] == dist and idx[place - 1] > j)):
        idx[place] = idx[place - 1]
        sq_dist[place] = sq_dist[place - 1]
        place -= 1
    idx[place] = j
    sq_dist[place] = dist
    return n_found


@kernel
def refine(queries: F32, features: F32, candidates: I64, idx: I64, sq_dist: F32) -> None:
    """Keep the best of each row's candidates by exact distance; -1 marks an unused candidate place."""
    for i in range(len(queries)):
        n_found = 0
        for c in range(candidates.shape[1]):
            j = candidates[i, c]
            if j >= 0:
                n_found = _insert(idx[i], sq_dist[i], n_found, j, squared_distance(queries[i], features[j]))


@kernel
def rescan(queries: F32, features: F32, rough: F32, margin: F64, idx: I64, sq_dist: F32) -> None:
    """Search whole rows again, measuring every item whose rough distance does not rule it out.

    Ruled out is what lies more than `margin` beyond the K-th distance that came in; an infinite rough distance
    excludes an item.
    """
    n_slots = idx.shape[1]
    for i in range(len(queries)):
        limit = sq_dist[i, n_slots - 1] + margin[i]
        n_found = 0
        for j in range(rough.shape[1]):
            if rough[i, j] <= limit:
                n_found = _insert(idx[i], sq_dist[i], n_found, j, squared_distance(queries[i], features[j]))
                if n_found == n_slots and sq_dist[i, n_slots - 1] == 0.0:
                    break  # later items can at best tie, and ties go to the lower index
