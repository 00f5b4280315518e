from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from tests.oracles import classic_path as oracle

from selfsort.classic import _path_kernels as kernels
from selfsort.classic.path import (
    PATH,
    ZETA,
    Candidate,
    Clusters,
    PathConfig,
    PathIntegral,
    Zeta,
    ZetaConfig,
    agglomerate_by_walks,
    half_length,
    long_walks,
    make_scratch,
    merge_down,
    walk_steps,
)
from selfsort.errors import InvalidInput
from selfsort.graph.tree import BY_ISOLATION
from selfsort.metrics import accuracy
from selfsort.types import F32, F64, I64, Method

CPU = torch.device("cpu")
KINDS: dict[str, type[PathIntegral | Zeta]] = {"path": PathIntegral, "zeta": Zeta}
both_kinds = pytest.mark.parametrize("kind", KINDS)


def random_graph(seed: int, n_items: int = 24, n_neighbours: int = 5) -> tuple[F64, I64, F32]:
    """A directed neighbour graph of random points, start labels in small pieces, and the points."""
    generator = np.random.default_rng(seed)
    points = generator.standard_normal((n_items, 2)).astype(np.float32)
    sq_dist = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.fill_diagonal(sq_dist, np.inf)
    near = np.argsort(sq_dist, axis=1)[:, :n_neighbours]
    weights = np.zeros((n_items, n_items))
    np.put_along_axis(weights, near, np.exp(-np.take_along_axis(sq_dist, near, axis=1)), axis=1)
    labels = generator.permutation(np.arange(n_items) % max(n_items * 2 // 3, 1))
    return weights, labels.astype(np.int64), points


def fitted(kind: str, weights: F64, labels: I64, z: float) -> PathIntegral | Zeta:
    return KINDS[kind](walk_steps(csr_array(weights), z), Clusters.start(labels), z)


def test_path_affinity_of_two_linked_items_by_hand() -> None:
    # Two items that point at each other with weight 1, as at themselves: P = 1/2 everywhere. With a = z / 2:
    # Q^-1 = [[1 - a, a], [a, 1 - a]] / (1 - 2 a), and alone Q^-1 = 1 / (1 - a).
    z = 0.1
    a = z / 2
    expected = 2 * ((1 - a) / (1 - 2 * a) - 1 / (1 - a))
    model = fitted("path", np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 1]), z)
    value, upper = model.refine(Candidate(0.0, 0, 1, 0, 0, 0, 0.0, 0.0))
    assert value == pytest.approx(expected, rel=1e-12)
    assert upper == value


def test_zeta_affinity_of_two_linked_items_by_hand() -> None:
    z = 0.1
    a = z / 2
    expected = 2 * (np.log((1 - a) / (1 - 2 * a)) - np.log(1 / (1 - a)))
    model = fitted("zeta", np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 1]), z)
    value, upper = model.refine(Candidate(0.0, 0, 1, 0, 0, 1, 0.0, 1.0))
    assert value == pytest.approx(expected, rel=1e-7)
    assert value <= expected <= upper


def test_closed_walks_are_the_diagonal_of_matrix_powers() -> None:
    weights, _, _ = random_graph(3)
    steps = walk_steps(csr_array(weights), 0.3)
    matrix = np.eye(24) - oracle.walk_matrix(weights, 0.3)
    label = np.zeros(24, dtype=np.int64)
    scratch = make_scratch(24, 1)
    powers = sum(np.diag(np.linalg.matrix_power(matrix, t)) for t in range(2, 7))
    found = [kernels.closed_walks(steps, label, v, 0, 0, 3, scratch) for v in range(24)]
    np.testing.assert_allclose(found, powers, rtol=1e-12)
    assert not scratch.values.any()  # ready for the next call


def test_long_walks_is_the_sum_it_stands_for() -> None:
    terms = sum((t - 1) * 0.2 ** (t - 2) for t in range(5, 200))
    assert long_walks(0.2, 4) == pytest.approx(terms, rel=1e-12)
    assert long_walks(0.01, 2 * half_length(0.01, 1e-9)) <= 1e-9 < long_walks(0.01, 2 * half_length(0.01, 1e-9) - 2)


