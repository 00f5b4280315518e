from __future__ import annotations

import numpy as np
import torch
from tests.choose_k.planted import blobs

from selfsort.choose_k.separation import separation_tree
from selfsort.choose_k.views import view_agreement, view_neighbours
from selfsort.graph.communities import symmetric_affinities
from selfsort.graph.knn import nearest_neighbours

CPU = torch.device("cpu")


def test_the_own_image_does_not_vote() -> None:
    features, _ = blobs([20, 20])
    (near,) = view_neighbours(features, [features], CPU)
    assert (near.idx != np.arange(40)[:, None]).all()
    np.testing.assert_array_equal(near.idx, nearest_neighbours(features, 10).idx)


def test_views_that_cross_halves_speak_against_them() -> None:
    features, _ = blobs([100] * 3)
    draw = np.random.default_rng(1)
    views = [(features + draw.standard_normal(features.shape)).astype(np.float32) for _ in range(2)]
    tree = separation_tree(symmetric_affinities(nearest_neighbours(features, 5)), features)
    said = view_agreement(tree, view_neighbours(features, views, CPU), np.arange(2, 8))
    assert said.answer == 3
    assert said.values[said.ks == 3] == 1
    assert said.values[said.ks == 7] < 0.9
