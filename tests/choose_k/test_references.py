from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import silhouette_score
from tests.choose_k.planted import blobs

from selfsort.choose_k.references import density, silhouette
from selfsort.choose_k.separation import separation_tree
from selfsort.graph.communities import symmetric_affinities
from selfsort.graph.knn import nearest_neighbours


def test_both_find_blobs() -> None:
    features, _ = blobs([50] * 5)
    near = nearest_neighbours(features, 10)
    tree = separation_tree(symmetric_affinities(near, 5), features)
    ks = np.arange(2, 10)
    assert silhouette(tree, features, ks).answer == 5
    said = density(tree, near, ks)
    assert said.values[said.ks <= 5] == pytest.approx(1)
    assert (said.values[said.ks > 5] < 1).all()


def test_the_silhouette_is_that_of_scikit_learn() -> None:
    features, _ = blobs([30] * 3, spread=2)
    tree = separation_tree(symmetric_affinities(nearest_neighbours(features, 5)), features)
    said = silhouette(tree, features, np.array([3]))
    assert said.values[0] == pytest.approx(silhouette_score(features, tree.cut(3)), abs=1e-5)
