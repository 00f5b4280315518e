from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.choose_k.planted import blobs

from selfsort.choose_k.separation import Leaks, leaks, separation, separation_tree, shares
from selfsort.graph.communities import symmetric_affinities
from selfsort.graph.knn import nearest_neighbours
from selfsort.metrics import accuracy


def test_leaks_of_three_cliques_by_hand() -> None:
    # Cliques of five, ties of weight one; 0 and 1 share two ties, 1 and 2 one.
    dense = np.kron(np.eye(3), 1 - np.eye(5))
    for i, j in [(0, 5), (1, 6), (9, 10)]:
        dense[i, j] = dense[j, i] = 1
    tree = separation_tree(csr_array(dense), np.eye(15, dtype=np.float32), resolution=1.0)
    assert tree.n_start == 3
    # 20 half-ties inside a clique: two cross of 22 on either side; then 1 of 45 and 1 of 21.
    np.testing.assert_allclose(tree.affinity, [2 / 22 + 2 / 22, 1 / 45 + 1 / 21])
    assert tree.cut(2).tolist() == [0] * 10 + [1] * 5


@pytest.mark.parametrize("sizes", [[60] * 5, [300, 30, 30], [40] * 12])
def test_the_tree_finds_blobs(sizes: list[int]) -> None:
    features, truth = blobs(sizes)
    graph = symmetric_affinities(nearest_neighbours(features, 5))
    tree = separation_tree(graph, features)
    assert tree.n_start > len(sizes)
    assert tree.n_clusters == 1
    assert accuracy(tree.cut(len(sizes)), truth) == 1.0


def test_merging_agrees_with_the_plain_definition() -> None:
    features, _ = blobs([50] * 4, spread=1.5)
    graph = symmetric_affinities(nearest_neighbours(features, 5))
    tree = separation_tree(graph, features)
    weights = graph.toarray()
    for n_left in range(tree.n_start, 1, -1):
        labels = tree.cut(n_left)
        member = np.eye(n_left)[labels]
        ties = member.T @ weights @ member
        inside = np.diag(ties)
        leak = ties / (inside[:, None] + ties) + ties / (inside + ties)
        np.fill_diagonal(leak, -1)
        assert tree.affinity[tree.n_start - n_left] == pytest.approx(leak.max())


def test_outliers_are_no_cluster() -> None:
    features, truth = blobs([100, 100])
    features[:2], features[-2:] = 300, -300
    graph = symmetric_affinities(nearest_neighbours(features, 5))
    tree = separation_tree(graph, features)
    assert accuracy(tree.cut(2)[2:-2], truth[2:-2]) == 1.0


def test_leaks_are_means_over_trees_from_the_coarse_end() -> None:
    features, _ = blobs([40] * 3, spread=1.0)
    graph = symmetric_affinities(nearest_neighbours(features, 5))
    trees = [separation_tree(graph, features, seed=seed) for seed in range(3)]
    found = leaks(trees, 5)
    assert np.isnan(found.at[:2]).all()
    best, second, _ = sorted(tree.affinity[-1] for tree in trees)
    assert found.at[2] == pytest.approx(np.sqrt(best * second))
    assert (np.diff(found.at[2:]) >= 0).all()
    assert len(found.at) == min(tree.n_start for tree in trees) + 1


def curve(n_clusters: int, n_numbers: int = 80) -> Leaks:
    """Halves of clusters leak as a power of their number, clusters a tenth of that."""
    ks = np.arange(n_numbers + 1)
    at = 0.05 * np.maximum(ks, 1.0) ** 0.3
    at[: n_clusters + 1] /= 10
    at[:2] = np.nan
    return Leaks(5 * 3 * n_numbers, 5, at)


@pytest.mark.parametrize("n_clusters", [2, 3, 10, 25])
def test_the_knee_is_the_answer(n_clusters: int) -> None:
    found = curve(n_clusters)
    share = shares(found)
    assert share[n_clusters] == pytest.approx(0.1)
    assert share[n_clusters + 1] == pytest.approx(1)
    said = separation(found)
    assert said.answer == n_clusters
    assert said.values[said.ks == n_clusters] == said.values.max()


def test_a_straight_line_is_one_cluster() -> None:
    ks = np.arange(81)
    at = 0.3 * np.maximum(ks, 1.0) ** 0.2
    at[:2] = np.nan
    assert separation(Leaks(1200, 5, at)).answer == 1


def test_nothing_to_look_at_is_one_cluster() -> None:
    assert separation(Leaks(12, 5, np.array([np.nan, np.nan, 0.1]))).answer == 1
