from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.graph.test_communities import blobs, planted
from tests.oracles import graph_moving as oracle

from selfsort.graph import communities
from selfsort.graph import condensed as condensed_room
from selfsort.graph.communities import find_communities, find_n_communities, in_order, symmetric_affinities
from selfsort.graph.condensed import Arranged, condense, modularity, settled, small_communities
from selfsort.graph.knn import nearest_neighbours
from selfsort.metrics import accuracy
from selfsort.types import F32, I64


def drawn(seed: int, n: int = 60, share: float = 0.15) -> csr_array:
    draw = np.random.default_rng(seed)
    upper = np.triu(draw.random((n, n)) * (draw.random((n, n)) < share), 1)
    return csr_array(upper + upper.T)


@pytest.mark.parametrize("seed", range(4))
def test_modularity_is_that_of_the_oracle_and_of_the_search(seed: int) -> None:
    graph, resolution = drawn(seed), 0.5 + seed
    labels = np.random.default_rng(seed).integers(0, 5, 60)
    assert modularity(graph, labels, resolution) == pytest.approx(
        oracle.modularity(graph.toarray(), labels, resolution)
    )
    found = find_communities(graph, resolution=resolution)
    assert modularity(graph, found.labels, resolution) == pytest.approx(found.modularity)


@pytest.mark.parametrize("seed", range(4))
def test_an_arranged_graph_is_the_same_graph(seed: int) -> None:
    graph = drawn(seed, share=0.03)
    arranged = Arranged.of(graph)
    assert np.sort(arranged.order).tolist() == list(range(60))
    np.testing.assert_array_equal(arranged.graph.toarray(), graph.toarray()[np.ix_(arranged.order, arranged.order)])
    labels = np.random.default_rng(seed).integers(0, 5, 60)
    np.testing.assert_array_equal(arranged.hand_back(labels)[arranged.order], labels)
    assert modularity(arranged.graph, labels) == pytest.approx(modularity(graph, arranged.hand_back(labels)))


def test_neighbours_are_arranged_near_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = blobs([20] * 50)
    graph = symmetric_affinities(nearest_neighbours(rows, 5))
    mixed = np.random.default_rng(0).permutation(len(rows))
    graph = csr_array(graph[mixed][:, mixed])

    def mean_gap(of: csr_array) -> float:
        arcs = of.tocoo()
        return float(np.abs(arcs.row - arcs.col).mean())

    for n_together in (20, 10_000):
        monkeypatch.setattr(condensed_room, "_N_TOGETHER", n_together)
        assert mean_gap(Arranged.of(graph).graph) < mean_gap(graph) / 3


@pytest.mark.parametrize("seed", range(4))
def test_a_partition_of_communities_has_the_modularity_of_its_images(seed: int) -> None:
    graph, draw = drawn(seed), np.random.default_rng(seed)
    condensed = condense(graph, in_order(draw.integers(0, 12, 60)))
    labels = draw.integers(0, 3, condensed.graph.shape[0] // 2)
    both = np.concatenate([labels, labels])
    of_images = condensed.hand_down(both)
    assert modularity(condensed.graph, both, 0.7) == pytest.approx(modularity(graph, of_images, 0.7))
    np.testing.assert_allclose(condensed.graph.toarray(), condensed.graph.T.toarray())
    assert not condensed.graph.diagonal().any()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("resolution", [0.3, 1.0, 3.0])
def test_items_move_as_the_oracle_says(seed: int, resolution: float) -> None:
    graph = drawn(seed)
    labels = np.random.default_rng(seed).integers(0, 6, 60)
    found = settled(graph, labels, resolution)
    np.testing.assert_array_equal(found, oracle.settled(graph.toarray(), labels, resolution))
    assert modularity(graph, found, resolution) >= modularity(graph, labels, resolution)


@pytest.mark.parametrize("seed", range(4))
def test_small_communities_gain_nothing_by_joining_or_by_an_item_that_moves(seed: int) -> None:
    graph, resolution = drawn(seed, n=90, share=0.08), 6.0
    labels = small_communities(graph, resolution)
    n_parts = int(labels.max()) + 1
    assert 1 < n_parts < 45
    assert set(labels.tolist()) == set(range(n_parts))
    dense = graph.toarray()
    value = oracle.modularity(dense, labels, resolution)
    assert value > oracle.modularity(dense, np.arange(90), resolution)
    gains = [
        oracle.modularity(dense, np.where(labels == b, a, labels), resolution) - value
        for a in range(n_parts)
        for b in range(a)
    ]
    # Joining stops a little early, when only one in twenty would still come together.
    assert np.mean(np.array(gains) > 1e-9) < 0.01


def test_small_communities_of_higher_resolution_are_smaller() -> None:
    features, _ = blobs([200, 200])
    graph = symmetric_affinities(nearest_neighbours(features, 8))
    counts = [int(small_communities(graph, resolution).max()) + 1 for resolution in (1.0, 10.0, 100.0)]
    assert counts == sorted(counts)
    assert counts[-1] > 2 * counts[0]


def test_a_misplaced_item_goes_home() -> None:
    graph, truth = planted([30, 30, 30], 0.5, 0.02)
    labels = truth.copy()
    labels[[0, 40, 89]] = [1, 2, 0]
    np.testing.assert_array_equal(settled(graph, labels, 1.0), truth)


def test_a_graph_without_arcs() -> None:
    empty, labels = csr_array((4, 4)), np.array([0, 0, 1, 1])
    assert settled(empty, labels, 1.0).tolist() == [0, 0, 1, 1]
    assert modularity(empty, labels) == 0.0
    assert condense(empty, labels).graph.nnz == 0


class TestManyImages:
    """The same as of few images, with the limit lowered and smaller communities."""

    @pytest.fixture(autouse=True)
    def _small_starts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(communities, "PER_START", 20)

    def groups(self) -> tuple[F32, I64]:
        return blobs([200, 150, 120, 180, 100], spread=3.0)

    @pytest.mark.parametrize("n_clusters", [2, 5, 9, 40])
    def test_exactly_so_many(self, n_clusters: int) -> None:
        features, _ = self.groups()
        graph = symmetric_affinities(nearest_neighbours(features, 8))
        merged, start = find_n_communities(graph, n_clusters, features, condensed_above=100)
        assert sorted(set(merged.labels.tolist())) == list(range(n_clusters))
        assert start.n_clusters >= n_clusters

    def test_as_good_as_the_whole_graph(self) -> None:
        features, truth = self.groups()
        graph = symmetric_affinities(nearest_neighbours(features, 8))
        by_parts, start = find_n_communities(graph, 5, features, condensed_above=100)
        assert start.modularity == pytest.approx(modularity(graph, start.labels, start.resolution))
        by_all, _ = find_n_communities(graph, 5, features)
        assert accuracy(by_parts.labels, truth) >= accuracy(by_all.labels, truth) - 0.005

    def test_the_whole_graph_is_never_searched(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sizes = []
        whole = communities.find_communities

        def counted(graph: csr_array, **rest: object) -> object:
            sizes.append(graph.shape[0])
            return whole(graph, **rest)  # type: ignore[arg-type]

        monkeypatch.setattr(communities, "find_communities", counted)
        features, _ = self.groups()
        find_n_communities(symmetric_affinities(nearest_neighbours(features, 8)), 7, features, condensed_above=100)
        assert max(sizes) < len(features)
