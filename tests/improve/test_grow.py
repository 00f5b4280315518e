from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tests.test_progress import Recorder

from selfsort.graph.hierarchy import Hierarchy
from selfsort.improve import grow as room
from selfsort.improve.grow import grow
from selfsort.progress import listening
from selfsort.types import F32, I64


def blobs(centres: list[tuple[float, float]], n: int = 30, seed: int = 0) -> tuple[F32, I64]:
    rng = np.random.default_rng(seed)
    points = np.concatenate([rng.normal(centre, 0.3, (n, 2)) for centre in centres])
    return points.astype(np.float32), np.repeat(np.arange(len(centres)), n)


def assert_nested(tree: Hierarchy, numbers: list[int]) -> None:
    for few, many in pairwise(numbers):
        coarse, fine = tree.cut(few), tree.cut(many)
        assert (len(np.unique(coarse)), len(np.unique(fine))) == (few, many)
        assert len(np.unique(np.stack([coarse, fine]), axis=1)[0]) == many, f"{many} clusters are not parts of {few}"


def test_at_its_own_number_it_gives_the_labels_back_and_every_level_is_nested() -> None:
    features, labels = blobs([(0, 0), (3, 0), (0, 9), (9, 9)])
    order = np.random.default_rng(1).permutation(len(labels))
    features, labels = features[order], np.array([4, 0, 2, 7])[labels[order]]  # gaps in the numbers
    tree = grow(features, labels)
    np.testing.assert_array_equal(tree.labels(), labels)
    assert tree.n_leaves == len(labels)
    assert_nested(tree, [1, 2, 3, 4, 5, 9, 40, 119, 120])


def test_clusters_that_touch_are_joined_first() -> None:
    features, labels = blobs([(0, 0), (20, 20), (0.8, 0)])
    assert grow(features, labels).cut(2).tolist() == [0] * 30 + [1] * 30 + [0] * 30


def test_clusters_that_no_neighbours_connect_are_joined_by_their_centroids() -> None:
    features, labels = blobs([(0, 0), (90, 0), (10, 0), (99, 0)])
    assert grow(features, labels).cut(2).tolist() == [0] * 30 + [1] * 30 + [0] * 30 + [1] * 30


def test_the_cluster_of_two_kinds_falls_apart_first() -> None:
    features, _ = blobs([(0, 0), (9, 0), (9, 9), (0, 9)])
    labels = np.repeat([0, 1, 1, 2], 30)
    found = grow(features, labels).cut(4)
    assert found.tolist() == np.repeat([0, 1, 2, 3], 30).tolist()


@pytest.mark.parametrize(
    ("features", "labels"),
    [
        (np.zeros((24, 3), np.float32), np.zeros(24, np.int64)),
        (np.zeros((24, 3), np.float32), np.arange(24) % 3),
        (np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32), np.arange(60) % 7),
        (np.arange(3, dtype=np.float32)[:, None], np.array([0, 1, 1])),
        (np.ones((1, 1), np.float32), np.zeros(1, np.int64)),
        (np.arange(40, dtype=np.float32)[:, None], np.arange(40)),
    ],
    ids=["same images", "same images in three clusters", "noise", "three images", "one image", "each its own"],
)
def test_odd_data(features: F32, labels: I64) -> None:
    tree = grow(features, labels)
    np.testing.assert_array_equal(tree.labels(), labels)
    assert_nested(tree, sorted({1, min(2, len(labels)), len(np.unique(labels)), len(labels)}))


def test_of_many_images_some_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_MOST_LEAVES", 60)
    monkeypatch.setattr(room, "_FEWEST_LEAVES", 60)
    monkeypatch.setattr(room, "_LEAVES_EACH", 5)
    features, labels = blobs([(0, 0), (0, 5), (9, 0)], n=100)
    labels[300 - 3 :] = 3  # a cluster of three: all of them
    tree = grow(features, labels)
    assert tree.n_leaves == pytest.approx(60, abs=5)
    assert set(range(297, 300)) <= set(tree.rows.tolist())
    np.testing.assert_array_equal(tree.labels(), labels)
    np.testing.assert_array_equal(tree.tree.start[tree.rows], np.arange(tree.n_leaves))
    assert_nested(tree, [2, 4, 7, tree.n_leaves])


def test_it_is_the_same_every_time() -> None:
    features, labels = blobs([(0, 0), (1, 1), (2, 0)], n=80)
    first, second = grow(features, labels), grow(features, labels)
    np.testing.assert_array_equal(first.tree.merges, second.tree.merges)
    np.testing.assert_array_equal(first.rows, second.rows)


def test_how_many_images_have_their_place_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_MOST_LEAVES", 60)
    monkeypatch.setattr(room, "_FEWEST_LEAVES", 60)
    monkeypatch.setattr(room, "_FEWEST_AT_ONCE", 50)
    monkeypatch.setattr(room, "_BLOCK_BYTES", 1)
    features, labels = blobs([(0, 0), (0, 5), (9, 0)], n=100)
    with listening(recorder := Recorder()):
        tree = grow(features, labels)
    assert ("finding their places", 300 - tree.n_leaves) in recorder.of("start")
    steps = [amount for _, amount in recorder.of("advance")]
    assert steps[:6] == [50, 30] * 3
