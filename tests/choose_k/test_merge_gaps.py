from __future__ import annotations

import numpy as np
import pytest
from tests.choose_k.planted import blobs

from selfsort.choose_k.merge_gaps import merge_gaps
from selfsort.graph.agglomerate import nearest_neighbour_components
from selfsort.graph.communities import symmetric_affinities
from selfsort.graph.knn import nearest_neighbours


@pytest.mark.parametrize("n_clusters", [3, 6])
def test_blobs(n_clusters: int) -> None:
    features, _ = blobs([60] * n_clusters, spread=8)
    near = nearest_neighbours(features, 10)
    said = merge_gaps(symmetric_affinities(near), nearest_neighbour_components(near), features, 12)
    assert said.answer == n_clusters
    assert said.ks[0] == 2


def test_a_single_start_cluster_says_one() -> None:
    features, _ = blobs([20])
    near = nearest_neighbours(features, 5)
    assert merge_gaps(symmetric_affinities(near), np.zeros(20, dtype=np.int64), features, 5).answer == 1
