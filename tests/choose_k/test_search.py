from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.choose_k.planted import blobs

from selfsort.choose_k.search import Choice, choose_k
from selfsort.errors import InvalidInput
from selfsort.graph.knn import nearest_neighbours
from selfsort.metrics import accuracy
from selfsort.types import F32

CPU = torch.device("cpu")


def choose(features: F32, low: int = 2, high: int | None = None, seed: int = 0) -> Choice:
    return choose_k(features, low=low, high=high, seed=seed, device=CPU)


@pytest.mark.parametrize("n_clusters", [2, 3, 7, 20, 45])
def test_planted_clusters_are_counted(n_clusters: int) -> None:
    features, truth = blobs([60] * n_clusters)
    found = choose(features)
    assert found.k == n_clusters
    assert not found.is_structureless
    assert found.sentence.startswith(f"{n_clusters} clusters found")
    assert accuracy(found.labels, truth) == 1.0
    assert [said.name for said in found.evidence[:3]] == ["together", "separation", "modularity"]
    assert {said.name for said in found.evidence} >= {"stability", "merge gaps", "eigengap", "silhouette", "density"}


@pytest.mark.parametrize("spread", [1.0, 1.5])
def test_clusters_that_touch_are_counted(spread: float) -> None:
    features, truth = blobs([150] * 6, spread=spread, n_dims=20)
    found = choose(features)
    assert found.k == 6
    assert accuracy(found.labels, truth) > 0.95


@pytest.mark.parametrize("n_dims", [2, 5, 20, 200])
def test_one_cloud_is_one_cluster(n_dims: int) -> None:
    features, _ = blobs([600], n_dims=n_dims)
    found = choose(features)
    assert found.k == 1
    assert found.is_structureless
    assert found.near == ()
    assert set(found.labels.tolist()) == {0}
    assert found.sentence == "No groups were found that stand apart: the images look like one cluster."


@pytest.mark.parametrize("n", [100, 400])
def test_noise_is_one_cluster(n: int) -> None:
    noise = np.random.default_rng(0).random((n, 144)).astype(np.float32)
    assert choose(noise / np.linalg.norm(noise, axis=1, keepdims=True)).k == 1


@pytest.mark.parametrize("sizes", [[2000, 20], [1500, 300, 15], [1000, 1000, 50, 50]])
def test_sizes_a_hundred_to_one(sizes: list[int]) -> None:
    features, truth = blobs(sizes)
    found = choose(features)
    assert found.k == len(sizes)
    assert accuracy(found.labels, truth) == 1.0


def test_copies_count_once() -> None:
    features, truth = blobs([50] * 4)
    draw = np.random.default_rng(1)
    copied = draw.integers(0, 200, 300)
    nearly = (features[copied] + 0.02 * draw.standard_normal((300, 10))).astype(np.float32)
    found = choose(np.concatenate([features, features[copied], nearly]))
    assert found.k == 4
    assert accuracy(found.labels, np.concatenate([truth, truth[copied], truth[copied]])) == 1.0


def test_one_picture_many_times_among_others() -> None:
    features, _ = blobs([60] * 3)
    assert choose(np.concatenate([features, np.repeat(features[:1], 500, axis=0)])).k == 3


def test_nothing_but_one_picture() -> None:
    found = choose(np.ones((50, 4), dtype=np.float32))
    assert (found.k, found.is_structureless, set(found.labels.tolist())) == (1, True, {0})
    assert found.sentence.startswith("1 different image")


@pytest.mark.parametrize("n", [1, 2, 5])
def test_too_few_images_are_said_to_be(n: int) -> None:
    found = choose(np.eye(n, dtype=np.float32))
    assert (found.k, found.is_structureless) == (1, True)
    assert "too few to find a number of clusters" in found.sentence


@pytest.mark.parametrize(("low", "high", "k"), [(2, None, 6), (2, 4, None), (9, 12, None), (6, 6, 6), (400, None, 400)])
def test_a_range_is_kept(low: int, high: int | None, k: int | None) -> None:
    features, _ = blobs([80] * 6)
    found = choose(features, low, high)
    assert low <= found.k <= (high or np.inf)
    assert k is None or found.k == k
    assert all(low <= other <= (high or np.inf) for other in found.near)


def test_a_range_above_two_is_kept_for_noise_too() -> None:
    found = choose(np.random.default_rng(0).random((300, 20)).astype(np.float32), low=5, high=8)
    assert 5 <= found.k <= 8
    assert found.is_structureless


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (1, None, "the fewest clusters must be at least 2; got 1"),
        (30, 5, r"the most clusters must be at least the fewest \(30\); got 5"),
        (301, None, r"the fewest clusters must be at most the number of images \(300\); got 301"),
    ],
)
def test_bad_ranges(low: int, high: int | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        choose(np.random.default_rng(0).random((300, 4)).astype(np.float32), low, high)


def test_the_seed_decides_and_features_stay() -> None:
    features, _ = blobs([60] * 5, spread=1.2)
    before = features.copy()
    first, second = choose(features, seed=3), choose(features, seed=3)
    assert (first.k, first.near) == (second.k, second.near)
    np.testing.assert_array_equal(first.labels, second.labels)
    for one, other in zip(first.evidence, second.evidence, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(features, before)


def test_neighbours_and_views_of_others_are_used() -> None:
    features, truth = blobs([60] * 4)
    views = [features + np.float32(0.1)]
    near = nearest_neighbours(features, 40)
    found = choose_k(np.zeros_like(features), seed=0, device=CPU, neighbours=near)
    assert found.evidence[0].answer == 4
    found = choose_k(features, seed=0, device=CPU, neighbours=near, views=views)
    assert found.k == 4
    assert accuracy(found.labels, truth) == 1.0
    assert [said.answer for said in found.evidence if said.name == "views"] == [4]


def test_pieces_that_do_not_touch() -> None:
    features, truth = blobs([50] * 5, spread=1000)
    found = choose(features)
    assert found.k == 5
    assert accuracy(found.labels, truth) == 1.0
