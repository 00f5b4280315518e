"""Compiled parts of the neighbour search: few candidates per row from rough values, their exact distances."""

from __future__ import annotations

import numpy as np

from selfsort.graph.jit import kernel
from selfsort.types import F32, F64, I64

# Values compared at once; long enough to fill vector registers, short enough to be skipped nearly always.
_STRETCH = 64


@kernel
def _squared_distance(a: F32, b: F32) -> np.float32:
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
def refine(begin: int, end: int, queries: F32, features: F32, candidates: I64, idx: I64, sq_dist: F32) -> None:
    """Keep the best of each row's candidates by exact distance; -1 marks an unused candidate place."""
    for i in range(begin, end):
        n_found = 0
        for c in range(candidates.shape[1]):
            j = candidates[i, c]
            if j >= 0:
                n_found = _insert(idx[i], sq_dist[i], n_found, j, _squared_distance(queries[i], features[j]))


@kernel
def _insert_rough(idx: I64, rough: F32, j: int, value: np.float32) -> np.float32:
    """Insert item j into a full row sorted by rough value; return the new worst value."""
    place = len(rough) - 1
    while place > 0 and rough[place - 1] > value:
        rough[place] = rough[place - 1]
        idx[place] = idx[place - 1]
        place -= 1
    rough[place] = value
    idx[place] = j
    worst: np.float32 = rough[len(rough) - 1]
    return worst


@kernel
def scan_rows(
    begin: int,
    end: int,
    row_0: int,
    column_0: int,
    product: F32,
    half_sq: F32,
    idx: I64,
    rough: F32,
    worst: F32,
) -> None:
    """Offer every column of a block of inner products to the block's rows begin..end.

    Row i and column j of the block are the items row_0 + i and column_0 + j. What is kept is half the squared distance,
    up to the row's own constant. A stretch of values is looked at in one go: nearly always none is good enough.
    """
    halves = half_sq[column_0 : column_0 + product.shape[1]]
    for i in range(begin, end):
        row = row_0 + i
        bound = worst[row]
        for left in range(0, product.shape[1], _STRETCH):
            values = product[i, left : left + _STRETCH]
            offsets = halves[left : left + _STRETCH]
            n_good = 0
            for j in range(len(values)):
                n_good += offsets[j] - values[j] < bound
            if n_good > 0:
                for j in range(len(values)):
                    value = offsets[j] - values[j]
                    if value < bound:
                        bound = _insert_rough(idx[row], rough[row], column_0 + left + j, value)
        worst[row] = bound


@kernel
def scan_columns(
    begin: int,
    end: int,
    row_0: int,
    column_0: int,
    product: F32,
    half_sq: F32,
    idx: I64,
    rough: F32,
    worst: F32,
) -> None:
    """Offer every row of a block of inner products to the block's columns begin..end; see `scan_rows`."""
    for i in range(product.shape[0]):
        half = half_sq[row_0 + i]
        for left in range(begin, end, _STRETCH):
            values = product[i, left : min(left + _STRETCH, end)]
            bounds = worst[column_0 + left : column_0 + left + len(values)]
            n_good = 0
            for j in range(len(values)):
                n_good += half - values[j] < bounds[j]
            if n_good > 0:
                for j in range(len(values)):
                    if half - values[j] < bounds[j]:
                        column = column_0 + left + j
                        bounds[j] = _insert_rough(idx[column], rough[column], row_0 + i, half - values[j])


@kernel
def rescan(begin: int, end: int, queries: F32, features: F32, rough: F32, margin: F64, idx: I64, sq_dist: F32) -> None:
    """Search whole rows again, measuring every item whose rough distance does not rule it out.

    Ruled out is what lies more than `margin` beyond the K-th distance that came in; an infinite rough distance
    excludes an item.
    """
    n_slots = idx.shape[1]
    for i in range(begin, end):
        limit = sq_dist[i, n_slots - 1] + margin[i]
        n_found = 0
        for j in range(rough.shape[1]):
            if rough[i, j] <= limit:
                n_found = _insert(idx[i], sq_dist[i], n_found, j, _squared_distance(queries[i], features[j]))
                if n_found == n_slots and sq_dist[i, n_slots - 1] == 0.0:
                    break  # later items can at best tie, and ties go to the lower index
