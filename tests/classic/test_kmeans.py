from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from selfsort.classic.kmeans import KMeansConfig, cluster, kmeans
from selfsort.data.store import limit_memory
from selfsort.errors import InvalidInput
from selfsort.types import F32

CPU = torch.device("cpu")


def test_two_pairs_by_hand() -> None:
    x = np.array([[0, 0], [0, 2], [9, 0], [9, 2]], dtype=np.float32)
    fit = kmeans(x, 2, seed=0)
    assert fit.labels[0] == fit.labels[1] != fit.labels[2] == fit.labels[3]
    np.testing.assert_allclose(sorted(fit.centroids.tolist()), [[0, 1], [9, 1]], atol=1e-6)
    assert fit.inertia == pytest.approx(4)  # each point is at distance 1 from its centroid


def test_the_seed_decides() -> None:
    x = np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32)
    first, second, other = (kmeans(x, 8, seed=seed, n_restarts=1).labels for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_iterations_grow_with_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def record(features: object, n_clusters: int, *, seed: int, n_restarts: int, max_iterations: int) -> object:
        asked.append((n_restarts, max_iterations))
        return kmeans(np.eye(3, dtype=np.float32), 2, seed=0)

    monkeypatch.setattr("selfsort.classic.kmeans.kmeans", record)
    for n in (50, 30_000):
        cluster(np.zeros((n, 1), dtype=np.float32), KMeansConfig(n_clusters=2), seed=0, device=CPU)
    cluster(np.zeros((50, 1), dtype=np.float32), KMeansConfig(n_clusters=2, max_iterations=7), seed=0, device=CPU)
    assert asked == [(10, 100), (10, 300), (10, 7)]


def test_fewer_distinct_images_than_clusters_is_quiet() -> None:
    x = np.repeat(np.eye(2, dtype=np.float32), 5, axis=0)
    assert len(np.unique(kmeans(x, 4, seed=0).labels)) <= 4


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidInput, match="n_restarts must be at least 1; got 0"):
        KMeansConfig(n_clusters=2, n_restarts=0)


def test_more_than_the_memory_holds_is_clustered_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    centres = draw.standard_normal((5, 8)) * 6
    x = (centres[draw.integers(0, 5, 3000)] + draw.standard_normal((3000, 8))).astype(np.float32)
    whole = kmeans(x, 5, seed=0)
    monkeypatch.setattr("selfsort.pages._PASS_BYTES", 1000)
    limit_memory(10_000)
    try:
        blocks, again = kmeans(x, 5, seed=0), kmeans(x, 5, seed=0)
        nothing = kmeans(np.zeros((3000, 8), np.float32), 5, seed=0)
    finally:
        limit_memory(None)
    assert blocks.inertia == pytest.approx(whole.inertia, rel=1e-3)
    assert len(set(zip(blocks.labels.tolist(), whole.labels.tolist(), strict=True))) == 5
    np.testing.assert_array_equal(blocks.labels, again.labels)
    nearest = ((x[:, None] - blocks.centroids) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(blocks.labels, nearest)
    assert nothing.inertia == 0


def test_the_copies_of_the_library_count(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((3000, 8)).astype(np.float32)
    given: list[int] = []
    fit = KMeans.fit

    def watched(self: KMeans, rows: F32) -> KMeans:
        given.append(len(rows))
        fitted: KMeans = fit(self, rows)
        return fitted

    monkeypatch.setattr(KMeans, "fit", watched)
    try:
        for n_copies in (2, 4):
            limit_memory(n_copies * x.nbytes)
            kmeans(x, 5, seed=0, n_restarts=1)
    finally:
        limit_memory(None)
    assert given == [2000, 3000]
