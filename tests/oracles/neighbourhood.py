"""Neighbourhood metrics written from their definitions: every pair in a loop, distances by differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def order_of_neighbours(points: Array, item: int) -> list[int]:
    """All other points, nearest first; equal distances by index."""
    distance = [float(np.sum((points[item] - other) ** 2)) for other in points]
    others = [j for j in range(len(points)) if j != item]
    return sorted(others, key=lambda j: (distance[j], j))


def trustworthiness(x_input: Array, x_embedded: Array, n_neighbors: int) -> float:
    n = len(x_input)
    total = 0
    for i in range(n):
        before = order_of_neighbours(x_input, i)
        for j in order_of_neighbours(x_embedded, i)[:n_neighbors]:
            if j not in before[:n_neighbors]:
                total += before.index(j) + 1 - n_neighbors
    return 1 - 2 / (n * n_neighbors * (2 * n - 3 * n_neighbors - 1)) * total


def knn_purity(neighbours: Array, truth: Array, k: int) -> float:
    per_item = [np.mean([truth[j] == truth[i] for j in neighbours[i][:k]]) for i in range(len(truth))]
    return float(np.mean(per_item))
