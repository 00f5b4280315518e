from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.choose_k.planted import blobs

from selfsort.choose_k.spectrum import eigengap
from selfsort.graph.communities import symmetric_affinities
from selfsort.graph.knn import nearest_neighbours


@pytest.mark.parametrize("n_clusters", [2, 4, 7])
def test_blobs(n_clusters: int) -> None:
    features, _ = blobs([40] * n_clusters, spread=8)
    said = eigengap(symmetric_affinities(nearest_neighbours(features, 10)), 12)
    assert said.answer == n_clusters


def test_two_cliques_by_hand() -> None:
    # Each clique of four has the eigenvalues 0 and 4/3 (three times): so the gap at two is log(4/3 / the smallest).
    dense = np.kron(np.eye(2), 1 - np.eye(4))
    said = eigengap(csr_array(dense), 4)
    assert said.answer == 2
    assert said.values[0] == pytest.approx(np.log(4 / 3 / 1e-3), rel=1e-3)


def test_tiny_pieces_are_left_out() -> None:
    features, _ = blobs([40, 40])
    graph = symmetric_affinities(nearest_neighbours(features, 10)).toarray()
    graph = np.pad(graph, (0, 6))
    graph[80, 81] = graph[81, 80] = 1  # a pair, and four alone
    assert eigengap(csr_array(graph), 10).answer == 2


def test_too_small_to_say() -> None:
    assert eigengap(csr_array(1 - np.eye(3)), 5).answer == 1
