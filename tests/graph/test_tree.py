from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.sparse import csr_array
from tests.graph.graphs import random_graph

from selfsort.errors import InvalidInput
from selfsort.graph.agglomerate import agglomerate
from selfsort.graph.tree import MergeTree
from selfsort.metrics.external import ari


def grown(n_items: int = 12) -> MergeTree:
    """The tree of SciPy's average linkage of random points."""
    points = np.random.default_rng(3).standard_normal((n_items, 2))
    rows = linkage(points, "average")
    sizes = np.concatenate([np.ones(n_items), rows[:, 3]]).astype(np.int64)
    merges = rows[:, :2].astype(np.int64)
    return MergeTree(np.arange(n_items), merges, rows[:, 2], np.zeros(n_items - 1, np.int8), sizes)


@pytest.mark.parametrize("n_clusters", [1, 2, 5, 12])
def test_a_cut_is_scipys(n_clusters: int) -> None:
    points = np.random.default_rng(3).standard_normal((12, 2))
    expected = cut_tree(linkage(points, "average"), n_clusters=n_clusters)[:, 0]
    labels = grown().cut(n_clusters)
    assert len(np.unique(labels)) == n_clusters
    assert ari(labels, expected.astype(np.int64)) == 1.0


def test_labels_come_in_the_order_of_the_lowest_start_cluster() -> None:
    labels = grown().cut(4)
    assert [int(np.flatnonzero(labels == k)[0]) for k in range(4)] == sorted(
        int(np.flatnonzero(labels == k)[0]) for k in range(4)
    )


@pytest.mark.parametrize("n_clusters", [0, 13])
def test_a_number_the_tree_does_not_have_is_refused(n_clusters: int) -> None:
    with pytest.raises(InvalidInput, match="be between 1 and 12, the clusters of this tree"):
        grown().cut(n_clusters)


@pytest.mark.parametrize("seed", range(4))
def test_one_tree_gives_what_stopping_at_each_number_gives(seed: int) -> None:
    weights, labels, features = random_graph(seed, is_dyadic=True)
    graph = csr_array(weights)
    n_start = len(np.unique(labels))
    whole = agglomerate(graph, labels, 2, until=1, features=features)
    assert whole.tree.n_clusters == 1
    assert whole.n_clusters == 2
    for n_clusters in range(1, n_start + 1):
        stopped = agglomerate(graph, labels, n_clusters, absorb=False, features=features)
        np.testing.assert_array_equal(whole.tree.cut(n_clusters), stopped.labels)
