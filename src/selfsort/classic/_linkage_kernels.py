"""Compiled part of average linkage: the nearest-neighbour chain of Benzecri and Juan on distances that are kept once.

A chain goes from a cluster to its nearest, from there to that one's nearest, and so on; two that are nearest to each
other are merged. Average linkage never brings a third cluster nearer than the two were, so the rest of the chain stays
valid, and the merges, sorted by height, are those of the textbook.

Letters: n items; condensed (n (n - 1) / 2,) distances of the pairs i < j, row by row.
"""

from __future__ import annotations

import numpy as np

from selfsort.graph.jit import kernel
from selfsort.types import F32, F64, I64


@kernel
def _place(n: int, i: int, j: int) -> int:
    """Where the distance of two items is."""
    if i > j:
        i, j = j, i
    return n * i - i * (i + 1) // 2 + j - i - 1


@kernel
def chain(condensed: F32, n: int) -> tuple[I64, F64]:
    """Merge all items; return (n - 1, 2) pairs, each cluster named by its highest item, and heights, unsorted.

    Overwrites the distances.
    """
    sizes = np.ones(n, dtype=np.int64)  # 0: merged away
    pairs = np.empty((n - 1, 2), dtype=np.int64)
    heights = np.empty(n - 1, dtype=np.float64)
    path = np.empty(n, dtype=np.int64)
    length, first = 0, 0
    for step in range(n - 1):
        if length == 0:
            while sizes[first] == 0:
                first += 1
            path[0], length = first, 1
        while True:
            here = path[length - 1]
            nearest, best = -1, np.inf
            if length > 1:  # on equal distances the chain must turn back, or it would never end
                nearest = path[length - 2]
                best = condensed[_place(n, here, nearest)]
            for other in range(n):
                if sizes[other] > 0 and other != here:
                    distance = condensed[_place(n, here, other)]
                    if distance < best:
                        nearest, best = other, distance
            if length > 1 and nearest == path[length - 2]:
                break
            path[length] = nearest
            length += 1
        low, high = min(here, nearest), max(here, nearest)
        pairs[step, 0], pairs[step, 1], heights[step] = low, high, best
        n_low, n_high = sizes[low], sizes[high]
        for other in range(n):
            if sizes[other] > 0 and other != low and other != high:
                kept = _place(n, high, other)
                mixed = n_low * np.float64(condensed[_place(n, low, other)]) + n_high * np.float64(condensed[kept])
                condensed[kept] = np.float32(mixed / (n_low + n_high))
        sizes[low], sizes[high] = 0, n_low + n_high
        length -= 2
    return pairs, heights


@kernel
def label_merges(pairs: I64, heights: F64, n: int) -> F64:
    """Name clusters as SciPy does: item i is cluster i, the t-th merge makes cluster n + t; pairs sorted by height."""
    parent = np.arange(n)
    name = np.arange(n)
    size = np.ones(n, dtype=np.int64)
    merges = np.empty((n - 1, 4), dtype=np.float64)
    for step in range(n - 1):
        roots = pairs[step].copy()
        for side in range(2):
            root = roots[side]
            while parent[root] != root:
                parent[root] = parent[parent[root]]
                root = parent[root]
            roots[side] = root
        one, two = roots
        low, high = min(name[one], name[two]), max(name[one], name[two])
        total = size[one] + size[two]
        merges[step] = np.array([low, high, heights[step], total], dtype=np.float64)
        parent[one], name[two], size[two] = two, n + step, total
    return merges
