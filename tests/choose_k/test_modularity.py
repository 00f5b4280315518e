from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.choose_k.planted import blobs

from selfsort.choose_k.modularity import FARTHEST, modularity, n_communities
from selfsort.graph.communities import symmetric_affinities
from selfsort.graph.knn import nearest_neighbours


def test_cliques_are_counted_and_crumbs_are_not() -> None:
    dense = np.zeros((33, 33))
    for start, end in [(0, 10), (10, 20), (20, 30), (30, 32)]:
        dense[start:end, start:end] = 1
    np.fill_diagonal(dense, 0)
    dense[32, 0] = dense[0, 32] = 0.1
    # Four pieces of equal size would hold eight items each; two items are more than a tenth of that.
    assert n_communities(csr_array(dense), range(2)) == pytest.approx(4)


def test_blobs_as_wide_as_they_are() -> None:
    features, _ = blobs([160] * 6)
    graph = symmetric_affinities(nearest_neighbours(features, 40))
    assert 6 <= n_communities(graph, range(3)) <= 9


def test_values_by_hand() -> None:
    found = modularity(10.0, np.array([5, 10, 20, 100]))
    near = np.log(2.0) ** 2
    np.testing.assert_allclose(found.values, [-near, 0, -near, -(FARTHEST**2)])
    assert (found.name, found.answer) == ("modularity", 10)
