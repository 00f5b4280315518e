from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import block_diag, csr_array

from selfsort.errors import InvalidInput
from selfsort.graph.communities import find_communities, find_n_communities, in_order, symmetric_affinities
from selfsort.graph.knn import nearest_neighbours
from selfsort.graph.neighbours import Neighbours
from selfsort.metrics import accuracy
from selfsort.types import F32, I64


def planted(sizes: list[int], inside: float, outside: float, seed: int = 0) -> tuple[csr_array, I64]:
    """Draw a graph in which items of one group are joined with probability `inside`, others with `outside`."""
    truth = np.repeat(np.arange(len(sizes)), sizes)
    draw = np.random.default_rng(seed)
    chance = np.where(truth[:, None] == truth, inside, outside)
    upper = np.triu(draw.random(chance.shape) < chance, 1)
    return csr_array((upper | upper.T).astype(np.float64)), truth


def blobs(sizes: list[int], spread: float = 8.0, seed: int = 0) -> tuple[F32, I64]:
    truth = np.repeat(np.arange(len(sizes)), sizes)
    draw = np.random.default_rng(seed)
    centres = spread * draw.standard_normal((len(sizes), 10))
    return (centres[truth] + draw.standard_normal((len(truth), 10))).astype(np.float32), truth


def test_two_triangles_by_hand() -> None:
    # Two triangles joined by one arc: of 14 half-arcs 12 lie inside, and both have degree 7: 12/14 - 2 (7/14)^2.
    dense = np.zeros((6, 6))
    for i, j in [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5), (2, 3)]:
        dense[i, j] = dense[j, i] = 1
    found = find_communities(csr_array(dense))
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.modularity == pytest.approx(12 / 14 - 0.5)
    assert find_communities(csr_array(dense), resolution=0.01).n_clusters == 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sizes", [[40] * 3, [30] * 12, [100, 30, 60]])
def test_planted_groups_are_found(sizes: list[int], seed: int) -> None:
    graph, truth = planted(sizes, 0.5, 0.02, seed)
    found = find_communities(graph, seed=seed)
    assert found.n_clusters == len(sizes)
    assert accuracy(found.labels, truth) == 1.0


def test_the_seed_decides() -> None:
    graph, _ = planted([150], 0.05, 0.05)  # nothing to find, so that much is left to chance
    first, second, other = (find_communities(graph, seed=seed).labels for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_pieces_without_arcs_are_communities_of_their_own() -> None:
    graph, _ = planted([20, 20], 0.6, 0.0)
    found = find_communities(csr_array(block_diag((graph, csr_array((10, 10))))))
    assert found.n_clusters == 12
    assert found.n_large(2) == 2
    assert sorted(np.bincount(found.labels).tolist())[:10] == [1] * 10


def test_a_graph_without_arcs() -> None:
    found = find_communities(csr_array((4, 4)))
    assert found.labels.tolist() == [0, 1, 2, 3]
    assert found.modularity == 0


def test_a_resolution_must_be_positive() -> None:
    with pytest.raises(InvalidInput, match="resolution must be above 0; got 0"):
        find_communities(csr_array((4, 4)), resolution=0)


def test_affinities_by_hand() -> None:
    # 0 and 1 choose each other at distance 1; 2 chooses 1 at squared distance 4. Their mean is 2.
    neighbours = Neighbours(np.array([[1], [0], [1]]), np.array([[1], [1], [4]], dtype=np.float32), 1)
    graph = symmetric_affinities(neighbours).toarray()
    expected = np.zeros((3, 3))
    expected[0, 1] = expected[1, 0] = np.exp(-1 / 2)
    expected[1, 2] = expected[2, 1] = np.exp(-4 / 2) / 2
    np.testing.assert_allclose(graph, expected)


def test_fewer_neighbours_are_a_narrower_graph() -> None:
    features, _ = blobs([30, 30])
    wide, narrow = nearest_neighbours(features, 12), nearest_neighbours(features, 5)
    np.testing.assert_allclose(
        symmetric_affinities(wide, 5).toarray(), symmetric_affinities(narrow).toarray(), rtol=1e-12
    )


def test_places_that_nobody_fills_leave_no_trace() -> None:
    features, _ = blobs([30, 30])
    full = nearest_neighbours(features, 6)
    gaps = np.full((60, 2), -1), np.zeros((60, 2), dtype=np.float32)
    padded = Neighbours(np.concatenate([full.idx, gaps[0]], axis=1), np.concatenate([full.sq_dist, gaps[1]], axis=1))
    plain, with_gaps = symmetric_affinities(full), symmetric_affinities(padded)
    assert plain.has_canonical_format
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(with_gaps, part), getattr(plain, part))


def test_labels_are_numbered_by_first_appearance() -> None:
    assert in_order(np.array([9, 2, 2, 9, 0])).tolist() == [0, 1, 1, 0, 2]


class TestAsManyAsAsked:
    @pytest.mark.parametrize("n_clusters", [2, 3, 5, 9, 40])
    def test_exactly_so_many(self, n_clusters: int) -> None:
        features, _ = blobs([50, 40, 30, 60, 20])
        graph = symmetric_affinities(nearest_neighbours(features, 8))
        merged, start = find_n_communities(graph, n_clusters, features)
        assert sorted(set(merged.labels.tolist())) == list(range(n_clusters))
        assert start.n_clusters >= n_clusters

    @pytest.mark.parametrize("sizes", [[60, 60, 60], [400, 40, 4], [25] * 8])
    def test_blobs_are_found(self, sizes: list[int]) -> None:
        features, truth = blobs(sizes)
        graph = symmetric_affinities(nearest_neighbours(features, 8))
        merged, _ = find_n_communities(graph, len(sizes), features, absorb=False)
        assert accuracy(merged.labels, truth) == 1.0

    def test_fewer_than_the_pieces_of_the_graph(self) -> None:
        features, truth = blobs([30] * 6, spread=1000)
        graph = symmetric_affinities(nearest_neighbours(features, 5))
        merged, start = find_n_communities(graph, 4, features)
        assert start.n_clusters == 6
        assert merged.n_clusters == 4
        assert merged.warnings
        assert all(len(set(merged.labels[truth == c].tolist())) == 1 for c in range(6))

    def test_single_images_where_nothing_can_be_told_apart(self) -> None:
        features = np.ones((6, 2), dtype=np.float32)
        merged, _ = find_n_communities(symmetric_affinities(nearest_neighbours(features, 5)), 6, features)
        assert sorted(merged.labels.tolist()) == [0, 1, 2, 3, 4, 5]

    def test_outliers_are_not_counted(self) -> None:
        features, truth = blobs([100, 100])
        features[0], features[150] = 400, -400
        graph = symmetric_affinities(nearest_neighbours(features, 8))
        merged, _ = find_n_communities(graph, 2, features)
        inner = np.delete(np.arange(200), [0, 150])
        assert accuracy(merged.labels[inner], truth[inner]) == 1.0