@both_kinds
@pytest.mark.parametrize("z", [0.01, 0.4])
@pytest.mark.parametrize("seed", range(4))
def test_affinities_equal_dense_inverses_and_bounds_hold(kind: str, z: float, seed: int) -> None:
    weights, labels, _ = random_graph(seed)
    labels = labels % 6
    model = fitted(kind, weights, labels, z)
    q = oracle.walk_matrix(weights, z)
    measure = {"path": oracle.path_affinity, "zeta": oracle.zeta_affinity}[kind]
    offered = {(i, j): (upper, spread) for i in range(6) for j, upper, spread in model.candidates(i)}
    for i, j in combinations(range(6), 2):
        expected = measure(q, np.flatnonzero(labels == i), np.flatnonzero(labels == j))
        if (i, j) not in offered:
            assert expected == pytest.approx(0, abs=1e-14)
            continue
        assert offered[i, j] == offered[j, i] or np.allclose(offered[i, j], offered[j, i], rtol=1e-12)
        upper, spread = offered[i, j]
        assert upper >= expected - 1e-13
        for level in range(model.n_levels):
            low, high = model.refine(Candidate(0.0, i, j, 0, 0, level, 0.0, spread))
            assert low <= expected + 1e-13
            assert high >= expected - 1e-13
        assert low == pytest.approx(expected, rel=1e-6, abs=1e-13)


@both_kinds
@pytest.mark.parametrize("z", [0.01, 0.3])
@pytest.mark.parametrize("seed", range(8))
def test_merges_are_those_of_the_dense_oracle(kind: str, z: float, seed: int) -> None:
    weights, labels, points = random_graph(seed + 100)
    expected, values = oracle.merge_all(oracle.walk_matrix(weights, z), labels, 3, kind)
    merged = agglomerate_by_walks(csr_array(weights), labels, 3, KINDS[kind], z, points, absorb=False)
    # Below 1e-13 the oracle's differences of inverses are rounding noise.
    assert min(values) > 1e-11
    np.testing.assert_allclose(merged.cut.affinity, values, rtol=1e-4, atol=1e-13)
    np.testing.assert_array_equal(merged.labels, expected)


@both_kinds
def test_pieces_without_a_way_over_and_back_are_merged_by_centroid(kind: str) -> None:
    weights = np.zeros((6, 6))
    for i, j in ((0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4), (0, 2)):  # 0 -> 2 alone leads nowhere back
        weights[i, j] = 1.0
    points = np.array([[0, 0], [0, 1], [9, 0], [9, 1], [1, 0], [1, 1]], dtype=np.float32)
    merged = agglomerate_by_walks(csr_array(weights), np.array([0, 0, 1, 1, 2, 2]), 2, KINDS[kind], 0.01, points, False)
    np.testing.assert_array_equal(merged.labels, [0, 0, 1, 1, 0, 0])
    assert merged.cut.reasons.tolist() == [BY_ISOLATION]
    assert "no neighbour relation connects" in merged.warnings[0]


@both_kinds
def test_history_has_scipys_numbering(kind: str) -> None:
    weights, labels, points = random_graph(7)
    clusters = Clusters.start(labels)
    n_start = len(clusters.sizes)
    history = merge_down(KINDS[kind](walk_steps(csr_array(weights), 0.01), clusters, 0.01), clusters, 1, points)
    assert len(history.merges) == n_start - 1
    assert sorted(history.merges.ravel().tolist()) == list(range(2 * n_start - 2))
    assert history.sizes[-1] == 24
    assert (clusters.label == 0).all()


@pytest.mark.parametrize("method", [PATH, ZETA], ids=lambda method: method.name)
class TestMethod:
    def run(self, method: Method, features: F32, k: int, **settings: object) -> tuple[I64, tuple[str, ...]]:
        assert method.train_on_features is not None
        config = method.config.from_json({"n_clusters": k, **settings})
        (last,) = method.train_on_features(features, config, device=CPU, seed=0)
        return last.labels, last.warnings

    def test_blobs_are_found(self, method: Method) -> None:
        generator = np.random.default_rng(0)
        truth = np.repeat(np.arange(4), 40)
        points = (8 * np.eye(4)[truth] + generator.standard_normal((160, 4))).astype(np.float32)
        labels, _ = self.run(method, points, 4)
        assert accuracy(labels, truth) == 1.0

    def test_duplicates_and_zero_rows(self, method: Method) -> None:
        points = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
        points[:10] = 0
        labels, _ = self.run(method, points, 3, K_s=5)
        assert len(np.unique(labels)) == 3
        assert accuracy(labels, np.repeat(np.arange(3), 10)) == 1.0

    def test_more_clusters_than_starting_clusters(self, method: Method) -> None:
        points = np.random.default_rng(1).standard_normal((12, 3)).astype(np.float32)
        labels, warnings = self.run(method, points, 10, absorb=False)
        assert len(np.unique(labels)) == 10
        assert any("single images" in warning for warning in warnings)
        assert any("There are only 12 images, and 20 neighbours of each" in warning for warning in warnings)

    def test_z_must_be_below_one(self, method: Method) -> None:
        with pytest.raises(InvalidInput, match=r"z must lie between 0 and 1; got 1.0. Use 0.01"):
            method.config.from_json({"n_clusters": 2, "z": 1.0})


def test_published_widths() -> None:
    assert PathConfig(n_clusters=2).a == 1.0
    assert ZetaConfig(n_clusters=2).a == 0.95
