"""Small graphs for the tests of this room."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from selfsort.graph.agglomerate import (
    Agglomeration,
)
from selfsort.types import F64, I64


def graph_of(n_items: int, arcs: dict[tuple[int, int], float]) -> csr_array:
    dense = np.zeros((n_items, n_items))
    for (i, j), weight in arcs.items():
        dense[i, j] = weight
    return csr_array(dense)


def random_graph(seed: int, is_dyadic: bool) -> tuple[F64, I64, F64]:
    """Draw a small graph with any density, hubs and start clusters; eighths make sums exact and ties common."""
    draw = np.random.default_rng(seed)
    n_items = int(draw.integers(3, 24))
    weights = draw.integers(1, 9, (n_items, n_items)) / 8 if is_dyadic else draw.random((n_items, n_items))
    weights *= draw.random((n_items, n_items)) < draw.choice([0.08, 0.2, 0.5])
    if seed % 3 == 0:
        weights[:, 0] = weights[0, :] = 0.5  # a hub
    np.fill_diagonal(weights, 0)
    _, labels = np.unique(draw.integers(0, int(draw.integers(2, n_items + 1)), n_items), return_inverse=True)
    return weights, labels.astype(np.int64), draw.random((n_items, 2))


def names_of(done: Agglomeration) -> list[tuple[int, int]]:
    """Translate the history's numbers into lowest start labels."""
    name = list(range(done.n_start))
    pairs = []
    for first, second in done.cut.merges:
        pairs.append((name[first], name[second]))
        name.append(min(name[first], name[second]))
    return pairs
