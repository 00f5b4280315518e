from __future__ import annotations

import numpy as np
from tests.choose_k.planted import blobs

from selfsort.choose_k.separation import separation_tree
from selfsort.choose_k.stability import keep_rows, largest_good, stability
from selfsort.graph.communities import symmetric_affinities
from selfsort.graph.knn import nearest_neighbours


def test_neighbours_of_a_part_are_those_of_a_search_in_it() -> None:
    features, _ = blobs([40, 40])
    kept = np.arange(0, 80, 2)
    part = keep_rows(nearest_neighbours(features, 79), kept)
    own = nearest_neighbours(features[kept], 39)
    np.testing.assert_array_equal(part.idx[:, :39], own.idx)
    np.testing.assert_array_equal(part.sq_dist[:, :39], own.sq_dist)
    assert (part.idx[:, 39:] == -1).all()


def test_clusters_that_are_there_come_again() -> None:
    features, _ = blobs([60] * 4)
    near = nearest_neighbours(features, 20)
    tree = separation_tree(symmetric_affinities(near, 5), features)
    others = []
    for seed in range(2):
        kept = np.sort(np.random.default_rng(seed).permutation(240)[:190])
        graph = symmetric_affinities(keep_rows(near, kept), 5)
        others.append((kept, separation_tree(graph, features[kept], seed=seed)))
    said = stability(tree, others, np.arange(2, 9))
    assert said.values[said.ks == 4] == 1
    assert said.values[said.ks == 8] < 0.9
    assert said.answer == 4


def test_numbers_that_a_tree_cannot_give_count_nothing() -> None:
    features, _ = blobs([30, 30])
    tree = separation_tree(symmetric_affinities(nearest_neighbours(features, 5)), features)
    said = stability(tree, [(np.arange(60), tree)], np.array([2, 59]))
    assert said.values.tolist() == [1, 0]


def test_the_largest_good_number() -> None:
    assert largest_good(np.array([2, 3, 4]), np.array([1, 1, 0.5]), 0.9) == 3
    assert largest_good(np.array([2, 3]), np.array([0.1, 0.2]), 0.9) == 1
